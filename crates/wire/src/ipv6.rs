//! IPv6 (RFC 8200): the fixed header, and the walk over extension headers to what they carry.
//!
//! ```text
//!  0                          4             6             7           8      24     40
//!  | ver,traffic class,flow   | payload len | next header | hop limit | src  | dst  | extensions…
//! ```
//!
//! [`Ipv6View::upper`] walks hop-by-hop options, destination options, routing, fragment and
//! authentication headers. It stops at the first header that is none of them, and at a fragment
//! header unless that carries the whole packet: fragments are put together first, then
//! [`walk`] goes on where it stopped. What it meets on its way that obliges a receiver to
//! discard the packet is given as [`Problem`], not as an error, because most such packets are to be
//! answered. For those who read other parts of the way, [`Extensions`] walks by single headers.
//!
//! Jumbograms (RFC 2675) are not supported: a payload length of zero means no payload.

use std::net::Ipv6Addr;

use crate::bytes::{array, be16, be32, head, head_mut, put, put16, put32};
use crate::limits::EXTENSION_HEADERS_MAX;
use crate::{WireError, protocol};

/// Bytes of the fixed header.
pub const LEN: usize = 40;
/// Bytes of a fragment header.
pub const FRAGMENT_LEN: usize = 8;
/// Where the fixed header's next header field lies.
pub const NEXT_HEADER_FIELD: usize = 6;

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6View<'a> {
    header: &'a [u8; LEN],
    payload: &'a [u8],
}

impl<'a> Ipv6View<'a> {
    /// Reads the fixed header; bytes beyond the payload length are link padding and left out.
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::BadVersion`].
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Result<Self, WireError> {
        let view = Self::parse_quoted(packet)?;
        let need = LEN + view.payload_len();
        if need > packet.len() {
            return Err(WireError::Truncated {
                layer: "ipv6",
                need,
                have: packet.len(),
            });
        }
        Ok(view)
    }

    /// Reads a packet of which only the beginning is there, as ICMP errors quote it: the payload
    /// may be shorter than its length says.
    ///
    /// # Errors
    /// As [`Self::parse`], but only a cut fixed header is [`WireError::Truncated`].
    #[inline]
    pub fn parse_quoted(packet: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = head::<LEN>(packet, "ipv6")?;
        let version = header[0] >> 4;
        if version != 6 {
            return Err(WireError::BadVersion {
                layer: "ipv6",
                version,
            });
        }
        let payload = rest
            .get(..usize::from(be16::<4, _>(header)))
            .unwrap_or(rest);
        Ok(Self { header, payload })
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn src(&self) -> Ipv6Addr {
        array::<8, 16, _>(self.header).into()
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn dst(&self) -> Ipv6Addr {
        array::<24, 16, _>(self.header).into()
    }

    /// Hops that remain.
    #[inline]
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.header[7]
    }

    /// Traffic class: 6 bits of DSCP, 2 of ECN.
    #[inline]
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        (be16::<0, _>(self.header) >> 4) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        be32::<0, _>(self.header) & 0xf_ffff
    }

    /// The fixed header's next header: an extension header or the upper-layer protocol.
    #[inline]
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.header[NEXT_HEADER_FIELD]
    }

    /// The payload length field: extension headers and what they carry.
    #[inline]
    #[must_use]
    pub fn payload_len(&self) -> usize {
        be16::<4, _>(self.header).into()
    }

    /// Everything after the fixed header, up to the payload length.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The fixed header's bytes.
    #[inline]
    #[must_use]
    pub fn header(&self) -> &'a [u8] {
        self.header
    }

    /// What the packet carries behind its extension headers.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadLength`], [`WireError::BadOption`] or
    /// [`WireError::TooManyHeaders`] in an extension header.
    #[inline]
    pub fn upper(&self) -> Result<Upper<'a>, WireError> {
        walk(
            self.next_header(),
            self.payload,
            LEN,
            NEXT_HEADER_FIELD,
            true,
        )
    }

    /// The fixed header's values.
    #[must_use]
    pub fn values(&self) -> Ipv6Header {
        Ipv6Header {
            src: self.src(),
            dst: self.dst(),
            next_header: self.next_header(),
            hop_limit: self.hop_limit(),
            traffic_class: self.traffic_class(),
            flow_label: self.flow_label(),
        }
    }
}

