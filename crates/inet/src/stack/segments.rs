//! The heads of segments: Ethernet, IP and TCP headers, written into the stack's scratch space.
//!
//! Nearly all are written by [`usual`]. The data is not touched: its sum comes from the slices that hold it, or is left to the link.

use std::net::IpAddr;

use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::ipv4::Ipv4Header;
use exos_wire::ipv6::Ipv6Header;
use exos_wire::tcp::{self as wire_tcp, TcpHeader, TcpOptions};
use exos_wire::{Mac, Sum, protocol};

use super::{TxChecksum, syn, usual};
use crate::limits::HEAD_BYTES;
use crate::tcp::{Ecn, Flow, IpFields, Outgoing, Plain};

/// A segment's head, written.
pub(super) struct Head {
    pub(super) len: usize,
    pub(super) checksum: TxChecksum,
}

/// Both ends of a segment.
pub(super) struct Addresses<'a> {
    pub(super) from: Mac,
    pub(super) to: Mac,
    pub(super) flow: &'a Flow,
    pub(super) ecn: Ecn,
    pub(super) ip: IpFields,
}

impl<'a> Addresses<'a> {
    /// Those of a connection's segment.
    pub(super) fn of(from: Mac, to: Mac, flow: &'a Flow, segment: &Outgoing) -> Self {
        let ecn = if segment.ect { Ecn::Ect0 } else { Ecn::NotEct };
        Self {
            from,
            to,
            flow,
            ecn,
            ip: segment.ip,
        }
    }
}

/// Write the head of a connection's segment. `sum` is its data's; `None` leaves the checksum to the link.
#[inline]
pub(super) fn write_segment(
    out: &mut [u8; HEAD_BYTES],
    from: Mac,
    to: Mac,
    flow: &Flow,
    segment: &Outgoing,
    sum: Option<Sum>,
) -> Head {
    let usual: &mut [u8; usual::LONGEST] =
        out.first_chunk_mut().expect("room for the longest head");
    if let Some(plain) = Plain::of(segment) {
        return usual::write(usual, (from, to), flow, &plain, sum);
    }
    syn::write(out, (from, to), flow, segment, sum)
        .unwrap_or_else(|| write_any(out, &Addresses::of(from, to, flow, segment), segment, sum))
}

#[inline(never)]
fn write_any(out: &mut [u8], at: &Addresses<'_>, segment: &Outgoing, sum: Option<Sum>) -> Head {
    let header = TcpHeader {
        src_port: at.flow.local_port(),
        dst_port: at.flow.remote_port(),
        seq: segment.seq,
        ack: segment.ack,
        flags: segment.flags,
        window: segment.window,
        urgent: 0,
    };
    write_tcp(out, at, &header, &segment.options, segment.data.len(), sum)
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
                ttl: at.ip.hop_limit,
                tos: at.ip.traffic_class(at.ecn.bits()),
                ..Ipv4Header::atomic(src, dst, protocol::TCP)
            }
            .emit(payload_len, ip),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Header {
                src,
                dst,
                next_header: protocol::TCP,
                hop_limit: at.ip.hop_limit,
                traffic_class: at.ip.traffic_class(at.ecn.bits()),
                flow_label: 0,
            }
            .emit(payload_len, ip),
            _ => unreachable!("a flow is of one family"),
        }
}
