//! A call by the host's sockets, which wait: that is the thread's own time.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Instant;

use super::exchange::Exchange;
use super::{Answered, Call, CallError};
use crate::limits::{ACME_CONNECT_TIME, ACME_READ_LEN};

/// Makes a call at the first of these addresses that takes a connection.
pub(super) fn call(
    call: &Call,
    addresses: &[IpAddr],
    until: Instant,
) -> Result<Answered, CallError> {
    let mut stream = connect(call, addresses, until)?;
    let mut out = Vec::new();
    let mut exchange = Exchange::begin(call.clone(), &mut out)?;
    let mut unread = Vec::new();
    let mut buffer = vec![0; ACME_READ_LEN];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallError::Failed("it has not answered in time".to_owned()));
        }
        let cut = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                CallError::Failed("it has not answered in time".to_owned())
            }
            _ => CallError::Failed(format!("the connection was cut: {e}")),
        };
        stream.set_write_timeout(Some(left)).map_err(cut)?;
        stream.set_read_timeout(Some(left)).map_err(cut)?;
        let written = stream.write_all(&std::mem::take(&mut out));
        if exchange.is_whole() {
            // Whether the goodbye leaves is nobody's matter.
            break;
        }
        written.map_err(cut)?;
        let count = stream.read(&mut buffer).map_err(cut)?;
        if count == 0 {
            exchange.end("has ended the connection")?;
            break;
        }
        unread.extend_from_slice(&buffer[..count]);
        let taken = exchange.receive(&unread, &mut out)?;
        unread.drain(..taken);
    }
    let missing = CallError::Failed("it has not answered".to_owned());
    exchange.take_answer().ok_or(missing)
}

fn connect(call: &Call, addresses: &[IpAddr], until: Instant) -> Result<TcpStream, CallError> {
    let port = call.proxy.as_ref().map_or(call.port, |proxy| proxy.port);
    let mut failed = None;
    for ip in addresses {
        let to = SocketAddr::new(*ip, port);
        let left = until.saturating_duration_since(Instant::now());
        match TcpStream::connect_timeout(&to, left.clamp(ACME_CONNECT_TIME / 8, ACME_CONNECT_TIME))
        {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(format!("{to} cannot be reached: {error}")),
        }
    }
    let none = || format!("{} has no address", call.host);
    Err(CallError::Unreached(failed.unwrap_or_else(none)))
}