/// What a packet carries behind its extension headers. Offsets count from the start of the fixed
/// header, as the pointer of an ICMPv6 parameter problem does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper<'a> {
    /// The first header that the walk does not read: an upper-layer protocol, something unknown
    /// (RFC 8200 §4: answer with parameter problem, code 1, at `next_header_field`), or, in a
    /// fragment, whatever begins the fragmentable part.
    pub protocol: u8,
    /// What follows the extension headers.
    pub payload: &'a [u8],
    /// Where `payload` begins.
    pub offset: usize,
    /// Set when the packet is only a part of the sender's. A fragment header that carries a whole
    /// packet ("atomic", RFC 6946) is walked over and not shown.
    pub fragment: Option<Fragment>,
    /// Where the field lies whose value is `protocol`.
    pub next_header_field: usize,
    /// The first reason why the packet must be discarded although it can be read.
    pub problem: Option<Problem>,
}

/// Where a fragment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Where its payload lies in the fragmentable part, in bytes: a multiple of 8.
    pub offset: usize,
    /// This is not the last fragment.
    pub more: bool,
    /// Identification, shared by the fragments of one packet.
    pub ident: u32,
}

/// Why a packet that can be read must be discarded, and whether its sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Code of the ICMPv6 parameter problem: 0 erroneous field, 2 unrecognized option.
    pub code: u8,
    /// Where the offending byte lies.
    pub pointer: usize,
    /// Whether to answer.
    pub answer: Answer,
}

/// What the sender of a discarded packet is told (RFC 8200 §4.2, the two highest bits of an option).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Nothing.
    Never,
    /// A parameter problem.
    Always,
    /// A parameter problem, unless the packet was sent to a multicast address.
    UnlessMulticast,
}

/// Walks extension headers.
///
/// `first` is the next header value that says what `bytes` begin with, and lies at `field`; `bytes`
/// lie at `offset` of the packet. `hop_by_hop` is true directly after the fixed header, the only
/// place where hop-by-hop options may be. For a reassembled packet, `bytes` are its fragmentable
/// part and `hop_by_hop` is false.
///
/// # Errors
/// As [`Ipv6View::upper`].
#[inline]
pub fn walk(
    first: u8,
    bytes: &[u8],
    offset: usize,
    field: usize,
    hop_by_hop: bool,
) -> Result<Upper<'_>, WireError> {
    let mut at = Upper {
        protocol: first,
        payload: bytes,
        offset,
        fragment: None,
        next_header_field: field,
        problem: None,
    };
    let mut headers = Extensions {
        next_header: first,
        payload: bytes,
        offset,
        hop_by_hop,
        left: EXTENSION_HEADERS_MAX,
    };
    while at.fragment.is_none()
        && let Some(header) = headers.advance()?
    {
        at = Upper {
            protocol: headers.next_header,
            payload: headers.payload,
            offset: headers.offset,
            fragment: header.fragment().filter(|f| f.offset != 0 || f.more),
            next_header_field: header.offset,
            problem: at.problem.or(header.problem()?),
        };
    }
    Ok(at)
}

