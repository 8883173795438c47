//! TCP segments (RFC 9293 §3.1); their options are in [`options`], SYN cookies in [`cookie`].
//!
//! ```text
//!  0     2     4     8     12            13      14       16         18       20
//!  | src | dst | seq | ack | data offset | flags | window | checksum | urgent | options | payload
//! ```
//!
//! The data offset counts 32-bit words in its upper four bits; the lower four are reserved.

use crate::bytes::{be16, be32, head, head_mut, put16, put32};
use crate::{SeqNumber, Sum, WireError};

pub mod cookie;
mod flags;
pub mod options;

pub use flags::TcpFlags;
pub use options::{
    FastOpenCookie, RawOption, RawOptions, SackBlocks, TcpOptions, Timestamps, options_len,
};

/// Bytes of a header without options.
pub const LEN: usize = 20;
/// Bytes of the longest header.
pub const HEADER_LEN_MAX: usize = LEN + crate::limits::TCP_OPTIONS_LEN_MAX;
/// Where the checksum lies, for links that fill it in.
pub const CHECKSUM_FIELD: usize = 16;

/// A received segment.
#[derive(Clone, Copy, Debug)]
pub struct TcpView<'a> {
    header: &'a [u8; LEN],
    options: &'a [u8],
    payload: &'a [u8],
    segment: &'a [u8],
}

impl<'a> TcpView<'a> {
    /// Reads a segment: the whole payload of the IP packet.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::BadLength`] when the data offset is below 20 bytes.
    #[inline]
    pub fn parse(segment: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = head::<LEN>(segment, "tcp")?;
        let length = usize::from(header[12] >> 4) * 4;
        let Some(options_len) = length.checked_sub(LEN) else {
            return Err(WireError::BadLength {
                layer: "tcp",
                length,
            });
        };
        match rest.split_at_checked(options_len) {
            Some((options, payload)) => Ok(Self {
                header,
                options,
                payload,
                segment,
            }),
            None => Err(WireError::Truncated {
                layer: "tcp",
                need: length,
                have: segment.len(),
            }),
        }
    }

    /// Source port.
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

    /// Sequence number of the first byte, or of the SYN.
    #[inline]
    #[must_use]
    pub fn seq(&self) -> SeqNumber {
        SeqNumber(be32::<4, _>(self.header))
    }

    /// The next sequence number expected; of meaning only with the ACK flag.
    #[inline]
    #[must_use]
    pub fn ack(&self) -> SeqNumber {
        SeqNumber(be32::<8, _>(self.header))
    }

    /// Control bits.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(self.header[13])
    }

    /// Receive window, not scaled.
    #[inline]
    #[must_use]
    pub fn window(&self) -> u16 {
        be16::<14, _>(self.header)
    }

    /// Urgent pointer; of meaning only with the URG flag.
    #[inline]
    #[must_use]
    pub fn urgent(&self) -> u16 {
        be16::<18, _>(self.header)
    }

    /// Bytes of the header with its options.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        LEN + self.options.len()
    }

    /// The options' bytes, padding included.
    #[inline]
    #[must_use]
    pub fn options_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// The options' values.
    #[inline]
    #[must_use]
    pub fn options(&self) -> TcpOptions {
        TcpOptions::parse(self.options)
    }

    /// What follows the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The checksum's field.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16::<16, _>(self.header)
    }

    /// Header and payload.
    #[inline]
    #[must_use]
    pub fn segment(&self) -> &'a [u8] {
        self.segment
    }

    /// The sum of header and payload.
    #[inline]
    #[must_use]
    pub fn sum(&self) -> Sum {
        Sum::of(self.segment)
    }

    /// True when the segment is intact. `pseudo` is [`Sum::pseudo`] with the segment's length.
    #[inline]
    #[must_use]
    pub fn checksum_ok(&self, pseudo: Sum) -> bool {
        pseudo.plus(self.sum()).is_intact()
    }

    /// Sequence numbers that the segment takes: its payload, and one each for SYN and FIN.
    #[inline]
    #[must_use]
    pub fn seq_len(&self) -> u32 {
        let controls = (self.flags().0 & (TcpFlags::SYN | TcpFlags::FIN).0).count_ones();
        self.payload.len() as u32 + controls
    }

    /// The fixed header's values.
    #[inline]
    #[must_use]
    pub fn values(&self) -> TcpHeader {
        TcpHeader {
            src_port: self.src_port(),
            dst_port: self.dst_port(),
            seq: self.seq(),
            ack: self.ack(),
            flags: self.flags(),
            window: self.window(),
            urgent: self.urgent(),
        }
    }
}

