//! The connections of the control socket: lines in, lines out, and nothing that waits.
//!
//! Only the socket's owner gets in. They may have several programs connected, and none of them can stop the loop: what they
//! ask is bounded in length, and nobody is heard who has an answer to take.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use exos::Error;
use exos_host::error::Context as _;
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::request::refuse;
use crate::limits::{
    ASKERS_MAX, ASKERS_WAITING_MAX, DYING_TIME, LOOK_AGAIN_AFTER, REQUEST_LEN_MAX,
};

/// A program that is connected.
struct Asker {
    stream: UnixStream,
    heard: Vec<u8>,
    answer: Vec<u8>,
    /// Nothing more is heard of it; it goes when it has its answer.
    is_over: bool,
}

/// The socket, and who is connected; the one that was silent for longest first.
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    askers: Vec<Asker>,
}

impl Server {
    /// Listens at a path. A socket that a forwarder has left there is replaced, one that is answered is not.
    ///
    /// # Errors
    ///
    /// It cannot be listened at.
    pub fn listen(path: &Path) -> Result<Self, Error> {
        make_way(path)?;
        Self::listen_at(path)
            .map_err(|e| e.mend("name a path where this user may write: --control PATH"))
    }

    fn listen_at(path: &Path) -> Result<Self, Error> {
        let what = || format!("cannot listen at {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).context(what)?;
        }
        let address = SocketAddrUnix::new(path).context(what)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let socket: OwnedFd = socket.context(what)?;
        rustix::net::bind(&socket, &address).context(what)?;
        // For its owner alone, before anybody can connect.
        rustix::fs::chmod(path, Mode::from_raw_mode(0o600)).context(what)?;
        rustix::net::listen(&socket, ASKERS_WAITING_MAX).context(what)?;
        Ok(Self {
            listener: socket.into(),
            path: path.to_owned(),
            askers: Vec::new(),
        })
    }

    /// What is readable when there is something to do.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let heard = self.askers.iter().filter(|asker| asker.answer.is_empty());
        std::iter::once(self.listener.as_fd()).chain(heard.map(|asker| asker.stream.as_fd()))
    }

    /// True when somebody has an answer to take, or has asked more already: nothing tells of that.
    pub fn is_behind(&self) -> bool {
        let is_behind = |asker: &Asker| !asker.answer.is_empty() || asker.heard.contains(&b'\n');
        self.askers.iter().any(is_behind)
    }

    /// Hears who is there, and answers each line that has come.
    pub fn serve(&mut self, mut respond: impl FnMut(&[u8]) -> String) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.askers.len() == ASKERS_MAX {
                self.askers.remove(0);
            }
            self.askers.push(Asker {
                stream,
                heard: Vec::new(),
                answer: Vec::new(),
                is_over: false,
            });
        }
        // Anyone who says something goes to the end.
        let (mut silent, mut heard) = (Vec::new(), Vec::new());
        for mut asker in std::mem::take(&mut self.askers) {
            let said = asker.hear();
            asker.respond(&mut respond);
            if asker.say() {
                if said { &mut heard } else { &mut silent }.push(asker);
            }
        }
        silent.append(&mut heard);
        self.askers = silent;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Asker {
    /// Takes what was said; true when that is anything.
    fn hear(&mut self) -> bool {
        let before = self.heard.len();
        let mut bytes = [0; 4096];
        while self.answer.is_empty() && !self.is_over && self.heard.len() <= REQUEST_LEN_MAX {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.is_over = true,
                Ok(count) => self.heard.extend(&bytes[..count]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_over = true,
            }
        }
        self.heard.len() > before
    }

    /// Answers the lines that are whole, one after the other: the next when the answer before has been taken.
    fn respond(&mut self, respond: &mut impl FnMut(&[u8]) -> String) {
        if !self.answer.is_empty() {
            return;
        }
        if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            self.answer = respond(&self.heard[..end]).into_bytes();
            self.heard.drain(..=end);
        } else if self.heard.len() > REQUEST_LEN_MAX {
            let error = format!("a request is a line of {REQUEST_LEN_MAX} bytes at most");
            self.answer = refuse(error).into_bytes();
            (self.heard, self.is_over) = (Vec::new(), true);
        }
    }

    /// Says what there is to say; false when it has gone.
    fn say(&mut self) -> bool {
        while !self.answer.is_empty() {
            match self.stream.write(&self.answer) {
                Ok(count) => drop(self.answer.drain(..count)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        !self.is_over || self.heard.contains(&b'\n')
    }
}

/// Takes away what a forwarder that died has left at a path; nothing else. One that is dying is waited for: its socket is there until
/// all that it has is given back.
fn make_way(path: &Path) -> Result<(), Error> {
    let shown = path.display();
    let until = Instant::now() + DYING_TIME;
    loop {
        let Ok(there) = std::fs::symlink_metadata(path) else {
            return Ok(());
        };
        if !there.file_type().is_socket() {
            return Err(Error::new(format!("{shown} is there, and is no socket"))
                .mend("name another path with --control"));
        }
        match UnixStream::connect(path) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                let what = || format!("cannot replace {shown}");
                return std::fs::remove_file(path).context(what);
            }
            Ok(stream) if is_dying(&stream, until) => std::thread::sleep(LOOK_AGAIN_AFTER),
            _ => {
                return Err(Error::new(format!("somebody listens at {shown} already")).mend(
                    "give each forwarder a path of its own with --control PATH, or take over from that one with --take-over",
                ));
            }
        }
    }
}