/// The walk over extension headers, one at a time: what all readers of IPv6 have in common. How far they walk differs:
/// a receiver stops at a fragment ([`walk`]), a filter reads on behind the header of a first one.
#[derive(Clone, Copy, Debug)]
pub struct Extensions<'a> {
    /// What `payload` begins with.
    pub next_header: u8,
    /// What lies behind the headers walked over.
    pub payload: &'a [u8],
    /// Where `payload` begins.
    pub offset: usize,
    /// Hop-by-hop options may come.
    hop_by_hop: bool,
    /// Headers that may still be walked over.
    left: usize,
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Which: [`protocol::ROUTING`], for example.
    pub kind: u8,
    /// Where it begins.
    pub offset: usize,
    /// Its first 8 bytes, which the shortest has.
    start: &'a [u8; 8],
    /// All of it.
    bytes: &'a [u8],
}

impl<'a> Extensions<'a> {
    /// Behind the fixed header, whose next header is given; what follows it lies at `offset`.
    #[inline]
    #[must_use]
    pub const fn behind_fixed_header(next_header: u8, payload: &'a [u8], offset: usize) -> Self {
        Self {
            next_header,
            payload,
            offset,
            hop_by_hop: true,
            left: EXTENSION_HEADERS_MAX,
        }
    }

