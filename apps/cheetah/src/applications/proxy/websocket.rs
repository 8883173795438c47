//! WebSockets that come on a stream (RFC 8441 §5, RFC 9220): their clients say no key, which an upstream of HTTP/1.1 wants to have, and
//! by which it shows that it speaks the protocol.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The name of the protocol.
pub const PROTOCOL: &[u8] = b"websocket";

/// What is behind the key in what an upstream makes of it (RFC 6455 §1.3).
const BEHIND_KEY: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A key that nobody could know before (RFC 6455 §4.1): a cache that answers with what it has kept does not know what is made of it.
///
/// # Panics
///
/// The system has no random numbers, without which there is no TLS either.
pub fn new_key() -> String {
    let mut key = [0; 16];
    let filled = SystemRandom::new().fill(&mut key);
    filled.expect("the system has random numbers");
    STANDARD.encode(key)
}

/// What an upstream says that has understood a key.
pub fn accept(key: &str) -> String {
    let text = [key, BEHIND_KEY].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// Takes out of the fields of an answer what tells a client of HTTP/1.1 of the change; false where the upstream has not understood this key.
pub fn take_change(fields: &mut Vec<u8>, key: Option<&str>) -> bool {
    let mut has_understood = None;
    let mut rest = Vec::with_capacity(fields.len());
    for line in fields.split_inclusive(|&b| b == b'\n') {
        let mut parts = line.splitn(2, |&b| b == b':');
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        match (&*name, parts.next()) {
            (b"connection" | b"upgrade", _) => {}
            (b"sec-websocket-accept", Some(value)) => {
                // RFC 6455 §11.3.3: there is one.
                let is_of = |key| accept(key).as_bytes() == value.trim_ascii();
                has_understood = Some(has_understood.is_none() && key.is_some_and(is_of));
            }
            _ => rest.extend_from_slice(line),
        }
    }
    *fields = rest;
    key.is_none() || has_understood == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6455 §1.3.
    #[test]
    fn what_is_made_of_a_key_is_as_the_rfc_has_it() {
        let accept = accept("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_client_on_a_stream_hears_of_its_protocol_alone() {
        let says = |accept: &str| {
            format!(
                "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: chat\r\n{accept}\r\n"
            )
        };
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let right = says("SEC-WebSocket-Accept:s3pPLMBiTxaQ9kYGzzhZRbK+xOo= ");
        for (text, key, is_right) in [
            (&right, Some(key), true),
            (&right, None, true),
            (&says("Sec-WebSocket-Accept: other"), Some(key), false),
            (&says("X: y"), Some(key), false),
            (
                &format!("{right}Sec-WebSocket-Accept: other\r\n"),
                Some(key),
                false,
            ),
            (
                &says("Sec-WebSocket-Accept: other").replace("Connection: upgrade\r\n", &right),
                Some(key),
                false,
            ),
        ] {
            let mut fields = text.clone().into_bytes();
            assert_eq!(take_change(&mut fields, key), is_right, "{text}");
            assert!(fields.starts_with(b"Sec-WebSocket-Protocol: chat\r\n"));
            assert!(
                !fields
                    .to_ascii_lowercase()
                    .windows(6)
                    .any(|it| it == b"accept")
            );
        }
    }

    #[test]
    fn keys_are_of_sixteen_bytes_and_differ() {
        let (one, other) = (new_key(), new_key());
        assert_ne!(one, other);
        assert_eq!(STANDARD.decode(one).map(|key| key.len()), Ok(16));
    }
}
