//! What the fuzz target of `exos-inet` checks: a whole stack, led by any bytes.
//!
//! The bytes are a script of what a peer, the clock and the program do. Segments are built around
//! the numbers that the stack last used, and with right checksums, so that the script gets far into
//! TCP. After each step:
//!
//! - every frame that leaves parses, is not longer than the MTU allows, and has right checksums;
//! - events and frames come to an end;
//! - once deadlines are seen to, the next one is in the future;
//! - there are no more connections than were allowed.
//!
//! Included by the fuzz target and by `crates/inet/tests/all/corpus.rs`.

use std::net::{IpAddr, SocketAddr};

use exos_buf::Buffer;
use exos_inet::stack::{Config, RxChecksum, Stack};
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options, SynCookies};
use exos_inet::{Duration, Instant};
use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader, EthernetView};
use exos_wire::icmpv4::Icmpv4View;
use exos_wire::icmpv6::Icmpv6View;
use exos_wire::ipv4::{self, Ipv4Header, Ipv4View};
use exos_wire::ipv6::{self, Ipv6Header, Ipv6View};
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, TcpView, fill_checksum};
use exos_wire::udp::UdpView;
use exos_wire::{Mac, SeqNumber, Sum, protocol};

const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
const MTU: usize = 1500;
const CONNECTIONS_MAX: usize = 8;
/// More than any step can rightly cause.
const FRAMES_MAX: usize = 5000;

/// Bytes taken from the front; zeros when they are used up.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Small numbers mostly, so that edges are met; now and then any.
    fn offset(&mut self) -> u32 {
        match self.byte() {
            255 => u32::from(self.word()) << 16 | u32::from(self.word()),
            254 => u32::from(self.word()),
            small => {
                i32::from(small as i8).wrapping_mul(if small & 1 == 1 { 1 } else { 700 }) as u32
            }
        }
    }
}

/// The stack, and what its peer knows of it.
struct World {
    stack: Stack,
    now: Instant,
    connection: Option<ConnectionId>,
    ipv6: bool,
    our_port: u16,
    their_port: u16,
    /// What the stack sends next, and what it expects next, by its own segments.
    our_next: SeqNumber,
    their_next: SeqNumber,
    our_timestamp: u32,
}

fn address(ipv6: bool, last: u8) -> IpAddr {
    if ipv6 {
        std::net::Ipv6Addr::new(0xfd10, 0, 0, 0, 0, 0, 0, last.into()).into()
    } else {
        [10, 10, 0, last].into()
    }
}

/// A stack with a listener, and a script of any bytes for everything around it.
pub fn stack(data: &[u8]) {
    let mut script = Script(data);
    let mut world = World::new(&mut script);
    while !script.0.is_empty() {
        match script.byte() % 8 {
            0 => world.raw_frame(&mut script),
            1..=3 => world.segment(&mut script),
            4 => world.ip_packet(&mut script),
            5 => world.wait(&mut script),
            _ => world.program(&mut script),
        }
        world.settle();
    }
    // Left alone for long enough, whatever was begun ends, unless both sides are content.
    for _ in 0..100 {
        world.now += Duration::from_secs(60);
        world.settle();
    }
}

impl World {
    fn new(script: &mut Script<'_>) -> World {
        let ipv6 = script.byte() & 1 == 1;
        let mut config = Config::new(OURS, MTU);
        config.addresses = vec![(address(false, 1), 24), (address(true, 1), 64)];
        config.connections_max = CONNECTIONS_MAX;
        let now = Instant::from_millis(1);
        let mut stack = Stack::new(config, 1, now).expect("sound addresses");
        stack.set_neighbor(now, address(ipv6, 2), THEIRS);
        let buffer = 1000 + u32::from(script.word()) * 4;
        let bits = script.byte();
        let connection = Options {
            receive_buffer_bytes: buffer,
            receive_buffer_max_bytes: buffer,
            nagle: bits & 1 == 1,
            ..Options::default()
        };
        let options = ListenOptions {
            connection,
            backlog: 4,
            syn_cookies: match bits >> 1 & 3 {
                0 => SynCookies::Never,
                1 => SynCookies::Always,
                _ => SynCookies::WhenFull,
            },
            ..ListenOptions::default()
        };
        stack
            .tcp
            .listen(None, 80, options)
            .expect("the first listener");
        stack.udp.bind(None, 53).expect("the first socket");
        World {
            stack,
            now,
            connection: None,
            ipv6,
            our_port: 80,
            their_port: 4000,
            our_next: SeqNumber(0),
            their_next: SeqNumber(1000),
            our_timestamp: 0,
        }
    }

