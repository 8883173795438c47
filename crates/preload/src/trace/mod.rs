//! Calls as strace(1) has them: their names, their arguments, and what they were answered. Both sides print so, each the calls that it
//! answers: the library reads its own memory, `exos run` another process's.
//!
//! Nothing is allocated: a signal handler may print, too.

mod calls;
mod names;
pub mod number;
#[cfg(exos_preload)]
pub mod pipe;
mod waits;

use std::fmt::{self, Display, Formatter, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};

use calls::{Kind, shape};
use names::{ACCEPT_FLAGS, ERRORS, LEVELS, Names, SOCKET_KINDS, options};
pub use waits::Found;

/// Bytes of what is read or written that are shown.
const SHOWN: usize = 32;
/// Parts of a list that are shown.
const PARTS: u64 = 8;

/// What select(2) was given, which it changes.
#[derive(Default)]
pub struct Selected {
    /// What was to be read, written, and told of else.
    pub sets: [[u64; 16]; 3],
    /// How long it was to wait.
    pub time: [u64; 2],
}

/// A call that was made.
pub struct Call<'a> {
    /// Which ([`number`]).
    pub number: i64,
    /// Its arguments, as the kernel has them.
    pub args: [u64; 6],
    /// One that has failed has filled nothing in.
    pub result: Result<i64, i32>,
    /// Reads the caller's memory: how many of these bytes there are.
    pub memory: &'a dyn Fn(u64, &mut [u8]) -> usize,
    /// Of select(2) alone.
    pub selected: Option<&'a Selected>,
}

/// What a call was answered.
pub struct Answer(pub Result<i64, i32>);

impl Display for Answer {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let number = match self.0 {
            Ok(value) => return write!(out, "{value}"),
            Err(number) => number,
        };
        match ERRORS.iter().find(|(error, ..)| *error == number) {
            Some((_, name, says)) => write!(out, "-1 {name} ({says})"),
            None => write!(out, "-1 {number}"),
        }
    }
}

/// The name and the arguments.
impl Display for Call<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Some((name, kinds)) = shape(self.number) else {
            return write!(out, "syscall_{}()", self.number);
        };
        write!(out, "{name}(")?;
        for (at, kind) in kinds.iter().enumerate() {
            if at > 0 {
                out.write_str(", ")?;
            }
            self.argument(out, at, *kind)?;
        }
        out.write_char(')')
    }
}

