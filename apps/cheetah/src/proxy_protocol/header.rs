//! The header of a connection that a proxy passes on (haproxy's `proxy-protocol.txt`, §2.1 and §2.2).
//!
//! ```text
//!   version 1   PROXY TCP4 192.0.2.7 198.51.100.1 50000 80 CR LF       | TCP6 | UNKNOWN ...
//!   version 2   signature (12) | version and command | family | length (2) | addresses and more (length)
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::limits::PROXY_HEADER_LEN_MAX;

/// What version 2 begins with: no request of HTTP, and no hello of TLS.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const WORD: &[u8] = b"PROXY ";

/// The longest line of version 1, with its end (§2.1).
const LINE_LEN_MAX: usize = 107;

/// The client's end of a connection, and the one that it has connected to.
pub type Ends = (SocketAddr, SocketAddr);

/// A header that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of it.
    pub len: usize,
    /// For whom the proxy connects; for itself, or for somebody without addresses of IP, where it does not say.
    pub ends: Option<Ends>,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The connection begins with something else.
    None,
    /// It does not follow the rules.
    Syntax,
    /// It is longer than is read.
    TooLong,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::None => {
                f.write_str("it does not begin with a header of the PROXY protocol")
            }
            HeaderError::Syntax => f.write_str("its header of the PROXY protocol is none"),
            HeaderError::TooLong => write!(
                f,
                "its header of the PROXY protocol is longer than {PROXY_HEADER_LEN_MAX} bytes"
            ),
        }
    }
}

/// Reads the header at the start of `bytes`; nothing when more bytes are needed.
///
/// # Errors
///
/// There is none.
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let begins = |with: &[u8]| {
        let len = bytes.len().min(with.len());
        bytes[..len] == with[..len]
    };
    match bytes.first() {
        None => Ok(None),
        Some(_) if begins(SIGNATURE) => parse_binary(bytes),
        Some(_) if begins(WORD) => parse_line(bytes),
        Some(_) => Err(HeaderError::None),
    }
}

fn parse_line(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let window = &bytes[..bytes.len().min(LINE_LEN_MAX)];
    let Some(end) = window.windows(2).position(|two| two == b"\r\n") else {
        return match window.len() == LINE_LEN_MAX {
            true => Err(HeaderError::TooLong),
            false => Ok(None),
        };
    };
    let line = str::from_utf8(&window[..end]).map_err(|_| HeaderError::Syntax)?;
    let words: Vec<&str> = line.split(' ').collect();
    let ends = match words[..] {
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", "TCP4", from, to, from_port, to_port] => {
            let ip = |text: &str| text.parse::<Ipv4Addr>().ok().map(IpAddr::from);
            Some(ends_of((ip(from), from_port), (ip(to), to_port))?)
        }
        ["PROXY", "TCP6", from, to, from_port, to_port] => {
            let ip = |text: &str| text.parse::<Ipv6Addr>().ok().map(IpAddr::from);
            Some(ends_of((ip(from), from_port), (ip(to), to_port))?)
        }
        _ => return Err(HeaderError::Syntax),
    };
    let len = end + 2;
    Ok(Some(Header { len, ends }))
}

fn ends_of(from: (Option<IpAddr>, &str), to: (Option<IpAddr>, &str)) -> Result<Ends, HeaderError> {
    let end = |(ip, port): (Option<IpAddr>, &str)| {
        // Digits alone, and none of them a nought before others.
        let is_plain =
            port.bytes().all(|b| b.is_ascii_digit()) && (port == "0" || !port.starts_with('0'));
        let port = port.parse().ok().filter(|_| is_plain)?;
        Some(SocketAddr::new(ip?, port))
    };
    end(from).zip(end(to)).ok_or(HeaderError::Syntax)
}

