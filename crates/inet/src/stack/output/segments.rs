//! The heads of segments: Ethernet, IP and TCP headers.
//!
//! Segments leave in runs of one connection, and what stands before the TCP header is the same in each of them but for
//! its length and class. So a [`Template`] keeps those headers and their sums, and [`Template::write_tcp`] fills in the rest. The
//! data is not touched: its sum comes from the slices that hold it, or is left to the link.

use std::net::IpAddr;

use exos_wire::ethernet::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::ipv4::{self, Ipv4Header};
use exos_wire::ipv6::{self, Ipv6Header};
use exos_wire::offload::TxChecksum;
use exos_wire::tcp::{self as wire_tcp, TcpOptions, Timestamps};
use exos_wire::{Mac, SeqNumber, Sum, protocol};

use crate::limits::HEAD_BYTES;
use crate::tcp::{ConnectionId, Ecn, Flow, IpFields, Outgoing};

const IP: usize = ethernet::LEN;

/// Two no-operations and the head of a timestamps option (RFC 7323 appendix A).
const TIMESTAMPS: u32 = 0x0101_080a;

/// The head that was written last, from which the next one is made.
pub(in crate::stack) struct Template {
    bytes: [u8; HEAD_BYTES],
    len: usize,
    /// Where the TCP header begins.
    tcp: usize,
    /// The first word of the TCP header.
    ports: u32,
    ip: IpFields,
    /// The connection to which the headers belong, and the link address.
    of: Option<(ConnectionId, Mac)>,
    /// What the IP header says: bytes of TCP header and data, and the type of service or traffic class.
    shape: (u32, u8),
    /// The sum of the pseudo header without its length.
    pseudo: u64,
    /// The sum of the IPv4 header without its first word and its checksum.
    ipv4: Sum,
    /// The sum of all that the last TCP checksum covered but the sequence number and the data.
    alike: u64,
}

impl Template {
    pub(in crate::stack) const fn new() -> Self {
        Self {
            bytes: [0; HEAD_BYTES],
            len: 0,
            tcp: 0,
            ports: 0,
            ip: IpFields::DEFAULT,
            of: None,
            shape: (0, 0),
            pseudo: 0,
            ipv4: Sum::ZERO,
            alike: 0,
        }
    }

    /// The head as last written.
    #[inline]
    pub(in crate::stack) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// True when the packet is IPv6.
    #[inline]
    pub(in crate::stack) fn is_ipv6(&self) -> bool {
        self.tcp == IP + ipv6::LEN
    }

    /// The last segment was of this connection, and went there.
    #[inline]
    pub(in crate::stack) fn is_of(&self, of: (ConnectionId, Mac)) -> bool {
        self.of == Some(of)
    }

    /// The next segment is of this connection. Nothing is written when the last one was too.
    #[inline]
    pub(in crate::stack) fn continue_with(
        &mut self,
        of: (ConnectionId, Mac),
        from: Mac,
        flow: &Flow,
        ip: IpFields,
    ) {
        if self.of != Some(of) || self.ip != ip {
            self.begin_with((from, of.1), flow, ip);
            self.of = Some(of);
        }
    }

