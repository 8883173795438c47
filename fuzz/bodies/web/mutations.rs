//! Streams of requests that are nearly right: well-formed ones, with changes such as an attacker makes, or a broken
//! proxy. What is made of some bytes is decided by these bytes alone, so a fuzzer can look for interesting ones, and a
//! seed is enough to make a stream again.
//!
//! The file is included by the fuzz target `http_mutations`, by `apps/cheetah/tests/all/corpus.rs`, and by
//! `apps/cheetah/tests/all/nginx/mutations.rs`, which has nginx answer the same streams.

/// Decisions, taken from bytes; when these have come to their end, each is the first that there is.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    /// A number below `bound`, which is at most 65,536.
    fn below(&mut self, bound: usize) -> usize {
        let Some((&[low, high], rest)) = self.0.split_first_chunk() else {
            self.0 = &[];
            return 0;
        };
        self.0 = rest;
        usize::from(u16::from_le_bytes([low, high])) % bound
    }

    fn one_of<'t>(&mut self, texts: &[&'t [u8]]) -> &'t [u8] {
        texts[self.below(texts.len())]
    }
}

const METHODS: &[&[u8]] = &[b"GET", b"HEAD", b"POST", b"OPTIONS", b"BREW"];

const TARGETS: &[&[u8]] = &[
    b"/",
    b"/a.txt",
    b"/dir/",
    b"/dir",
    b"/none",
    b"/a.txt?q=1",
    b"/dir/../a.txt",
    b"/dir/with%20space.txt",
    b"/dir/100%25.txt",
    b"//dir/./x/..//",
    b"/bare/deep/b.txt",
    b"/empty",
    b"/what%3f.txt",
    b"/../a.txt",
    b"http://h/a.txt",
    b"http://h",
    b"HTTP://h:80/dir/?q",
    b"https://[::1]:443/a.txt",
    b"http://u@h/",
    b"ftp://h/a.txt",
    b"*",
    b"h:80",
    b"a.txt",
    b"/a.txt#f",
    b"/%2e%2e/%2e%2e/etc/passwd",
    b"/%00",
    b"/\\..\\a.txt",
];

const VERSIONS: &[&[u8]] = &[
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"HTTP/1.2",
    b"HTTP/2.0",
    b"http/1.1",
];

const FIELDS: &[&[u8]] = &[
    b"Connection: keep-alive",
    b"Connection: close",
    b"Connection: x, close",
    b"Content-Length: 5",
    b"Content-Length: 0",
    b"Content-Length: 05",
    b"Content-Length: +5",
    b"Content-Length: 5, 5",
    b"Content-Length: 99999999999999999999",
    b"content-length:3",
    b"Content-Length : 5",
    b"Content_Length: 5",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding: xchunked",
    b"Expect: 100-continue",
    b"Expect: miracles",
    b"Range: bytes=0-1",
    b"Range: bytes=1-",
    b"Range: bytes=-2",
    b"Range: bytes=0-0,2-2",
    b"Range: bytes=9-1",
    b"Range: bytes=1000-",
    b"If-Range: \"other\"",
    b"If-None-Match: *",
    b"If-None-Match: \"other\"",
    b"If-Match: *",
    b"If-Match: \"other\"",
    b"If-Modified-Since: Sun, 06 Nov 1994 08:00:00 GMT",
    b"If-Modified-Since: Sat, 05 Nov 1994 08:00:00 GMT",
    b"If-Unmodified-Since: Sun, 06 Nov 1994 07:00:00 GMT",
    b"Accept: */*",
    b"Upgrade: h2c",
    b"Host: other",
    b"X: y",
    b"A(b): c",
    b"nonsense",
];

/// What is put in somewhere.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b"\0",
    b"\r\n ",
    b"\r\n\t",
    b"\n ",
    b"\r\n\r\n",
    b"\n\n",
    b"\r\r\n",
    b":",
    b",",
    b";",
    b"#",
    b"?",
    b"%",
    b"/",
    b"..",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\x0b",
    b"\"",
    b"0",
    b"5",
    b" HTTP/1.1",
    b" HTTP/1.1\r\n",
    b"Host: h\r\n",
    b"hello",
    b"0\r\n\r\n",
    b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
];

/// Behind all that was changed, most of the time: a parser that has lost its place answers it too often, too seldom,
/// or wrongly.
const PROBE: &[u8] = b"GET /bare/deep/b.txt HTTP/1.1\r\nHost: h\r\n\r\n";

/// The longest stream, about.
const STREAM_LEN_MAX: usize = 1500;

/// A stream of one to four requests, with up to five changes.
pub fn stream(decisions: &[u8]) -> Vec<u8> {
    let mut choices = Choices(decisions);
    let mut bytes = Vec::new();
    for _ in 0..=choices.below(4) {
        push_request(&mut bytes, &mut choices);
    }
    for _ in 0..choices.below(6) {
        change(&mut bytes, &mut choices);
        bytes.truncate(STREAM_LEN_MAX);
    }
    if choices.below(4) > 0 {
        bytes.extend_from_slice(PROBE);
    }
    bytes
}

fn push_request(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    // Most of a request is as usual, so that what follows it on the connection is looked at too.
    let mut is_odd = || choices.below(5) == 4;
    let (odd_method, odd_target, odd_version) = (is_odd(), is_odd() || is_odd(), is_odd());
    let method = choices.one_of(if odd_method { METHODS } else { &METHODS[..2] });
    let target = choices.one_of(if odd_target { TARGETS } else { &TARGETS[..4] });
    let version = choices.one_of(if odd_version {
        VERSIONS
    } else {
        &VERSIONS[..1]
    });
    let host: &[u8] = if choices.below(12) == 11 {
        b""
    } else {
        b"Host: h\r\n"
    };
    let line = [method, b" ", target, b" ", version, b"\r\n", host];
    bytes.extend_from_slice(&line.concat());
    let mut has_body = false;
    for _ in 0..choices.below(4) {
        let field = choices.one_of(FIELDS);
        has_body |= field.ends_with(b" 5") || field.ends_with(b" 05");
        bytes.extend_from_slice(field);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    if has_body {
        bytes.extend_from_slice(b"hello");
    }
}

/// One change, anywhere.
fn change(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let kind = choices.below(9);
    let at = choices.below(bytes.len() + 1);
    // Short pieces are the more interesting ones.
    let bits = choices.below(7);
    let len = choices.below(1 << bits);
    let end = (at + len).min(bytes.len());
    match kind {
        0 => bytes
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|b| *b ^= 1 << (len % 8)),
        1 => drop(bytes.drain(at..end)),
        2 | 3 => splice(bytes, at, choices.one_of(PIECES)),
        4 => {
            let piece = bytes[at..end].to_vec();
            splice(bytes, choices.below(bytes.len() + 1), &piece);
        }
        5 | 6 => {
            // A line more: what is there twice, or contradicts what is there.
            let field = [choices.one_of(FIELDS), b"\r\n"].concat();
            splice(bytes, next_line(bytes, at), &field);
        }
        7 => {
            let (begin, end) = (next_line(bytes, at), next_line(bytes, end));
            let line = bytes[begin..next_line(bytes, begin)].to_vec();
            splice(bytes, end, &line);
        }
        _ => {
            let piece = choices.one_of(PIECES);
            let end = (at + piece.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&piece[..end - at]);
        }
    }
}

fn splice(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

/// Where the line after the one with this place begins, or the end.
fn next_line(bytes: &[u8], at: usize) -> usize {
    let end = bytes[at..].iter().position(|&b| b == b'\n');
    end.map_or(bytes.len(), |len| at + len + 1)
}
