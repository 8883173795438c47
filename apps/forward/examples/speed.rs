//! What forwarding a packet costs, by how many flows there are: packets of established connections in random order, both
//! ways, through [`Forwarder::handle_frame`]; no link and no kernel.
//!
//!     cargo run --release -p exos-forward --example speed

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant as Clock};

use exos_forward::forwarder::{Forwarder, Verdict};
use exos_forward::packets::packet::{Packet, Transport};
use exos_forward::packets::reach::Reach;
use exos_forward::service::{Listen, Services};
use exos_inet::{Instant, RxChecksum};
use exos_testing::Random;
use exos_wire::ipv4::Ipv4Header;
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use exos_wire::{Mac, SeqNumber, Sum, protocol};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
const NOW: Instant = Instant::from_millis(1_000_000);
/// As many packets as one look at a ring brings.
const BATCH: usize = 64;
const BATCHES: usize = 40_000;
const SERVERS: u8 = 20;

fn main() {
    for flows in [1_000, 10_000, 100_000, 1_000_000] {
        let mut forwarder = forwarder();
        let connections: Vec<Connection> = (0..flows).map(|n| open(&mut forwarder, n)).collect();
        let mut now = NOW;
        for (way, name) in ["to servers", "to clients"].iter().enumerate() {
            let ns = measure(&mut forwarder, &connections, way, &mut now);
            println!("{flows:>9} flows, {name}: {ns:.0} ns a packet");
        }
    }
}

/// The least of some runs: others only had something else in the way.
fn measure(
    forwarder: &mut Forwarder,
    connections: &[Connection],
    way: usize,
    now: &mut Instant,
) -> f64 {
    let mut random = Random(1);
    let mut least = f64::MAX;
    for _ in 0..5 {
        let mut ns = 0;
        for _ in 0..BATCHES / 5 {
            // Half a million packets a second.
            *now += Duration::from_micros(2 * BATCH as u64);
            let now = *now;
            // As they would lie in the link's memory, which is read by then.
            let mut batch: Vec<Vec<u8>> = (0..BATCH)
                .map(|_| {
                    let n = random.below(connections.len());
                    connections[n].packet(n as u32, way)
                })
                .collect();
            let begun = Clock::now();
            if forwarder.reads_ahead() {
                batch.iter().for_each(|frame| forwarder.look(frame));
            }
            forwarder.read_ahead(now);
            for frame in &mut batch {
                let verdict = forwarder.handle_frame(now, frame, RxChecksum::Unknown);
                assert!(matches!(verdict, Verdict::Onward(_)));
            }
            ns += begun.elapsed().as_nanos();
        }
        least = least.min(ns as f64 / (BATCHES / 5 * BATCH) as f64);
    }
    least
}

fn forwarder() -> Forwarder {
    let listen = Listen {
        transport: Transport::Tcp,
        at: LISTENER,
        reach: Reach::Nat,
        to: (1..=SERVERS)
            .map(|n| (server(n), 1, LISTENER.ip()))
            .collect(),
    };
    let services = Services::new(&[listen]).expect("it fits");
    Forwarder::new(services, MAC, 1 << 20, 1)
}

/// A connection that stands: what is not known by its number. It is small, so that making packets leaves the caches to what
/// is measured, as a device does.
struct Connection {
    server: u8,
    our_port: u16,
}

impl Connection {
    /// A packet of its client's, or of its server's.
    fn packet(&self, n: u32, way: usize) -> Vec<u8> {
        match way {
            0 => segment(client(n), LISTENER, TcpFlags::ACK, 1),
            _ => {
                let ours = SocketAddr::new(LISTENER.ip(), self.our_port);
                segment(server(self.server), ours, TcpFlags::ACK, 1)
            }
        }
    }
}

const LISTENER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 20)), 80);

fn client(n: u32) -> SocketAddr {
    let ip = (0x0b00_0000 + n / 50_000).to_be_bytes();
    SocketAddr::from((ip, (n % 50_000) as u16 + 1024))
}

fn server(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, n], 80))
}

fn open(forwarder: &mut Forwarder, n: u32) -> Connection {
    let syn = give(forwarder, segment(client(n), LISTENER, TcpFlags::SYN, 0));
    let (_, ours, to) = Packet::read(&syn, MAC).and_then(|p| p.ends()).expect("TCP");
    let (ours, to): (SocketAddr, SocketAddr) = (ours.into(), to.into());
    let both = TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0);
    give(forwarder, segment(to, ours, both, 1));
    give(forwarder, segment(client(n), LISTENER, TcpFlags::ACK, 1));
    let is_it = |n: &u8| server(*n) == to;
    Connection {
        server: (1..=SERVERS).find(is_it).expect("one of them"),
        our_port: ours.port(),
    }
}

fn give(forwarder: &mut Forwarder, mut frame: Vec<u8>) -> Vec<u8> {
    let verdict = forwarder.handle_frame(NOW, &mut frame, RxChecksum::Unknown);
    assert!(matches!(verdict, Verdict::Onward(_)), "{verdict:?}");
    frame
}

fn segment(src: SocketAddr, dst: SocketAddr, flags: TcpFlags, ack: u32) -> Vec<u8> {
    let (SocketAddr::V4(src), SocketAddr::V4(dst)) = (src, dst) else {
        unreachable!("IPv4 alone");
    };
    let mut frame = [&MAC.0[..], &[2, 0, 0, 0, 0, 1, 8, 0]].concat();
    let (mut ip, mut tcp) = ([0; 20], [0; 20]);
    let header = Ipv4Header {
        src: *src.ip(),
        dst: *dst.ip(),
        protocol: protocol::TCP,
        ttl: 64,
        tos: 0,
        ident: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
    };
    header.emit(20, &mut ip);
    let header = TcpHeader {
        src_port: src.port(),
        dst_port: dst.port(),
        seq: SeqNumber(0),
        ack: SeqNumber(ack),
        flags,
        ..TcpHeader::default()
    };
    let pseudo = Sum::pseudo_v4(*src.ip(), *dst.ip(), protocol::TCP, 20);
    header.emit_with_checksum(&TcpOptions::default(), pseudo, &mut tcp);
    frame.extend(ip);
    frame.extend(tcp);
    frame
}
