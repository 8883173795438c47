//! IPv4 (RFC 791): options are read, headers without options are written.
//!
//! ```text
//!  0         1     2           4       6                8     9      10         12    16    20
//!  | ver,ihl | tos | total len | ident | flags,fragment | ttl | prot | checksum | src | dst | options
//! ```
//!
//! `flags,fragment`: 1 bit reserved, 1 don't fragment, 1 more fragments, 13 of offset in units of
//! eight bytes. The interface gives that offset in bytes.

use std::net::Ipv4Addr;

use crate::bytes::{array, be16, head, head_mut, put, put16};
use crate::{Sum, WireError};

/// Bytes of a header without options.
pub const LEN: usize = 20;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a> {
    fixed: &'a [u8; LEN],
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// Reads a packet; bytes beyond its total length are link padding and left out.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadVersion`], or [`WireError::BadLength`] when the
    /// header is shorter than 20 bytes or longer than the packet.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Result<Self, WireError> {
        let view = Self::parse_quoted(packet)?;
        let (need, have) = (view.total_len(), packet.len());
        if need > have {
            return Err(WireError::Truncated {
                layer: "ipv4",
                need,
                have,
            });
        }
        Ok(view)
    }

    /// Reads a packet of which only the beginning is there, as ICMP errors quote it: the payload
    /// may be shorter than the total length says.
    ///
    /// # Errors
    /// As [`Self::parse`], but only a cut header is [`WireError::Truncated`].
    #[inline]
    pub fn parse_quoted(packet: &'a [u8]) -> Result<Self, WireError> {
        let (fixed, _) = head::<LEN>(packet, "ipv4")?;
        let version = fixed[0] >> 4;
        if version != 4 {
            return Err(WireError::BadVersion {
                layer: "ipv4",
                version,
            });
        }
        let header_len = usize::from(fixed[0] & 0xf) * 4;
        let total_len = usize::from(be16::<2, _>(fixed));
        if header_len < LEN || total_len < header_len {
            let length = if header_len < LEN {
                header_len
            } else {
                total_len
            };
            return Err(WireError::BadLength {
                layer: "ipv4",
                length,
            });
        }
        let there = packet.get(..total_len).unwrap_or(packet);
        match there.split_at_checked(header_len) {
            Some((header, payload)) => Ok(Self {
                fixed,
                header,
                payload,
            }),
            None => {
                let have = packet.len();
                Err(WireError::Truncated {
                    layer: "ipv4",
                    need: header_len,
                    have,
                })
            }
        }
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn src(&self) -> Ipv4Addr {
        array::<12, 4, _>(self.fixed).into()
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn dst(&self) -> Ipv4Addr {
        array::<16, 4, _>(self.fixed).into()
    }

    /// The payload's protocol, see [`crate::protocol`].
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.fixed[9]
    }

    /// Time to live, in hops.
    #[inline]
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.fixed[8]
    }

    /// Type of service: 6 bits of DSCP (RFC 2474), 2 of ECN (RFC 3168).
    #[inline]
    #[must_use]
    pub fn tos(&self) -> u8 {
        self.fixed[1]
    }

    /// Identification, shared by the fragments of one packet.
    #[inline]
    #[must_use]
    pub fn ident(&self) -> u16 {
        be16::<4, _>(self.fixed)
    }

    /// True when routers must not fragment it.
    #[inline]
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        be16::<6, _>(self.fixed) & DONT_FRAGMENT != 0
    }

    /// True when this is not the last fragment.
    #[inline]
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        be16::<6, _>(self.fixed) & MORE_FRAGMENTS != 0
    }

    /// Where this fragment's payload lies in the whole one, in bytes.
    #[inline]
    #[must_use]
    pub fn fragment_offset(&self) -> usize {
        usize::from(be16::<6, _>(self.fixed) & OFFSET_MASK) * 8
    }

    /// True when the payload is only a part of the sender's.
    #[inline]
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        be16::<6, _>(self.fixed) & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Bytes of header and payload.
    #[inline]
    #[must_use]
    pub fn total_len(&self) -> usize {
        be16::<2, _>(self.fixed).into()
    }

    /// The header with its options.
    #[inline]
    #[must_use]
    pub fn header(&self) -> &'a [u8] {
        self.header
    }

    /// Bytes of the header with its options.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header.len()
    }

    /// The options' bytes.
    #[inline]
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        self.header.get(LEN..).unwrap_or_default()
    }

    /// The options, one by one.
    #[must_use]
    pub fn options_iter(&self) -> Ipv4Options<'a> {
        Ipv4Options {
            rest: self.options(),
        }
    }

    /// What follows the header, up to the total length.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The header checksum's field.
    #[inline]
    #[must_use]
    pub fn header_checksum(&self) -> u16 {
        be16::<10, _>(self.fixed)
    }

    /// True when the header is intact.
    #[inline]
    #[must_use]
    pub fn header_checksum_ok(&self) -> bool {
        let sum = match self.header.len() {
            LEN => Sum::of_header(self.fixed),
            _ => Sum::of(self.header),
        };
        sum.is_intact()
    }

    /// The header's values, without options and lengths.
    #[must_use]
    pub fn values(&self) -> Ipv4Header {
        Ipv4Header {
            src: self.src(),
            dst: self.dst(),
            protocol: self.protocol(),
            ttl: self.ttl(),
            tos: self.tos(),
            ident: self.ident(),
            dont_fragment: self.dont_fragment(),
            more_fragments: self.more_fragments(),
            fragment_offset: self.fragment_offset(),
        }
    }
}