    /// Walks over one header; None when there is no further one that the walk reads.
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::TooManyHeaders`].
    #[inline]
    pub fn advance(&mut self) -> Result<Option<Extension<'a>>, WireError> {
        let kind = self.next_header;
        // RFC 8200 §4.1: hop-by-hop options only directly after the fixed header; elsewhere they are unrecognized.
        if !is_extension(kind) || (kind == protocol::HOP_BY_HOP && !self.hop_by_hop) {
            return Ok(None);
        }
        self.left = self.left.checked_sub(1).ok_or(WireError::TooManyHeaders {
            max: EXTENSION_HEADERS_MAX,
        })?;
        // The shortest extension header has 8 bytes, and all begin alike: next header, length.
        let (start, _) = head::<8>(self.payload, "ipv6 extension")?;
        let length = extension_len(kind, start);
        let Some((bytes, payload)) = self.payload.split_at_checked(length) else {
            return Err(WireError::Truncated {
                layer: "ipv6 extension",
                need: length,
                have: self.payload.len(),
            });
        };
        let offset = self.offset;
        self.next_header = start[0];
        self.payload = payload;
        self.offset += length;
        self.hop_by_hop = false;
        Ok(Some(Extension {
            kind,
            offset,
            start,
            bytes,
        }))
    }
}

impl Extension<'_> {
    /// What a fragment header says (RFC 8200 §4.5); None of another.
    #[inline]
    #[must_use]
    pub fn fragment(&self) -> Option<Fragment> {
        let place = be16::<2, _>(self.start);
        (self.kind == protocol::FRAGMENT).then(|| Fragment {
            offset: usize::from(place & 0xfff8),
            more: place & 1 != 0,
            ident: be32::<4, _>(self.start),
        })
    }

    /// Why the packet must be discarded, if this header says so.
    fn problem(&self) -> Result<Option<Problem>, WireError> {
        match self.kind {
            protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS => {
                options_problem(self.bytes, self.offset)
            }
            protocol::ROUTING => Ok(routing_problem(self.start, self.offset)),
            _ => Ok(None),
        }
    }
}

/// The headers that the walk reads and goes on behind. Hop-by-hop options come first, and only there.
pub const EXTENSION_HEADERS: [u8; 5] = [
    protocol::HOP_BY_HOP,
    protocol::ROUTING,
    protocol::FRAGMENT,
    protocol::AUTHENTICATION,
    protocol::DESTINATION_OPTIONS,
];

/// Whether the header is one of [`EXTENSION_HEADERS`].
#[inline]
#[must_use]
pub const fn is_extension(next_header: u8) -> bool {
    use protocol::{AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
    matches!(
        next_header,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    )
}

const fn extension_len(kind: u8, start: &[u8; 8]) -> usize {
    let length = start[1] as usize;
    match kind {
        protocol::FRAGMENT => FRAGMENT_LEN,
        // RFC 4302 §2.2: in words of four bytes, less two.
        protocol::AUTHENTICATION => (length + 2) * 4,
        // RFC 8200 §4.3: in words of eight bytes, not counting the first.
        _ => (length + 1) * 8,
    }
}

/// RFC 8200 §4.4: we implement no routing type, so a packet that has hops left on its list is
/// discarded, and one that has none is taken.
fn routing_problem(start: &[u8; 8], offset: usize) -> Option<Problem> {
    let segments_left = start[3];
    let problem = Problem {
        code: 0,
        pointer: offset + 2,
        answer: Answer::Always,
    };
    (segments_left != 0).then_some(problem)
}

/// RFC 8200 §4.2: looks for the first option that obliges us to discard the packet. We implement
/// none but padding; unknown ones whose highest bits are zero are skipped.
fn options_problem(header: &[u8], offset: usize) -> Result<Option<Problem>, WireError> {
    let mut rest = header.get(2..).unwrap_or_default();
    loop {
        match *rest {
            [] => return Ok(None),
            [0, ref after @ ..] => rest = after, // Pad1 is a lone byte.
            [kind] => {
                return Err(WireError::BadOption {
                    layer: "ipv6",
                    kind,
                });
            }
            [kind, length, ref after @ ..] => {
                if let Some(answer) = option_answer(kind) {
                    let pointer = offset + header.len() - rest.len();
                    return Ok(Some(Problem {
                        code: 2,
                        pointer,
                        answer,
                    }));
                }
                let Some(after) = after.get(usize::from(length)..) else {
                    return Err(WireError::BadOption {
                        layer: "ipv6",
                        kind,
                    });
                };
                rest = after;
            }
        }
    }
}

const fn option_answer(kind: u8) -> Option<Answer> {
    match kind >> 6 {
        0 => None,
        1 => Some(Answer::Never),
        2 => Some(Answer::Always),
        _ => Some(Answer::UnlessMulticast),
    }
}

/// A fixed header to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Header {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// What the payload begins with.
    pub next_header: u8,
    /// Hops that it may take.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl Ipv6Header {
    /// Writes the header and returns its length, [`LEN`].
    ///
    /// # Panics
    /// When `out` is too short, the payload longer than 65535 bytes, or the flow label has more
    /// than 20 bits.
    #[inline]
    pub fn emit(&self, payload_len: usize, out: &mut [u8]) -> usize {
        let payload_len = u16::try_from(payload_len).expect("an IPv6 payload within 64 KiB");
        assert!(
            self.flow_label <= 0xf_ffff,
            "flow label {:#x}",
            self.flow_label
        );
        let (header, _) = head_mut::<LEN>(out, "ipv6");
        put32::<0, _>(
            header,
            6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label,
        );
        put16::<4, _>(header, payload_len);
        put::<6, 2, _>(header, [self.next_header, self.hop_limit]);
        put::<8, 16, _>(header, self.src.octets());
        put::<24, 16, _>(header, self.dst.octets());
        LEN
    }
}

/// A fragment header to be sent (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentHeader {
    /// What the fragmentable part begins with.
    pub next_header: u8,
    /// Where this fragment's payload lies in it, in bytes: a multiple of 8 below 65536.
    pub offset: usize,
    /// This is not the last fragment.
    pub more: bool,
    /// Identification, shared by the fragments of one packet.
    pub ident: u32,
}

impl FragmentHeader {
    /// Writes the header and returns its length, [`FRAGMENT_LEN`].
    ///
    /// # Panics
    /// When `out` is too short or the offset is not a multiple of 8 below 65536.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        assert!(self.offset.is_multiple_of(8) && self.offset <= 0xfff8);
        let (header, _) = head_mut::<FRAGMENT_LEN>(out, "ipv6 fragment");
        put::<0, 2, _>(header, [self.next_header, 0]);
        put16::<2, _>(header, self.offset as u16 | u16::from(self.more));
        put32::<4, _>(header, self.ident);
        FRAGMENT_LEN
    }
}
