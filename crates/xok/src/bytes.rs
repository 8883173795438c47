//! Values to bytes and back, little-endian.
//!
//! What has a form in bytes is [`InBytes`]. A struct or a message is the list of its fields ([`in_bytes!`],
//! [`numbered!`]): one list, by which it is written and read, so that the two cannot disagree.
//!
//! Reading is total: each value either finds its bytes, in range, or says what is wrong; [`Reader::finish`] refuses
//! what is left over, so that no two byte strings mean the same message.

use std::fmt;
use std::net::IpAddr;

use exos_wire::Mac;
use exos_wire::tcp::cookie::{Recipe, SynAck};

use crate::claim::{Claim, Endpoint, Protocol};

/// Why bytes are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// It ends before it is complete.
    Truncated,
    /// It goes on behind its end by this many bytes.
    Trailing(usize),
    /// There is no message of this kind in this direction.
    UnknownKind(u16),
    /// This field has a value that means nothing, or one beyond its bound.
    BadField(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the message ends early"),
            Self::Trailing(n) => write!(f, "the message has {n} bytes too many"),
            Self::UnknownKind(kind) => write!(f, "there is no message of kind {kind} here"),
            Self::BadField(field) => write!(f, "the message's {field} is out of range"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Takes values off the front of bytes.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            n => Err(DecodeError::Trailing(n)),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let split = self.rest.split_at_checked(len);
        let (head, rest) = split.ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }
}

/// A value with one form in bytes.
pub(crate) trait InBytes: Sized {
    fn write(&self, bytes: &mut Vec<u8>);

    /// `field` is what an error names.
    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError>;

    fn write_all(values: &[Self], bytes: &mut Vec<u8>) {
        values.iter().for_each(|value| value.write(bytes));
    }

    fn read_all(
        r: &mut Reader<'_>,
        len: usize,
        field: &'static str,
    ) -> Result<Vec<Self>, DecodeError> {
        (0..len).map(|_| Self::read(r, field)).collect()
    }
}

/// A value whose length has a bound: the length in 16 bits, and what it consists of.
pub(crate) trait Bounded: Sized {
    fn write_up_to(&self, most: usize, bytes: &mut Vec<u8>);

    fn read_up_to(
        r: &mut Reader<'_>,
        most: usize,
        field: &'static str,
    ) -> Result<Self, DecodeError>;
}

/// A value of several kinds, each with a number and fields of its own.
pub(crate) trait Numbered: Sized {
    fn number(&self) -> u16;

    fn write_fields(&self, bytes: &mut Vec<u8>);

    /// `None` when no kind has the number.
    fn read_fields(number: u16, r: &mut Reader<'_>) -> Result<Option<Self>, DecodeError>;
}

/// The fields of a struct, in the order of their bytes. `<=` says the most that a text or a list may have, `where` what
/// must hold of the whole.
macro_rules! in_bytes {
    ($type:ident { $($field:ident $(<= $most:expr)?),* $(,)? } $(where $holds:expr)?) => {
        impl $crate::bytes::InBytes for $type {
            fn write(&self, bytes: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($crate::bytes::write_field!(bytes, $field $(, $most)?);)*
            }

            fn read(r: &mut Reader<'_>, _field: &'static str) -> Result<Self, DecodeError> {
                let value = Self { $($field: $crate::bytes::read_field!(r, $field $(, $most)?)),* };
                $(if !($holds)(&value) {
                    return Err(DecodeError::BadField(_field));
                })?
                Ok(value)
            }
        }
    };
}

/// The kinds of an enum: the number of each and its fields, as [`in_bytes!`] has them.
macro_rules! numbered {
    ($type:ident { $(
        $number:literal => $kind:ident
            $({ $($field:ident $(<= $most:expr)?),* })?
            $(($($inner:ident),*))?,
    )* }) => {
        impl $crate::bytes::Numbered for $type {
            fn number(&self) -> u16 {
                match self {
                    $(Self::$kind { .. } => $number,)*
                }
            }

            fn write_fields(&self, bytes: &mut Vec<u8>) {
                match self {
                    $(Self::$kind $({ $($field),* })? $(($($inner),*))? => {
                        $($($crate::bytes::write_field!(bytes, $field $(, $most)?);)*)?
                        $($($crate::bytes::write_field!(bytes, $inner);)*)?
                    })*
                }
            }

            fn read_fields(
                number: u16,
                r: &mut Reader<'_>,
            ) -> Result<Option<Self>, DecodeError> {
                Ok(Some(match number {
                    $($number => Self::$kind
                        $({ $($field: $crate::bytes::read_field!(r, $field $(, $most)?)),* })?
                        $(($($crate::bytes::read_field!(r, $inner)),*))?,)*
                    _ => return Ok(None),
                }))
            }
        }
    };
}

macro_rules! write_field {
    ($bytes:expr, $field:ident) => {
        $crate::bytes::InBytes::write($field, $bytes)
    };
    ($bytes:expr, $field:ident, $most:expr) => {
        $crate::bytes::Bounded::write_up_to($field, $most, $bytes)
    };
}

macro_rules! read_field {
    ($r:expr, $field:ident) => {
        $crate::bytes::InBytes::read($r, stringify!($field))?
    };
    ($r:expr, $field:ident, $most:expr) => {
        $crate::bytes::Bounded::read_up_to($r, $most, stringify!($field))?
    };
}

pub(crate) use {in_bytes, numbered, read_field, write_field};

macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl InBytes for $type {
            fn write(&self, bytes: &mut Vec<u8>) {
                self.to_le_bytes().write(bytes);
            }

            fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
                Ok(Self::from_le_bytes(InBytes::read(r, field)?))
            }
        }
    )*};
}

