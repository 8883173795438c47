//! Congestion marks on pieces of a datagram reach the transport (RFC 3168 §5.3), over both families.

use std::net::{IpAddr, SocketAddr};

use exos_buf::Buffer;
use exos_inet::fragment::{cut_v4, cut_v6};
use exos_inet::tcp::{EcnMode, ListenOptions, Options};
use exos_inet::{Config, Duration, Instant, RxChecksum, Stack};
use exos_wire::Mac;
use exos_wire::ipv4::{Ipv4Header, Ipv4View};
use exos_wire::ipv6::{Ipv6Header, Ipv6View};
use exos_wire::tcp::{TcpFlags, TcpView};

const ETHERNET: usize = 14;
/// Each segment of the client becomes three pieces.
const PIECE_MTU: usize = 600;
const CE: u8 = 3;

/// A client, a server, and a router between them that cuts what is long and marks what it likes.
struct World {
    stacks: [Stack; 2],
    now: Instant,
    /// ECN fields of the pieces of each cut packet.
    fields: [u8; 3],
    /// The server has said that it met congestion.
    echoed: bool,
    delivered: usize,
}

impl World {
    fn new(ipv6: bool, fields: [u8; 3]) -> Self {
        let addresses = if ipv6 {
            ["fd10::1", "fd10::2"]
        } else {
            ["10.0.0.1", "10.0.0.2"]
        };
        let stack = |n: usize| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
            config.addresses = vec![(addresses[n].parse::<IpAddr>().unwrap(), 24)];
            Stack::new(config, 42 + n as u64, Instant::START).unwrap()
        };
        let mut world = Self {
            stacks: [stack(0), stack(1)],
            now: Instant::START,
            fields,
            echoed: false,
            delivered: 0,
        };
        let connection = Options {
            ecn: EcnMode::Request,
            ..Options::default()
        };
        let listen = ListenOptions {
            connection: connection.clone(),
            ..ListenOptions::default()
        };
        world.stacks[1].tcp.listen(None, 80, listen).unwrap();
        let server = SocketAddr::new(addresses[1].parse().unwrap(), 80);
        let client = world.stacks[0]
            .tcp
            .connect(world.now, None, server, &connection);
        let client = client.unwrap();
        world.run();
        let data = Buffer::from(vec![7; 1400]);
        assert!(world.stacks[0].tcp.send(client, data.into()));
        world.run();
        world
    }

    /// A second of frames to and fro.
    fn run(&mut self) {
        for _ in 0..1000 {
            for from in 0..2 {
                self.stacks[from].handle_timeout(self.now);
                while let Some(out) = self.stacks[from].poll_transmit(self.now) {
                    let frame = [&[out.head], out.body.parts()].concat().concat();
                    self.carry(from, &frame);
                }
            }
            while let Some(event) = self.stacks[1].poll_event() {
                self.delivered = self.stacks[1].tcp.readable(event.connection).len();
            }
            self.now += Duration::from_millis(1);
        }
    }

    fn carry(&mut self, from: usize, frame: &[u8]) {
        let (now, packet) = (self.now, &frame[ETHERNET..]);
        if from == 1 {
            self.echoed |= tcp_flags(packet).is_some_and(|f| f.contains(TcpFlags::ECE));
        }
        let pieces = if packet.len() > PIECE_MTU {
            self.pieces(packet)
        } else {
            vec![packet.to_vec()]
        };
        for piece in pieces {
            let frame = [&frame[..ETHERNET], &piece].concat();
            self.stacks[1 - from].handle_frame(now, &frame, RxChecksum::Unknown);
        }
    }

    fn pieces(&self, packet: &[u8]) -> Vec<Vec<u8>> {
        let fields = self.fields.iter();
        if let Ok(ip) = Ipv4View::parse(packet) {
            let header = |field: &u8| Ipv4Header {
                src: ip.src(),
                dst: ip.dst(),
                protocol: ip.protocol(),
                ttl: 60,
                tos: *field,
                ident: 9,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
            };
            let cut = |f| cut_v4(&header(f), ip.payload(), PIECE_MTU).collect::<Vec<_>>();
            return fields.enumerate().map(|(n, f)| cut(f).remove(n)).collect();
        }
        let ip = Ipv6View::parse(packet).unwrap();
        let header = |field: &u8| Ipv6Header {
            src: ip.src(),
            dst: ip.dst(),
            next_header: ip.upper().unwrap().protocol,
            hop_limit: 60,
            traffic_class: *field,
            flow_label: 0,
        };
        let payload = ip.upper().unwrap().payload;
        let cut = |f| cut_v6(&header(f), 9, payload, PIECE_MTU).collect::<Vec<_>>();
        fields.enumerate().map(|(n, f)| cut(f).remove(n)).collect()
    }
}

fn tcp_flags(packet: &[u8]) -> Option<TcpFlags> {
    let payload = match Ipv4View::parse(packet) {
        Ok(ip) => ip.payload(),
        Err(_) => Ipv6View::parse(packet).ok()?.upper().ok()?.payload,
    };
    // The SYN-ACK says with the same bit that ECN is agreed on.
    let flags = TcpView::parse(payload).ok()?.flags();
    (!flags.contains(TcpFlags::SYN)).then_some(flags)
}

#[test]
fn a_mark_on_any_piece_is_echoed() {
    for ipv6 in [false, true] {
        for fields in [[CE, 2, 2], [2, CE, 2], [2, 2, CE], [CE, CE, CE]] {
            let world = World::new(ipv6, fields);
            assert_eq!(world.delivered, 1400, "{ipv6} {fields:?}");
            assert!(world.echoed, "{ipv6} {fields:?}");
        }
        let world = World::new(ipv6, [2, 2, 2]);
        assert_eq!((world.delivered, world.echoed), (1400, false));
    }
}

/// The piece that may not be marked says that the mark is a mistake, or an attack: neither is believed.
#[test]
fn a_mark_beside_a_piece_that_may_not_be_marked_drops_the_datagram() {
    for ipv6 in [false, true] {
        let world = World::new(ipv6, [2, CE, 0]);
        assert_eq!((world.delivered, world.echoed), (0, false));
        assert!(world.stacks[1].counters().drop_fragment > 0);
    }
}
