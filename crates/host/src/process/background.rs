//! Closing a descriptor without waiting for what its closing waits for.
//!
//! A socket with `SO_LINGER` is closed when its peer has taken all that was sent, or after a time of its owner's choice; but
//! "when the socket is closed as part of exit(2), it always lingers in the background" (socket(7)), and the end of a thread
//! that has the last descriptor of it is that. So it is for what is under way in a Unix socket.
//!
//! A file's closing is another thing: each close(2) of a descriptor, not the last one only, asks the file system (`flush`), and one that
//! is a program or on another machine answers when it likes. So descriptors of such files are neither closed here nor copied: where
//! a process has some, a [`Closer`] has a table of descriptors without them.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::mpsc;
use std::time::Duration;

/// Closes a socket on a thread that ends with it. It is given back when there is no such thread.
///
/// # Errors
///
/// There is none.
pub fn close(socket: OwnedFd) -> Result<(), OwnedFd> {
    let (has, had) = mpsc::channel();
    let (gone, is_gone) = mpsc::channel::<()>();
    let number = socket.as_raw_fd();
    let ending = std::thread::Builder::new().name("ending".to_owned());
    let ending = ending.spawn(move || {
        if keep_only(number).is_ok() {
            let _ = has.send(());
            // Until its descriptor is the last one, which is told by the end of the channel.
            let _ = is_gone.recv();
        }
    });
    if ending.ok().and_then(|_| had.recv().ok()).is_none() {
        return Err(socket);
    }
    drop(socket);
    drop(gone);
    Ok(())
}

/// Closes sockets from a table of descriptors that has nothing else, on a thread that is there as long as this is.
#[derive(Debug)]
pub struct Closer {
    to: OwnedFd,
    /// Says of each that it is closed here: so none is closed here last.
    closed: mpsc::Sender<()>,
}

/// How soon a socket is closed for which there was no thread.
const AGAIN: Duration = Duration::from_millis(10);

impl Closer {
    /// Starts when the process has no descriptor yet whose closing may wait, with the privilege of the calling thread.
    ///
    /// # Errors
    ///
    /// There is no thread, or no descriptor.
    pub fn start() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (to, from) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let number = from.as_raw_fd();
        let (says, said) = mpsc::channel();
        let (closed, is_closed) = mpsc::channel();
        let closing = std::thread::Builder::new().name("closing".to_owned());
        closing.spawn(move || {
            let kept = keep_only(number);
            let is_ready = kept.is_ok();
            let _ = says.send(kept);
            if is_ready {
                // SAFETY: it is open in this thread's table, in which nobody else closes anything.
                close_all(unsafe { BorrowedFd::borrow_raw(number) }, &is_closed);
            }
        })?;
        said.recv().map_err(io::Error::other)??;
        Ok(Self { to, closed })
    }

    /// Closes a socket. It is given back where the kernel does not pass it on, or too many wait.
    ///
    /// # Errors
    ///
    /// It is not closed.
    pub fn close(&self, socket: OwnedFd) -> Result<(), OwnedFd> {
        let fds = [socket.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let parts = [IoSlice::new(b"x")];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(&self.to, &parts, &mut ancillary, flags) {
            Ok(_) => {
                drop(socket);
                let _ = self.closed.send(());
                Ok(())
            }
            Err(_) => Err(socket),
        }
    }
}

/// Closes what comes, until nothing more can.
fn close_all(from: BorrowedFd<'_>, is_closed: &mpsc::Receiver<()>) {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        match recvmsg(from, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) if message.bytes == 0 => return,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        let rights = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        for mut socket in rights.flatten() {
            // It comes before it is closed there.
            let _ = is_closed.recv();
            while let Err(left) = close(socket) {
                socket = left;
                std::thread::sleep(AGAIN);
            }
        }
    }
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
        let closer = Closer::start().expect("there is a thread");
        let before = std::fs::read_dir("/proc/self/fd").expect("ours").count();
        closer.close(socket.into()).expect("it passes it on");
        let after = std::fs::read_dir("/proc/self/fd").expect("ours").count();
        assert_eq!(after, before - 1);
        // The next is closed, too, as long as the first one lingers.
        let (next, end) = std::os::unix::net::UnixStream::pair().expect("descriptors");
        closer.close(next.into()).expect("it passes it on");
        assert_eq!((&end).read(&mut [0]).expect("the end comes"), 0);
        // It was closed, and what it had sent arrives.
        let mut all = Vec::new();
        assert_eq!(peer.read_to_end(&mut all).expect("the end comes"), sent);
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
