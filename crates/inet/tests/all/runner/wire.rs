//! Frames, written and read byte by byte.
//!
//! None of the project's own builders and parsers are used: a script is a second reading of the
//! RFCs, down to the checksums.

use std::net::IpAddr;

/// Link addresses of the stack and of its peer.
pub const MAC_OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const MAC_PEER: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Somebody on the way, who sends ICMP errors.
pub const ROUTER: [&str; 2] = ["10.0.0.254", "fd00::fe"];

/// A TCP segment with absolute numbers.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    pub src_port: u16,
    pub dst_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub urgent: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    /// The lower two bits of the IP header's traffic class.
    pub ecn: u8,
    /// IPv4: the bit that forbids fragments.
    pub dont_fragment: bool,
}

impl Raw {
    /// The options as (kind, value), padding left out. `Err` when they are malformed.
    pub fn option_list(&self) -> Result<Vec<(u8, &[u8])>, String> {
        let mut rest = &self.options[..];
        let mut list = Vec::new();
        loop {
            match rest {
                [] => return Ok(list),
                // RFC 9293 §3.1 (MUST-69): the padding behind the end of the list is zero.
                [0, padding @ ..] if padding.iter().all(|&b| b == 0) => return Ok(list),
                [1, more @ ..] => rest = more,
                [kind, len, ..] if (2..=rest.len()).contains(&usize::from(*len)) => {
                    list.push((*kind, &rest[2..usize::from(*len)]));
                    rest = &rest[usize::from(*len)..];
                }
                _ => return Err(format!("malformed options {:02x?}", self.options)),
            }
        }
    }
}

