//! The short way of a handshake's first two segments, as nearly all of them look.
//!
//! In: a bare SYN in a frame without IP options, from a host that has been sent to before. Out: a SYN or
//! SYN-ACK with the four options that Linux and we always send: MSS, SACK permitted, timestamps, window
//! scale, in this order. What differs in anything goes the general way ([`input`](super::input),
//! [`segments`](super::segments)), which does the same; the tests here and those of the scripts compare them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exos_wire::tcp::{TcpFlags, TcpOptions, Timestamps};
use exos_wire::{Mac, SeqNumber, Sum, protocol};

use super::fast::{half, sums_up, word};
use super::segments::Head;
use super::words::{self, Before, CHECKSUM, ETHERNET, V4, V6};
use super::{RxChecksum, Stack};
use crate::limits::HEAD_BYTES;
use crate::tcp::{Ecn, Flow, FlowKey, Outgoing, Segment, Syn};
use crate::time::Instant;

/// The TCP header with its four options, in words and in bytes.
const WORDS: usize = 10;
const TCP: usize = 4 * WORDS;

/// Kind and length of MSS; of SACK permitted and timestamps; a no-operation before the window's scale.
const MSS: u32 = 0x0204_0000;
const SACK_AND_TIMESTAMPS: u32 = 0x0402_080a;
const SCALE: u32 = 0x0103_0300;

/// A SYN, and whose it is.
struct Arrived<'a> {
    key: FlowKey,
    src: IpAddr,
    dst: IpAddr,
    ecn: Ecn,
    tcp: &'a [u8],
    pseudo: Sum,
}

impl Stack {
    /// Take a frame in if it is a SYN that can go the short way.
    #[inline(never)]
    pub(super) fn handle_syn(&mut self, now: Instant, frame: &[u8], checksum: RxChecksum) -> bool {
        if frame.len() < V4 + 20 || frame[..6] != self.config.mac.0 {
            return false;
        }
        let arrived = match [frame[12], frame[13]] {
            [0x08, 0x00] => arrived_v4(frame),
            [0x86, 0xdd] => arrived_v6(frame),
            _ => None,
        };
        let Some(arrived) = arrived.filter(|a| self.is_between_hosts(a)) else {
            return false;
        };
        let Some(seg) = bare_syn(&arrived) else {
            return false;
        };
        let field = u16::from_be_bytes([arrived.tcp[CHECKSUM], arrived.tcp[CHECKSUM + 1]]);
        if !sums_up(checksum, field, || arrived.pseudo, arrived.tcp) {
            return false;
        }
        self.counters.frames_received += 1;
        let link = self.local(arrived.src.is_ipv6());
        let flow = arrived.key.flow();
        self.tcp
            .handle_segment(now, flow, &seg, link, &mut self.counters);
        true
    }

    /// To an address of ours, from one that may send and can be answered: what `ways` knows.
    fn is_between_hosts(&self, arrived: &Arrived<'_>) -> bool {
        let known = self.ways.get(arrived.src, self.path_generation());
        known.is_some() && self.routes.is_local(arrived.dst)
    }
}

fn arrived_v4(frame: &[u8]) -> Option<Arrived<'_>> {
    let (head, _) = frame.split_first_chunk::<{ V4 + 20 }>()?;
    // No options, no fragment, TCP.
    let plain = head[14] == 0x45 && word(head, 20) >> 16 & 0xbfff == 0;
    if !plain || head[23] != protocol::TCP {
        return None;
    }
    let sum: u64 = (14..34)
        .step_by(4)
        .map(|at| u64::from(word(head, at)))
        .sum();
    if Sum::from_wide(sum).value() != 0xffff {
        return None;
    }
    let tcp = frame.get(V4..ETHERNET + usize::from(half(head, 16)))?;
    let (src, dst) = (word(head, 26), word(head, 30));
    let pseudo = u64::from(src) + u64::from(dst) + u64::from(protocol::TCP) + tcp.len() as u64;
    Some(Arrived {
        key: FlowKey::v4(src, dst, word(head, V4)),
        src: Ipv4Addr::from(src).into(),
        dst: Ipv4Addr::from(dst).into(),
        ecn: Ecn::of(head[15]),
        tcp,
        pseudo: Sum::from_wide(pseudo),
    })
}

fn arrived_v6(frame: &[u8]) -> Option<Arrived<'_>> {
    let (head, _) = frame.split_first_chunk::<{ V6 + 20 }>()?;
    if head[14] >> 4 != 6 || head[20] != protocol::TCP {
        return None;
    }
    let tcp = frame.get(V6..V6 + usize::from(half(head, 18)))?;
    let addresses: &[u8; 32] = head[22..54].try_into().expect("32 bytes");
    let (src, dst) = addresses.split_first_chunk::<16>()?;
    let length = u64::from(protocol::TCP) + tcp.len() as u64;
    Some(Arrived {
        key: FlowKey::v6(addresses, word(head, V6)),
        src: Ipv6Addr::from(*src).into(),
        dst: Ipv6Addr::from(*dst.first_chunk::<16>()?).into(),
        ecn: Ecn::of((word(head, 14) >> 20) as u8),
        tcp,
        pseudo: Sum::of(addresses).plus(Sum::from_wide(length)),
    })
}