fn parse_binary(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let Some((head, rest)) = bytes.split_first_chunk::<16>() else {
        return Ok(None);
    };
    let (command, family) = (head[12], head[13]);
    let body_len = usize::from(u16::from_be_bytes([head[14], head[15]]));
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(HeaderError::Syntax),
    };
    let len = head.len() + body_len;
    if len > PROXY_HEADER_LEN_MAX {
        return Err(HeaderError::TooLong);
    }
    let Some(body) = rest.get(..body_len) else {
        return Ok(None);
    };
    let ends = match family {
        _ if is_local => None,
        // TCP over IPv4, and over IPv6. Behind the addresses more may be said, which is nothing to us.
        0x11 => {
            let (addresses, _) = body.split_first_chunk::<12>().ok_or(HeaderError::Syntax)?;
            let ip = |at: usize| -> [u8; 4] { std::array::from_fn(|n| addresses[at + n]) };
            let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
            Some(((ip(0), port(8)).into(), (ip(4), port(10)).into()))
        }
        0x21 => {
            let (addresses, _) = body.split_first_chunk::<36>().ok_or(HeaderError::Syntax)?;
            let ip = |at: usize| -> [u8; 16] { std::array::from_fn(|n| addresses[at + n]) };
            let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
            Some(((ip(0), port(32)).into(), (ip(16), port(34)).into()))
        }
        // §2.2: what is not known is taken as a connection of the proxy's own.
        _ => None,
    };
    Ok(Some(Header { len, ends }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(from: &str, to: &str) -> Option<Ends> {
        Some((from.parse().unwrap(), to.parse().unwrap()))
    }

    fn binary(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let len = (body.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &len, body].concat()
    }

    #[test]
    fn headers_say_for_whom_a_proxy_connects() {
        let v4 = [192, 0, 2, 7, 198, 51, 100, 1, 0xc3, 0x50, 0, 80];
        let mut v6 = [0; 36];
        (v6[0], v6[15], v6[31]) = (0x20, 1, 2);
        (v6[33], v6[35]) = (1, 2);
        let of_v4 = ends("192.0.2.7:50000", "198.51.100.1:80");
        for (bytes, wanted) in [
            (
                b"PROXY TCP4 192.0.2.7 198.51.100.1 50000 80\r\n".to_vec(),
                of_v4,
            ),
            (
                b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n".to_vec(),
                ends("[2001:db8::1]:1", "[::1]:65535"),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 a b c\r\n".to_vec(), None),
            (binary(0x21, 0x11, &v4), of_v4),
            (
                binary(0x21, 0x11, &[&v4[..], b"\x04\0\x03abc"].concat()),
                of_v4,
            ),
            (binary(0x21, 0x21, &v6), ends("[2000::1]:1", "[::2]:2")),
            (binary(0x20, 0x11, &v4), None),
            (binary(0x20, 0, b""), None),
            (binary(0x21, 0x31, &[0; 216]), None),
        ] {
            let len = bytes.len();
            let request = [&bytes[..], b"GET / HTTP/1.1\r\n"].concat();
            for cut in 0..len {
                assert_eq!(parse(&request[..cut]), Ok(None), "{cut}");
            }
            for cut in len..=request.len() {
                let header = Header { len, ends: wanted };
                assert_eq!(parse(&request[..cut]), Ok(Some(header)), "{cut}");
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let long = [&b"PROXY TCP4 "[..], &[b'1'; 200]].concat();
        for (bytes, wanted) in [
            (b"GET / HTTP/1.1\r\n".to_vec(), HeaderError::None),
            (b"\x16\x03\x01".to_vec(), HeaderError::None),
            (b"PROXY\r\n".to_vec(), HeaderError::None),
            (
                b"PROXY TCP4 192.0.2.7 198.51.100.1 50000\r\n".to_vec(),
                HeaderError::Syntax,
            ),
            (b"PROXY TCP4 ::1 ::1 1 2\r\n".to_vec(), HeaderError::Syntax),
            (
                b"PROXY TCP4 192.0.2.7 198.51.100.1 050 80\r\n".to_vec(),
                HeaderError::Syntax,
            ),
            (
                b"PROXY TCP4 192.0.2.7 198.51.100.1 +50 80\r\n".to_vec(),
                HeaderError::Syntax,
            ),
            (
                b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 80\r\n".to_vec(),
                HeaderError::Syntax,
            ),
            (
                b"PROXY TCP4  192.0.2.7 198.51.100.1 1 80\r\n".to_vec(),
                HeaderError::Syntax,
            ),
            (
                b"PROXY UDP4 192.0.2.7 198.51.100.1 1 80\r\n".to_vec(),
                HeaderError::Syntax,
            ),
            (long, HeaderError::TooLong),
            (binary(0x11, 0x11, &[0; 12]), HeaderError::Syntax),
            (binary(0x22, 0x11, &[0; 12]), HeaderError::Syntax),
            (binary(0x21, 0x11, &[0; 11]), HeaderError::Syntax),
            (binary(0x21, 0x21, &[0; 35]), HeaderError::Syntax),
            (
                binary(0x21, 0x11, &[0; PROXY_HEADER_LEN_MAX]),
                HeaderError::TooLong,
            ),
        ] {
            assert_eq!(parse(&bytes), Err(wanted), "{}", bytes.escape_ascii());
        }
    }
}
