//! Values to bytes and back, little-endian.
//!
//! A [`Reader`] is total: each `take` either finds its bytes, in range, or says what is wrong; [`Reader::finish`]
//! refuses what is left over, so that no two byte strings mean the same message.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::claim::{Endpoint, Protocol};

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

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::BadField(field)),
        }
    }

    /// A length in 16 bits, and that many bytes.
    pub(crate) fn blob(
        &mut self,
        most: usize,
        field: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        let len = usize::from(self.u16()?);
        if len > most {
            return Err(DecodeError::BadField(field));
        }
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// Text for people: no control characters, since it ends up on terminals.
    pub(crate) fn text(&mut self, most: usize, field: &'static str) -> Result<String, DecodeError> {
        let bytes = self.blob(most, field)?;
        let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::BadField(field))?;
        if text.chars().any(char::is_control) {
            return Err(DecodeError::BadField(field));
        }
        Ok(text.to_owned())
    }

    pub(crate) fn ip(&mut self) -> Result<IpAddr, DecodeError> {
        match self.u8()? {
            4 => Ok(IpAddr::V4(Ipv4Addr::from(self.array::<4>()?))),
            6 => Ok(IpAddr::V6(Ipv6Addr::from(self.array::<16>()?))),
            _ => Err(DecodeError::BadField("address family")),
        }
    }

    pub(crate) fn endpoint(&mut self) -> Result<Endpoint, DecodeError> {
        Ok(Endpoint {
            ip: self.ip()?,
            port: self.u16()?,
        })
    }

    pub(crate) fn protocol(&mut self) -> Result<Protocol, DecodeError> {
        Protocol::from_number(self.u8()?).ok_or(DecodeError::BadField("protocol"))
    }

    pub(crate) fn option<T>(
        &mut self,
        field: &'static str,
        some: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        self.bool(field)?.then(|| some(self)).transpose()
    }

    /// A count in 16 bits, and that many values.
    pub(crate) fn list<T>(
        &mut self,
        most: usize,
        field: &'static str,
        mut each: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let len = usize::from(self.u16()?);
        if len > most {
            return Err(DecodeError::BadField(field));
        }
        (0..len).map(|_| each(self)).collect()
    }
}

/// Appends values to bytes.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Panics when it is longer than its bound: that is a bug of the one that made it.
    pub(crate) fn blob(&mut self, bytes: &[u8], most: usize) {
        assert!(
            bytes.len() <= most,
            "{} bytes where {most} fit",
            bytes.len()
        );
        self.u16(u16::try_from(bytes.len()).expect("bounds are below 64 KiB"));
        self.raw(bytes);
    }

    /// Text for people: cut at its bound, control characters replaced. What we say quotes files and errors.
    pub(crate) fn text(&mut self, text: &str, most: usize) {
        let clean: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let end = clean.floor_char_boundary(most);
        self.blob(&clean.as_bytes()[..end], most);
    }

    pub(crate) fn ip(&mut self, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => {
                self.u8(4);
                self.raw(&ip.octets());
            }
            IpAddr::V6(ip) => {
                self.u8(6);
                self.raw(&ip.octets());
            }
        }
    }

    pub(crate) fn endpoint(&mut self, endpoint: Endpoint) {
        self.ip(endpoint.ip);
        self.u16(endpoint.port);
    }

    pub(crate) fn option<T>(&mut self, value: Option<T>, some: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            some(self, value);
        }
    }

    pub(crate) fn list<T>(
        &mut self,
        values: &[T],
        most: usize,
        mut each: impl FnMut(&mut Self, &T),
    ) {
        assert!(
            values.len() <= most,
            "{} values where {most} fit",
            values.len()
        );
        self.u16(u16::try_from(values.len()).expect("bounds are below 64 Ki"));
        values.iter().for_each(|value| each(self, value));
    }
}