impl Call<'_> {
    fn argument(&self, out: &mut Formatter<'_>, at: usize, kind: Kind) -> fmt::Result {
        let word = self.args[at];
        let next = self.args.get(at + 1).copied().unwrap_or_default();
        let filled = self.result.is_ok();
        match kind {
            Kind::Number => write!(out, "{}", word as i32),
            Kind::Size => write!(out, "{word}"),
            Kind::Choice(names) => one_of(out, names, word as i32),
            Kind::Flags(names) => flags(out, names, word as i32),
            Kind::SocketType => {
                one_of(out, SOCKET_KINDS, word as i32 & 0xf)?;
                match word as i32 & !0xf {
                    0 => Ok(()),
                    more => {
                        out.write_char('|')?;
                        flags(out, ACCEPT_FLAGS, more)
                    }
                }
            }
            Kind::Name => self.name(out, word, next),
            Kind::NameOut if filled => {
                let len = self.word(next).unwrap_or(0);
                self.name(out, word, len.max(0) as u64)
            }
            Kind::LengthOut if filled => self.number_at(out, word),
            Kind::Bytes => self.bytes(out, word, next, next),
            Kind::BytesOut if filled => {
                let count = self.result.unwrap_or(0).max(0) as u64;
                self.bytes(out, word, count.min(next), count.min(next))
            }
            Kind::Vector => self.vector(out, word, next, u64::MAX),
            Kind::VectorOut if filled => {
                self.vector(out, word, next, self.result.unwrap_or(0).max(0) as u64)
            }
            Kind::Message => self.message(out, word, u64::MAX),
            Kind::MessageOut if filled => {
                self.message(out, word, self.result.unwrap_or(0).max(0) as u64)
            }
            Kind::Messages => self.messages(out, word, next, None),
            Kind::MessagesOut if filled => {
                let count = self.result.unwrap_or(0).max(0) as u64;
                self.messages(out, word, count, Some(()))
            }
            Kind::Level => one_of(out, LEVELS, word as i32),
            Kind::OptionName => one_of(out, options(self.args[at - 1] as i32), word as i32),
            Kind::OptionValue => self.option(out, at, word),
            Kind::OptionValueOut if filled => self.option(out, at, word),
            Kind::Event => self.events(out, word, 1, false),
            Kind::EventsOut if filled => {
                self.events(out, word, self.result.unwrap_or(0).max(0) as u64, true)
            }
            Kind::Polled => self.polled(out, word, next),
            Kind::Set => match self.selected {
                Some(selected) if word != 0 => self.set(out, &selected.sets[at - 1]),
                _ => pointer(out, word),
            },
            Kind::Timespec => self.time(out, word),
            Kind::Timeval => match self.selected {
                Some(Selected {
                    time: [seconds, micros],
                    ..
                }) if word != 0 => {
                    write!(
                        out,
                        "{{tv_sec={}, tv_usec={}}}",
                        *seconds as i64, *micros as i64
                    )
                }
                _ => pointer(out, word),
            },
            Kind::Offset if filled => self.number_at(out, word),
            _ => pointer(out, word),
        }
    }

    /// The caller's memory, as much as there is.
    fn read<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (at != 0 && (self.memory)(at, &mut bytes) == N).then_some(bytes)
    }

    fn word(&self, at: u64) -> Option<i32> {
        self.read(at).map(i32::from_ne_bytes)
    }

    fn long(&self, at: u64) -> Option<u64> {
        self.read(at).map(u64::from_ne_bytes)
    }

    fn number_at(&self, out: &mut Formatter<'_>, at: u64) -> fmt::Result {
        match self.word(at) {
            Some(number) => write!(out, "[{number}]"),
            None => pointer(out, at),
        }
    }

    fn bytes(&self, out: &mut Formatter<'_>, at: u64, len: u64, whole: u64) -> fmt::Result {
        let mut bytes = [0; SHOWN];
        let room = bytes.len().min(usize::try_from(len).unwrap_or(SHOWN));
        if at == 0 || (room > 0 && (self.memory)(at, &mut bytes[..room]) != room) {
            return pointer(out, at);
        }
        out.write_char('"')?;
        for byte in &bytes[..room] {
            match byte {
                b'"' | b'\\' => write!(out, "\\{}", char::from(*byte))?,
                b'\n' => out.write_str("\\n")?,
                b'\r' => out.write_str("\\r")?,
                b'\t' => out.write_str("\\t")?,
                b' '..=b'~' => out.write_char(char::from(*byte))?,
                _ => write!(out, "\\{byte:o}")?,
            }
        }
        out.write_str(if whole > room as u64 { "\"..." } else { "\"" })
    }

    /// Stretches of memory, of which as many bytes say something.
    fn vector(&self, out: &mut Formatter<'_>, at: u64, count: u64, mut left: u64) -> fmt::Result {
        const EACH: u64 = 16;
        if at == 0 {
            return pointer(out, at);
        }
        out.write_char('[')?;
        for n in 0..count.min(PARTS) {
            let place = at.wrapping_add(n * EACH);
            let (Some(base), Some(len)) = (self.long(place), self.long(place.wrapping_add(8)))
            else {
                return write!(out, "{at:#x}]");
            };
            out.write_str(if n > 0 { ", {iov_base=" } else { "{iov_base=" })?;
            let said = len.min(left);
            self.bytes(out, base, said, said)?;
            write!(out, ", iov_len={len}}}")?;
            left -= said;
        }
        out.write_str(if count > PARTS { ", ...]" } else { "]" })
    }

    /// A `struct msghdr`.
    fn message(&self, out: &mut Formatter<'_>, at: u64, left: u64) -> fmt::Result {
        let Some(head) = self.read::<56>(at) else {
            return pointer(out, at);
        };
        let long = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().expect("eight"));
        let name_len = long(8) as u32;
        out.write_str("{msg_name=")?;
        self.name(out, long(0), name_len.into())?;
        write!(out, ", msg_namelen={name_len}, msg_iov=")?;
        self.vector(out, long(16), long(24), left)?;
        let flags_said = long(48) as i32;
        write!(
            out,
            ", msg_iovlen={}, msg_controllen={}, msg_flags=",
            long(24),
            long(40)
        )?;
        flags(out, names::MESSAGE_FLAGS, flags_said)?;
        out.write_char('}')
    }

    /// Those of recvmmsg(2) and sendmmsg(2), with what came where they were received.
    fn messages(
        &self,
        out: &mut Formatter<'_>,
        at: u64,
        count: u64,
        received: Option<()>,
    ) -> fmt::Result {
        const EACH: u64 = 64;
        out.write_char('[')?;
        for n in 0..count.min(PARTS) {
            let place = at.wrapping_add(n * EACH);
            let len = self.word(place.wrapping_add(56)).unwrap_or(0).max(0) as u64;
            out.write_str(if n > 0 { ", {msg_hdr=" } else { "{msg_hdr=" })?;
            self.message(out, place, received.map_or(u64::MAX, |()| len))?;
            match self.result {
                Ok(done) if n < done.max(0) as u64 => write!(out, ", msg_len={len}}}")?,
                _ => out.write_char('}')?,
            }
        }
        out.write_str(if count > PARTS { ", ...]" } else { "]" })
    }

    /// A socket's address.
    fn name(&self, out: &mut Formatter<'_>, at: u64, len: u64) -> fmt::Result {
        let mut bytes = [0; 28];
        let room = bytes.len().min(usize::try_from(len).unwrap_or(28));
        if at == 0 || room < 2 || (self.memory)(at, &mut bytes[..room]) != room {
            return pointer(out, at);
        }
        let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match (family, room) {
            (2, 16..) => {
                let ip: [u8; 4] = bytes[4..8].try_into().expect("four");
                let ip = Ipv4Addr::from(ip);
                write!(
                    out,
                    "{{sa_family=AF_INET, sin_port=htons({port}), sin_addr=inet_addr(\"{ip}\")}}"
                )
            }
            (10, 24..) => {
                let ip: [u8; 16] = bytes[8..24].try_into().expect("sixteen");
                let ip = Ipv6Addr::from(ip);
                write!(
                    out,
                    "{{sa_family=AF_INET6, sin6_port=htons({port}), inet_pton(AF_INET6, \"{ip}\", &sin6_addr)}}"
                )
            }
            _ => {
                out.write_str("{sa_family=")?;
                one_of(out, names::FAMILIES, family.into())?;
                out.write_char('}')
            }
        }
    }

    /// The value of an option: a number, but for those that have parts; of longer ones where it lies.
    fn option(&self, out: &mut Formatter<'_>, at: usize, value: u64) -> fmt::Result {
        let words = || Some((self.word(value)?, self.word(value.wrapping_add(4))?));
        let longs = || Some((self.long(value)?, self.long(value.wrapping_add(8))?));
        match (self.args[at - 2] as i32, self.args[at - 1] as i32) {
            (1, 13) if let Some((on, seconds)) = words() => {
                write!(out, "{{l_onoff={on}, l_linger={seconds}}}")
            }
            (1, 20 | 21) if let Some((seconds, micros)) = longs() => {
                write!(
                    out,
                    "{{tv_sec={}, tv_usec={}}}",
                    seconds as i64, micros as i64
                )
            }
            (1, 13 | 20 | 21 | 25 | 57) | (6, 11 | 13 | 31) => pointer(out, value),
            _ => self.number_at(out, value),
        }
    }
}

fn pointer(out: &mut Formatter<'_>, at: u64) -> fmt::Result {
    match at {
        0 => out.write_str("NULL"),
        at => write!(out, "{at:#x}"),
    }
}

fn one_of(out: &mut Formatter<'_>, names: Names, value: i32) -> fmt::Result {
    match names.iter().find(|(named, _)| *named == value) {
        Some((_, name)) => out.write_str(name),
        None => write!(out, "{value}"),
    }
}

fn flags(out: &mut Formatter<'_>, names: Names, value: i32) -> fmt::Result {
    let mut left = value;
    for (flag, name) in names.iter().filter(|(flag, _)| value & flag != 0) {
        out.write_str(if left == value { "" } else { "|" })?;
        out.write_str(name)?;
        left &= !flag;
    }
    match (left, left == value) {
        (0, false) => Ok(()),
        (0, true) => out.write_char('0'),
        (left, true) => write!(out, "{left:#x}"),
        (left, false) => write!(out, "|{left:#x}"),
    }
}
