//! One frame as the text of a trace's line: sender, receiver, content.
//!
//! Reads the beginning of a frame with the wire crate's views for quoted packets, which do not mind
//! that the end is missing; payload lengths come from the IP headers.

use super::flows::Flows;
use super::names::Names;
use exos_wire::arp::{self, ArpView};
use exos_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetView};
use exos_wire::icmpv4::{Icmpv4, Icmpv4View};
use exos_wire::icmpv6::{Icmpv6, Icmpv6View};
use exos_wire::ipv4::Ipv4View;
use exos_wire::ipv6::{self, Ipv6View};
use exos_wire::protocol;
use exos_wire::tcp::{TcpFlags, TcpView};
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// What lies above IP.
struct Upper<'a> {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    /// As much as was kept.
    bytes: &'a [u8],
    /// As much as was sent.
    len: usize,
    /// Identification, offset, more.
    fragment: Option<(u32, usize, bool)>,
}

/// The line's two parts; `None` for frames that the style hides.
pub(super) fn describe(names: &Names, flows: &mut Flows, frame: &[u8]) -> Option<(String, String)> {
    let unreadable = || {
        Some((
            "?".to_owned(),
            format!("unreadable frame of {} bytes", frame.len()),
        ))
    };
    let Ok(ethernet) = EthernetView::parse(frame) else {
        return unreadable();
    };
    let upper = match ethernet.ethertype() {
        ETHERTYPE_ARP => return describe_arp(names, ethernet.payload()),
        ETHERTYPE_IPV4 => upper_v4(ethernet.payload()),
        ETHERTYPE_IPV6 => upper_v6(ethernet.payload()),
        other => {
            return Some((
                format!("{} > {}", ethernet.src(), ethernet.dst()),
                format!("ethertype {other:#06x}"),
            ));
        }
    };
    let Some(upper) = upper else {
        return unreadable();
    };
    describe_ip(names, flows, &upper)
}

fn describe_arp(names: &Names, payload: &[u8]) -> Option<(String, String)> {
    let view = ArpView::parse(payload).ok()?;
    let host = |ip: std::net::Ipv4Addr| names.host(ip.into());
    let (sender, target) = (host(view.sender_ip()), host(view.target_ip()));
    let what = match view.operation() {
        arp::REQUEST if view.sender_ip() == view.target_ip() => {
            format!("arp {sender} is-at {}", view.sender_mac())
        }
        arp::REQUEST => format!("arp who-has {target}"),
        arp::REPLY => format!("arp {sender} is-at {}", view.sender_mac()),
        other => format!("arp operation {other}"),
    };
    (!names.style.hide_neighbors).then(|| (format!("{sender} > {target}"), what))
}

fn upper_v4(packet: &[u8]) -> Option<Upper<'_>> {
    let view = Ipv4View::parse_quoted(packet).ok()?;
    let cut = (
        view.ident().into(),
        view.fragment_offset(),
        view.more_fragments(),
    );
    Some(Upper {
        src: view.src().into(),
        dst: view.dst().into(),
        protocol: view.protocol(),
        bytes: view.payload(),
        len: view.total_len() - view.header_len(),
        fragment: view.is_fragment().then_some(cut),
    })
}

fn upper_v6(packet: &[u8]) -> Option<Upper<'_>> {
    let view = Ipv6View::parse_quoted(packet).ok()?;
    let upper = view.upper().ok()?;
    Some(Upper {
        src: view.src().into(),
        dst: view.dst().into(),
        protocol: upper.protocol,
        bytes: upper.payload,
        len: ipv6::LEN + view.payload_len() - upper.offset,
        fragment: upper.fragment.map(|f| (f.ident, f.offset, f.more)),
    })
}

fn describe_ip(names: &Names, flows: &mut Flows, upper: &Upper<'_>) -> Option<(String, String)> {
    let hosts = format!("{} > {}", names.host(upper.src), names.host(upper.dst));
    if let Some((_, offset, more)) = upper.fragment {
        let more = if more { " more" } else { "" };
        return Some((
            hosts,
            format!(
                "fragment protocol {} offset {offset} len {}{more}",
                upper.protocol, upper.len
            ),
        ));
    }
    let described = match upper.protocol {
        protocol::TCP => describe_tcp(names, flows, upper),
        protocol::UDP => describe_udp(names, upper),
        protocol::ICMP => describe_icmpv4(upper).map(|what| (hosts.clone(), what)),
        protocol::ICMPV6 => match describe_icmpv6(names, upper) {
            Some((true, _)) if names.style.hide_neighbors => return None,
            described => described.map(|(_, what)| (hosts.clone(), what)),
        },
        _ => None,
    };
    Some(described.unwrap_or_else(|| {
        (
            hosts,
            format!("protocol {} len {}", upper.protocol, upper.len),
        )
    }))
}

fn describe_tcp(names: &Names, flows: &mut Flows, upper: &Upper<'_>) -> Option<(String, String)> {
    let tcp = TcpView::parse(upper.bytes).ok()?;
    let (from, to) = (
        SocketAddr::new(upper.src, tcp.src_port()),
        SocketAddr::new(upper.dst, tcp.dst_port()),
    );
    let flags = tcp.flags();
    if flags.contains(TcpFlags::SYN) {
        flows.began(from, to, tcp.seq());
    }
    let mut what = format!(
        "{:<3} seq {}",
        flags.to_string(),
        flows.relative(from, to, tcp.seq())
    );
    if flags.contains(TcpFlags::ACK) {
        let _ = write!(what, " ack {}", flows.relative(to, from, tcp.ack()));
    }
    if names.style.windows {
        let _ = write!(what, " win {}", tcp.window());
    }
    describe_options(names, flows, &tcp, (from, to), &mut what);
    match upper.len - tcp.header_len() {
        0 => {}
        len => drop(write!(what, " len {len}")),
    }
    Some((format!("{} > {}", names.end(from), names.end(to)), what))
}

