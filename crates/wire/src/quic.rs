//! QUIC's long headers (RFC 9000 §17.2, RFC 9369), as far as they are in clear. Short headers say nothing by which they could be
//! told from other datagrams.
//!
//! ```text
//!  0       1         5                6          6+n              7+n
//!  | flags | version | length, n byte | dst id   | length, m byte | src id | by type
//!
//!  Initial:            token length (varint) | token | length (varint) | packet number, payload
//!  0-RTT, Handshake:   length (varint) | packet number, payload
//!  Retry:              token | integrity tag       Version Negotiation: versions
//! ```
//!
//! A datagram may have several packets (§12.2): [`LongHeaderView::next`].

use crate::WireError;
use crate::bytes::be32;
use crate::cursor::Cursor;
use crate::limits::QUIC_CONNECTION_ID_LEN_MAX;

/// Version 1 (RFC 9000).
pub const VERSION_1: u32 = 1;
/// Version 2 (RFC 9369).
pub const VERSION_2: u32 = 0x6b33_43cf;

/// The header is a long one.
const LONG: u8 = 0x80;
/// Set in all packets of versions 1 and 2, unless both ends have agreed on something else (RFC 9287).
const FIXED: u8 = 0x40;

/// Bytes by which a client knows that a Retry packet answers its own (RFC 9001 §5.8).
const RETRY_TAG_LEN: usize = 16;

/// What a packet with a long header is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketType {
    /// The first packets of both ends: hellos.
    Initial,
    /// Data before the server has answered.
    ZeroRtt,
    /// The rest of the handshake.
    Handshake,
    /// A server has the client try again, with a token.
    Retry,
    /// A server says which versions it speaks (RFC 8999 §6).
    VersionNegotiation,
}

/// A packet with a long header, as much of it as is there.
#[derive(Clone, Copy, Debug)]
pub struct LongHeaderView<'a> {
    packet_type: PacketType,
    version: u32,
    destination: &'a [u8],
    source: &'a [u8],
    token: &'a [u8],
    protected: Option<Protected<'a>>,
    next: &'a [u8],
}

/// A packet of which the number and all behind it are encrypted (RFC 9001 §5).
#[derive(Clone, Copy, Debug)]
pub struct Protected<'a> {
    /// The packet, header included.
    pub packet: &'a [u8],
    /// Where its number begins. The bytes before it are in clear, but for the lower four bits of the first.
    pub number_at: usize,
}

impl<'a> LongHeaderView<'a> {
    /// Reads the packet with which these bytes begin, of a datagram of which `length` bytes follow from here on.
    ///
    /// # Errors
    /// [`WireError::BadField`] and [`WireError::BadVersion`] when it is none of versions 1 and 2, nor one that negotiates versions;
    /// [`WireError::BadLength`] when lengths contradict each other; [`WireError::Truncated`] of the first five bytes.
    pub fn parse(bytes: &'a [u8], length: usize) -> Result<Self, WireError> {
        let (&first, _) = bytes.split_first().ok_or(WireError::Truncated {
            layer: "quic",
            need: 5,
            have: 0,
        })?;
        let view = Self::parse_greased(bytes, length)?;
        if view.version != 0 && first & FIXED == 0 {
            return Err(bad_flags(first));
        }
        Ok(view)
    }