/// True where nobody answers any more: the connection ends instead. Who says nothing until then is alive, and busy.
fn is_dying(mut stream: &UnixStream, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
        return false;
    }
    if stream.write_all(b"{\"request\":\"status\"}\n").is_err() {
        return true;
    }
    let is_late =
        |e: std::io::Error| matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !is_late(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::fs::MetadataExt as _;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("exos-forward-{name}-{}", std::process::id()))
    }

    fn echo(line: &[u8]) -> String {
        format!("heard {}\n", String::from_utf8_lossy(line))
    }

    /// Serves until this many lines were answered.
    fn serve(server: &mut Server, lines: usize) {
        let mut answered = 0;
        while answered < lines {
            server.serve(|line| {
                answered += 1;
                echo(line)
            });
        }
        while server.is_behind() {
            server.serve(echo);
        }
    }

    #[test]
    fn lines_are_answered_in_turn_however_they_come() {
        let path = path("lines");
        let mut server = Server::listen(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "for its owner alone");
        let mut one = UnixStream::connect(&path).unwrap();
        let mut two = UnixStream::connect(&path).unwrap();
        one.write_all(b"a\nbb\nccc").unwrap();
        two.write_all(b"x\n").unwrap();
        serve(&mut server, 3);
        // Two at once: the second is not told of again.
        one.write_all(b"c\nd\ne\n").unwrap();
        server.serve(echo);
        let mut turns = 0;
        while server.is_behind() {
            server.serve(echo);
            turns += 1;
        }
        assert_eq!(turns, 2);
        one.write_all(b"f\n").unwrap();
        one.shutdown(std::net::Shutdown::Write).unwrap();
        serve(&mut server, 1);
        let lines: Vec<String> = BufReader::new(one).lines().map(Result::unwrap).collect();
        assert_eq!(
            lines,
            [
                "heard a",
                "heard bb",
                "heard cccc",
                "heard d",
                "heard e",
                "heard f"
            ]
        );
        let mut line = String::new();
        BufReader::new(&two).read_line(&mut line).unwrap();
        assert_eq!((line.as_str(), server.fds().count()), ("heard x\n", 2));
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn lines_without_end_are_refused_and_too_many_make_room() {
        let path = path("bounds");
        let mut server = Server::listen(&path).unwrap();
        let mut endless = UnixStream::connect(&path).unwrap();
        let writer = std::thread::spawn(move || {
            let _ = endless.write_all(&[b'x'; REQUEST_LEN_MAX + 5000]);
            let mut said = String::new();
            let _ = BufReader::new(endless).read_line(&mut said);
            said
        });
        while !writer.is_finished() {
            server.serve(echo);
        }
        assert!(writer.join().unwrap().contains("bytes at most"));
        let all: Vec<UnixStream> = (0..ASKERS_MAX + 3)
            .map(|_| {
                let stream = UnixStream::connect(&path).unwrap();
                server.serve(echo);
                stream
            })
            .collect();
        assert_eq!(server.askers.len(), ASKERS_MAX);
        (&all[ASKERS_MAX + 2]).write_all(b"still here\n").unwrap();
        serve(&mut server, 1);
    }

    #[test]
    fn what_is_left_of_the_dead_is_replaced_and_nothing_else() {
        let path = path("stale");
        // A listener that is closed without ado leaves its name.
        drop(UnixListener::bind(&path).unwrap());
        let mut server = Server::listen(&path).unwrap();
        let second = path.clone();
        let second = std::thread::spawn(move || Server::listen(&second).err());
        while !second.is_finished() {
            server.serve(echo);
        }
        let error = second.join().unwrap().unwrap().to_string();
        assert!(error.contains("somebody listens"), "{error}");
        drop(server);
        std::fs::write(&path, "mine").unwrap();
        let error = Server::listen(&path).err().unwrap().to_string();
        assert!(error.contains("is no socket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
    }

    /// One that was killed has its socket until the kernel has taken back all that it had. It answers nobody meanwhile.
    #[test]
    fn one_that_is_dying_is_waited_for() {
        let path = path("dying");
        let dying = UnixListener::bind(&path).unwrap();
        let death = std::thread::spawn(move || {
            // It ends after the successor has asked it something.
            let (mut asked, _) = dying.accept().unwrap();
            asked.read_exact(&mut [0; 10]).unwrap();
        });
        let server = Server::listen(&path).unwrap();
        death.join().unwrap();
        drop(server);
        assert!(!path.exists());
    }
}
