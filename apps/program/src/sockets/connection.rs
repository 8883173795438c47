//! One connection: a socket that does not block, and what of its bytes waits.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use exos_buf::Slice;
use exos_inet::tcp::Reason;
use rustix::event::epoll::EventFlags;
use rustix::io::{Errno, Result};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
    ipproto, sockopt,
};

use super::EVERYTHING;
use super::reading::Reading;

/// Slices in one call: a response is two or three, a batch of pipelined ones more.
const PIECES_MAX: usize = 64;

/// Bytes of a file in one call, after which it is looked at again: what a socket's buffer may take.
const FILE_PIECE_LEN: u64 = 1 << 20;

/// Bytes that are copied for one call out of memory which another process can write: what a second-level cache has room for.
const LENT_PIECE_LEN: usize = 64 << 10;

/// A file of which the kernel sends parts from its own memory.
pub trait File: Debug {
    /// It.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Whether nobody has written to it: else the connection breaks, so that the peer gets no mix of two versions.
    fn is_unchanged(&self) -> bool;
}

/// Our end of a connection, and the peer's.
type Ends = (SocketAddr, SocketAddr);

#[derive(Debug)]
enum Piece {
    Bytes(Slice),
    File(Rc<dyn File>, Range<u64>),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) peer: IpAddr,
    /// Our end and the peer's, once somebody has asked.
    ends: OnceCell<Ends>,
    /// What its events are told with.
    pub(super) token: u64,
    /// What epoll is to tell of it, and what it was asked to.
    pub(super) events: EventFlags,
    pub(super) registered: Option<EventFlags>,
    /// The handshake is over.
    pub(super) stands: bool,
    /// Bytes that were read and that nobody has consumed.
    pub(super) rest: Vec<u8>,
    /// Nothing is read while `rest` is full; goes on with this then.
    pub(super) paused: Option<Reading>,
    /// It is over for this reason, but not everything is consumed.
    pub(super) over: Option<Reason>,
    /// What comes is thrown away.
    pub(super) discards: bool,
    /// The peer has finished.
    pub(super) is_peer_finished: bool,
    /// It is to be written to before anything else happens.
    pub(super) is_to_write: bool,
    /// What the kernel has not taken, the first piece from `sent` on where it is bytes.
    queue: VecDeque<Piece>,
    sent: usize,
    /// Bytes of the queue.
    queued: u64,
    /// Our side ends behind that.
    finishes: bool,
    /// It has ended.
    is_shut: bool,
}

impl Connection {
    /// On a socket that stands, or is to be connected.
    pub(super) fn new(socket: OwnedFd, peer: IpAddr, token: u64, stands: bool) -> Connection {
        Connection {
            socket,
            peer,
            ends: OnceCell::new(),
            token,
            events: EVERYTHING,
            registered: None,
            stands,
            rest: Vec::new(),
            paused: None,
            over: None,
            discards: false,
            is_peer_finished: false,
            is_to_write: false,
            queue: VecDeque::new(),
            sent: 0,
            queued: 0,
            finishes: false,
            is_shut: false,
        }
    }

    /// Why the connection did not come to stand, or is over.
    pub(super) fn error(&self) -> Option<Errno> {
        match sockopt::socket_error(&self.socket) {
            Ok(Ok(())) => None,
            Ok(Err(errno)) | Err(errno) => Some(errno),
        }
    }

    /// Our end and the peer's, if they are addresses of IP; of one that stands the kernel is asked once.
    pub(super) fn ends(&self) -> Option<Ends> {
        let known = self.ends.get().copied();
        let ends = known.or_else(|| ends(&self.socket))?;
        Some(*self.ends.get_or_init(|| ends))
    }

    /// Bytes that the kernel has not taken.
    pub(super) fn queued(&self) -> usize {
        self.queued as usize
    }

    /// Both sides have finished.
    pub(super) fn is_over(&self) -> bool {
        self.is_shut && self.is_peer_finished
    }

    /// The kernel has no bytes of the peer's, nor its end or an error.
    pub(super) fn is_silent(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let looked = rustix::net::recv(&self.socket, &mut [0; 1], flags);
        matches!(looked, Err(Errno::AGAIN))
    }

    pub(super) fn send(&mut self, bytes: Slice) {
        if !bytes.is_empty() {
            self.queued += bytes.len() as u64;
            self.queue.push_back(Piece::Bytes(bytes));
        }
    }

