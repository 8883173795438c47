//! Fields as bytes, in either direction.
//!
//! A list of fields is walked once, with a [`Wire`]: one that writes puts each value behind what is
//! there, one that reads takes each from the front and puts it into its field. So there is one list for
//! both, and they cannot disagree.
//!
//! | kind | bytes |
//! |---|---|
//! | `u8`, `u16`, `u32`, `u64`, `seq` | this many, little-endian |
//! | `flag` | 1: 0 or 1 |
//! | `option` | a flag, and the value if it is 1 |
//! | `duration` | 8: microseconds |
//! | `age`, `until` | 8: microseconds since, or until; all ones: never |
//! | `clock` | 4: what a clock of timestamps shows |
//! | `block` | 4 for the length, then the bytes |
//!
//! Reading is total: whatever the bytes, each call gives a value or a [`HandoverError`], and nothing is
//! allocated that has not come.

use core::ops::Range;

use exos_buf::{Aggregate, Buffer};
use exos_wire::SeqNumber;

use crate::time::{Duration, Instant};

/// Of the format. Another one is not read.
pub(in crate::tcp) const VERSION: u16 = 8;

/// Why bytes are no connection for this stack.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HandoverError {
    /// They do not begin as a connection's do.
    NotAConnection,
    /// Another version of this library wrote them.
    Version(u16),
    /// They end too early.
    Truncated,
    /// This many bytes follow the end.
    Trailing(usize),
    /// What they say cannot be: the field's name.
    Impossible(&'static str),
    /// The connection's congestion control is none that is known here.
    UnknownCongestion(String),
}

impl core::fmt::Display for HandoverError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotAConnection => {
                f.write_str("these bytes are no connection; take them from `encode`")
            }
            Self::Version(version) => write!(
                f,
                "this connection was written by version {version} of the format, this program reads {}; \
                 use the same version on both sides",
                VERSION
            ),
            Self::Truncated => {
                f.write_str("the connection's bytes end too early; pass all of them")
            }
            Self::Trailing(count) => {
                write!(
                    f,
                    "{count} bytes follow the connection; pass one connection at a time"
                )
            }
            Self::Impossible(field) => write!(
                f,
                "no connection has this `{field}`; the bytes were damaged or forged on the way"
            ),
            Self::UnknownCongestion(name) => write!(
                f,
                "the connection's congestion control is {name:?}, which this program does not have; \
                 name it to `decode_with`"
            ),
        }
    }
}

impl std::error::Error for HandoverError {}

/// Walk a list of fields: `$kind` of a [`Wire`] for each of the first part, in their order. Those `by_hand`
/// are bound for the lines behind it. It is an error of the compiler to leave a field out.
macro_rules! travel {
    ($wire:expr, $of:expr => $type:ident { $($field:ident: $kind:ident,)* }
     by_hand { $($hand:ident,)* } stay { $($stay:ident,)* }) => {
        let $type { $($field,)* $($hand,)* $($stay: _,)* } = $of;
        $( $wire.$kind($field)?; )*
    };
}
pub(in crate::tcp) use travel;

/// One way over a list of fields.
pub(in crate::tcp) struct Wire<'a> {
    way: Way<'a>,
    now: Instant,
}

enum Way<'a> {
    Write(Vec<u8>),
    /// All bytes, and where the next field begins.
    Read(&'a [u8], usize),
}

type Done = Result<(), HandoverError>;

impl<'a> Wire<'a> {
    /// Write, at a time that ages are told from.
    pub fn writer(now: Instant) -> Self {
        let way = Way::Write(Vec::new());
        Self { way, now }
    }

    /// Read, at a time that ages are counted back from.
    pub fn reader(bytes: &'a [u8], now: Instant) -> Self {
        let way = Way::Read(bytes, 0);
        Self { way, now }
    }

    /// True when fields are set and not asked.
    pub fn reads(&self) -> bool {
        matches!(self.way, Way::Read(..))
    }

