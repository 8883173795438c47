//! Which lines of a request of HTTP/1 its answer depends on, and which the log wants.
//!
//! The others are noise: two requests that differ in these alone are answered alike. So they have one entry, that of the request
//! without them. What a line is for is told by how it begins, without case. Too many that count cost entries; one too few would be a
//! wrong answer, and the server's tests see to it that none is missing.
//!
//! This is what the program in the kernel does ([`reduce`](super::reduce)); the two agree on every request.

use super::layout::{LOGGED_MAX, REQUEST_MAX};

/// How the lines begin that an answer may depend on; some more begin so.
pub(super) const COUNT: [&[u8]; 9] = [
    b"host",
    b"rang",
    b"expe",
    b"conn",
    b"cont",
    b"tran",
    b"auth",
    b"if-",
    b"accept-e",
];

/// How the lines begin that a log may want.
pub(super) const LOGGED: [&[u8]; 2] = [b"referer:", b"user-agent:"];

/// Lines of a head at most: clients send 5 to 20.
pub(super) const LINES_MAX: usize = 32;

/// Bytes of a request without noise at most.
pub const REDUCED_MAX: usize = 512;

/// A request, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduced {
    /// The request without the lines that its answer does not depend on.
    pub request: Vec<u8>,
    /// Of these, the lines that a log may want.
    pub logged: Vec<u8>,
}

/// What a line is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Counts,
    Logged,
    Noise,
}

/// Takes a request apart. None where that is not one whole head of lines that end with CR and LF, and have no control bytes; where a
/// line that is left out is no name of letters, digits and hyphens with a colon behind it; and where there is more of anything than
/// the kernel's part has room for.
pub fn reduce(request: &[u8]) -> Option<Reduced> {
    let head = request.strip_suffix(b"\r\n\r\n")?;
    let mut reduced = Reduced {
        request: Vec::new(),
        logged: Vec::new(),
    };
    let mut at = 0;
    for number in 0..LINES_MAX {
        let rest = head.get(at..)?;
        let len = rest.windows(2).position(|end| end == b"\r\n");
        let line = &rest[..len.unwrap_or(rest.len())];
        let kind = match number {
            0 => Line::Counts,
            _ => kind(&request[at..])?,
        };
        let is_bare = line.is_empty() || line.iter().any(u8::is_ascii_control);
        if is_bare || kind == Line::Noise && !has_name(line) {
            return None;
        }
        let to = match kind {
            Line::Counts => Some(&mut reduced.request),
            Line::Logged => Some(&mut reduced.logged),
            Line::Noise => None,
        };
        to.into_iter()
            .for_each(|to| to.extend([line, b"\r\n"].concat()));
        at += line.len() + 2;
        if len.is_none() {
            reduced.request.extend(b"\r\n");
            let fits = request.len() <= REQUEST_MAX && reduced.request.len() <= REDUCED_MAX;
            return (fits && reduced.logged.len() <= LOGGED_MAX).then_some(reduced);
        }
    }
    None
}

/// What the line at the beginning is for; none where it has no name.
fn kind(bytes: &[u8]) -> Option<Line> {
    let begins = |prefix: &&[u8]| {
        let first = bytes.get(..prefix.len());
        first.is_some_and(|first| first.iter().map(|b| b | 0x20).eq(prefix.iter().copied()))
    };
    Some(match () {
        () if LOGGED.iter().any(begins) => Line::Logged,
        () if COUNT.iter().any(begins) => Line::Counts,
        () if bytes.first() == Some(&b':') => return None,
        () => Line::Noise,
    })
}

/// Whether a line begins with a name of letters, digits and hyphens, and a colon.
fn has_name(line: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let end = line.iter().position(|byte| !is_of_name(byte));
    end.is_some_and(|end| end > 0 && line[end] == b':')
}