    /// The next segment is of this flow: write the headers before its TCP header.
    #[inline(never)]
    pub(in crate::stack) fn begin_with(
        &mut self,
        (from, to): (Mac, Mac),
        flow: &Flow,
        ip: IpFields,
    ) {
        let (local, remote) = (flow.local().ip(), flow.remote().ip());
        let ethertype = match local {
            IpAddr::V4(_) => ETHERTYPE_IPV4,
            IpAddr::V6(_) => ETHERTYPE_IPV6,
        };
        let ethernet = EthernetHeader {
            dst: to,
            src: from,
            vlan: None,
            ethertype,
        };
        ethernet.emit(&mut self.bytes);
        let out = &mut self.bytes[IP..];
        let header = match (local, remote) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Header {
                ttl: ip.hop_limit,
                ..Ipv4Header::atomic(src, dst, protocol::TCP)
            }
            .emit(0, out),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Header {
                src,
                dst,
                next_header: protocol::TCP,
                hop_limit: ip.hop_limit,
                traffic_class: 0,
                flow_label: 0,
            }
            .emit(0, out),
            _ => unreachable!("a flow is of one family"),
        };
        self.ipv4 = Sum::of(&out[4..10]).plus(Sum::of(&out[12..ipv4::LEN]));
        self.pseudo = Sum::pseudo(local, remote, protocol::TCP, 0).value().into();
        self.tcp = IP + header;
        self.ports = u32::from(flow.local_port()) << 16 | u32::from(flow.remote_port());
        (self.of, self.ip) = (None, ip);
        // No segment is of this length, so the first one writes its own.
        self.shape = (0, 0);
    }

    /// Write the head of a segment with `len` bytes of data, whose sum is `sum`; `None` leaves the checksum to the link.
    #[inline]
    pub(in crate::stack) fn write_tcp(
        &mut self,
        segment: &Outgoing,
        len: usize,
        sum: Option<Sum>,
    ) -> TxChecksum {
        let options = &segment.options;
        let only_timestamps = options.timestamps.filter(|_| is_timestamps_alone(options));
        let out = &mut self.bytes[self.tcp..];
        let out: &mut [u8; wire_tcp::HEADER_LEN_MAX] =
            out.first_chunk_mut().expect("room for the longest header");
        let (header, rest) = out.split_at_mut(wire_tcp::LEN);
        let (options_len, options_sum) = match only_timestamps {
            Some(Timestamps { value, echo }) => {
                put(rest, [TIMESTAMPS, value, echo]);
                (12, sum_of([TIMESTAMPS, value, echo]))
            }
            None => {
                let len = options.emit(rest);
                (len, u64::from(Sum::of(&rest[..len]).value()))
            }
        };
        let header_len = wire_tcp::LEN + options_len;
        let offset = (header_len as u32 / 4) << 28;
        let flags = offset | u32::from(segment.flags.0) << 16 | u32::from(segment.window);
        let words = [self.ports, segment.seq.0, segment.ack.0, flags];
        put(header, words);
        let length = (header_len + len) as u32;
        let (field, checksum) = match sum {
            Some(data) => {
                // The header's length is even, so the data's sum adds to it as it is.
                self.alike = self.pseudo + u64::from(length) + sum_of(words) + options_sum
                    - u64::from(segment.seq.0);
                let all = self.alike + u64::from(segment.seq.0) + u64::from(data.value());
                (Sum::from_wide(all).finish(), TxChecksum::Complete)
            }
            None => {
                let partial = TxChecksum::Partial {
                    start: self.tcp as u16,
                    offset: wire_tcp::CHECKSUM_FIELD as u16,
                };
                let pseudo = Sum::from_wide(self.pseudo + u64::from(length));
                (pseudo.value(), partial)
            }
        };
        put(
            &mut header[wire_tcp::CHECKSUM_FIELD..],
            [u32::from(field) << 16],
        );
        self.len = self.tcp + header_len;
        let ecn = if segment.ect { Ecn::Ect0 } else { Ecn::NotEct };
        let shape = (length, self.ip.traffic_class(ecn.bits()));
        if shape != self.shape {
            self.reshape(shape);
        }
        checksum
    }

    /// Write the head of the next segment of a burst: of the last one, it differs in its number and the sum of its data.
    #[inline]
    pub(in crate::stack) fn write_next(&mut self, seq: SeqNumber, data: Sum) -> TxChecksum {
        let header = &mut self.bytes[self.tcp..];
        put(&mut header[4..], [seq.0]);
        let all = self.alike + u64::from(seq.0) + u64::from(data.value());
        let field = Sum::from_wide(all).finish();
        put(
            &mut header[wire_tcp::CHECKSUM_FIELD..],
            [u32::from(field) << 16],
        );
        TxChecksum::Complete
    }

    /// Write another length and class into the IP header.
    #[inline]
    fn reshape(&mut self, shape: (u32, u8)) {
        self.shape = shape;
        let (length, class) = (shape.0, u32::from(shape.1));
        let payload = u16::try_from(length).expect("an IP packet within 64 KiB");
        if self.is_ipv6() {
            put(&mut self.bytes[IP..], [0x6000_0000 | class << 20]);
            self.bytes[IP + 4..IP + 6].copy_from_slice(&payload.to_be_bytes());
        } else {
            let total = payload.checked_add(ipv4::LEN as u16);
            let total = total.expect("an IPv4 packet within 64 KiB");
            let first = 0x4500_0000 | class << 16 | u32::from(total);
            put(&mut self.bytes[IP..], [first]);
            let checksum = self.ipv4.plus_u32(first).finish();
            self.bytes[IP + 10..IP + 12].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// No other option is there than timestamps, if these are.
#[inline]
fn is_timestamps_alone(options: &TcpOptions) -> bool {
    !options.sack_permitted
        && options.sack.is_empty()
        && options.mss.is_none()
        && options.window_scale.is_none()
        && options.fast_open.is_none()
}

#[inline(always)]
fn put<const N: usize>(out: &mut [u8], words: [u32; N]) {
    for (place, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
}

#[inline(always)]
fn sum_of<const N: usize>(words: [u32; N]) -> u64 {
    words.iter().map(|&word| u64::from(word)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::siphash::Random;
    use exos_wire::tcp::{SackBlocks, TcpFlags, TcpHeader};

    const FROM: Mac = Mac([2, 3, 4, 5, 6, 7]);
    const TO: Mac = Mac([8, 9, 10, 11, 12, 13]);

    fn flows() -> [Flow; 2] {
        let flow =
            |local: &str, remote: &str| Flow::new(local.parse().unwrap(), remote.parse().unwrap());
        [
            flow("10.1.255.3:80", "192.168.4.5:65535"),
            flow("[fd10::1]:443", "[2001:db8:ffff::7]:40000"),
        ]
    }

    /// Options as of data, of a SYN, of a report of what is missing, and none.
    fn options(number: &mut impl FnMut() -> u32) -> TcpOptions {
        let plain = TcpOptions::with_timestamps(number(), number());
        let mut sack = SackBlocks::NONE;
        for _ in 0..=number() % 3 {
            sack.push(SeqNumber(number()), SeqNumber(number()));
        }
        match number() % 4 {
            0 => TcpOptions {
                mss: Some(number() as u16),
                sack_permitted: true,
                window_scale: Some(number() as u8 % 15),
                ..plain
            },
            1 => TcpOptions { sack, ..plain },
            2 => TcpOptions::NONE,
            _ => plain,
        }
    }

    fn outgoing(random: &mut Random) -> Outgoing {
        let mut number = || random.next_u64() as u32;
        Outgoing {
            seq: SeqNumber(number()),
            ack: SeqNumber(number()),
            flags: TcpFlags(number() as u8),
            window: number() as u16,
            options: options(&mut number),
            data: 7..7 + number() as usize % 1449,
            mss: 1448,
            again: false,
            ect: number().is_multiple_of(2),
            ip: IpFields {
                hop_limit: number() as u8,
                dscp: number() as u8 & 63,
            },
        }
    }

    /// The head as the headers' own writers make it.
    fn expected(flow: &Flow, segment: &Outgoing, sum: Option<Sum>) -> (Vec<u8>, TxChecksum) {
        let mut tcp = vec![0; 60];
        let header = TcpHeader {
            src_port: flow.local_port(),
            dst_port: flow.remote_port(),
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            urgent: 0,
        };
        let len = header.emit(&segment.options, &mut tcp);
        tcp.truncate(len);
        let payload = len + segment.data.len();
        let (local, remote) = (flow.local().ip(), flow.remote().ip());
        let pseudo = Sum::pseudo(local, remote, protocol::TCP, payload as u32);
        let mut out = vec![0; 54];
        let class = segment.ip.traffic_class(if segment.ect { 2 } else { 0 });
        let (ethertype, end) = match (local, remote) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = Ipv4Header {
                    ttl: segment.ip.hop_limit,
                    tos: class,
                    ..Ipv4Header::atomic(src, dst, protocol::TCP)
                };
                (ETHERTYPE_IPV4, header.emit(payload, &mut out[14..]))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = Ipv6Header {
                    src,
                    dst,
                    next_header: protocol::TCP,
                    hop_limit: segment.ip.hop_limit,
                    traffic_class: class,
                    flow_label: 0,
                };
                (ETHERTYPE_IPV6, header.emit(payload, &mut out[14..]))
            }
            _ => unreachable!("a flow is of one family"),
        };
        let ethernet = EthernetHeader {
            dst: TO,
            src: FROM,
            vlan: None,
            ethertype,
        };
        ethernet.emit(&mut out);
        out.truncate(14 + end);
        let start = out.len() as u16;
        let checksum = match sum {
            Some(data) => {
                wire_tcp::fill_checksum(&mut tcp, pseudo.plus(data));
                TxChecksum::Complete
            }
            None => {
                wire_tcp::fill_partial_checksum(&mut tcp, pseudo);
                TxChecksum::Partial { start, offset: 16 }
            }
        };
        out.extend_from_slice(&tcp);
        (out, checksum)
    }

    /// Whatever was written last, of this connection or another, the next head is right.
    #[test]
    fn heads_are_those_that_the_headers_writers_make() {
        let mut random = Random::new(5);
        let mut template = Template::new();
        let flows = flows();
        for n in 0..4000 {
            let mut segment = outgoing(&mut random);
            if n % 4 > 0 {
                segment.ip = template.ip;
            }
            // Runs of one flow, of IPv4 and IPv6 in turns.
            let flow = &flows[n / 16 % 2];
            let sum = (n % 3 > 0).then(|| Sum::from_value(random.next_u64() as u16));
            let id = ConnectionId::default();
            if n % 16 == 0 {
                template.begin_with((FROM, TO), flow, segment.ip);
            }
            template.continue_with((id, TO), FROM, flow, segment.ip);
            let checksum = template.write_tcp(&segment, segment.data.len(), sum);
            let expected = expected(flow, &segment, sum);
            assert_eq!(template.bytes(), expected.0, "{segment:?}");
            assert_eq!(checksum, expected.1);
            assert_eq!(template.is_ipv6(), flow.is_ipv6());
            // Another behind it, as in a burst.
            if sum.is_some() {
                let data = Sum::from_value(random.next_u64() as u16);
                segment.seq += segment.data.len() as u32;
                assert_eq!(template.write_next(segment.seq, data), checksum);
                let expected = self::expected(flow, &segment, Some(data));
                assert_eq!(template.bytes(), expected.0, "behind it: {segment:?}");
            }
        }
    }
}
