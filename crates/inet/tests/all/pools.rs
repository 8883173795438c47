//! A stack with whole prefixes of addresses, and a peer on its link that asks for each, or one that has a route to them.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_inet::route::Prefix;
use exos_inet::tcp::{EventSet, ListenOptions, Options};
use exos_inet::{Config, Instant, RouteTo, RxChecksum, Stack};
use exos_wire::Mac;

const CONNECTIONS: usize = 64;

/// A stack with pools, and a server.
struct Link {
    stacks: [Stack; 2],
    now: Instant,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn config(n: u8) -> Config {
    let addresses = vec![
        (ip(&format!("10.0.0.{n}")), 24),
        (ip(&format!("fd00::{n}")), 64),
    ];
    Config {
        addresses,
        ..Config::new(Mac([2, 0, 0, 0, 0, n]), 1500)
    }
}

impl Link {
    fn new(pools: &[(IpAddr, u8)], routes: Vec<RouteTo>) -> Self {
        let now = Instant::from_millis(1);
        let client = Config {
            pools: pools.to_vec(),
            ..config(1)
        };
        let server = Config {
            routes,
            ..config(2)
        };
        let mut server = Stack::new(server, 2, now).unwrap();
        let options = ListenOptions::default();
        server.tcp.listen(None, 80, options).unwrap();
        let stacks = [Stack::new(client, 1, now).unwrap(), server];
        Self { stacks, now }
    }

    /// Carry frames to and fro until there are none.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = false;
            for n in 0..2 {
                self.stacks[n].handle_timeout(self.now);
                let mut frames: Vec<Vec<u8>> = Vec::new();
                while let Some(t) = self.stacks[n].poll_transmit(self.now) {
                    frames.push([&[t.head], t.body.parts()].concat().concat());
                }
                for frame in frames {
                    moved = true;
                    self.stacks[1 - n].handle_frame(self.now, &frame, RxChecksum::Unknown);
                }
            }
            if !moved {
                return;
            }
            self.now += Duration::from_micros(50);
        }
        panic!("frames go to and fro without end");
    }

    /// Opens connections to the server, and returns the addresses that it sees them come from.
    fn connect(&mut self, to: &str) -> HashSet<IpAddr> {
        let [client, server] = [0, 1];
        // They know each other: of what waits for an answer to a first question only the last frames are kept.
        self.stacks[client].ping(self.now, ip(to), 1, 1, b"");
        self.settle();
        for _ in 0..CONNECTIONS {
            let remote = SocketAddr::new(ip(to), 80);
            let opened =
                self.stacks[client]
                    .tcp
                    .connect(self.now, None, remote, &Options::default());
            opened.unwrap();
        }
        self.settle();
        let events = std::iter::from_fn(|| self.stacks[client].poll_event());
        let standing = events
            .filter(|e| e.set.contains(EventSet::CONNECTED) && !e.set.contains(EventSet::CLOSED));
        assert_eq!(standing.count(), CONNECTIONS);
        let server = &mut self.stacks[server];
        let events: Vec<_> = std::iter::from_fn(|| server.poll_event()).collect();
        let from = |e: &exos_inet::tcp::Event| {
            server
                .tcp
                .connection(e.connection)
                .unwrap()
                .flow()
                .remote()
                .ip()
        };
        assert_eq!(events.len(), CONNECTIONS);
        events.iter().map(from).collect()
    }

    /// How many neighbours the server knows.
    fn neighbours(&self) -> usize {
        self.stacks[1].neighbors().len()
    }
}

/// The server asks for each address by ARP or Neighbour Discovery, and is answered.
#[test]
fn a_part_of_the_network() {
    let mut link = Link::new(&[(ip("10.0.0.64"), 28), (ip("fd00::8:0"), 124)], Vec::new());
    for (to, first) in [("10.0.0.2", "10.0.0.64"), ("fd00::2", "fd00::8:0")] {
        let known = link.neighbours();
        let from = link.connect(to);
        assert!(from.len() == 16 && from.contains(&ip(first)), "{from:?}");
        assert!(link.neighbours() - known >= 16);
    }
}

/// The server has a route to the pool: it knows one neighbour of each family, however many addresses there are.
#[test]
fn a_network_that_is_routed_to_us() {
    let pools = [(ip("10.9.0.0"), 16), (ip("fd01::"), 64)];
    let by = [ip("10.0.0.1"), ip("fd00::1")];
    let routes = pools.iter().zip(by);
    let routes = routes.map(|(&(network, prefix), by)| RouteTo {
        network,
        prefix,
        gateway: Some(by),
    });
    let mut link = Link::new(&pools, routes.collect());
    for (to, (first, len)) in ["10.0.0.2", "fd00::2"].into_iter().zip(pools) {
        let from = link.connect(to);
        let pool = Prefix::new(first, len).unwrap();
        let in_pool = from.iter().filter(|ip| pool.contains(**ip));
        assert_eq!(in_pool.count(), CONNECTIONS, "{from:?}");
    }
    assert!(link.neighbours() <= 4, "{} neighbours", link.neighbours());
}

/// Every address of a pool answers pings, and what is sent to none of ours is not answered.
#[test]
fn every_address_answers() {
    let mut link = Link::new(&[(ip("10.0.0.64"), 28), (ip("fd00::8:0"), 124)], Vec::new());
    let ours = [
        "10.0.0.1",
        "10.0.0.64",
        "10.0.0.79",
        "fd00::1",
        "fd00::8:0",
        "fd00::8:f",
    ];
    let others = ["10.0.0.80", "fd00::8:10"];
    for to in ours.iter().chain(&others) {
        link.stacks[1].ping(link.now, ip(to), 1, 1, b"ping");
        link.settle();
    }
    let answers = std::iter::from_fn(|| link.stacks[1].poll_echo_reply());
    let answers: Vec<_> = answers.map(|answer| answer.from).collect();
    assert_eq!(answers, ours.map(ip));
}
