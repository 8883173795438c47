//! The heads of segments: Ethernet, IP and TCP headers, written into the stack's scratch space.
//!
//! The data is not touched: its sum comes from the slices that hold it, or is left to the link.

use std::net::IpAddr;

use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::ipv4::Ipv4Header;
use exos_wire::ipv6::Ipv6Header;
use exos_wire::tcp::{self as wire_tcp, TcpHeader, TcpOptions};
use exos_wire::{Mac, Sum, protocol};

use super::TxChecksum;
use crate::tcp::{Connection, Ecn, Flow, Outgoing};

/// Time to live, or hop limit, of what we send (RFC 1700's and Linux's default).
pub(super) const HOPS: u8 = 64;

/// A segment's head, written.
pub(super) struct Head {
    pub(super) len: usize,
    pub(super) checksum: TxChecksum,
}

/// Who speaks to whom.
pub(super) struct Addresses<'a> {
    pub(super) from: Mac,
    pub(super) to: Mac,
    pub(super) flow: &'a Flow,
    pub(super) ecn: Ecn,
}

pub(super) fn write_segment(
    out: &mut [u8],
    from: Mac,
    to: Mac,
    connection: &Connection,
    segment: &Outgoing,
    partial: bool,
) -> Head {
    let flow = connection.flow();
    let header = TcpHeader {
        src_port: flow.local().port(),
        dst_port: flow.remote().port(),
        seq: segment.seq,
        ack: segment.ack,
        flags: segment.flags,
        window: segment.window,
        urgent: 0,
    };
    // The data's sum comes from its slices' cached sums; a link that completes it needs none.
    let sum = (!partial).then(|| connection.queue().sum(segment.data.clone()));
    let ecn = if segment.ect { Ecn::Ect0 } else { Ecn::NotEct };
    let at = Addresses {
        from,
        to,
        flow,
        ecn,
    };
    write_tcp(out, &at, &header, &segment.options, segment.data.len(), sum)
}

/// Write Ethernet, IP and TCP headers. `sum` is the data's; `None` leaves the checksum to the link.
pub(super) fn write_tcp(
    out: &mut [u8],
    at: &Addresses<'_>,
    header: &TcpHeader,
    options: &TcpOptions,
    data_len: usize,
    sum: Option<Sum>,
) -> Head {
    let tcp_len = wire_tcp::LEN + wire_tcp::options_len(options);
    let (local, remote) = (at.flow.local().ip(), at.flow.remote().ip());
    let start = write_ip(out, at, local, remote, tcp_len + data_len);
    let pseudo = Sum::pseudo(local, remote, protocol::TCP, (tcp_len + data_len) as u32);
    let end = start + tcp_len;
    let segment = &mut out[start..end];
    let checksum = if let Some(data) = sum {
        // The header's length is even, so the data's sum adds to it as it is.
        header.emit_with_checksum(options, pseudo.plus(data), segment);
        TxChecksum::Complete
    } else {
        header.emit(options, segment);
        wire_tcp::fill_partial_checksum(segment, pseudo);
        TxChecksum::Partial {
            start: start as u16,
            offset: wire_tcp::CHECKSUM_FIELD as u16,
        }
    };
    Head { len: end, checksum }
}

/// Write Ethernet and IP headers; returns where the transport header begins.
fn write_ip(
    out: &mut [u8],
    at: &Addresses<'_>,
    local: IpAddr,
    remote: IpAddr,
    payload_len: usize,
) -> usize {
    let ethertype = if local.is_ipv6() {
        ETHERTYPE_IPV6
    } else {
        ETHERTYPE_IPV4
    };
    let ethernet = EthernetHeader {
        dst: at.to,
        src: at.from,
        vlan: None,
        ethertype,
    };
    let start = ethernet.emit(out);
    let ip = &mut out[start..];
    start
        + match (local, remote) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Header {
                src,
                dst,
                protocol: protocol::TCP,
                ttl: HOPS,
                tos: at.ecn.bits(),
                // RFC 6864 §4.1: an atomic packet's identification means nothing.
                ident: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
            }
            .emit(payload_len, ip),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Header {
                src,
                dst,
                next_header: protocol::TCP,
                hop_limit: HOPS,
                traffic_class: at.ecn.bits(),
                flow_label: 0,
            }
            .emit(payload_len, ip),
            _ => unreachable!("a flow is of one family"),
        }
}
