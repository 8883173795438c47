//! How a link begins: a server connects to the application's Unix socket and passes one end of a pair of sockets over it. Over the
//! connection the pipe of requests is made, over the pair that of answers.

use crate::record::HELLO;
use exos_iolite::{Error, Result};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with, socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Connects to an application: the sockets of requests and of answers. Never waits.
///
/// # Errors
///
/// Nobody listens there, or as many as may wait to be accepted do so (`EAGAIN`).
pub(crate) fn connect_to(path: &Path) -> Result<(OwnedFd, OwnedFd), Errno> {
    let requests = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    connect(&requests, &SocketAddrUnix::new(path)?)?;
    let (answers, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [theirs.as_fd()];
    let is_room = ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    assert!(is_room, "there is room for one descriptor");
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(&requests, &[IoSlice::new(&HELLO)], &mut ancillary, flags)?;
    Ok((requests, answers))
}

/// Hears a server that has connected: the socket of answers; nothing as long as it has said nothing.
///
/// # Errors
///
/// It is none, or has gone.
pub(crate) fn hear(requests: &OwnedFd) -> Result<Option<OwnedFd>> {
    let mut bytes = [0; HELLO.len()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = match recvmsg(requests, &mut parts, &mut ancillary, flags) {
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(Error::System("a server said nothing", error.into())),
        Ok(received) => received,
    };
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds: Vec<OwnedFd> = fds.flatten().collect();
    match (received.bytes, <[OwnedFd; 1]>::try_from(fds)) {
        (0, _) => Err(Error::PeerGone),
        (_, Ok([answers])) if bytes == HELLO => Ok(Some(answers)),
        _ => Err(Error::PeerFault("it is no server of these applications")),
    }
}