numbers!(u16 u32 u64);

impl InBytes for u8 {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(*self);
    }

    fn read(r: &mut Reader<'_>, _field: &'static str) -> Result<Self, DecodeError> {
        Ok(r.take(1)?[0])
    }

    fn write_all(values: &[Self], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(values);
    }

    fn read_all(
        r: &mut Reader<'_>,
        len: usize,
        _field: &'static str,
    ) -> Result<Vec<Self>, DecodeError> {
        Ok(r.take(len)?.to_vec())
    }
}

impl<const N: usize> InBytes for [u8; N] {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }

    fn read(r: &mut Reader<'_>, _field: &'static str) -> Result<Self, DecodeError> {
        Ok(r.take(N)?.try_into().expect("N bytes were taken"))
    }
}

impl InBytes for bool {
    fn write(&self, bytes: &mut Vec<u8>) {
        u8::from(*self).write(bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        match u8::read(r, field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::BadField(field)),
        }
    }
}

impl<T: InBytes> InBytes for Option<T> {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.is_some().write(bytes);
        if let Some(value) = self {
            value.write(bytes);
        }
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        let is_some = bool::read(r, field)?;
        is_some.then(|| T::read(r, field)).transpose()
    }
}

impl<A: InBytes, B: InBytes> InBytes for (A, B) {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
        self.1.write(bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        Ok((A::read(r, field)?, B::read(r, field)?))
    }
}

impl InBytes for IpAddr {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::V4(ip) => (4_u8, ip.octets()).write(bytes),
            Self::V6(ip) => (6_u8, ip.octets()).write(bytes),
        }
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        match u8::read(r, field)? {
            4 => Ok(Self::from(<[u8; 4]>::read(r, field)?)),
            6 => Ok(Self::from(<[u8; 16]>::read(r, field)?)),
            _ => Err(DecodeError::BadField(field)),
        }
    }
}

impl InBytes for Mac {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        Ok(Self(InBytes::read(r, field)?))
    }
}

impl InBytes for Protocol {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.number().write(bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        Self::from_number(u8::read(r, field)?).ok_or(DecodeError::BadField(field))
    }
}

impl InBytes for [u64; 2] {
    fn write(&self, bytes: &mut Vec<u8>) {
        u64::write_all(self, bytes);
    }

    fn read(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        Ok([u64::read(r, field)?, u64::read(r, field)?])
    }
}

in_bytes!(Recipe {
    port,
    key,
    cookie_salt,
    sequence_salt,
    epoch_us,
    v4,
    v6,
});

in_bytes!(SynAck {
    mss,
    window,
    scale,
    hop_limit,
    class,
});

in_bytes!(Endpoint { ip, port });

in_bytes!(Claim {
    interface,
    protocol,
    local,
    port,
    remote,
} where |claim: &Claim| claim.check().is_ok());

/// Panics when the list is longer than its bound: that is a bug of the one that made it.
impl<T: InBytes> Bounded for Vec<T> {
    fn write_up_to(&self, most: usize, bytes: &mut Vec<u8>) {
        let len = self.len();
        assert!(len <= most, "{len} values where {most} fit");
        u16::try_from(len)
            .expect("bounds are below 64 Ki")
            .write(bytes);
        T::write_all(self, bytes);
    }

    fn read_up_to(
        r: &mut Reader<'_>,
        most: usize,
        field: &'static str,
    ) -> Result<Self, DecodeError> {
        let len = usize::from(u16::read(r, field)?);
        if len > most {
            return Err(DecodeError::BadField(field));
        }
        T::read_all(r, len, field)
    }
}

/// Text for people, which ends up on terminals: without control characters. What we say quotes files and errors, so it
/// is cut at its bound where it is written, and its control characters replaced.
impl Bounded for String {
    fn write_up_to(&self, most: usize, bytes: &mut Vec<u8>) {
        let clean = self.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut clean: Self = clean.collect();
        clean.truncate(clean.floor_char_boundary(most));
        clean.into_bytes().write_up_to(most, bytes);
    }

    fn read_up_to(
        r: &mut Reader<'_>,
        most: usize,
        field: &'static str,
    ) -> Result<Self, DecodeError> {
        let text = Self::from_utf8(Bounded::read_up_to(r, most, field)?);
        let text = text.ok().filter(|text| !text.chars().any(char::is_control));
        text.ok_or(DecodeError::BadField(field))
    }
}

/// A value of which all that there are are listed: its place in the list, in one byte.
pub(crate) fn write_place<T: PartialEq>(all: &[T], value: &T, bytes: &mut Vec<u8>) {
    let place = all.iter().position(|one| one == value);
    let place = u8::try_from(place.expect("all are listed"));
    place.expect("lists are short").write(bytes);
}

/// The value that [`write_place`] wrote.
pub(crate) fn read_place<T: Copy>(
    all: &[T],
    r: &mut Reader<'_>,
    field: &'static str,
) -> Result<T, DecodeError> {
    let place = usize::from(u8::read(r, field)?);
    all.get(place).copied().ok_or(DecodeError::BadField(field))
}
