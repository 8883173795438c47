//! What messages of ICMP and ICMPv6 have in common: the header's layout, and the echo's.
//!
//! ```text
//!  0      1      2          4                8
//!  | type | code | checksum | rest of header | body
//! ```

use crate::WireError;
use crate::bytes::{be16, be32, head};

/// Bytes before the body.
pub const LEN: usize = 8;

/// A received message of either protocol; whether it is intact depends on which.
#[derive(Clone, Copy, Debug)]
pub struct IcmpView<'a> {
    header: &'a [u8; LEN],
    body: &'a [u8],
}

impl<'a> IcmpView<'a> {
    #[inline]
    pub(super) fn parse(message: &'a [u8], name: &'static str) -> Result<Self, WireError> {
        let (header, body) = head::<LEN>(message, name)?;
        Ok(Self { header, body })
    }

    #[inline]
    pub(super) fn header(&self) -> &'a [u8; LEN] {
        self.header
    }

    /// The message's type.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.header[0]
    }

    /// The type's finer distinction.
    #[inline]
    #[must_use]
    pub fn code(&self) -> u8 {
        self.header[1]
    }

    /// The checksum's field.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16::<2, _>(self.header)
    }

    /// The second half of the header, whose meaning depends on the type.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> u32 {
        be32::<4, _>(self.header)
    }

    /// Identifier, of an echo.
    #[inline]
    #[must_use]
    pub fn ident(&self) -> u16 {
        be16::<4, _>(self.header)
    }

    /// Sequence number, of an echo.
    #[inline]
    #[must_use]
    pub fn seq(&self) -> u16 {
        be16::<6, _>(self.header)
    }

    /// What follows the header.
    #[inline]
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }
}

/// The second half of an echo's header.
pub(super) fn echo(ident: u16, seq: u16) -> u32 {
    u32::from(ident) << 16 | u32::from(seq)
}