fn describe_options(
    names: &Names,
    flows: &Flows,
    tcp: &TcpView<'_>,
    ends: (SocketAddr, SocketAddr),
    what: &mut String,
) {
    let options = tcp.options();
    for (left, right) in options.sack.iter() {
        let relative = |seq| flows.relative(ends.1, ends.0, seq);
        let _ = write!(what, " sack {}:{}", relative(left), relative(right));
    }
    if !names.style.options {
        return;
    }
    if let Some(mss) = options.mss {
        let _ = write!(what, " mss {mss}");
    }
    if let Some(scale) = options.window_scale {
        let _ = write!(what, " wscale {scale}");
    }
    if options.sack_permitted {
        what.push_str(" sackOK");
    }
    if let Some(ts) = options.timestamps {
        let _ = write!(what, " ts {} ecr {}", ts.value, ts.echo);
    }
}

fn describe_udp(names: &Names, upper: &Upper<'_>) -> Option<(String, String)> {
    // Not with the view, which wants the whole datagram.
    let port = |at: usize| {
        upper
            .bytes
            .get(at..at + 2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
    };
    let (from, to) = (
        SocketAddr::new(upper.src, port(0)?),
        SocketAddr::new(upper.dst, port(2)?),
    );
    let ports = if names.style.ports {
        String::new()
    } else {
        format!(" {} > {}", from.port(), to.port())
    };
    let what = format!("udp{ports} len {}", upper.len.checked_sub(8)?);
    Some((format!("{} > {}", names.end(from), names.end(to)), what))
}

fn describe_icmpv4(upper: &Upper<'_>) -> Option<String> {
    let len = upper.len.checked_sub(8)?;
    Some(match Icmpv4View::parse(upper.bytes).ok()?.message() {
        Icmpv4::EchoRequest { ident, seq, .. } => {
            format!("icmp echo request id {ident} seq {seq} len {len}")
        }
        Icmpv4::EchoReply { ident, seq, .. } => {
            format!("icmp echo reply id {ident} seq {seq} len {len}")
        }
        Icmpv4::Unreachable { code: 2, .. } => "icmp protocol unreachable".into(),
        Icmpv4::Unreachable { code: 3, .. } => "icmp port unreachable".into(),
        Icmpv4::Unreachable { code: 4, mtu, .. } => {
            format!("icmp too big mtu {}", mtu.unwrap_or(0))
        }
        Icmpv4::Unreachable { code, .. } => format!("icmp unreachable code {code}"),
        Icmpv4::TimeExceeded { code: 1, .. } => "icmp reassembly time exceeded".into(),
        Icmpv4::TimeExceeded { code, .. } => format!("icmp time exceeded code {code}"),
        Icmpv4::ParameterProblem { pointer, .. } => format!("icmp parameter problem at {pointer}"),
        Icmpv4::Redirect { gateway, .. } => format!("icmp redirect to {gateway}"),
        Icmpv4::Other { kind, code, .. } => format!("icmp type {kind} code {code}"),
    })
}

/// And whether it is neighbour or router discovery.
fn describe_icmpv6(names: &Names, upper: &Upper<'_>) -> Option<(bool, String)> {
    let len = upper.len.checked_sub(8)?;
    let error = |what: String| (false, what);
    Some(match Icmpv6View::parse(upper.bytes).ok()?.message().ok()? {
        Icmpv6::EchoRequest { ident, seq, .. } => {
            error(format!("icmp6 echo request id {ident} seq {seq} len {len}"))
        }
        Icmpv6::EchoReply { ident, seq, .. } => {
            error(format!("icmp6 echo reply id {ident} seq {seq} len {len}"))
        }
        Icmpv6::Unreachable { code: 4, .. } => error("icmp6 port unreachable".into()),
        Icmpv6::Unreachable { code, .. } => error(format!("icmp6 unreachable code {code}")),
        Icmpv6::PacketTooBig { mtu, .. } => error(format!("icmp6 too big mtu {mtu}")),
        Icmpv6::TimeExceeded { code: 1, .. } => error("icmp6 reassembly time exceeded".into()),
        Icmpv6::TimeExceeded { code, .. } => error(format!("icmp6 time exceeded code {code}")),
        Icmpv6::ParameterProblem { code, pointer, .. } => {
            error(format!("icmp6 parameter problem code {code} at {pointer}"))
        }
        Icmpv6::NeighborSolicitation(ns) => (
            true,
            format!("icmp6 who-has {}", names.host(ns.target.into())),
        ),
        Icmpv6::NeighborAdvertisement(na) => {
            let mac = na
                .target_mac
                .map_or_else(|| "?".to_owned(), |mac| mac.to_string());
            (
                true,
                format!("icmp6 {} is-at {mac}", names.host(na.target.into())),
            )
        }
        Icmpv6::RouterSolicitation(_) => (true, "icmp6 router solicitation".into()),
        Icmpv6::RouterAdvertisement(_) => (true, "icmp6 router advertisement".into()),
        Icmpv6::Other { kind, code, .. } => error(format!("icmp6 type {kind} code {code}")),
    })
}