/// One option of a received packet, other than padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// The option's type: 1 bit copied into fragments, 2 of class, 5 of number.
    pub kind: u8,
    /// What follows type and length.
    pub data: &'a [u8],
}

/// The options of one packet. Ends after the first that cannot be read.
#[derive(Clone, Debug)]
pub struct Ipv4Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Ipv4Options<'a> {
    type Item = Result<Ipv4Option<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *std::mem::take(&mut self.rest) {
                // RFC 791 §3.1: end of option list (0), no operation (1).
                [] | [0, ..] => return None,
                [1, ref rest @ ..] => self.rest = rest,
                [kind, length, ref rest @ ..] => {
                    let data_len = usize::from(length).checked_sub(2);
                    let parts = data_len.and_then(|len| rest.split_at_checked(len));
                    return Some(match parts {
                        None => Err(WireError::BadOption {
                            layer: "ipv4",
                            kind,
                        }),
                        Some((data, rest)) => {
                            self.rest = rest;
                            Ok(Ipv4Option { kind, data })
                        }
                    });
                }
                [kind] => {
                    return Some(Err(WireError::BadOption {
                        layer: "ipv4",
                        kind,
                    }));
                }
            }
        }
    }
}

/// A header to be sent, without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Header {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// The payload's protocol, see [`crate::protocol`].
    pub protocol: u8,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification; of meaning only in fragments (RFC 6864).
    pub ident: u16,
    /// Routers must not fragment it.
    pub dont_fragment: bool,
    /// This is not the last fragment.
    pub more_fragments: bool,
    /// Where the payload lies in the whole one, in bytes: a multiple of 8 below 65536.
    pub fragment_offset: usize,
}

impl Ipv4Header {
    /// What nearly all packets have: whole and not to be cut, an atomic packet, whose identification means nothing
    /// (RFC 6864 §4.1); the usual 64 hops (RFC 1700), and no class.
    #[inline]
    pub const fn atomic(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8) -> Self {
        Self {
            src,
            dst,
            protocol,
            ttl: 64,
            tos: 0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
        }
    }

    /// Writes the header with its checksum and returns its length, [`LEN`].
    ///
    /// # Panics
    /// When `out` is too short, the packet would be longer than its length field of 16 bits can say, or the
    /// fragment offset is not a multiple of 8 below 65536.
    #[inline]
    pub fn emit(&self, payload_len: usize, out: &mut [u8]) -> usize {
        let total_len = u16::try_from(LEN + payload_len).expect("an IPv4 packet within 64 KiB");
        assert!(self.fragment_offset.is_multiple_of(8) && self.fragment_offset <= 0xfff8);
        let (header, _) = head_mut::<LEN>(out, "ipv4");
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments {
                MORE_FRAGMENTS
            } else {
                0
            };
        let place = flags | (self.fragment_offset / 8) as u16;
        put::<0, 2, _>(header, [0x45, self.tos]);
        put16::<2, _>(header, total_len);
        put16::<4, _>(header, self.ident);
        put16::<6, _>(header, place);
        put::<8, 2, _>(header, [self.ttl, self.protocol]);
        put16::<10, _>(header, self.sum(total_len, place).finish());
        put::<12, 4, _>(header, self.src.octets());
        put::<16, 4, _>(header, self.dst.octets());
        LEN
    }

    /// The sum of the header, its checksum left out. Made of the values and not of the bytes just
    /// written: reading those back in wider words would wait for the writes.
    #[inline]
    fn sum(&self, total_len: u16, place: u16) -> Sum {
        let first = u64::from(u16::from_be_bytes([0x45, self.tos]));
        let lengths = u64::from(total_len) + u64::from(self.ident) + u64::from(place);
        let protocol = u64::from(u16::from_be_bytes([self.ttl, self.protocol]));
        let addresses = u64::from(self.src.to_bits()) + u64::from(self.dst.to_bits());
        Sum::from_wide(first + lengths + protocol + addresses)
    }
}
