//! What the fuzz target for a live connection checks: one connection of a stack, kept alive by a peer
//! whose segments are nearly right.
//!
//! `inet.rs` throws any bytes at a stack; here the handshake is always done, and the peer knows the
//! numbers, the scale of windows and the timestamps, so that each byte of the input leads somewhere in
//! TCP: data in any order and overlap, partial, duplicate, selective and forged acknowledgements,
//! windows that close and shrink, resets and SYNs, ICMP errors, time, and a program that sends, reads
//! and ends as it likes. After each step:
//!
//! - the bytes that the program reads are the peer's, each at its place, and what leaves are ours;
//! - nothing leaves beyond the furthest edge that the peer ever offered, a probe's byte apart;
//! - acknowledgements do not go back, nor does the edge that we offer, rounding apart;
//! - segments without data are not more than what came, and what deadlines asked for;
//! - what waits for the peer has a deadline, and deadlines that were seen to lie in the future;
//! - received data takes bounded memory.
//!
//! In the end the peer falls silent: a connection with something unacknowledged ends by itself.
//!
//! Included by the fuzz target and by `crates/inet/tests/corpus.rs`.

use std::net::{IpAddr, SocketAddr};

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, DetachedConnection, EventSet, ListenOptions, Options, State};
use exos_inet::{Config, Duration, Instant, Neighbors, RxChecksum, Stack};
use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetHeader};
use exos_wire::ipv4::{self, Ipv4Header, Ipv4View};
use exos_wire::ipv6::{self, Ipv6Header, Ipv6View};
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, TcpView, Timestamps, fill_checksum};
use exos_wire::{Mac, SeqNumber, Sum, protocol};

const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
const MTU: usize = 1500;
/// The peer's sequence numbers begin near their wrap.
const ISN_PEER: u32 = 0xffff_f000;
/// Frames of one step that are too many: a whole send queue of small segments.
const FRAMES_MAX: usize = 30_000;
/// Bytes that the program queues at most.
const SENT_MAX: usize = 300_000;
/// Wakings until a connection with a silent peer is over: a dozen retransmissions and some others.
const WAKINGS_MAX: usize = 500;
/// Acknowledgements that it takes to report all ranges that are remembered, three to each.
const REPORTS_MAX: usize = 12;
/// Received data takes at most a few times the greatest window, since it moves when it grows.
const MEMORY_MAX: usize = 32 << 20;

/// Bytes taken from the front; zeros when they are used up.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// A length: mostly small or a segment's, now and then any of 16 bits.
    fn len(&mut self) -> usize {
        match self.byte() {
            255 => usize::from(self.word()),
            n @ 200..=254 => 1000 + usize::from(n - 200) * 10,
            n => usize::from(n) * 3,
        }
    }
}

fn content(stream: u32, at: u32) -> u8 {
    (at.wrapping_add(stream).wrapping_mul(2_654_435_761) >> 16) as u8
}

const OUR_STREAM: u32 = 1;
const THEIR_STREAM: u32 = 77;

fn address(ipv6: bool, last: u8) -> IpAddr {
    if ipv6 {
        std::net::Ipv6Addr::new(0xfd10, 0, 0, 0, 0, 0, 0, last.into()).into()
    } else {
        [10, 10, 0, last].into()
    }
}

/// What the peer's SYN says.
struct Peer {
    mss: Option<u16>,
    scale: Option<u8>,
    sack: bool,
    timestamps: bool,
}

/// The stack, the peer and the program.
struct World {
    stack: Stack,
    now: Instant,
    id: Option<ConnectionId>,
    over: bool,
    ipv6: bool,
    ports: (u16, u16),
    peer: Peer,
    /// Our SYN's number, once seen, and the number behind the highest that left.
    ours: Option<SeqNumber>,
    our_end: SeqNumber,
    our_scale: u8,
    /// What the peer has acknowledged, and the furthest edge that it ever offered.
    acknowledged: SeqNumber,
    offered: SeqNumber,
    /// What the stack has acknowledged, and the edge that it offers.
    expected: Option<SeqNumber>,
    edge: Option<SeqNumber>,
    /// The peer's next number, as it sends in order.
    next: SeqNumber,
    our_timestamp: u32,
    sent: usize,
    read: u32,
    /// Segments that came since the last look, and segments without data that left.
    came: usize,
    bare: usize,
    woken: usize,
}