    /// The clock of this side.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What was written, or nothing.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.way {
            Way::Write(bytes) => bytes,
            Way::Read(..) => Vec::new(),
        }
    }

    /// How many bytes are behind us.
    pub fn position(&self) -> usize {
        match &self.way {
            Way::Write(bytes) => bytes.len(),
            Way::Read(_, at) => *at,
        }
    }

    /// All has been read.
    pub fn end(&self) -> Done {
        match self.way {
            Way::Read(bytes, at) if at < bytes.len() => {
                Err(HandoverError::Trailing(bytes.len() - at))
            }
            _ => Ok(()),
        }
    }

    /// Bytes as they are: written, or those read in their place.
    pub fn raw<const N: usize>(&mut self, value: &mut [u8; N]) -> Done {
        match &mut self.way {
            Way::Write(bytes) => bytes.extend_from_slice(value),
            Way::Read(bytes, at) => {
                let next = bytes.get(*at..*at + N).ok_or(HandoverError::Truncated)?;
                value.copy_from_slice(next);
                *at += N;
            }
        }
        Ok(())
    }

    pub fn u8(&mut self, value: &mut u8) -> Done {
        let mut bytes = [*value];
        self.raw(&mut bytes)?;
        [*value] = bytes;
        Ok(())
    }

    pub fn u16(&mut self, value: &mut u16) -> Done {
        let mut bytes = value.to_le_bytes();
        self.raw(&mut bytes)?;
        *value = u16::from_le_bytes(bytes);
        Ok(())
    }

    pub fn u32(&mut self, value: &mut u32) -> Done {
        let mut bytes = value.to_le_bytes();
        self.raw(&mut bytes)?;
        *value = u32::from_le_bytes(bytes);
        Ok(())
    }

    pub fn u64(&mut self, value: &mut u64) -> Done {
        let mut bytes = value.to_le_bytes();
        self.raw(&mut bytes)?;
        *value = u64::from_le_bytes(bytes);
        Ok(())
    }

    pub fn seq(&mut self, value: &mut SeqNumber) -> Done {
        self.u32(&mut value.0)
    }

    pub fn flag(&mut self, value: &mut bool) -> Done {
        let mut byte = u8::from(*value);
        self.u8(&mut byte)?;
        *value = match byte {
            0 => false,
            1 => true,
            _ => return Err(HandoverError::Impossible("flag")),
        };
        Ok(())
    }

    /// What may be missing; `each` walks what is there.
    pub fn option<T>(
        &mut self,
        value: &mut Option<T>,
        default: T,
        each: impl FnOnce(&mut Self, &mut T) -> Done,
    ) -> Done {
        let mut there = value.is_some();
        self.flag(&mut there)?;
        if !there {
            *value = None;
            return Ok(());
        }
        each(self, value.get_or_insert(default))
    }

    pub fn seq_option(&mut self, value: &mut Option<SeqNumber>) -> Done {
        self.option(value, SeqNumber(0), Self::seq)
    }

    pub fn duration(&mut self, value: &mut Duration) -> Done {
        let mut micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
        self.u64(&mut micros)?;
        *value = Duration::from_micros(micros);
        Ok(())
    }

    pub fn duration_option(&mut self, value: &mut Option<Duration>) -> Done {
        self.option(value, Duration::ZERO, Self::duration)
    }

    /// A moment that is past.
    pub fn age(&mut self, value: &mut Instant) -> Done {
        let mut age = self.now.micros().saturating_sub(value.micros());
        self.u64(&mut age)?;
        if self.reads() {
            *value = Instant::from_micros(self.now.micros().saturating_sub(age));
        }
        Ok(())
    }

    /// A moment to come.
    pub fn until(&mut self, value: &mut Instant) -> Done {
        let mut left = if *value == Instant::NEVER {
            u64::MAX
        } else {
            value.micros().saturating_sub(self.now.micros())
        };
        self.u64(&mut left)?;
        if self.reads() {
            *value = Instant::from_micros(self.now.micros().saturating_add(left));
        }
        Ok(())
    }

    /// By how much a clock of timestamps is ahead of the stack's: on the way it is what that clock shows.
    pub fn clock(&mut self, offset: &mut u32) -> Done {
        let millis = self.now.millis() as u32;
        let mut shown = offset.wrapping_add(millis);
        self.u32(&mut shown)?;
        *offset = shown.wrapping_sub(millis);
        Ok(())
    }

    /// A length and this many bytes. Reading gives where they stand, writing where they were put.
    pub fn block(&mut self, bytes: &[u8]) -> Result<Range<usize>, HandoverError> {
        // What a connection queues is far below 4 GiB (`SEND_QUEUE_BYTES_MAX`).
        let mut len = bytes.len() as u32;
        self.u32(&mut len)?;
        let start = self.position();
        match &mut self.way {
            Way::Write(out) => out.extend_from_slice(bytes),
            Way::Read(all, at) => {
                let end = start.checked_add(len as usize);
                let end = end.filter(|&end| end <= all.len());
                *at = end.ok_or(HandoverError::Truncated)?;
            }
        }
        Ok(start..self.position())
    }

    /// What was read at such a place; nothing of what was written.
    pub fn read_at(&self, range: Range<usize>) -> &'a [u8] {
        match self.way {
            Way::Read(bytes, _) => &bytes[range],
            Way::Write(_) => &[],
        }
    }

    /// A queue of bytes, in however many pieces.
    pub fn aggregate(&mut self, value: &mut Aggregate) -> Done {
        let queued = value.to_vec(0..value.len());
        let at = self.block(&queued)?;
        if self.reads() {
            *value = Aggregate::new();
            value.push(Buffer::from(self.read_at(at).to_vec()).into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
