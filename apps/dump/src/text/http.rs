//! The head of an HTTP/1 message (RFC 9112): its first line, with `-v` all of them.
//!
//! Only what begins like a request or a response is shown; the middle of a body is not.

use super::line::Line;
use super::part::Part;

/// Where HTTP is looked for.
pub(super) const PORTS: [u16; 3] = [80, 8080, 3128];

/// Methods of RFC 9110, RFC 5789 and WebDAV (RFC 4918, RFC 3253), as tcpdump knows them.
const STARTS: [&str; 33] = [
    "GET",
    "HEAD",
    "PUT",
    "POST",
    "OPTIONS",
    "DELETE",
    "TRACE",
    "CONNECT",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "SEARCH",
    "POLL",
    "BCOPY",
    "BMOVE",
    "BDELETE",
    "BPROPFIND",
    "BPROPPATCH",
    "NOTIFY",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "X-MS-ENUMATTS",
    "RPC_IN_DATA",
    "RPC_OUT_DATA",
    "REPORT",
    "CHECKOUT",
    "CHECKIN",
    "MERGE",
];

/// True when this line begins a message.
pub(super) fn begins_message(line: &[u8]) -> bool {
    let Some(end) = line.iter().position(|byte| matches!(byte, b' ' | b'\t')) else {
        return false;
    };
    let word = &line[..end];
    if word.starts_with(b"HTTP/") {
        // RFC 9112 §4: the status code, and a space even when no reason follows.
        let code = line[end + 1..].split_first_chunk::<3>();
        return code.is_some_and(|(code, behind)| {
            code.iter().all(u8::is_ascii_digit)
                && behind.first().is_some_and(u8::is_ascii_whitespace)
        });
    }
    STARTS.iter().any(|start| word == start.as_bytes())
}

/// The lines, each with whether its end is there.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    })
}

impl Line<'_> {
    pub(super) fn http(&mut self, payload: Part<'_>) {
        write!(self, ": HTTP");
        let first = lines(payload.bytes()).next().unwrap_or_default();
        let begins = begins_message(first);
        match (begins, self.style.verbosity) {
            (true, 0) => {
                write!(self, ": ");
                self.escaped(first);
                if !payload.bytes().contains(&b'\n') {
                    write!(self, " [|http]");
                }
            }
            (true, _) => {
                write!(self, ", length: {}", payload.len());
                // The head ends with an empty line.
                for line in lines(payload.bytes()) {
                    write!(self, "\n\t");
                    self.escaped(line);
                    if line.is_empty() {
                        return;
                    }
                }
                if !payload.bytes().ends_with(b"\n") {
                    write!(self, " [|http]");
                }
            }
            (false, _) => {}
        }
    }
}