/// One connection, and a script of any bytes for everything around it.
pub fn connection(data: &[u8]) {
    let mut script = Script(data);
    let mut world = World::new(&mut script);
    while !script.0.is_empty() && !world.over {
        match script.byte() % 16 {
            0..=3 => world.data(&mut script),
            4..=7 => world.acknowledgement(&mut script),
            8 => world.stray(&mut script),
            9 => world.icmp(&mut script),
            10 | 11 => world.wait(&mut script),
            _ => world.program(&mut script),
        }
        world.settle();
    }
    world.leave_alone();
}

impl World {
    fn new(script: &mut Script<'_>) -> Self {
        let bits = script.byte();
        let (ipv6, active) = (bits & 1 == 1, bits & 2 == 2);
        let mut config = Config::new(OURS, MTU);
        config.addresses = vec![(address(ipv6, 1), 24)];
        config.neighbors = Neighbors::External;
        let now = Instant::from_millis(1);
        let mut stack = Stack::new(config, u64::from(bits), now).expect("sound addresses");
        stack.set_neighbor(now, address(ipv6, 2), THEIRS);
        let options = Options {
            receive_buffer_bytes: [1500, 5000, 70_000, 300_000][usize::from(bits >> 2 & 3)],
            nagle: bits & 16 == 16,
            user_timeout: (bits & 32 == 32).then_some(Duration::from_secs(30)),
            ..Options::default()
        };
        let choice = script.byte();
        let mut world = World {
            stack,
            now,
            id: None,
            over: false,
            ipv6,
            ports: if active { (5000, 80) } else { (80, 4000) },
            peer: Peer {
                mss: [None, Some(1000), Some(100), Some(9000)][usize::from(choice & 3)],
                scale: [None, Some(0), Some(3), Some(14)][usize::from(choice >> 2 & 3)],
                sack: choice & 16 == 16,
                timestamps: choice & 32 == 32,
            },
            ours: None,
            our_end: SeqNumber(0),
            our_scale: 0,
            acknowledged: SeqNumber(0),
            offered: SeqNumber(0),
            expected: None,
            edge: None,
            next: SeqNumber(ISN_PEER),
            our_timestamp: 0,
            sent: 0,
            read: 0,
            came: 0,
            bare: 0,
            woken: 0,
        };
        world.handshake(active, &options, script.word());
        world
    }

    fn handshake(&mut self, active: bool, options: &Options, window: u16) {
        let syn = |flags: TcpFlags| (flags, SeqNumber(ISN_PEER));
        if active {
            let from = SocketAddr::new(address(self.ipv6, 1), self.ports.0);
            let to = SocketAddr::new(address(self.ipv6, 2), self.ports.1);
            let made = self.stack.tcp_connect(self.now, Some(from), to, options);
            self.id = Some(made.expect("the first connection"));
            self.settle();
            let (flags, seq) = syn(TcpFlags::SYN | TcpFlags::ACK);
            self.arrive(flags, seq, self.our_end, window, 0, &[]);
        } else {
            let listen = ListenOptions {
                connection: options.clone(),
                ..ListenOptions::default()
            };
            let made = self.stack.tcp.listen(None, self.ports.0, listen);
            made.expect("the first listener");
            let (flags, seq) = syn(TcpFlags::SYN);
            self.arrive(flags, seq, SeqNumber(0), window, 0, &[]);
            self.settle();
            self.next = SeqNumber(ISN_PEER) + 1;
            self.arrive(TcpFlags::ACK, self.next, self.our_end, window, 0, &[]);
        }
        self.next = SeqNumber(ISN_PEER) + 1;
        self.settle();
        assert!(self.id.is_some(), "a handshake without fault");
    }

    // What the peer does.

