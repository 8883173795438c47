//! The bytes of one layer as they were captured, and how many there were on the wire.
//!
//! A capture may have been cut by a snap length, so that a header is known to be there but cannot be
//! read. Every read says so with [`Cut`], which is carried up to [`super::Printer`] and printed as
//! tcpdump does: ` [|tcp]`. Nothing here panics, whatever the offsets.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The capture ends inside this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut(pub(crate) &'static str);

/// Whether all was printed, or the capture ended before.
pub(crate) type Printed = Result<(), Cut>;

/// One layer's bytes.
///
/// Invariant: `bytes.len() <= len`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    bytes: &'a [u8],
    len: usize,
    protocol: &'static str,
}

impl<'a> Part<'a> {
    /// Captured bytes, and how many there are on the wire, of the protocol with this name.
    pub(crate) fn new(bytes: &'a [u8], len: usize, protocol: &'static str) -> Self {
        Self {
            bytes: bytes.get(..len).unwrap_or(bytes),
            len,
            protocol,
        }
    }

    /// These bytes under the name of another protocol.
    pub(crate) fn of(self, protocol: &'static str) -> Self {
        Self { protocol, ..self }
    }

    /// The captured bytes.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes on the wire.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// True when nothing of it was cut off.
    pub(crate) fn is_whole(&self) -> bool {
        self.bytes.len() == self.len
    }

    /// What follows the first `at` bytes; empty when there is nothing.
    pub(crate) fn from(&self, at: usize) -> Self {
        Self {
            bytes: self.bytes.get(at..).unwrap_or_default(),
            len: self.len.saturating_sub(at),
            protocol: self.protocol,
        }
    }

    /// The first `len` bytes, or fewer if there are no more.
    pub(crate) fn first(&self, len: usize) -> Self {
        Self::new(self.bytes, self.len.min(len), self.protocol)
    }

    /// `N` bytes at `at`.
    pub(crate) fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Cut> {
        let bytes = self.slice(at, N)?;
        Ok(bytes.try_into().expect("as many bytes as were asked for"))
    }

    /// `len` bytes at `at`.
    pub(crate) fn slice(&self, at: usize, len: usize) -> Result<&'a [u8], Cut> {
        let end = at.saturating_add(len);
        self.bytes.get(at..end).ok_or(Cut(self.protocol))
    }

    /// The byte at `at`.
    pub(crate) fn u8(&self, at: usize) -> Result<u8, Cut> {
        self.array::<1>(at).map(|[byte]| byte)
    }

    /// The 16-bit number at `at`.
    pub(crate) fn be16(&self, at: usize) -> Result<u16, Cut> {
        self.array(at).map(u16::from_be_bytes)
    }

    /// The 32-bit number at `at`.
    pub(crate) fn be32(&self, at: usize) -> Result<u32, Cut> {
        self.array(at).map(u32::from_be_bytes)
    }

    /// The IPv4 address at `at`.
    pub(crate) fn ipv4(&self, at: usize) -> Result<Ipv4Addr, Cut> {
        self.array::<4>(at).map(Ipv4Addr::from)
    }

    /// The IPv6 address at `at`.
    pub(crate) fn ipv6(&self, at: usize) -> Result<Ipv6Addr, Cut> {
        self.array::<16>(at).map(Ipv6Addr::from)
    }
}
