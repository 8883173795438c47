//! The memory of received data, of a whole stack: programs that do not read, and peers that send only
//! what is beyond gaps.

use std::net::{IpAddr, Ipv4Addr};

use exos_inet::tcp::{ListenOptions, Options, Pressure};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::ethernet::{ETHERTYPE_IPV4, EthernetHeader};
use exos_wire::ipv4::{Ipv4Header, Ipv4View};
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, TcpView};
use exos_wire::{Mac, SeqNumber, Sum, ipv4, protocol, tcp};

const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([2, 0, 0, 0, 0, 2]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MSS: usize = 1460;

/// The scale that follows from [`BUFFER`].
const SCALE: u8 = 1;
const BUFFER: u32 = 128 * 1024 - 2;

/// A stack that listens, and peers made by hand: `peers` connections, each from its own port.
struct World {
    stack: Stack,
    now: Instant,
    /// What each peer sends next, and what it acknowledges.
    peers: Vec<(SeqNumber, SeqNumber)>,
    /// The right edge that each peer was told; it must never move back.
    edges: Vec<SeqNumber>,
}

impl World {
    fn new(peers: usize, limit: usize) -> Self {
        let mut config = Config::new(OURS, 1500);
        config.addresses = vec![(IpAddr::V4(SERVER), 24)];
        config.tcp_memory_bytes_max = limit;
        let now = Instant::from_millis(1);
        let mut stack = Stack::new(config, 7, now).unwrap();
        stack.set_neighbor(now, IpAddr::V4(CLIENT), THEIRS);
        let listen = ListenOptions {
            connection: Options::with_receive_buffer(BUFFER),
            ..ListenOptions::default()
        };
        stack.tcp.listen(None, 80, listen).unwrap();
        let mut world = Self {
            stack,
            now,
            peers: Vec::new(),
            edges: Vec::new(),
        };
        world.drain();
        (0..peers).for_each(|n| world.open(n));
        world
    }

    /// A handshake; false when the SYN is not answered.
    fn try_open(&mut self, n: usize) -> bool {
        let options = TcpOptions {
            mss: Some(MSS as u16),
            window_scale: Some(0),
            sack_permitted: true,
            ..TcpOptions::NONE
        };
        self.peers.push((SeqNumber(1001), SeqNumber(0)));
        self.edges.push(SeqNumber(1001));
        self.give(n, SeqNumber(1000), TcpFlags::SYN, &options, &[]);
        let answered = self.peers[n].1 != SeqNumber(0);
        if answered {
            self.give(n, SeqNumber(1001), TcpFlags::ACK, &TcpOptions::NONE, &[]);
        }
        answered
    }

    fn open(&mut self, n: usize) {
        assert!(self.try_open(n), "no answer to the SYN of peer {n}");
    }

    /// A segment arrives, and what it asks for leaves.
    fn give(
        &mut self,
        n: usize,
        seq: SeqNumber,
        flags: TcpFlags,
        options: &TcpOptions,
        data: &[u8],
    ) {
        let mut frame = vec![0; 14 + ipv4::LEN + 60];
        let header = EthernetHeader {
            dst: OURS,
            src: THEIRS,
            vlan: None,
            ethertype: ETHERTYPE_IPV4,
        };
        let at = header.emit(&mut frame);
        let tcp_len = tcp::LEN + tcp::options_len(options);
        let ip = Ipv4Header::atomic(CLIENT, SERVER, protocol::TCP);
        let at = at + ip.emit(tcp_len + data.len(), &mut frame[at..]);
        let header = TcpHeader {
            src_port: 1000 + n as u16,
            dst_port: 80,
            seq,
            ack: self.peers[n].1,
            flags,
            window: 60_000,
            urgent: 0,
        };
        let len = (tcp_len + data.len()) as u32;
        let sum = Sum::pseudo(CLIENT.into(), SERVER.into(), protocol::TCP, len).plus(Sum::of(data));
        header.emit_with_checksum(options, sum, &mut frame[at..at + tcp_len]);
        frame.truncate(at + tcp_len);
        frame.extend_from_slice(data);
        self.stack
            .handle_frame(self.now, &frame, RxChecksum::Verified);
        self.drain();
    }

    /// Data at an offset of the stream of peer `n`.
    fn data(&mut self, n: usize, offset: u32, len: usize) {
        let seq = SeqNumber(1001) + offset;
        self.give(n, seq, TcpFlags::ACK, &TcpOptions::NONE, &vec![7; len]);
    }

    /// What leaves: acknowledgements are noted, and the windows on them checked.
    fn drain(&mut self) {
        self.stack.handle_timeout(self.now);
        while let Some(t) = self.stack.poll_transmit(self.now) {
            let Ok(ip) = Ipv4View::parse(&t.head[14..]) else {
                continue;
            };
            let Ok(view) = TcpView::parse(ip.payload()) else {
                continue;
            };
            let n = usize::from(view.dst_port()) - 1000;
            let syn = view.flags().contains(TcpFlags::SYN);
            self.peers[n].1 = view.seq() + u32::from(syn);
            if !view.flags().contains(TcpFlags::RST) {
                let scale = if syn { 0 } else { SCALE };
                let edge = view.ack() + (u32::from(view.window()) << scale);
                // By less than a step of the scale rounding may take it back when the buffer is full.
                let step = 1 << SCALE;
                assert!(
                    (edge + step).gt(self.edges[n]),
                    "peer {n}: the edge moved back"
                );
                self.edges[n] = self.edges[n].max(edge);
            }
        }
    }
}

fn stages(world: &World) -> [u64; 3] {
    let c = world.stack.counters();
    [c.tcp_memory_moderate, c.tcp_memory_high, c.tcp_memory_full]
}

/// A thousand connections whose programs do not read, each sent all that its window allows: 128 MiB into
/// 16. The memory stays bounded, no window that was promised is taken back, nobody new is let in,
/// and anyone who's program reads goes on.
#[test]
fn a_thousand_programs_that_do_not_read() {
    let (peers, limit) = (1000, 16 << 20);
    let mut world = World::new(peers, limit);
    let mut sent = vec![0u32; peers];
    for _ in 0..90 {
        for (n, sent) in sent.iter_mut().enumerate() {
            // A sender that keeps to the window, and repeats what was not taken.
            let room = (world.edges[n] - (SeqNumber(1001) + *sent)).max(0) as usize;
            let len = room.min(MSS);
            if len > 0 {
                let before = world.stack.counters().drop_tcp_memory;
                world.data(n, *sent, len);
                if world.stack.counters().drop_tcp_memory == before {
                    *sent += len as u32;
                }
            }
        }
    }
    let info = world.stack.tcp.memory();
    assert_eq!(info.pressure, Pressure::Full);
    // Beyond the limit: what connections may take that have little unread, in the smallest buffer.
    assert!(info.used <= limit + peers * 4096, "{} bytes", info.used);
    assert_eq!(stages(&world), [1, 1, 1]);
    assert!(world.stack.counters().drop_tcp_memory > 0);
    // Nobody new.
    assert!(!world.try_open(peers));
    assert_eq!(world.stack.counters().drop_tcp_memory_syn, 1);
    // The programs read: everything drains, and all goes on as before.
    while let Some(event) = world.stack.poll_event() {
        let unread = world.stack.tcp.readable(event.connection).len();
        world.stack.tcp.consume(event.connection, unread);
        world.drain();
    }
    assert_eq!(world.stack.tcp.memory().used, 0);
    assert_eq!(world.stack.tcp.memory().pressure, Pressure::None);
    assert!((0..peers).all(|n| (world.edges[n] - (SeqNumber(1001) + sent[n])) >= 65_000));
    world.peers.pop();
    world.edges.pop();
    assert!(world.try_open(peers));
}

/// While others hold all memory, a program that reads what it gets is served to the end.
#[test]
fn who_reads_goes_on_while_all_memory_is_used() {
    let (peers, limit) = (200, 4 << 20);
    let mut world = World::new(peers, limit);
    let reader = 7;
    let id = loop {
        let event = world.stack.poll_event().expect("all were accepted");
        let c = world.stack.tcp.connection(event.connection).unwrap();
        if c.flow().remote().port() == 1000 + reader as u16 {
            break event.connection;
        }
    };
    for k in 0..45 {
        for n in (0..peers).filter(|&n| n != reader) {
            world.data(n, k * MSS as u32, MSS);
        }
    }
    assert_eq!(world.stack.tcp.memory().pressure, Pressure::Full);
    for k in 0..1000 {
        world.data(reader, k * MSS as u32, MSS);
        assert_eq!(world.stack.tcp.readable(id).len(), MSS, "segment {k}");
        world.stack.tcp.consume(id, MSS);
        world.drain();
        let room = world.edges[reader] - (SeqNumber(1001) + (k + 1) * MSS as u32);
        assert!(room >= MSS as i32, "no room after segment {k}");
    }
}

/// Peers that send nothing but bytes beyond gaps, a few from everywhere in the window: what they can
/// make us hold is bounded, the largest holders lose first, and an honest gap outlives it.
#[test]
fn attackers_that_send_only_out_of_order_bytes() {
    let (peers, limit) = (400, 16 << 20);
    let mut world = World::new(peers, limit);
    let honest = 0;
    // The honest one lost one segment of three.
    world.data(honest, MSS as u32, MSS);
    world.data(honest, 2 * MSS as u32, MSS);
    for k in 0..30 {
        for n in 1..peers {
            world.data(n, 1 + 2048 * (30 - k), 1);
        }
        let used = world.stack.tcp.memory().used;
        assert!(used <= limit / 4 * 3 + 65_536, "{used} bytes");
    }
    let counters = world.stack.counters();
    assert!(counters.tcp_out_of_order_pruned >= 100, "somebody gave up");
    assert!(counters.tcp_memory_high >= 1 && counters.tcp_memory_full == 0);
    // What waited behind the honest one's gap is still there.
    world.data(honest, 0, MSS);
    let id = loop {
        let event = world.stack.poll_event().expect("all were accepted");
        let c = world.stack.tcp.connection(event.connection).unwrap();
        if c.flow().remote().port() == 1000 {
            break event.connection;
        }
    };
    assert_eq!(world.stack.tcp.readable(id).len(), 3 * MSS);
    // The attackers go: nothing is left.
    for n in 1..peers {
        let (seq, flags) = (SeqNumber(1001), TcpFlags::RST);
        world.give(n, seq, flags, &TcpOptions::NONE, &[]);
    }
    while world.stack.poll_event().is_some() {}
    world.stack.tcp.consume(id, 3 * MSS);
    assert_eq!(world.stack.tcp.memory().used, 0);
}
