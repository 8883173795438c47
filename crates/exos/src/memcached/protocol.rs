//! Commands read, and their answers, byte for byte memcached's (1.6).

use super::{Cache, Item, KEY_MAX, VALUE_MAX, write_value};

/// Bytes of a command's line. A `get` may have many keys.
const LINE_MAX: usize = 8192;
/// Bytes of a datagram's frame header: identifier, number of the datagram, how many there are, 0; two each.
const FRAME: usize = 8;
/// Bytes of an answer in one datagram: with its header 1,400.
const PART: usize = 1392;
/// A time of expiry up to this many seconds counts from now on, a larger one from 1970.
const RELATIVE_MAX: i32 = 60 * 60 * 24 * 30;

const ERROR: &[u8] = b"ERROR\r\n";
const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// What bytes come to that begin with a command.
enum Step {
    /// The command is not whole.
    More,
    /// As many bytes were the command, which may not all have come; and its answer.
    Answer(usize, Vec<u8>),
    /// The client is not to be understood.
    Close,
}

/// What a connection is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// What to send; empty where no command is whole yet.
    pub bytes: Vec<u8>,
    /// The connection is to be closed behind it, and what still comes is not to be given to the session.
    pub close: bool,
}

/// A connection's bytes that are no whole command yet. One for each connection.
#[derive(Clone, Debug, Default)]
pub struct Session {
    pending: Vec<u8>,
    /// Bytes that are still to come of a value that is too large.
    skip: usize,
}

impl Session {
    /// Takes in what has come, now, in seconds since 1970.
    pub fn handle(&mut self, cache: &mut Cache, bytes: &[u8], now: u64) -> Reply {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.pending.extend(&bytes[skipped..]);
        let (mut reply, mut at) = (Reply::default(), 0);
        loop {
            match cache.step(&self.pending[at..], now) {
                Step::More => break,
                Step::Close => {
                    reply.close = true;
                    break;
                }
                Step::Answer(taken, more) => {
                    reply.bytes.extend(more);
                    let there = taken.min(self.pending.len() - at);
                    self.skip = taken - there;
                    at += there;
                }
            }
        }
        self.pending.drain(..at);
        reply
    }
}

impl Cache {
    /// The answers to a datagram, now, in seconds since 1970. One that is no request has none.
    pub fn handle_datagram(&mut self, datagram: &[u8], now: u64) -> Vec<Vec<u8>> {
        let Some((header, command)) = datagram.split_first_chunk::<FRAME>() else {
            return Vec::new();
        };
        // Requests of several datagrams are refused, as memcached does.
        if header[4..6] != [0, 1] {
            return Vec::new();
        }
        let (mut frames, mut at) = (Vec::new(), 0);
        while let Step::Answer(taken, answer) = self.step(&command[at..], now) {
            frames.extend(in_frames(header, &answer));
            at = (at + taken).min(command.len());
        }
        frames
    }

    fn step(&mut self, bytes: &[u8], now: u64) -> Step {
        let Some(len) = bytes.iter().position(|&byte| byte == b'\n') else {
            return match bytes.len() > LINE_MAX {
                true => Step::Close,
                false => Step::More,
            };
        };
        let (line, rest) = (&bytes[..len], &bytes[len + 1..]);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let words: Vec<_> = line.split(|&byte| byte == b' ').collect();
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let answer = match words[..] {
            [b"get"] => ERROR.to_vec(),
            [b"get", ref keys @ ..] => self.values(keys, now),
            [b"delete", key, ref more @ ..] if more.len() <= 2 => self.deleted(key, more, now),
            [b"set", key, flags, expires, bytes, ref more @ ..] if more.len() <= 1 => {
                let set = Set::parse(key, [flags, expires, bytes], now);
                let step = match set {
                    Some(set) => self.stored(&set, rest),
                    None => Step::Answer(0, BAD_LINE.to_vec()),
                };
                let Step::Answer(taken, answer) = step else {
                    return step;
                };
                let silent = more == [b"noreply"];
                let answer = if silent { Vec::new() } else { answer };
                return Step::Answer(len + 1 + taken, answer);
            }
            [b"quit"] => return Step::Close,
            _ => ERROR.to_vec(),
        };
        Step::Answer(len + 1, answer)
    }

    fn values(&mut self, keys: &[&[u8]], now: u64) -> Vec<u8> {
        let mut answer = Vec::new();
        for key in keys {
            if key.len() > KEY_MAX {
                return BAD_LINE.to_vec();
            }
            if let Some(item) = self.get(key, now) {
                write_value(&mut answer, key, item);
            }
        }
        answer.extend(b"END\r\n");
        answer
    }

    fn deleted(&mut self, key: &[u8], more: &[&[u8]], now: u64) -> Vec<u8> {
        let silent = more.last().is_some_and(|last| *last == b"noreply");
        let zero = more.first().is_none_or(|first| *first == b"0");
        let answer: &[u8] = if !(zero || silent && more.len() == 1) {
            b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
        } else if key.len() > KEY_MAX {
            BAD_LINE
        } else if self.get(key, now).is_some() {
            self.delete(key);
            b"DELETED\r\n"
        } else {
            b"NOT_FOUND\r\n"
        };
        if silent { Vec::new() } else { answer.to_vec() }
    }

    /// `rest` is what stands behind the line.
    fn stored(&mut self, set: &Set<'_>, rest: &[u8]) -> Step {
        let whole = set.bytes + 2;
        if set.bytes > VALUE_MAX {
            self.delete(set.key);
            let refused = b"SERVER_ERROR object too large for cache\r\n";
            return Step::Answer(whole, refused.to_vec());
        }
        let Some(value) = rest.get(..whole) else {
            return Step::More;
        };
        let Some(value) = value.strip_suffix(b"\r\n") else {
            return Step::Answer(whole, b"CLIENT_ERROR bad data chunk\r\n".to_vec());
        };
        let item = Item {
            flags: set.flags,
            expires: set.expires,
            value: value.to_vec(),
        };
        let answer: &[u8] = match self.set(set.key, item) {
            Ok(()) => b"STORED\r\n",
            Err(_) => b"SERVER_ERROR out of memory storing object\r\n",
        };
        Step::Answer(whole, answer.to_vec())
    }
}

/// A `set` without its value.
struct Set<'a> {
    key: &'a [u8],
    flags: u32,
    expires: Option<u64>,
    bytes: usize,
}

impl<'a> Set<'a> {
    fn parse(key: &'a [u8], numbers: [&[u8]; 3], now: u64) -> Option<Self> {
        let [flags, expires, bytes] = numbers.map(|word| std::str::from_utf8(word).ok());
        // Of 32 bits with a sign, as memcached keeps it.
        let expires = match expires?.parse::<i64>().ok()? as i32 {
            0 => None,
            ..0 => Some(now),
            after @ 1..=RELATIVE_MAX => Some(now + after as u64),
            when => Some(when as u64),
        };
        Some(Self {
            key: (key.len() <= KEY_MAX).then_some(key)?,
            flags: flags?.parse().ok()?,
            expires,
            bytes: bytes?.parse::<u32>().ok()? as usize,
        })
    }
}

/// An answer as datagrams, with the request's identifier.
fn in_frames(request: &[u8; FRAME], answer: &[u8]) -> Vec<Vec<u8>> {
    let count = answer.len().div_ceil(PART) as u16;
    let frame = |(number, part): (usize, &[u8])| {
        let number = (number as u16).to_be_bytes();
        [&request[..2], &number, &count.to_be_bytes(), &[0, 0], part].concat()
    };
    answer.chunks(PART).enumerate().map(frame).collect()
}