fn sum(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)))
        .sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn pseudo(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> u64 {
    sum(&octets(src)) + sum(&octets(dst)) + u64::from(protocol) + len as u64
}

/// Header and payload, the checksum wrong if so wished.
fn tcp_bytes(src: IpAddr, dst: IpAddr, raw: &Raw, bad_checksum: bool) -> Vec<u8> {
    let mut options = raw.options.clone();
    options.resize(options.len().next_multiple_of(4), 0);
    let mut bytes = Vec::new();
    bytes.extend(raw.src_port.to_be_bytes());
    bytes.extend(raw.dst_port.to_be_bytes());
    bytes.extend(raw.seq.to_be_bytes());
    bytes.extend(raw.ack.to_be_bytes());
    bytes.push((((20 + options.len()) / 4) << 4) as u8);
    bytes.push(raw.flags);
    bytes.extend(raw.window.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(raw.urgent.to_be_bytes());
    bytes.extend(options);
    bytes.extend(&raw.payload);
    let checksum = !folded(sum(&bytes) + pseudo(src, dst, 6, bytes.len()));
    let checksum = checksum ^ u16::from(bad_checksum) << 4;
    bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// An IP packet around `payload`.
fn ip_packet(src: IpAddr, dst: IpAddr, protocol: u8, ecn: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    if src.is_ipv6() {
        packet.extend([0x60, ecn << 4, 0, 0]);
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.extend([protocol, 64]);
    } else {
        packet.extend([0x45, ecn]);
        packet.extend((20 + payload.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    }
    packet.extend(octets(src));
    packet.extend(octets(dst));
    if src.is_ipv4() {
        let checksum = !folded(sum(&packet));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

fn frame(packet: &[u8]) -> Vec<u8> {
    let ipv6 = packet[0] >> 4 == 6;
    let ethertype: [u8; 2] = if ipv6 { [0x86, 0xdd] } else { [8, 0] };
    [&MAC_OURS[..], &MAC_PEER, &ethertype, packet].concat()
}

/// The frame in which a segment arrives.
pub fn segment_frame(src: IpAddr, dst: IpAddr, raw: &Raw, bad_checksum: bool) -> Vec<u8> {
    let segment = tcp_bytes(src, dst, raw, bad_checksum);
    frame(&ip_packet(src, dst, 6, raw.ecn, &segment))
}

/// Type, code and the four bytes behind the checksum of an ICMP error by its name.
fn icmp_head(kind: &str, mtu: i64, ipv6: bool) -> Result<([u8; 2], [u8; 4]), String> {
    let mtu32 = (mtu as u32).to_be_bytes();
    Ok(match (kind, ipv6) {
        ("too-big", false) => ([3, 4], [0, 0, mtu32[2], mtu32[3]]),
        ("too-big", true) => ([2, 0], mtu32),
        ("net-unreachable", false) => ([3, 0], [0; 4]),
        ("net-unreachable", true) => ([1, 0], [0; 4]),
        ("host-unreachable", false) => ([3, 1], [0; 4]),
        ("host-unreachable", true) => ([1, 3], [0; 4]),
        ("protocol-unreachable", false) => ([3, 2], [0; 4]),
        ("protocol-unreachable", true) => ([4, 1], [0, 0, 0, 6]),
        ("port-unreachable", false) => ([3, 3], [0; 4]),
        ("port-unreachable", true) => ([1, 4], [0; 4]),
        ("source-route-failed", false) => ([3, 5], [0; 4]),
        ("prohibited", false) => ([3, 13], [0; 4]),
        ("prohibited", true) => ([1, 1], [0; 4]),
        ("time-exceeded", false) => ([11, 0], [0; 4]),
        ("time-exceeded", true) => ([3, 0], [0; 4]),
        ("parameter-problem", false) => ([12, 0], [20, 0, 0, 0]),
        ("parameter-problem", true) => ([4, 0], [0, 0, 0, 40]),
        ("source-quench", false) => ([4, 0], [0; 4]),
        _ => {
            let family = if ipv6 { "IPv6" } else { "IPv4" };
            return Err(format!("`icmp {kind}` is not known, or not of {family}"));
        }
    })
}

/// The frame in which an ICMP error arrives about the segment `ours`, from us to `peer`.
pub fn icmp_frame(
    us: IpAddr,
    peer: IpAddr,
    ours: &Raw,
    kind: &str,
    mtu: i64,
) -> Result<Vec<u8>, String> {
    let ipv6 = us.is_ipv6();
    let router: IpAddr = ROUTER[usize::from(ipv6)].parse().expect("an address");
    let (head, more) = icmp_head(kind, mtu, ipv6)?;
    let quoted = ip_packet(us, peer, 6, 0, &tcp_bytes(us, peer, ours, false));
    // RFC 792: the header and 64 bits. RFC 4443 §2.4(c): as much as fits.
    let quoted = &quoted[..if ipv6 { quoted.len().min(1232) } else { 28 }];
    let mut message = [&head[..], &[0, 0], &more, quoted].concat();
    let seed = if ipv6 {
        pseudo(router, us, 58, message.len())
    } else {
        0
    };
    let checksum = !folded(sum(&message) + seed);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let protocol = if ipv6 { 58 } else { 1 };
    Ok(frame(&ip_packet(router, us, protocol, 0, &message)))
}

/// What leaves, taken apart and verified: the addresses and the segment.
pub fn read_frame(frame: &[u8]) -> Result<(IpAddr, IpAddr, Raw), String> {
    if frame.len() < 54 || frame[..6] != MAC_PEER || frame[6..12] != MAC_OURS {
        return Err(format!(
            "no frame to the peer: {:02x?}",
            &frame[..frame.len().min(14)]
        ));
    }
    let packet = &frame[14..];
    let be16 = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (src, dst, protocol, ecn, dont_fragment, segment): (IpAddr, IpAddr, _, _, _, _) =
        match frame[12..14] {
            [8, 0] if packet[0] == 0x45 => {
                if folded(sum(&packet[..20])) != 0xffff {
                    return Err("the IPv4 header's checksum is wrong".into());
                }
                let address = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).expect("four");
                let whole = packet.get(20..usize::from(be16(2)));
                let df = packet[6] & 0x40 != 0;
                (
                    address(12).into(),
                    address(16).into(),
                    packet[9],
                    packet[1] & 3,
                    df,
                    whole,
                )
            }
            [0x86, 0xdd] if packet[0] >> 4 == 6 => {
                let address = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).expect("16");
                let whole = packet.get(40..40 + usize::from(be16(4)));
                let ecn = packet[1] >> 4 & 3;
                (
                    address(8).into(),
                    address(24).into(),
                    packet[6],
                    ecn,
                    true,
                    whole,
                )
            }
            _ => return Err(format!("neither IPv4 nor IPv6: {:02x?}", &frame[12..20])),
        };
    let segment = segment.ok_or("the IP length is beyond the frame")?;
    if protocol != 6 {
        return Err(format!("a packet of protocol {protocol}: {segment:02x?}"));
    }
    let mut raw = read_segment(src, dst, segment)?;
    (raw.ecn, raw.dont_fragment) = (ecn, dont_fragment);
    Ok((src, dst, raw))
}

fn read_segment(src: IpAddr, dst: IpAddr, segment: &[u8]) -> Result<Raw, String> {
    let be16 = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    let be32 = |at: usize| u32::from(be16(at)) << 16 | u32::from(be16(at + 2));
    if segment.len() < 20 {
        return Err("a segment of less than 20 bytes".into());
    }
    if folded(sum(segment) + pseudo(src, dst, 6, segment.len())) != 0xffff {
        return Err("the TCP checksum is wrong".into());
    }
    let header = usize::from(segment[12] >> 4) * 4;
    if segment[12] & 0xf != 0 || header < 20 || header > segment.len() {
        return Err(format!(
            "data offset and reserved bits are {:02x}",
            segment[12]
        ));
    }
    Ok(Raw {
        src_port: be16(0),
        dst_port: be16(2),
        seq: be32(4),
        ack: be32(8),
        flags: segment[13],
        window: be16(14),
        urgent: be16(18),
        options: segment[20..header].to_vec(),
        payload: segment[header..].to_vec(),
        ..Raw::default()
    })
}