/// The segment, if it is a SYN (RFC 3168's bits apart) that carries no data.
fn bare_syn<'a>(arrived: &Arrived<'a>) -> Option<Segment<'a>> {
    let (head, options) = arrived.tcp.split_first_chunk::<20>()?;
    let flags = TcpFlags(head[13]);
    let only_syn = flags.0 & !(TcpFlags::ECE.0 | TcpFlags::CWR.0) == TcpFlags::SYN.0;
    let whole = usize::from(head[12] >> 4) * 4 == arrived.tcp.len();
    // Nobody has port 0.
    if !only_syn || !whole || half(head, 0) == 0 {
        return None;
    }
    Some(Segment {
        seq: SeqNumber(word(head, 4)),
        ack: SeqNumber(word(head, 8)),
        flags,
        window: half(head, 14),
        options: TcpOptions::parse(options),
        ecn: arrived.ecn,
        payload: &[],
    })
}

/// The values of the four options, where there are these and no others.
#[inline]
fn four(options: &TcpOptions) -> Option<(u16, u8, Timestamps)> {
    let others = !options.sack_permitted
        | !options.sack.is_empty()
        | options.fast_open.is_some()
        | options.user_timeout.is_some();
    if others {
        return None;
    }
    Some((options.mss?, options.window_scale?, options.timestamps?))
}

/// Write the head of a SYN or SYN-ACK if it is a usual one. `sum` is its data's; `None` leaves the checksum to
/// the link.
pub(super) fn write(
    out: &mut [u8; HEAD_BYTES],
    (from, to): (Mac, Mac),
    flow: &Flow,
    segment: &Outgoing,
    sum: Option<Sum>,
) -> Option<Head> {
    let (mss, scale, timestamps) = four(&segment.options)?;
    let syn = Syn {
        seq: segment.seq,
        ack: segment.ack,
        flags: segment.flags,
        window: segment.window,
        mss,
        scale,
        timestamps,
        ip: segment.ip,
    };
    let before = Before {
        from,
        to,
        flow,
        ip: segment.ip,
        ect: segment.ect,
        length: (TCP + segment.data.len()) as u32,
    };
    Some(words::write(out, &before, words_of(flow, &syn), sum))
}

/// Writes a SYN that carries no data.
#[inline]
pub(super) fn write_bare(
    out: &mut [u8; HEAD_BYTES],
    (from, to): (Mac, Mac),
    flow: &Flow,
    syn: &Syn,
    sum: Option<Sum>,
) -> Head {
    let before = Before {
        from,
        to,
        flow,
        ip: syn.ip,
        ect: false,
        length: TCP as u32,
    };
    words::write(out, &before, words_of(flow, syn), sum)
}

