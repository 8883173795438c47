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

/// Connects to the first of these addresses that takes it. Each has an equal part of the time that those before have left.
fn connect(call: &Call, addresses: &[IpAddr], until: Instant) -> Result<TcpStream, CallError> {
    let port = call.proxy.as_ref().map_or(call.port, |proxy| proxy.port);
    let until = until.min(Instant::now() + ACME_CONNECT_TIME);
    let mut failed = None;
    for (ip, others) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
        let to = SocketAddr::new(*ip, port);
        let part = until.saturating_duration_since(Instant::now()) / others;
        if part.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&to, part) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(format!("{to} cannot be reached: {error}")),
        }
    }
    let none = || match addresses {
        [] => format!("{} has no address", call.host),
        _ => format!("{} was not reached in time", call.host),
    };
    Err(CallError::Unreached(failed.unwrap_or_else(none)))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Duration;

    use exos_tls::client::Trust;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn listener() -> (TcpListener, Call) {
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let of_443 = super::super::tests::call(&Trust::Anybody);
        (listener, Call { port, ..of_443 })
    }

    /// What such a call fails by within this time, and how long that takes.
    fn failed(call: &Call, addresses: &[IpAddr], time: Duration) -> (CallError, Duration) {
        let begun = Instant::now();
        let error = super::call(call, addresses, begun + time).unwrap_err();
        (error, begun.elapsed())
    }

    const TIME: Duration = Duration::from_millis(500);

    /// The time of all addresses together is bounded, however many a name has.
    #[test]
    fn addresses_that_do_not_answer_share_the_time() {
        let (listener, call) = listener();
        // Its queue is full when a connection is not taken any more.
        rustix::net::listen(&listener, 0).unwrap();
        let to = listener.local_addr().unwrap();
        let mut taken = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&to, TIME) {
            taken.push(stream);
        }
        let (error, time) = failed(&call, &[HERE; 20], TIME);
        assert!(matches!(error, CallError::Unreached(_)), "{error}");
        assert!(time < 10 * TIME, "{time:?}");
    }

    #[test]
    fn what_was_not_tried_for_lack_of_time_is_said_so() {
        let (_listener, call) = listener();
        for (addresses, says) in [
            (&[HERE][..], "was not reached in time"),
            (&[], "has no address"),
        ] {
            let (error, _) = failed(&call, addresses, Duration::ZERO);
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    /// One that takes the connection and says nothing is not waited for without end.
    #[test]
    fn an_answer_has_its_time() {
        let (_listener, call) = listener();
        let (error, time) = failed(&call, &[HERE], TIME);
        let said = error.to_string();
        assert!(said.contains("has not answered in time"), "{said}");
        assert!(matches!(error, CallError::Failed(_)), "it was reached");
        assert!(time >= TIME && time < 20 * TIME, "{time:?}");
    }
}