    pub(super) fn send_file(&mut self, file: Rc<dyn File>, range: Range<u64>) {
        if !range.is_empty() {
            self.queued += range.end - range.start;
            self.queue.push_back(Piece::File(file, range));
        }
    }

    /// Ends our side, behind what is queued.
    pub(super) fn finish(&mut self) {
        self.finishes = true;
    }

    /// Writes until the kernel takes no more: only then does it tell of room. Returns how much it took. Before it was told that the
    /// connection stands nothing is written: of one that is given up until then no byte has left, so what was queued may go elsewhere.
    pub(super) fn write(&mut self) -> Result<u64> {
        if !self.stands {
            return Ok(0);
        }
        let before = self.queued;
        while let Some(first) = self.queue.front_mut() {
            let written = match first {
                Piece::Bytes(_) => self.write_bytes(),
                Piece::File(file, range) => match send_file(&self.socket, &**file, range) {
                    Ok(count) => {
                        self.queued -= count;
                        if range.is_empty() {
                            self.queue.pop_front();
                        }
                        Ok(())
                    }
                    Err(e) => Err(e),
                },
            };
            match written {
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(before - self.queued),
                Err(e) => return Err(e),
            }
        }
        if self.finishes && !self.is_shut {
            self.is_shut = true;
            // A connection that is over says so by its event.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        }
        Ok(before)
    }

    fn write_bytes(&mut self) -> Result<()> {
        // Of memory that another process can write: some, behind which nothing else leaves now.
        let copy: Vec<u8>;
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        for (piece, queued) in pieces.iter_mut().zip(&self.queue) {
            let Piece::Bytes(slice) = queued else {
                break;
            };
            let from = if count == 0 { self.sent } else { 0 };
            let Some(bytes) = slice.in_place() else {
                copy = begin_of(slice, from);
                *piece = IoSlice::new(&copy);
                count += 1;
                break;
            };
            *piece = IoSlice::new(&bytes[from..]);
            count += 1;
        }
        let written = match &pieces[..count] {
            // A call for a socket costs less than one for any descriptor.
            [piece] => rustix::net::send(&self.socket, piece, SendFlags::NOSIGNAL)?,
            pieces => rustix::io::writev(&self.socket, pieces)?,
        };
        self.queued -= written as u64;
        self.sent += written;
        while let Some(Piece::Bytes(first)) = self.queue.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            self.queue.pop_front();
        }
        Ok(())
    }

    /// What is queued goes nowhere: the peer takes no more.
    pub(super) fn drop_queue(&mut self) {
        self.queue.clear();
        (self.sent, self.queued) = (0, 0);
    }

    /// Has the peer reset when the socket is closed.
    pub(super) fn reset(&self) {
        reset_on_close(&self.socket);
    }
}

/// A copy of what is next of a slice.
fn begin_of(slice: &Slice, from: usize) -> Vec<u8> {
    let mut copy = Vec::with_capacity(LENT_PIECE_LEN);
    let to = slice.len().min(from + LENT_PIECE_LEN);
    slice.sub(from..to).append_to(&mut copy);
    copy
}

/// Sends some of a file; gives how much of the range it was.
fn send_file(socket: &OwnedFd, file: &dyn File, range: &mut Range<u64>) -> Result<u64> {
    let most = (range.end - range.start).min(FILE_PIECE_LEN) as usize;
    let count = rustix::fs::sendfile(socket, file.fd(), Some(&mut range.start), most)? as u64;
    if count == 0 || !file.is_unchanged() {
        reset_on_close(socket);
        return Err(Errno::IO);
    }
    Ok(count)
}

fn reset_on_close(socket: &OwnedFd) {
    // Where that fails, the connection is over already.
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// A socket for a connection to there.
pub(super) fn socket(to: &SocketAddr) -> Result<OwnedFd> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // A request behind another on its way does not wait for the acknowledgement of that.
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

/// Sends the SYN. The kernel chooses our address and port, a port that other connections have to other servers too.
pub(super) fn connect(socket: &OwnedFd, to: &SocketAddr) -> Result<()> {
    match rustix::net::connect(socket, to) {
        Err(Errno::INPROGRESS) => Ok(()),
        done => done,
    }
}

/// A connection to the Unix socket of this name.
pub(super) fn connected_unix(path: &Path) -> Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Our end of a connection, and the peer's. What came over IPv4 has addresses of IPv4.
fn ends(socket: &OwnedFd) -> Option<Ends> {
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let ours = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    let theirs = SocketAddr::try_from(rustix::net::getpeername(socket).ok()??).ok()?;
    Some((plain(ours), plain(theirs)))
}