    /// Any bytes behind an Ethernet header for us.
    fn raw_frame(&mut self, script: &mut Script<'_>) {
        let ethertype = [0x0800, 0x86dd, 0x0806, 0x8100][usize::from(script.byte() % 4)];
        let len = usize::from(script.byte());
        let frame = framed(ethertype, script.bytes(len));
        self.stack
            .handle_frame(self.now, &frame, RxChecksum::Unknown);
    }

    /// A segment of the connection, near the numbers in use.
    fn segment(&mut self, script: &mut Script<'_>) {
        let flags = TcpFlags(script.byte());
        let (seq, ack) = (script.offset(), script.offset());
        let header = TcpHeader {
            src_port: self.their_port.wrapping_add(u16::from(script.byte() == 7)),
            dst_port: self.our_port,
            seq: SeqNumber(self.their_next.0.wrapping_add(seq)),
            ack: SeqNumber(self.our_next.0.wrapping_add(ack)),
            flags,
            window: script.word(),
            urgent: 0,
        };
        let mut segment = vec![0; 60];
        let options = TcpOptions::with_timestamps(self.now.millis() as u32, self.our_timestamp);
        let header_len = match script.byte() % 8 {
            0 => header.emit(&TcpOptions::NONE, &mut segment),
            1 => {
                let raw = script.bytes(12);
                header.emit(&options, &mut segment);
                segment[20..20 + raw.len()].copy_from_slice(raw);
                32
            }
            2 => {
                let options = TcpOptions {
                    mss: Some(script.word()),
                    window_scale: Some(script.byte()),
                    ..options
                };
                header.emit(&options, &mut segment)
            }
            _ => header.emit(&options, &mut segment),
        };
        segment.truncate(header_len);
        let len = usize::from(script.byte()) * 6;
        segment.resize(header_len + len.min(1400), 0x5a);
        let (src, dst) = (address(self.ipv6, 2), address(self.ipv6, 1));
        let pseudo = Sum::pseudo(src, dst, protocol::TCP, segment.len() as u32);
        let data = Sum::of(&segment[header_len..]);
        fill_checksum(&mut segment[..header_len], pseudo.plus(data));
        self.packet(protocol::TCP, 0, &segment);
    }

    /// Any payload of any protocol, perhaps a fragment (IPv4), over a right IP header.
    fn ip_packet(&mut self, script: &mut Script<'_>) {
        let protocol = [1, 17, 58, 6, 0, 43, 44, 60][usize::from(script.byte() % 8)];
        let cut = script.word();
        let len = usize::from(script.byte());
        self.packet(protocol, cut, script.bytes(len));
    }

