//! Requests of HTTP/3 as the text that HTTP/1.1 has for them, by which they are answered (RFC 9114 §4.3.1).
//!
//! Fields were looked at before: names are tokens, values have no line ends, the path no spaces. So a request cannot say more lines
//! than it has fields; what they mean together, the parser of HTTP/1.1 decides.

use exos_http2::message::RequestHead;

use super::http2::{UPGRADING, upgrade};
use crate::limits::HEAD_LEN_MAX;

/// Room for a usual head.
pub const HEAD_LEN: usize = 512;

/// Appends the lines of a head, without the empty one behind them. Of one whose fields are `too_long`, the text is as well, so that it is
/// refused as any other.
pub fn head_lines(head: &RequestHead<'_>, too_long: bool, text: &mut Vec<u8>) {
    let authority = head.authority();
    // Of a tunnel it is the host that is asked for.
    let target = head.path().or(authority).unwrap_or_default();
    let method = match head.protocol() {
        Some(_) => UPGRADING,
        None => head.method(),
    };
    for part in [method.as_bytes(), b" ", target, b" HTTP/1.1\r\n"] {
        text.extend_from_slice(part);
    }
    let mut push = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            text.extend_from_slice(part);
        }
    };
    if let Some(authority) = authority {
        push("host", authority);
    }
    for field in upgrade(head.protocol()) {
        push(field.name, field.value);
    }
    let mut cookies = Vec::new();
    for (name, value) in head.fields() {
        match name {
            "cookie" => cookies.push(value),
            "host" if authority.is_some() => {}
            _ => push(name, value),
        }
    }
    // RFC 9114 §4.2.1: they come in crumbs.
    if !cookies.is_empty() {
        push("cookie", &cookies.join(&b"; "[..]));
    }
    if too_long {
        push("x-left-out", &vec![b'x'; HEAD_LEN_MAX]);
    }
}
