//! UDP sockets: what a program has that does not use ours.

use exos_host::{Result, error::Context as _};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg, sockopt};
use std::io::{ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

/// The lab's addresses of either side, and the receiver's port.
const FROM: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
pub(super) const TO: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 10, 0, 2), 5002);

/// Headers of Ethernet, IPv4 and UDP.
pub(super) const HEADERS_LEN: usize = 14 + 20 + 8;

/// Bytes that may wait for the receiver, by the kernel's accounting: about as many frames as a link's ring holds.
const RECEIVE_BUFFER_LEN: usize = 8 << 20;

/// Datagrams of one turn of the receiver, as many as a link receives in one.
const TURN: u64 = 64;

/// Has `send` send batch after batch of datagrams that make frames of this length.
pub(super) fn with_sender<T>(
    frame_len: usize,
    batch: usize,
    send: impl FnOnce(&mut dyn FnMut() -> Result<u64>) -> Result<T>,
) -> Result<T> {
    let what = || "no UDP socket";
    let socket = UdpSocket::bind((FROM, 0)).context(what)?;
    socket.connect(TO).context(what)?;
    let data = vec![0xff; frame_len - HEADERS_LEN];
    let pieces = [IoSlice::new(&data)];
    let mut controls: Vec<_> = (0..batch).map(|_| SendAncillaryBuffer::default()).collect();
    let controls = controls.iter_mut();
    let mut messages: Vec<_> = controls.map(|c| MMsgHdr::new(&pieces, c)).collect();
    send(&mut || {
        let sent = sendmmsg(&socket, &mut messages, SendFlags::empty());
        Ok(sent.context(|| "cannot send datagrams")? as u64)
    })
}

/// A socket that receives them.
pub(super) fn receiver() -> Result<UdpSocket> {
    let what = || "no UDP socket";
    let socket = UdpSocket::bind(TO).context(what)?;
    socket.set_nonblocking(true).context(what)?;
    sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_LEN).context(what)?;
    Ok(socket)
}

/// Takes what is there, up to a turn's number; how many. Each takes a system call of its own.
pub(super) fn receive(socket: &UdpSocket) -> Result<u64> {
    let mut buffer = [0; 2048];
    for taken in 0..TURN {
        match socket.recv(&mut buffer) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(taken),
            Err(e) => return Err(e).context(|| "cannot receive datagrams"),
        }
    }
    Ok(TURN)
}