/// A header to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first byte, or of the SYN.
    pub seq: SeqNumber,
    /// The next sequence number expected; zero without the ACK flag.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: TcpFlags,
    /// Receive window, scaled already.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
}

impl TcpHeader {
    /// Writes the header with its options, padded to whole words, and returns its length. The
    /// checksum field is zero until [`fill_checksum`].
    ///
    /// # Panics
    /// When `out` is too short or the options take more than 40 bytes, see [`options_len`].
    #[inline]
    pub fn emit(&self, options: &TcpOptions, out: &mut [u8]) -> usize {
        let (header, rest) = head_mut::<LEN>(out, "tcp");
        let header_len = LEN + options.emit(rest);
        self.emit_fixed(header_len, 0, header);
        header_len
    }

    /// Writes the header with its options and its checksum, and returns its length. `sum` is what
    /// the checksum covers beside the header: [`Sum::pseudo`] plus the payload's sum. The same as
    /// [`Self::emit`] and [`fill_checksum`], but faster, because nothing is read back.
    ///
    /// # Panics
    /// As [`Self::emit`].
    #[inline]
    pub fn emit_with_checksum(&self, options: &TcpOptions, sum: Sum, out: &mut [u8]) -> usize {
        let (header, rest) = head_mut::<LEN>(out, "tcp");
        let header_len = LEN + options.emit(rest);
        let options_sum = options.sum(&rest[..header_len - LEN]);
        let sum = sum.plus(options_sum).plus(self.sum(header_len));
        self.emit_fixed(header_len, sum.finish(), header);
        header_len
    }

    #[inline]
    fn emit_fixed(&self, header_len: usize, checksum: u16, header: &mut [u8; LEN]) {
        put16::<0, _>(header, self.src_port);
        put16::<2, _>(header, self.dst_port);
        put32::<4, _>(header, self.seq.0);
        put32::<8, _>(header, self.ack.0);
        put16::<12, _>(header, self.offset_and_flags(header_len));
        put16::<14, _>(header, self.window);
        put16::<16, _>(header, checksum);
        put16::<18, _>(header, self.urgent);
    }

    /// The sum of the fixed header, its checksum left out.
    #[inline]
    fn sum(&self, header_len: usize) -> Sum {
        let ports = u64::from(self.src_port) + u64::from(self.dst_port);
        let numbers = u64::from(self.seq.0) + u64::from(self.ack.0);
        let flags = u64::from(self.offset_and_flags(header_len));
        Sum::from_wide(ports + numbers + flags + u64::from(self.window) + u64::from(self.urgent))
    }

    /// The data offset counts words of four bytes, of which there are at most 15.
    #[inline]
    fn offset_and_flags(&self, header_len: usize) -> u16 {
        u16::from_be_bytes([(header_len as u8 / 4) << 4, self.flags.0])
    }
}

/// Writes the checksum of a segment. `sum` is what it covers beside `segment`: the pseudo-header,
/// and the payload's sum when `segment` holds only the header and the payload is sent from
/// elsewhere. What the checksum field held before does not matter.
///
/// # Panics
/// When `segment` is shorter than a header.
#[inline]
pub fn fill_checksum(segment: &mut [u8], sum: Sum) {
    let (header, _) = head_mut::<LEN>(segment, "tcp");
    put16::<16, _>(header, 0);
    let checksum = sum.plus(Sum::of(segment)).finish();
    let (header, _) = head_mut::<LEN>(segment, "tcp");
    put16::<16, _>(header, checksum);
}

/// Writes the checksum that a link with checksum offload completes: the pseudo-header's sum,
/// uncomplemented.
///
/// # Panics
/// When `segment` is shorter than a header.
#[inline]
pub fn fill_partial_checksum(segment: &mut [u8], pseudo: Sum) {
    let (header, _) = head_mut::<LEN>(segment, "tcp");
    put16::<16, _>(header, pseudo.value());
}
