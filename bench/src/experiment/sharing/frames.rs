//! TCP segments of no connection, as senders that obey nothing send them. Receivers drop them unseen.

use crate::stage::frames::{IPV4_HEADERS_LEN, ipv4_frame};
use exos_host::{Error, Result};
use exos_link::{Link, TxChecksum, TxMeta};
use exos_wire::ipv4::Ipv4Header;
use exos_wire::tcp::{CHECKSUM_FIELD, TcpFlags, TcpHeader, TcpOptions};
use exos_wire::{Mac, SeqNumber, Sum, protocol};
use std::net::SocketAddrV4;

/// Ethernet, IPv4, TCP without options.
pub(super) const HEADERS_LEN: usize = IPV4_HEADERS_LEN + 20;

/// Data of each segment that a super-packet is cut into.
const SEGMENT_LEN: u16 = 1460;

/// Data of a super-packet: whole segments, and an IPv4 packet of less than 64 KiB.
const SUPER_PACKET_LEN: usize = 44 * SEGMENT_LEN as usize;

/// Link addresses: from, to.
pub(super) type Macs = (Mac, Mac);

/// A frame to be sent again and again, and what the link is to do with it.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub bytes: Vec<u8>,
    pub meta: TxMeta,
}

impl Frame {
    /// A complete frame of this many bytes.
    pub fn segment(macs: Macs, from: SocketAddrV4, to: SocketAddrV4, len: usize) -> Result<Self> {
        if !(HEADERS_LEN + 8..=1514).contains(&len) {
            return Err(Error::new(format!(
                "frames have from {} to 1514 bytes",
                HEADERS_LEN + 8
            )));
        }
        let (mut bytes, pseudo) = headers(macs, from, to, len - HEADERS_LEN);
        exos_wire::tcp::fill_checksum(&mut bytes[34..], pseudo);
        Ok(Self {
            bytes,
            meta: TxMeta::default(),
        })
    }

    /// A super-packet for the kernel to cut.
    pub fn super_packet(macs: Macs, from: SocketAddrV4, to: SocketAddrV4) -> Self {
        let (mut bytes, pseudo) = headers(macs, from, to, SUPER_PACKET_LEN);
        exos_wire::tcp::fill_partial_checksum(&mut bytes[34..], pseudo);
        let meta = TxMeta {
            checksum: TxChecksum::Partial {
                start: 34,
                offset: CHECKSUM_FIELD as u16,
            },
            segment_size: Some(SEGMENT_LEN),
            ipv6: false,
            datagrams: false,
            header_len: HEADERS_LEN as u16,
        };
        Self { bytes, meta }
    }

    /// Hands it to a link; false when there is no room.
    pub fn send(&self, link: &mut Link) -> bool {
        let (head, body) = self.bytes.split_at(HEADERS_LEN);
        link.transmit(head, &[body], self.meta)
    }
}

/// The frame without its TCP checksum, and the sum of the pseudo-header.
fn headers(macs: Macs, from: SocketAddrV4, to: SocketAddrV4, data: usize) -> (Vec<u8>, Sum) {
    let (src, dst) = (*from.ip(), *to.ip());
    let ip = Ipv4Header::atomic(src, dst, protocol::TCP);
    let tcp = TcpHeader {
        src_port: from.port(),
        dst_port: to.port(),
        seq: SeqNumber(1),
        ack: SeqNumber(1),
        flags: TcpFlags::ACK,
        window: 64_240,
        urgent: 0,
    };
    let mut bytes = ipv4_frame(macs, ip, 20 + data);
    tcp.emit(&TcpOptions::default(), &mut bytes[IPV4_HEADERS_LEN..]);
    let pseudo = Sum::pseudo(src.into(), dst.into(), protocol::TCP, 20 + data as u32);
    (bytes, pseudo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_wire::ethernet::EthernetView;
    use exos_wire::ipv4::Ipv4View;
    use exos_wire::tcp::TcpView;

    #[test]
    fn frames_are_whole_and_super_packets_nearly_so() {
        let macs = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let (from, to) = ("10.10.0.10:9000", "10.10.0.2:9");
        let (from, to): (SocketAddrV4, SocketAddrV4) = (from.parse().unwrap(), to.parse().unwrap());
        let pseudo = |ip: &Ipv4View<'_>| {
            Sum::pseudo(
                (*from.ip()).into(),
                (*to.ip()).into(),
                6,
                ip.payload().len() as u32,
            )
        };
        for len in [HEADERS_LEN + 8, 1514] {
            let frame = Frame::segment(macs, from, to, len).unwrap();
            let ip = Ipv4View::parse(EthernetView::parse(&frame.bytes).unwrap().payload()).unwrap();
            assert_eq!((frame.bytes.len(), ip.total_len()), (len, len - 14));
            assert!(
                TcpView::parse(ip.payload())
                    .unwrap()
                    .checksum_ok(pseudo(&ip))
            );
        }
        let large = Frame::super_packet(macs, from, to);
        let ip = Ipv4View::parse(EthernetView::parse(&large.bytes).unwrap().payload()).unwrap();
        let tcp = TcpView::parse(ip.payload()).unwrap();
        assert_eq!(tcp.payload().len(), 44 * 1460);
        assert_eq!(tcp.checksum(), pseudo(&ip).value());
        assert!(Frame::segment(macs, from, to, 1515).is_err());
    }
}