    /// Reads a packet as [`Self::parse`] does, in a connection that is known: its ends may have agreed that the bit by which QUIC is told from
    /// other protocols means nothing (RFC 9287).
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_greased(bytes: &'a [u8], length: usize) -> Result<Self, WireError> {
        let bytes = bytes.get(..length).unwrap_or(bytes);
        let mut rest = Cursor::new(bytes, length, "quic");
        let fixed = rest.array::<5>()?;
        let version = be32::<1, _>(fixed);
        let packet_type = packet_type(fixed[0], version)?;
        let destination = connection_id(&mut rest)?;
        let source = connection_id(&mut rest)?;
        let (token, has_length) = match packet_type {
            // What follows is all the datagram has.
            PacketType::Retry => {
                let token = rest.rest().len().saturating_sub(RETRY_TAG_LEN);
                (rest.bytes(token)?, false)
            }
            // RFC 8999 §6: versions of four bytes, one at least.
            PacketType::VersionNegotiation => {
                let length = rest.left();
                if !rest.is_cut() && (length == 0 || !length.is_multiple_of(4)) {
                    return Err(WireError::BadLength {
                        layer: "quic",
                        length,
                    });
                }
                (&[][..], false)
            }
            PacketType::Initial => {
                let token = varint(&mut rest)?.unwrap_or(0);
                (rest.bytes(token)?, true)
            }
            PacketType::ZeroRtt | PacketType::Handshake => (&[][..], true),
        };
        let mut protected = None;
        if has_length && let Some(count) = varint(&mut rest)? {
            let number_at = bytes.len() - rest.rest().len();
            if rest.bytes(count)?.len() == count {
                let packet = &bytes[..number_at + count];
                protected = Some(Protected { packet, number_at });
            }
        }
        Ok(Self {
            packet_type,
            version,
            destination,
            source,
            token,
            protected,
            next: if has_length { rest.rest() } else { &[] },
        })
    }

    /// What it is for.
    #[must_use]
    pub fn packet_type(&self) -> PacketType {
        self.packet_type
    }

    /// Its version; 0 of one that negotiates.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The connection's name at the receiver.
    #[must_use]
    pub fn destination_id(&self) -> &'a [u8] {
        self.destination
    }

    /// The connection's name at the sender.
    #[must_use]
    pub fn source_id(&self) -> &'a [u8] {
        self.source
    }

    /// A token: a server's for its client in a Retry packet, which the client's next Initial packets have. As much of it as is there.
    #[must_use]
    pub fn token(&self) -> &'a [u8] {
        self.token
    }

    /// What is to be decrypted; `None` where the packet is not all there, or has nothing that is encrypted.
    #[must_use]
    pub fn protected(&self) -> Option<Protected<'a>> {
        self.protected
    }

    /// What the datagram has behind this packet: another packet, or padding.
    #[must_use]
    pub fn next(&self) -> &'a [u8] {
        self.next
    }
}

fn bad_flags(flags: u8) -> WireError {
    WireError::BadField {
        layer: "quic",
        field: "flags",
        value: flags.into(),
    }
}

fn packet_type(flags: u8, version: u32) -> Result<PacketType, WireError> {
    use PacketType::{Handshake, Initial, Retry, VersionNegotiation, ZeroRtt};
    let types = match version {
        // RFC 8999 §6: all bits but the first mean nothing.
        0 if flags & LONG != 0 => return Ok(VersionNegotiation),
        VERSION_1 => [Initial, ZeroRtt, Handshake, Retry],
        // RFC 9369 §3.2.
        VERSION_2 => [Retry, Initial, ZeroRtt, Handshake],
        _ => {
            return Err(WireError::BadField {
                layer: "quic",
                field: "version",
                value: version,
            });
        }
    };
    if flags & LONG == 0 {
        return Err(bad_flags(flags));
    }
    Ok(types[usize::from(flags >> 4 & 3)])
}

fn connection_id<'a>(rest: &mut Cursor<'a>) -> Result<&'a [u8], WireError> {
    let id = rest.vector_u8()?;
    if id.len() > QUIC_CONNECTION_ID_LEN_MAX {
        return Err(WireError::BadLength {
            layer: "quic",
            length: id.len(),
        });
    }
    Ok(id)
}

/// RFC 9000 §16: the first two bits say of how many bytes a number is. `None` where it is not all there.
fn varint(rest: &mut Cursor<'_>) -> Result<Option<usize>, WireError> {
    let &[first] = rest.bytes(1)? else {
        return Ok(None);
    };
    let more = (1usize << (first >> 6)) - 1;
    let low = rest.bytes(more)?;
    if low.len() < more {
        return Ok(None);
    }
    let number = low.iter().fold(u64::from(first & 0x3f), |number, byte| {
        number << 8 | u64::from(*byte)
    });
    // What is beyond memory is longer than the datagram too.
    Ok(Some(usize::try_from(number).unwrap_or(usize::MAX)))
}