#[inline]
fn words_of(flow: &Flow, syn: &Syn) -> [u32; WORDS] {
    [
        u32::from(flow.local_port()) << 16 | u32::from(flow.remote_port()),
        syn.seq.0,
        syn.ack.0,
        (WORDS as u32) << 28 | u32::from(syn.flags.0) << 16 | u32::from(syn.window),
        0,
        MSS | u32::from(syn.mss),
        SACK_AND_TIMESTAMPS,
        syn.timestamps.value,
        syn.timestamps.echo,
        SCALE | u32::from(syn.scale),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::segments::{Addresses, write_tcp};
    use super::super::{Config, Neighbors};
    use super::*;
    use crate::siphash::Random;
    use crate::tcp::{IpFields, ListenOptions};
    use exos_wire::tcp::TcpHeader;

    const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn flows() -> [Flow; 2] {
        let flow =
            |local: &str, remote: &str| Flow::new(local.parse().unwrap(), remote.parse().unwrap());
        [
            flow("10.1.255.3:80", "10.1.4.5:65535"),
            flow("[fd10::1]:80", "[fd10::7]:40000"),
        ]
    }

    fn syn_ack(random: &mut Random) -> Outgoing {
        let mut number = || random.next_u64() as u32;
        Outgoing {
            seq: SeqNumber(number()),
            ack: SeqNumber(number()),
            flags: TcpFlags(number() as u8),
            window: number() as u16,
            options: TcpOptions {
                mss: Some(number() as u16),
                sack_permitted: true,
                window_scale: Some(number() as u8 % 15),
                ..TcpOptions::with_timestamps(number(), number())
            },
            data: 0..number() as usize % 1000,
            mss: 1448,
            again: false,
            ect: number() % 2 == 0,
            ip: IpFields {
                hop_limit: number() as u8,
                dscp: number() as u8 & 63,
            },
        }
    }

    fn write_general(out: &mut [u8], flow: &Flow, segment: &Outgoing, sum: Option<Sum>) -> Head {
        let at = Addresses::of(OURS, THEIRS, flow, segment);
        let header = TcpHeader {
            src_port: flow.local_port(),
            dst_port: flow.remote_port(),
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            urgent: 0,
        };
        write_tcp(out, &at, &header, &segment.options, segment.data.len(), sum)
    }

    #[test]
    fn as_the_general_way_writes_it() {
        let mut random = Random::new(8);
        for n in 0..2000 {
            let (segment, flow) = (syn_ack(&mut random), &flows()[n % 2]);
            let sum = (n % 3 > 0).then(|| Sum::from_value(random.next_u64() as u16));
            let (mut ours, mut theirs) = ([0xaa; HEAD_BYTES], [0xbb; HEAD_BYTES]);
            let head = write(&mut ours, (OURS, THEIRS), flow, &segment, sum).expect("a usual SYN");
            let other = write_general(&mut theirs, flow, &segment, sum);
            assert_eq!(ours[..head.len], theirs[..other.len], "{segment:?}");
            assert_eq!(head.checksum, other.checksum);
        }
        let mut other = syn_ack(&mut random);
        other.options.sack_permitted = false;
        let mut out = [0; HEAD_BYTES];
        assert!(write(&mut out, (OURS, THEIRS), &flows()[0], &other, None).is_none());
    }

    fn stack() -> Stack {
        let mut config = Config::new(OURS, 1500);
        config.neighbors = Neighbors::External;
        config.addresses = flows().iter().map(|f| (f.local().ip(), 16)).collect();
        let mut stack = Stack::new(config, 5, Instant::START).unwrap();
        for flow in flows() {
            stack.set_neighbor(Instant::START, flow.remote().ip(), THEIRS);
        }
        stack
            .tcp
            .listen(None, 80, ListenOptions::default())
            .expect("a free port");
        stack
    }

    /// A SYN of that peer, from port `port`.
    fn syn(flow: &Flow, port: u16) -> Vec<u8> {
        let mut random = Random::new(u64::from(port));
        let mut segment = syn_ack(&mut random);
        segment.flags = TcpFlags::SYN;
        (segment.ack, segment.data, segment.ip) = (SeqNumber(0), 0..0, IpFields::default());
        let remote = std::net::SocketAddr::new(flow.remote().ip(), port);
        let back = Flow::new(remote, flow.local());
        let mut frame = vec![0; HEAD_BYTES];
        let head = write_general(&mut frame, &back, &segment, Some(Sum::ZERO));
        frame[..6].copy_from_slice(&OURS.0);
        frame.truncate(head.len);
        frame
    }

    fn answer(stack: &mut Stack) -> Option<Vec<u8>> {
        let sent = stack.poll_transmit(Instant::START)?;
        Some(sent.head.to_vec())
    }

    /// The first SYN of a host goes the general way, the next the short one; a damaged one neither.
    #[test]
    fn the_second_syn_of_a_host_goes_the_short_way() {
        for flow in flows() {
            let (mut stack, now) = (stack(), Instant::START);
            assert!(!stack.handle_syn(now, &syn(&flow, 1000), RxChecksum::Unknown));
            stack.handle_frame(now, &syn(&flow, 1000), RxChecksum::Unknown);
            assert!(answer(&mut stack).is_some(), "a SYN-ACK");
            assert!(stack.handle_syn(now, &syn(&flow, 1001), RxChecksum::Unknown));
            assert!(answer(&mut stack).is_some(), "a SYN-ACK");
            let good = syn(&flow, 1002);
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0x10;
                // Of Ethernet no sum tells; the traffic class, hop limit and label of IPv6 say nothing.
                let free = (6..12).contains(&at) || (flow.is_ipv6() && (14..22).contains(&at));
                let taken = stack.handle_syn(now, &bad, RxChecksum::Unknown);
                assert!(!taken || free, "byte {at} of {}", good.len());
            }
        }
    }

    /// Both ways make the same connection: the answers are equal, byte for byte.
    #[test]
    fn both_ways_answer_alike() {
        for flow in flows() {
            let (mut short, mut general, now) = (stack(), stack(), Instant::START);
            for stack in [&mut short, &mut general] {
                stack.handle_frame(now, &syn(&flow, 1000), RxChecksum::Unknown);
                answer(stack).expect("a SYN-ACK");
            }
            general.ways = super::super::ways::Ways::new();
            for port in 1001..1100 {
                let frame = syn(&flow, port);
                assert!(short.handle_syn(now, &frame, RxChecksum::Unknown));
                assert!(!general.handle_syn(now, &frame, RxChecksum::Unknown));
                general.handle_frame(now, &frame, RxChecksum::Unknown);
                general.ways = super::super::ways::Ways::new();
                assert_eq!(answer(&mut short), answer(&mut general));
                general.ways = super::super::ways::Ways::new();
            }
            assert_eq!(
                short.counters().frames_received,
                general.counters().frames_received
            );
            assert_eq!(short.tcp.connections(), general.tcp.connections());
        }
    }
}
