//! An echo service and its clients, on Linux's sockets.

use std::io::{Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes of a round trip.
const MESSAGE_LEN: usize = 64;

/// A connection that has not been made, or a message that has not been answered by then, has failed. Linux sends a SYN again
/// after one second, so one that was lost has this and another attempt.
const ATTEMPT_TIME: Duration = Duration::from_secs(4);

/// Connects to a service.
pub(crate) fn connect(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, ATTEMPT_TIME)?;
    stream.set_read_timeout(Some(ATTEMPT_TIME))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A message there and back.
pub(crate) fn round_trip(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(&[b'x'; MESSAGE_LEN])?;
    stream.read_exact(&mut [0; MESSAGE_LEN])
}

/// Serves a connection until it ends.
pub(crate) fn serve(mut stream: TcpStream) {
    let mut message = [0; 4096];
    let _ = stream.set_nodelay(true);
    while let Ok(read @ 1..) = stream.read(&mut message) {
        if stream.write_all(&message[..read]).is_err() {
            return;
        }
    }
}
