//! UDP (RFC 768).
//!
//! ```text
//!  0          2          4        6          8
//!  | src port | dst port | length | checksum | payload
//! ```

use crate::bytes::{be16, head, head_mut, put16};
use crate::{Sum, WireError};

/// Bytes of a header.
pub const LEN: usize = 8;
/// Where the checksum lies, for links that fill it in.
pub const CHECKSUM_FIELD: usize = 6;

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct UdpView<'a> {
    header: &'a [u8; LEN],
    payload: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Reads a datagram; bytes beyond its length are left out.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::BadLength`] when the length does not even count
    /// the header.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = head::<LEN>(packet, "udp")?;
        // RFC 768: the length counts header and data.
        let length = usize::from(be16::<4, _>(header));
        let Some(payload_len) = length.checked_sub(LEN) else {
            return Err(WireError::BadLength {
                layer: "udp",
                length,
            });
        };
        match rest.get(..payload_len) {
            Some(payload) => Ok(Self { header, payload }),
            None => Err(WireError::Truncated {
                layer: "udp",
                need: length,
                have: packet.len(),
            }),
        }
    }

    /// Source port; 0 when the sender wants no answer.
    #[inline]
    #[must_use]
    pub fn src_port(&self) -> u16 {
        be16::<0, _>(self.header)
    }

    /// Destination port.
    #[inline]
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        be16::<2, _>(self.header)
    }

    /// Bytes of header and payload.
    #[inline]
    #[must_use]
    pub fn length(&self) -> usize {
        be16::<4, _>(self.header).into()
    }

    /// The checksum's field. Zero means that the sender computed none: allowed over IPv4, and not
    /// over IPv6 (RFC 8200 §8.1), where the caller must drop it.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16::<6, _>(self.header)
    }

    /// The datagram's content.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// True when the datagram is intact, or has no checksum. `pseudo` is [`Sum::pseudo`] with
    /// [`Self::length`].
    #[inline]
    #[must_use]
    pub fn checksum_ok(&self, pseudo: Sum) -> bool {
        let sum = || {
            pseudo
                .plus(Sum::of(self.header))
                .plus(Sum::of(self.payload))
        };
        self.checksum() == 0 || sum().is_intact()
    }

    /// The header's values.
    #[must_use]
    pub fn values(&self) -> UdpHeader {
        UdpHeader {
            src_port: self.src_port(),
            dst_port: self.dst_port(),
        }
    }
}

/// A header to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl UdpHeader {
    /// Writes the header with its checksum and returns its length, [`LEN`]. `sum` is what the
    /// checksum covers beside the header: [`Sum::pseudo`] (with `LEN + payload_len`) plus the
    /// payload's sum.
    ///
    /// # Panics
    /// When `out` is too short or the datagram would be longer than 65535 bytes.
    #[inline]
    pub fn emit(&self, payload_len: usize, sum: Sum, out: &mut [u8]) -> usize {
        let length = length_field(payload_len);
        let ports = sum.plus_word(self.src_port).plus_word(self.dst_port);
        let checksum = ports.plus_word(length).finish();
        // RFC 768: a computed zero is sent as all ones, because zero says "none".
        let checksum = if checksum == 0 { 0xffff } else { checksum };
        self.write(length, checksum, out)
    }

    /// Writes the header with the checksum that a link with checksum offload completes: the pseudo-header's sum, uncomplemented.
    /// Returns its length, [`LEN`].
    ///
    /// # Panics
    /// When `out` is too short or the datagram would be longer than 65535 bytes.
    #[inline]
    pub fn emit_partial(&self, payload_len: usize, pseudo: Sum, out: &mut [u8]) -> usize {
        self.write(length_field(payload_len), pseudo.value(), out)
    }

    #[inline]
    fn write(&self, length: u16, checksum: u16, out: &mut [u8]) -> usize {
        let (header, _) = head_mut::<LEN>(out, "udp");
        put16::<0, _>(header, self.src_port);
        put16::<2, _>(header, self.dst_port);
        put16::<4, _>(header, length);
        put16::<6, _>(header, checksum);
        LEN
    }
}

#[inline]
fn length_field(payload_len: usize) -> u16 {
    u16::try_from(LEN + payload_len).expect("a UDP datagram within 64 KiB")
}
