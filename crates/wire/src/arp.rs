//! ARP for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//!  0    2    4   5   6    8          14          18          24          28
//!  | 1  |0800| 6 | 4 | op | sender MAC | sender IP | target MAC | target IP |
//! ```
//!
//! Other hardware and protocol types are refused, as RFC 826 ("Packet Reception") asks.

use std::net::Ipv4Addr;

use crate::bytes::{array, be16, head, head_mut, put, put16};
use crate::ethernet::ETHERTYPE_IPV4;
use crate::{Mac, WireError};

/// Bytes of a packet.
pub const LEN: usize = 28;
/// Operation: who has the target's IP address?
pub const REQUEST: u16 = 1;
/// Operation: the sender has.
pub const REPLY: u16 = 2;

const HARDWARE_ETHERNET: u16 = 1;

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct ArpView<'a> {
    packet: &'a [u8; LEN],
}

impl<'a> ArpView<'a> {
    /// Reads a packet; what follows it is link padding.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::BadField`] when it is not about IPv4 over Ethernet.
    pub fn parse(payload: &'a [u8]) -> Result<Self, WireError> {
        let (packet, _) = head::<LEN>(payload, "arp")?;
        let expect = |field, value: u16, wanted: u16| match value == wanted {
            true => Ok(()),
            false => Err(WireError::BadField {
                layer: "arp",
                field,
                value: value.into(),
            }),
        };
        expect("hardware type", be16::<0, _>(packet), HARDWARE_ETHERNET)?;
        expect("protocol type", be16::<2, _>(packet), ETHERTYPE_IPV4)?;
        expect("address lengths", be16::<4, _>(packet), 0x0604)?;
        Ok(Self { packet })
    }

    /// [`REQUEST`], [`REPLY`] or something else.
    #[must_use]
    pub fn operation(&self) -> u16 {
        be16::<6, _>(self.packet)
    }

    /// The sender's Ethernet address.
    #[must_use]
    pub fn sender_mac(&self) -> Mac {
        Mac(array::<8, 6, _>(self.packet))
    }

    /// The sender's IP address; unspecified in a probe (RFC 5227).
    #[must_use]
    pub fn sender_ip(&self) -> Ipv4Addr {
        array::<14, 4, _>(self.packet).into()
    }

    /// The target's Ethernet address; meaningless in a request.
    #[must_use]
    pub fn target_mac(&self) -> Mac {
        Mac(array::<18, 6, _>(self.packet))
    }

    /// The IP address that is asked about or answered to.
    #[must_use]
    pub fn target_ip(&self) -> Ipv4Addr {
        array::<24, 4, _>(self.packet).into()
    }

    /// The packet's values.
    #[must_use]
    pub fn packet(&self) -> ArpPacket {
        ArpPacket {
            operation: self.operation(),
            sender_mac: self.sender_mac(),
            sender_ip: self.sender_ip(),
            target_mac: self.target_mac(),
            target_ip: self.target_ip(),
        }
    }
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArpPacket {
    /// [`REQUEST`] or [`REPLY`].
    pub operation: u16,
    /// The sender's Ethernet address.
    pub sender_mac: Mac,
    /// The sender's IP address.
    pub sender_ip: Ipv4Addr,
    /// The target's Ethernet address; [`Mac::ZERO`] in a request.
    pub target_mac: Mac,
    /// The target's IP address.
    pub target_ip: Ipv4Addr,
}

impl ArpPacket {
    /// Writes the packet and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let (packet, _) = head_mut::<LEN>(out, "arp");
        put16::<0, _>(packet, HARDWARE_ETHERNET);
        put16::<2, _>(packet, ETHERTYPE_IPV4);
        put16::<4, _>(packet, 0x0604);
        put16::<6, _>(packet, self.operation);
        put::<8, 6, _>(packet, self.sender_mac.0);
        put::<14, 4, _>(packet, self.sender_ip.octets());
        put::<18, 6, _>(packet, self.target_mac.0);
        put::<24, 4, _>(packet, self.target_ip.octets());
        LEN
    }
}