    fn packet(&mut self, protocol: u8, cut: u16, payload: &[u8]) {
        let mut packet = vec![0; if self.ipv6 { ipv6::LEN } else { ipv4::LEN }];
        match (address(self.ipv6, 2), address(self.ipv6, 1)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = Ipv4Header {
                    src,
                    dst,
                    protocol,
                    ttl: 64,
                    tos: 0,
                    ident: 7,
                    dont_fragment: false,
                    more_fragments: cut & 1 == 1,
                    fragment_offset: usize::from(cut >> 1 & 0x1f) * 8,
                };
                header.emit(payload.len(), &mut packet)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let next_header = protocol;
                let header = Ipv6Header {
                    src,
                    dst,
                    next_header,
                    hop_limit: 255,
                    traffic_class: 0,
                    flow_label: 0,
                };
                header.emit(payload.len(), &mut packet)
            }
            _ => unreachable!("one family"),
        };
        packet.extend_from_slice(payload);
        let frame = framed(
            if self.ipv6 {
                ETHERTYPE_IPV6
            } else {
                ETHERTYPE_IPV4
            },
            &packet,
        );
        self.stack
            .handle_frame(self.now, &frame, RxChecksum::Unknown);
    }

    fn wait(&mut self, script: &mut Script<'_>) {
        let millis = u64::from(script.byte());
        self.now += Duration::from_millis(if millis > 200 {
            (millis - 200) * 1000
        } else {
            millis
        });
    }

    /// What the program does.
    fn program(&mut self, script: &mut Script<'_>) {
        let (what, count) = (script.byte() % 8, usize::from(script.word()));
        if what == 7 {
            self.connect();
        }
        let Some(id) = self.connection else { return };
        let tcp = &mut self.stack.tcp;
        match what {
            0 | 1 => {
                tcp.send(id, Buffer::from(vec![0xa5; count + 1]).slice(1..count + 1));
            }
            2 => {
                let readable = tcp.readable(id).len();
                tcp.consume(id, readable.min(count));
            }
            3 => tcp.finish(id),
            4 => tcp.discard_received(id),
            5 => tcp.acknowledge_now(id),
            6 if count % 8 == 0 => self.stack.tcp.abort(id),
            _ => {}
        }
    }

    fn connect(&mut self) {
        let to = SocketAddr::new(address(self.ipv6, 2), 4000);
        let from = SocketAddr::new(address(self.ipv6, 1), 5000);
        if let Ok(id) = self
            .stack
            .tcp
            .connect(self.now, Some(from), to, &Options::default())
        {
            self.connection = Some(id);
            self.our_port = 5000;
        }
    }

    /// Deadlines, events and frames, to their end.
    fn settle(&mut self) {
        self.stack.handle_timeout(self.now);
        assert!(
            self.stack
                .poll_timeout(self.now)
                .is_none_or(|at| at > self.now),
            "a deadline in the past"
        );
        for count in 0.. {
            assert!(count < FRAMES_MAX, "events without end");
            let Some(event) = self.stack.poll_event() else {
                break;
            };
            if event.set.contains(EventSet::ACCEPTED) {
                self.connection = Some(event.connection);
            }
        }
        for count in 0.. {
            assert!(count < FRAMES_MAX, "frames without end");
            let Some(transmit) = self.stack.poll_transmit(self.now) else {
                break;
            };
            let frame = [&[transmit.head], transmit.body.parts()].concat().concat();
            self.check(&frame);
        }
        assert!(self.stack.tcp.connections() <= CONNECTIONS_MAX);
    }

    /// What leaves is sound; the peer learns from it.
    fn check(&mut self, frame: &[u8]) {
        let ethernet = EthernetView::parse(frame).expect("a frame");
        assert_eq!(ethernet.src(), OURS);
        assert!(ethernet.payload().len() <= MTU, "larger than the MTU");
        let payload = ethernet.payload();
        match ethernet.ethertype() {
            ETHERTYPE_IPV4 => {
                let ip = Ipv4View::parse(payload).expect("an IPv4 packet");
                assert!(ip.header_checksum_ok());
                if !ip.is_fragment() {
                    self.check_upper(
                        ip.src().into(),
                        ip.dst().into(),
                        ip.protocol(),
                        ip.payload(),
                    );
                }
            }
            ETHERTYPE_IPV6 => {
                let ip = Ipv6View::parse(payload).expect("an IPv6 packet");
                let upper = ip.upper().expect("headers in order");
                if upper.fragment.is_none() {
                    self.check_upper(
                        ip.src().into(),
                        ip.dst().into(),
                        upper.protocol,
                        upper.payload,
                    );
                }
            }
            _ => {}
        }
    }

    fn check_upper(&mut self, src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) {
        let pseudo = Sum::pseudo(src, dst, protocol, payload.len() as u32);
        match (protocol, src, dst) {
            (protocol::TCP, ..) => {
                let tcp = TcpView::parse(payload).expect("a TCP segment");
                assert!(tcp.checksum_ok(pseudo));
                assert!(!tcp.options().malformed);
                self.our_next = tcp.seq() + tcp.seq_len();
                if tcp.flags().contains(TcpFlags::ACK) && !tcp.flags().contains(TcpFlags::RST) {
                    self.their_next = tcp.ack();
                }
                self.our_timestamp = tcp.options().timestamps.map_or(0, |t| t.value);
            }
            (protocol::UDP, ..) => assert!(
                UdpView::parse(payload)
                    .expect("a datagram")
                    .checksum_ok(pseudo)
            ),
            (protocol::ICMP, ..) => {
                assert!(Icmpv4View::parse(payload).expect("ICMP").checksum_ok())
            }
            (protocol::ICMPV6, IpAddr::V6(src), IpAddr::V6(dst)) => {
                assert!(
                    Icmpv6View::parse(payload)
                        .expect("ICMPv6")
                        .checksum_ok(&src, &dst)
                );
            }
            other => panic!("sent something strange: {other:?}"),
        }
    }
}

fn framed(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    EthernetHeader {
        dst: OURS,
        src: THEIRS,
        vlan: None,
        ethertype,
    }
    .emit(&mut frame);
    frame.extend_from_slice(payload);
    frame
}
