//! Ethernet headers, tags, and what the type says that follows.

use exos_wire::Mac;
use exos_wire::ethernet::{
    ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN, LEN,
    VLAN_ID_MASK, VLAN_TAG_LEN,
};

use super::line::Line;
use super::part::{Part, Printed};

/// The tag that was used for stacking before 802.1ad.
const ETHERTYPE_OLD_QINQ: u16 = 0x9100;
/// Values up to this are lengths (IEEE 802.3 §3.2.6).
const LENGTH_MAX: u16 = 1500;

/// The name that tcpdump gives to a type.
fn name(ethertype: u16) -> &'static str {
    match ethertype {
        ETHERTYPE_IPV4 => "IPv4",
        ETHERTYPE_ARP => "ARP",
        0x8035 => "Reverse ARP",
        ETHERTYPE_VLAN => "802.1Q",
        ETHERTYPE_IPV6 => "IPv6",
        0x8808 => "MPCP",
        0x8809 => "Slow Protocols",
        0x8847 => "MPLS unicast",
        0x8848 => "MPLS multicast",
        0x8863 => "PPPoE D",
        0x8864 => "PPPoE S",
        0x888e => "EAPOL",
        ETHERTYPE_QINQ => "802.1Q-QinQ",
        0x88cc => "LLDP",
        0x88e5 => "802.1AE MACsec",
        0x88f7 => "PTP",
        0x9000 => "Loopback",
        ETHERTYPE_OLD_QINQ => "802.1Q-9100",
        _ => "Unknown",
    }
}

const fn is_tag(ethertype: u16) -> bool {
    matches!(
        ethertype,
        ETHERTYPE_VLAN | ETHERTYPE_QINQ | ETHERTYPE_OLD_QINQ
    )
}

impl Line<'_> {
    /// A whole frame.
    pub(super) fn ethernet(&mut self, frame: Part<'_>) -> Printed {
        let mut ethertype = frame.be16(LEN - 2)?;
        if self.style.link_header {
            self.ethernet_header(frame, ethertype)?;
        }
        let mut rest = frame.from(LEN);
        self.link_len = LEN;
        while is_tag(ethertype) {
            let tag = rest.of("vlan");
            let (tci, inner) = (tag.be16(0)?, tag.be16(2)?);
            if self.style.link_header {
                self.tag(tci);
                if inner > LENGTH_MAX {
                    write!(self, "ethertype {} ({inner:#06x}), ", name(inner));
                }
            }
            (ethertype, rest) = (inner, rest.from(VLAN_TAG_LEN));
            self.link_len += VLAN_TAG_LEN;
        }
        match ethertype {
            ETHERTYPE_IPV4 => self.ipv4(rest),
            ETHERTYPE_IPV6 => self.ipv6(rest),
            ETHERTYPE_ARP => self.arp(rest),
            _ => self.other_ethertype(frame, ethertype, rest),
        }
    }

    fn ethernet_header(&mut self, frame: Part<'_>, ethertype: u16) -> Printed {
        let (dst, src) = (Mac(frame.array(0)?), Mac(frame.array(6)?));
        write!(self, "{src} > {dst}, ");
        match ethertype {
            0..=LENGTH_MAX => write!(self, "802.3"),
            _ => write!(self, "ethertype {} ({ethertype:#06x})", name(ethertype)),
        }
        write!(self, ", length {}: ", frame.len());
        Ok(())
    }

    /// IEEE 802.1Q §9.6: priority, drop eligibility, number.
    fn tag(&mut self, tci: u16) {
        let (number, priority) = (tci & VLAN_ID_MASK, tci >> 13);
        let eligible = if tci & 0x1000 != 0 { ", DEI" } else { "" };
        write!(self, "vlan {number}, p {priority}{eligible}, ");
    }

    /// Nothing that is read further: its header, if it has not been shown yet, and its bytes.
    fn other_ethertype(&mut self, frame: Part<'_>, ethertype: u16, rest: Part<'_>) -> Printed {
        if !self.style.link_header {
            self.ethernet_header(frame, ethertype)?;
        }
        self.unread(rest.bytes());
        Ok(())
    }
}
