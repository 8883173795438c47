//! Closing a descriptor without waiting for what its closing waits for.
//!
//! A socket with `SO_LINGER` is closed when its peer has taken all that was sent, or after a time of its owner's choice; but
//! "when the socket is closed as part of exit(2), it always lingers in the background" (socket(7)), and the end of a thread
//! that has the last descriptor of it is that. For a file of a file system that does not answer that thread waits all the
//! same, and its caller does not.

use rustix::process::Pid;
use rustix::thread::gettid;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::sync::mpsc;

/// A descriptor that a thread closes.
#[derive(Debug)]
pub struct Closing(Pid);

impl Closing {
    /// Whether it was closed. A later thread of the same number is taken for this one.
    pub fn is_over(&self) -> bool {
        !Path::new(&format!("/proc/self/task/{}", self.0)).exists()
    }
}

/// Closes a descriptor on a thread that ends with it. It is given back when there is no such thread.
pub fn close(fd: OwnedFd) -> Result<Closing, OwnedFd> {
    let (has, had) = mpsc::channel();
    let (gone, is_gone) = mpsc::channel::<()>();
    let number = fd.as_raw_fd();
    let ending = std::thread::Builder::new().name("ending".to_owned());
    let ending = ending.spawn(move || {
        if keep_only(number).is_ok() {
            let _ = has.send(gettid());
            // Until its descriptor is the last one, which is told by the end of the channel.
            let _ = is_gone.recv();
        }
    });
    let thread = ending.ok().and_then(|_| had.recv().ok());
    let Some(thread) = thread else {
        return Err(fd);
    };
    drop(fd);
    drop(gone);
    Ok(Closing(thread))
}

/// Gives the calling thread a table of descriptors of its own, which has only this one.
fn keep_only(fd: RawFd) -> io::Result<()> {
    let fd = fd.cast_unsigned();
    if fd > 0 {
        close_range(0, fd - 1, libc::CLOSE_RANGE_UNSHARE)?;
    }
    close_range(fd + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)
}

/// Linux 5.9.
fn close_range(first: u32, last: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: with a table of the thread's own nobody else's descriptors are closed.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn role() {
        if exos_testing::role().is_none() {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it is bound");
        let mut socket = TcpStream::connect(at).expect("it listens");
        let (mut peer, _) = listener.accept().expect("it is connected");
        let hour = Some(Duration::from_secs(3600));
        rustix::net::sockopt::set_socket_linger(&socket, hour).expect("a TCP socket");
        socket.set_nonblocking(true).expect("a socket");
        let mut sent = 0;
        while let Ok(len) = socket.write(&[7; 1 << 16]) {
            sent += len;
        }
        let before = std::fs::read_dir("/proc/self/fd").expect("ours").count();
        let closing = close(socket.into()).expect("there is a thread");
        assert!(!closing.is_over(), "it lingers");
        let after = std::fs::read_dir("/proc/self/fd").expect("ours").count();
        assert_eq!(after, before - 1);
        // It was closed, and what it had sent arrives.
        let mut all = Vec::new();
        assert_eq!(peer.read_to_end(&mut all).expect("the end comes"), sent);
        while !closing.is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
        exos_testing::done();
    }

    /// In a process of its own: other tests start programs, which have copies of all descriptors for a moment.
    #[test]
    fn a_socket_that_lingers_is_closed_in_the_background() {
        let (done, over) = mpsc::channel();
        std::thread::spawn(move || {
            let played = exos_testing::play("process::background::tests::role", "lingers");
            done.send(exos_testing::is_done(played))
        });
        assert_eq!(over.recv_timeout(Duration::from_secs(60)), Ok(true));
    }
}
