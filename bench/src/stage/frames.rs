//! Frames that are made once, to be sent again and again.

use exos_wire::Mac;
use exos_wire::ethernet::{self, ETHERTYPE_IPV4, EthernetHeader};
use exos_wire::ipv4::Ipv4Header;

/// Bytes of the headers of Ethernet and IPv4.
pub(crate) const IPV4_HEADERS_LEN: usize = ethernet::LEN + 20;

/// A frame of IPv4 from a link address to another, with this many bytes behind its headers, all zero.
pub(crate) fn ipv4_frame((from, to): (Mac, Mac), ip: Ipv4Header, len: usize) -> Vec<u8> {
    let ethernet = EthernetHeader {
        dst: to,
        src: from,
        vlan: None,
        ethertype: ETHERTYPE_IPV4,
    };
    let mut frame = vec![0; IPV4_HEADERS_LEN + len];
    ethernet.emit(&mut frame);
    ip.emit(len, &mut frame[ethernet::LEN..]);
    frame
}
