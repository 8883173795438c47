//! Ethernet II frames, with or without one 802.1Q tag.
//!
//! ```text
//!  0      6      12     14                 0      6      12     14    16     18
//!  | dst  | src  | type | payload          | dst  | src  | 8100 | tci | type | payload
//! ```
//!
//! A second tag, or an 802.1ad one, is not looked into: its frames show an ethertype of
//! [`ETHERTYPE_VLAN`] or [`ETHERTYPE_QINQ`]. Neither are lengths of 802.3 frames: their "ethertype"
//! is below 1536. The frame check sequence is the link's business and never seen here.

use crate::bytes::{array, be16, head, head_mut, put, put16};
use crate::{Mac, WireError};

/// IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// An 802.1Q tag.
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// An 802.1ad service tag.
pub const ETHERTYPE_QINQ: u16 = 0x88a8;

/// Bytes of an untagged header.
pub const LEN: usize = 14;
/// Bytes of a tag.
pub const VLAN_TAG_LEN: usize = 4;
/// The VLAN number's bits in a tag's control information.
pub const VLAN_ID_MASK: u16 = 0x0fff;

/// A received frame.
#[derive(Clone, Copy, Debug)]
pub struct EthernetView<'a> {
    header: &'a [u8; LEN],
    tag: Option<&'a [u8; VLAN_TAG_LEN]>,
    payload: &'a [u8],
}

impl<'a> EthernetView<'a> {
    /// Reads the header and the tag, if there is one.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(frame: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = head::<LEN>(frame, "ethernet")?;
        if be16::<12, _>(header) != ETHERTYPE_VLAN {
            return Ok(Self {
                header,
                tag: None,
                payload,
            });
        }
        // IEEE 802.1Q §9.3: control information, then the ethertype proper.
        let (tag, payload) = head::<VLAN_TAG_LEN>(payload, "vlan")?;
        Ok(Self {
            header,
            tag: Some(tag),
            payload,
        })
    }

    /// The station or group that it is for.
    #[inline]
    #[must_use]
    pub fn dst(&self) -> Mac {
        Mac(array::<0, 6, _>(self.header))
    }

    /// The sender.
    #[inline]
    #[must_use]
    pub fn src(&self) -> Mac {
        Mac(array::<6, 6, _>(self.header))
    }

    /// The tag's control information: 3 bits of priority, 1 of drop eligibility, 12 of VLAN number.
    #[inline]
    #[must_use]
    pub fn vlan(&self) -> Option<u16> {
        self.tag.map(be16::<0, _>)
    }

    /// What the payload is; behind the tag if there is one.
    #[inline]
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        match self.tag {
            None => be16::<12, _>(self.header),
            Some(tag) => be16::<2, _>(tag),
        }
    }

    /// Everything after the header, link padding included.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Bytes before the payload: 14 or 18.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        if self.tag.is_some() {
            LEN + VLAN_TAG_LEN
        } else {
            LEN
        }
    }

    /// The header's values.
    #[inline]
    #[must_use]
    pub fn values(&self) -> EthernetHeader {
        EthernetHeader {
            dst: self.dst(),
            src: self.src(),
            vlan: self.vlan(),
            ethertype: self.ethertype(),
        }
    }
}

/// A header to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EthernetHeader {
    /// The station or group that it is for.
    pub dst: Mac,
    /// The sender.
    pub src: Mac,
    /// The control information of an 802.1Q tag.
    pub vlan: Option<u16>,
    /// What the payload is.
    pub ethertype: u16,
}

impl EthernetHeader {
    /// Bytes that [`Self::emit`] writes: 14 or 18.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        if self.vlan.is_some() {
            LEN + VLAN_TAG_LEN
        } else {
            LEN
        }
    }

    /// Writes the header and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::header_len`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let (header, rest) = head_mut::<LEN>(out, "ethernet");
        put::<0, 6, _>(header, self.dst.0);
        put::<6, 6, _>(header, self.src.0);
        put16::<12, _>(
            header,
            if self.vlan.is_some() {
                ETHERTYPE_VLAN
            } else {
                self.ethertype
            },
        );
        if let Some(tci) = self.vlan {
            let (tag, _) = head_mut::<VLAN_TAG_LEN>(rest, "vlan");
            put16::<0, _>(tag, tci);
            put16::<2, _>(tag, self.ethertype);
        }
        self.header_len()
    }
}