    /// Data and perhaps a FIN, in order or not.
    fn data(&mut self, script: &mut Script<'_>) {
        let (how, len) = (script.byte(), script.len().min(1400));
        let away = script.len() as u32;
        let seq = match how % 8 {
            0..=3 => self.next,
            4 | 5 => self.next + away,
            6 => self.next - away,
            _ => self.next + u32::from(script.word()) * 8,
        };
        let mut flags = TcpFlags::ACK;
        if how & 0x18 == 0x18 && away.is_multiple_of(8) {
            flags |= TcpFlags::FIN;
        }
        let ack = self.ack_number(how >> 5, script);
        if how % 8 < 4 {
            self.next += len as u32;
        }
        let window = self.window(script);
        self.arrive(flags, seq, ack, window, len, &[]);
    }

    /// An acknowledgement, with blocks if they were agreed on.
    fn acknowledgement(&mut self, script: &mut Script<'_>) {
        let how = script.byte();
        let ack = self.ack_number(how & 7, script);
        let window = self.window(script);
        let mut blocks = Vec::new();
        for _ in 0..usize::from(how >> 3 & 3) * usize::from(self.peer.sack) {
            let left = self.acknowledged + script.len() as u32;
            blocks.push((left, left + script.len() as u32));
        }
        let repeats = 1 + usize::from(how >> 5 & 3);
        for _ in 0..repeats {
            self.arrive(TcpFlags::ACK, self.next, ack, window, 0, &blocks);
        }
    }

    /// Resets, SYNs, segments without ACK and with marks, near the right numbers.
    fn stray(&mut self, script: &mut Script<'_>) {
        let (flags, how) = (TcpFlags(script.byte()), script.byte());
        let away = script.len() as u32;
        let seq = if how & 1 == 1 {
            self.next + away
        } else {
            self.next - away
        };
        let ack = self.ack_number(how >> 1 & 7, script);
        self.arrive(flags, seq, ack, script.word(), usize::from(how >> 4), &[]);
    }

    fn ack_number(&mut self, how: u8, script: &mut Script<'_>) -> SeqNumber {
        let flight = (self.our_end - self.acknowledged).max(0) as u32;
        match how {
            0..=2 => self.our_end,
            3 | 4 => self.acknowledged,
            5 => self.acknowledged + (flight / 256) * u32::from(script.byte()),
            6 => self.our_end + script.len() as u32,
            _ => self.acknowledged - script.len() as u32,
        }
    }

    fn window(&mut self, script: &mut Script<'_>) -> u16 {
        match script.byte() {
            0 => 0,
            255 => script.word(),
            n => u16::from(n) * 257,
        }
    }

    fn arrive(
        &mut self,
        flags: TcpFlags,
        seq: SeqNumber,
        ack: SeqNumber,
        window: u16,
        len: usize,
        blocks: &[(SeqNumber, SeqNumber)],
    ) {
        let header = TcpHeader {
            src_port: self.ports.1,
            dst_port: self.ports.0,
            seq,
            ack,
            flags,
            window,
            urgent: 0,
        };
        let options = self.options(flags, blocks);
        let mut segment = vec![0; 60];
        let header_len = header.emit(&options, &mut segment);
        segment.truncate(header_len);
        let first = seq + u32::from(flags.contains(TcpFlags::SYN));
        let place = first.0.wrapping_sub(ISN_PEER + 1);
        segment.extend((0..len as u32).map(|n| content(THEIR_STREAM, place.wrapping_add(n))));
        self.note(&header);
        self.came += 1;
        self.packet(protocol::TCP, header_len, segment);
    }

    fn options(&self, flags: TcpFlags, blocks: &[(SeqNumber, SeqNumber)]) -> TcpOptions {
        let mut options = TcpOptions::NONE;
        if flags.contains(TcpFlags::SYN) {
            options.mss = self.peer.mss;
            options.window_scale = self.peer.scale;
            options.sack_permitted = self.peer.sack;
        }
        if self.peer.timestamps {
            options.timestamps = Some(Timestamps {
                value: self.now.millis() as u32,
                echo: self.our_timestamp,
            });
        }
        for &(left, right) in blocks {
            options.sack.push(left, right);
        }
        options
    }

