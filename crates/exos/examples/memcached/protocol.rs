//! Commands read, and their answers, those of memcached 1.6 in its classic protocol.

use super::cache::Cache;
use super::item::{KEY_MAX, VALUE_MAX, write_value};
use super::store::Store;
use super::words::{BAD_LINE, FRAME, RELATIVE_MAX, Step, number};

/// Bytes of a command's line. A `get` may have many keys.
const LINE_MAX: usize = 8192;
/// Bytes of an answer in one datagram: with its header 1,400.
const PART: usize = 1392;
/// Bytes of the values that one command is answered with, and of all that one call is answered with, a command more: what is asked in few
/// words is not to fill memory. A value of the longest fits.
const ANSWER_MAX: usize = 2 * VALUE_MAX;
const ERROR: &[u8] = b"ERROR\r\n";

/// What a connection is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// What to send; empty where no command is whole yet.
    pub bytes: Vec<u8>,
    /// There is more: to be asked for without new bytes ([`Session::handle`]), once these may leave.
    pub more: bool,
    /// The connection is to be closed behind it. What still comes is for nobody.
    pub close: bool,
}

/// A connection's bytes that are no whole command yet. One for each connection.
#[derive(Clone, Debug, Default)]
pub struct Session {
    pending: Vec<u8>,
    /// Bytes that are still to come of a value that is too large.
    skip: usize,
    closed: bool,
}

impl Session {
    /// Nothing more is wanted of the client.
    pub fn close(&mut self) {
        *self = Self {
            closed: true,
            ..Self::default()
        };
    }

    /// Takes in what has come, now, in seconds since 1970.
    pub fn handle(&mut self, cache: &mut Cache, bytes: &[u8], now: u64) -> Reply {
        if self.closed {
            return Reply {
                close: true,
                ..Reply::default()
            };
        }
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.pending.extend(&bytes[skipped..]);
        let (mut reply, mut at) = (Reply::default(), 0);
        loop {
            match cache.step(&self.pending[at..], now) {
                Step::More => break,
                Step::Close => {
                    reply.close = true;
                    self.close();
                    return reply;
                }
                Step::Answer(taken, more) => {
                    reply.bytes.extend(more);
                    let there = taken.min(self.pending.len() - at);
                    self.skip = taken - there;
                    at += there;
                    if reply.bytes.len() > ANSWER_MAX && at < self.pending.len() {
                        reply.more = true;
                        break;
                    }
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
        let (mut frames, mut at, mut bytes) = (Vec::new(), 0, 0);
        // What more is asked is not answered, as where a datagram is lost.
        while bytes <= ANSWER_MAX
            && let Step::Answer(taken, answer) = self.step(&command[at..], now)
        {
            frames.extend(in_frames(header, &answer));
            bytes += answer.len();
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
        self.clear_if_due(now);
        if let [
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas",
            ..,
        ] = words[..]
        {
            return self.storing(&words, len + 1, rest, now);
        }
        match words[..] {
            [b"quit", ..] => Step::Close,
            [ref words @ .., b"noreply"] if takes_noreply(words) => {
                self.answer(words, now);
                Step::Answer(len + 1, Vec::new())
            }
            _ => Step::Answer(len + 1, self.answer(&words, now)),
        }
    }

    /// A command that stores, of a line of `len` bytes and what stands behind it.
    fn storing(&mut self, words: &[&[u8]], len: usize, rest: &[u8], now: u64) -> Step {
        let wanted = if words[0] == b"cas" { 6 } else { 5 };
        if !(wanted..=wanted + 1).contains(&words.len()) {
            return Step::Answer(len, ERROR.to_vec());
        }
        let is_silent = words.last() == Some(&&b"noreply"[..]);
        let step = match Store::parse(&words[..wanted], now) {
            Ok(store) => self.store(&store, rest, now),
            Err(answer) => Step::Answer(0, answer.to_vec()),
        };
        match step {
            Step::Answer(taken, _) if is_silent => Step::Answer(len + taken, Vec::new()),
            Step::Answer(taken, answer) => Step::Answer(len + taken, answer),
            other => other,
        }
    }

    /// A command without a value.
    fn answer(&mut self, words: &[&[u8]], now: u64) -> Vec<u8> {
        match *words {
            [b"get", ref keys @ ..] if !keys.is_empty() => self.values(keys, false, now),
            [b"gets", ref keys @ ..] if !keys.is_empty() => self.values(keys, true, now),
            [b"delete", key, ref more @ ..] if more.len() <= 2 => self.deleted(key, more, now),
            // What stands behind the number memcached does not look at.
            [b"incr", key, by] | [b"incr", key, by, _] => self.counted(true, key, by, now),
            [b"decr", key, by] | [b"decr", key, by, _] => self.counted(false, key, by, now),
            [b"touch", key, expires] => self.touched(key, expires, now).to_vec(),
            [b"flush_all"] => self.flushed(b"0", now).to_vec(),
            // What stands behind the time memcached does not look at.
            [b"flush_all", when] | [b"flush_all", when, _] => self.flushed(when, now).to_vec(),
            [b"version", ..] => format!("VERSION {}\r\n", env!("CARGO_PKG_VERSION")).into_bytes(),
            [b"stats"] => self.statistics().into_bytes(),
            _ => ERROR.to_vec(),
        }
    }

    fn values(&mut self, keys: &[&[u8]], is_unique: bool, now: u64) -> Vec<u8> {
        let mut answer = Vec::new();
        for key in keys {
            if key.len() > KEY_MAX {
                return BAD_LINE.to_vec();
            }
            if let Some(kept) = self.find(key, now) {
                let unique = is_unique.then_some(kept.unique);
                write_value(&mut answer, key, &kept.item, unique);
            }
            if answer.len() > ANSWER_MAX {
                return b"SERVER_ERROR out of memory writing get response\r\n".to_vec();
            }
        }
        answer.extend(b"END\r\n");
        answer
    }

    fn flushed(&mut self, when: &[u8], now: u64) -> &'static [u8] {
        match number::<i32>(when) {
            None => return b"CLIENT_ERROR invalid exptime argument\r\n",
            Some(..=0) => {
                self.clear();
                self.unique += 1; // As memcached counts.
            }
            Some(after @ 1..=RELATIVE_MAX) => self.clear_at(now + after as u64),
            Some(when) => self.clear_at(when as u64),
        }
        b"OK\r\n"
    }

    fn statistics(&self) -> String {
        let all = [
            ("curr_items", self.len() as u64),
            ("bytes", self.bytes as u64),
            ("limit_maxbytes", self.bytes_max as u64),
            ("kernel_items", self.in_kernel() as u64),
            ("kernel_connection_gets", self.connection_gets()),
        ];
        let lines = all.map(|(name, value)| format!("STAT {name} {value}\r\n"));
        lines.concat() + "END\r\n"
    }

    fn deleted(&mut self, key: &[u8], more: &[&[u8]], now: u64) -> Vec<u8> {
        let silent = more.last().is_some_and(|last| *last == b"noreply");
        let is_zero = more.first().is_some_and(|first| *first == b"0");
        let is_known = match more.len() {
            0 => true,
            1 => is_zero || silent,
            _ => is_zero && silent,
        };
        let answer: &[u8] = if !is_known {
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
}

/// Whether a command may be one without an answer.
fn takes_noreply(words: &[&[u8]]) -> bool {
    match words {
        [b"incr" | b"decr" | b"touch", ..] => words.len() == 3,
        [b"flush_all", ..] => words.len() <= 2,
        _ => false,
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