    /// What the peer offers and acknowledges with a segment, if it is taken.
    fn note(&mut self, header: &TcpHeader) {
        if !header.flags.contains(TcpFlags::ACK) || self.ours.is_none() {
            return;
        }
        let scaled = !header.flags.contains(TcpFlags::SYN) && self.peer.scale.is_some();
        let shift = if scaled {
            self.peer.scale.unwrap_or(0)
        } else {
            0
        };
        let edge = header.ack + (u32::from(header.window) << shift);
        // A window of a SYN to a listener counts from the SYN-ACK's number, which is before this.
        self.offered = self.offered.max(edge);
        let acceptable = header.ack.gt(self.acknowledged) && header.ack.le(self.our_end);
        if acceptable {
            self.acknowledged = header.ack;
        }
    }

    fn packet(&mut self, protocol: u8, header_len: usize, mut payload: Vec<u8>) {
        let (src, dst) = (address(self.ipv6, 2), address(self.ipv6, 1));
        if protocol == protocol::TCP {
            let pseudo = Sum::pseudo(src, dst, protocol, payload.len() as u32);
            let data = Sum::of(&payload[header_len..]);
            fill_checksum(&mut payload[..header_len], pseudo.plus(data));
        }
        let mut packet = vec![0; if self.ipv6 { ipv6::LEN } else { ipv4::LEN }];
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Header {
                src,
                dst,
                protocol,
                ttl: 64,
                tos: 0,
                ident: 7,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
            }
            .emit(payload.len(), &mut packet),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Header {
                src,
                dst,
                next_header: protocol,
                hop_limit: 64,
                traffic_class: 0,
                flow_label: 0,
            }
            .emit(payload.len(), &mut packet),
            _ => unreachable!("one family"),
        };
        let ethertype = if self.ipv6 {
            ETHERTYPE_IPV6
        } else {
            ETHERTYPE_IPV4
        };
        let mut frame = vec![0; 14];
        EthernetHeader {
            dst: OURS,
            src: THEIRS,
            vlan: None,
            ethertype,
        }
        .emit(&mut frame);
        frame.extend(packet);
        frame.extend(payload);
        self.stack
            .handle_frame(self.now, &frame, RxChecksum::Verified);
    }

    /// A router says that something of ours was too big, or did not arrive (IPv4: its message is short).
    fn icmp(&mut self, script: &mut Script<'_>) {
        let (kind, mtu, at) = (script.byte(), script.word(), script.len() as u32);
        let (IpAddr::V4(us), IpAddr::V4(peer)) = (address(self.ipv6, 1), address(self.ipv6, 2))
        else {
            return;
        };
        let seq = self.acknowledged + at;
        let code = if kind & 1 == 1 { 4 } else { kind >> 1 & 15 };
        let mut message = vec![3, code, 0, 0, 0, 0];
        message.extend(mtu.to_be_bytes());
        let mut quoted = vec![0; ipv4::LEN];
        Ipv4Header {
            src: us,
            dst: peer,
            protocol: protocol::TCP,
            ttl: 60,
            tos: 0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
        }
        .emit(1000, &mut quoted);
        message.extend(quoted);
        message.extend(self.ports.0.to_be_bytes());
        message.extend(self.ports.1.to_be_bytes());
        message.extend(seq.0.to_be_bytes());
        let checksum = Sum::of(&message).finish();
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        self.packet(protocol::ICMP, 0, message);
    }

    fn wait(&mut self, script: &mut Script<'_>) {
        let how = script.byte();
        match how {
            0..=99 => self.now += Duration::from_millis(u64::from(how)),
            100..=199 => self.pass_to_next_deadline(),
            _ => self.now += Duration::from_secs(u64::from(how - 199)),
        }
    }

    fn pass_to_next_deadline(&mut self) {
        if let Some(at) = self.stack.poll_timeout(self.now) {
            self.now = self.now.max(at);
        }
    }

    // What the program does.

    fn program(&mut self, script: &mut Script<'_>) {
        let Some(id) = self.id else { return };
        let (what, count) = (script.byte(), script.len());
        match what % 16 {
            0..=5 => self.send(id, count),
            6..=11 => {
                let ready = self.stack.tcp.readable(id).len();
                self.take(
                    id,
                    if what & 64 == 64 {
                        ready
                    } else {
                        ready.min(count)
                    },
                );
            }
            12 => self.stack.tcp.acknowledge_now(id),
            13 => self.stack.tcp.finish(id),
            14 if count % 4 == 0 => self.stack.tcp_abort(id),
            15 => self.move_on(id),
            _ => {}
        }
    }

    /// Out of the stack and in again, as bytes.
    fn move_on(&mut self, id: ConnectionId) {
        let Some(taken) = self.stack.tcp_take_out(self.now, id) else {
            return;
        };
        let again = DetachedConnection::decode(&taken.encode()).expect("what a stack wrote");
        let put = self.stack.tcp_put_in(self.now, again);
        self.id = Some(put.expect("its place is free"));
        // It acknowledges, and tells again of what it holds beyond gaps.
        self.came += REPORTS_MAX;
    }

    fn send(&mut self, id: ConnectionId, count: usize) {
        let count = count * 8;
        if self.sent + count > SENT_MAX {
            return;
        }
        let at = self.sent as u32;
        let bytes: Vec<u8> = (0..count as u32)
            .map(|n| content(OUR_STREAM, at + n))
            .collect();
        if self.stack.tcp.send(id, Buffer::from(bytes).into()) {
            self.sent += count;
        }
    }

    fn take(&mut self, id: ConnectionId, count: usize) {
        for (n, &byte) in self.stack.tcp.readable(id)[..count].iter().enumerate() {
            let at = self.read.wrapping_add(n as u32);
            assert_eq!(
                byte,
                content(THEIR_STREAM, at),
                "byte {at} of the stream is wrong"
            );
        }
        self.stack.tcp.consume(id, count);
        self.read += count as u32;
    }

    // What must hold.

    /// Deadlines, events and frames, to their end.
    fn settle(&mut self) {
        let due = self
            .stack
            .poll_timeout(self.now)
            .is_some_and(|at| at <= self.now);
        self.woken += usize::from(due);
        self.stack.handle_timeout(self.now);
        let next = self.stack.poll_timeout(self.now);
        assert!(
            next.is_none_or(|at| at > self.now),
            "a deadline in the past"
        );
        while let Some(event) = self.stack.poll_event() {
            self.id = self.id.or(Some(event.connection));
            if event.set.contains(EventSet::CLOSED) {
                let rest = self.stack.tcp.readable(event.connection).len();
                self.take(event.connection, rest);
                self.over = true;
            }
        }
        for count in 0.. {
            assert!(count < FRAMES_MAX, "frames without end");
            let Some(out) = self.stack.poll_transmit(self.now) else {
                break;
            };
            let frame = [&[out.head], out.body.parts()].concat().concat();
            self.leave(&frame);
        }
        while let Some(ip) = self.stack.poll_unresolved() {
            self.stack.set_neighbor(self.now, ip, THEIRS);
        }
        self.check();
    }

    fn check(&mut self) {
        // Each segment that comes asks for one without data at most, a deadline too; commands may ask.
        let most = self.came + self.woken + 2;
        assert!(
            self.bare <= most,
            "{} bare segments for {most} reasons",
            self.bare
        );
        (self.came, self.woken, self.bare) = (0, 0, 0);
        assert!(self.stack.tcp.memory().used <= MEMORY_MAX);
        let Some(connection) = self.id.and_then(|id| self.stack.tcp.connection(id)) else {
            return;
        };
        let waits = connection.unacknowledged() > 0
            || matches!(
                connection.state(),
                State::SynSent
                    | State::SynReceived
                    | State::FinWait1
                    | State::FinWait2
                    | State::Closing
                    | State::LastAck
            );
        assert!(
            self.over || !waits || connection.next_deadline().is_some(),
            "waits without a deadline: {:?}",
            connection.info()
        );
    }

    /// A frame leaves: it is sound, and the peer learns from it.
    fn leave(&mut self, frame: &[u8]) {
        let (src, dst) = (address(self.ipv6, 1), address(self.ipv6, 2));
        let payload = if self.ipv6 {
            let ip = Ipv6View::parse(&frame[14..]).expect("an IPv6 packet");
            let upper = ip.upper().expect("headers in order");
            assert_eq!(upper.protocol, protocol::TCP);
            upper.payload
        } else {
            let ip = Ipv4View::parse(&frame[14..]).expect("an IPv4 packet");
            assert!(ip.header_checksum_ok());
            assert_eq!(ip.protocol(), protocol::TCP);
            ip.payload()
        };
        assert!(frame.len() <= 14 + MTU, "larger than the MTU");
        let tcp = TcpView::parse(payload).expect("a TCP segment");
        let pseudo = Sum::pseudo(src, dst, protocol::TCP, payload.len() as u32);
        assert!(tcp.checksum_ok(pseudo) && !tcp.options().malformed);
        self.our_timestamp = tcp.options().timestamps.map_or(0, |t| t.value);
        if tcp.flags().contains(TcpFlags::RST) {
            return;
        }
        if tcp.flags().contains(TcpFlags::SYN) {
            self.learn_syn(&tcp);
        }
        self.check_data(&tcp);
        self.check_acknowledgement(&tcp);
        let silent = tcp.seq_len() == 0;
        self.bare += usize::from(silent);
    }

    fn learn_syn(&mut self, tcp: &TcpView<'_>) {
        if self.ours.is_none() {
            self.ours = Some(tcp.seq());
            self.our_end = tcp.seq() + 1;
            self.acknowledged = tcp.seq();
            self.offered = tcp.seq() + 1;
            self.our_scale = tcp.options().window_scale.unwrap_or(0);
        }
        assert_eq!(Some(tcp.seq()), self.ours, "another SYN");
    }

    /// What we send is the program's, and within what the peer offered.
    fn check_data(&mut self, tcp: &TcpView<'_>) {
        let ours = self.ours.expect("a SYN before all else");
        let place = (tcp.seq() - (ours + 1)) as u32;
        for (n, &byte) in tcp.payload().iter().enumerate() {
            let at = place.wrapping_add(n as u32);
            assert!((at as usize) < self.sent, "byte {at} of {}", self.sent);
            assert_eq!(
                byte,
                content(OUR_STREAM, at),
                "byte {at} that left is wrong"
            );
        }
        let data_end = tcp.seq() + tcp.payload().len() as u32;
        if !tcp.payload().is_empty() {
            let beyond = data_end - self.offered;
            assert!(beyond <= 1, "{beyond} bytes beyond the peer's window");
        }
        self.our_end = self.our_end.max(tcp.seq() + tcp.seq_len());
    }

    /// What we acknowledge and offer does not go back.
    fn check_acknowledgement(&mut self, tcp: &TcpView<'_>) {
        if !tcp.flags().contains(TcpFlags::ACK) {
            return;
        }
        let back = self.expected.is_some_and(|before| tcp.ack().lt(before));
        assert!(!back, "an acknowledgement goes back");
        self.expected = Some(tcp.ack());
        let scaled = !tcp.flags().contains(TcpFlags::SYN) && self.peer.scale.is_some();
        let shift = if scaled { self.our_scale } else { 0 };
        let edge = tcp.ack() + (u32::from(tcp.window()) << shift);
        // What closes a connection in TIME-WAIT offers nothing.
        if self.over {
            return;
        }
        if let Some(before) = self.edge {
            let back = before - edge;
            assert!(
                back < 1 << self.our_scale,
                "the window's edge goes back by {back}"
            );
        }
        self.edge = Some(self.edge.map_or(edge, |before| before.max(edge)));
    }

    /// The peer is silent from now on.
    fn leave_alone(&mut self) {
        for _ in 0..WAKINGS_MAX {
            if self.over || self.stack.poll_timeout(self.now).is_none() {
                break;
            }
            self.pass_to_next_deadline();
            self.settle();
        }
        let left = self
            .id
            .filter(|_| !self.over)
            .and_then(|id| self.stack.tcp.connection(id))
            .map_or(0, |c| c.unacknowledged());
        assert_eq!(left, 0, "a silent peer is waited for without end");
    }
}
