//! Listeners that share an address and port: in one stack, and in two to which the same frames come.

mod among;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_inet::tcp::{EventSet, ListenOptions, ListenerId, Options, Share};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

const KEY: u64 = 77;
const CLIENTS: usize = 200;

/// A client, and servers that all have the same addresses and hear the same frames.
struct Hub {
    client: Stack,
    servers: Vec<Stack>,
    now: Instant,
}

fn stack(n: u8, addresses: [&str; 2]) -> Stack {
    let mut config = Config::new(Mac([2, 0, 0, 0, 0, n]), 1500);
    let ip = |s: &str| s.parse::<IpAddr>().unwrap();
    config.addresses = vec![(ip(addresses[0]), 24), (ip(addresses[1]), 64)];
    Stack::new(config, 42 + u64::from(n), Instant::from_millis(1)).unwrap()
}

fn frames(stack: &mut Stack, now: Instant) -> Vec<Vec<u8>> {
    stack.handle_timeout(now);
    let mut frames = Vec::new();
    while let Some(t) = stack.poll_transmit(now) {
        let parts = t.body.parts();
        frames.push([&[t.head], parts].concat().concat());
    }
    frames
}

impl Hub {
    fn new(servers: usize) -> Hub {
        let addresses = [["10.0.0.1", "fd00::1"], ["10.0.0.2", "fd00::2"]];
        let now = Instant::from_millis(1);
        let met = |n: u8| {
            let mut stack = stack(n, addresses[usize::from(n) - 1]);
            for peer in addresses[2 - usize::from(n)] {
                let mac = Mac([2, 0, 0, 0, 0, 3 - n]);
                stack.set_neighbor(now, peer.parse().unwrap(), mac);
            }
            stack
        };
        Hub {
            client: met(1),
            servers: (0..servers).map(|_| met(2)).collect(),
            now,
        }
    }

    fn listen(&mut self, server: usize, index: u32, of: u32) -> ListenerId {
        let options = ListenOptions {
            share: Some(Share {
                index,
                of,
                key: KEY,
            }),
            ..ListenOptions::default()
        };
        self.servers[server].tcp.listen(None, 80, options).unwrap()
    }

    fn settle(&mut self) {
        for _ in 0..1000 {
            let out = frames(&mut self.client, self.now);
            let mut moved = !out.is_empty();
            for server in &mut self.servers {
                for frame in &out {
                    server.handle_frame(self.now, frame, RxChecksum::Unknown);
                }
                for frame in frames(server, self.now) {
                    moved = true;
                    self.client
                        .handle_frame(self.now, &frame, RxChecksum::Unknown);
                }
            }
            if !moved {
                return;
            }
            self.now += Duration::from_micros(50);
        }
        panic!("frames go to and fro without end");
    }

    /// This many connections, each with a request; how many of them stand.
    fn connect(&mut self) -> usize {
        let ids: Vec<_> = (0..CLIENTS)
            .map(|n| {
                let remote = ["10.0.0.2:80", "[fd00::2]:80"][n % 2].parse().unwrap();
                let options = Options::default();
                self.client
                    .tcp
                    .connect(self.now, None, remote, &options)
                    .unwrap()
            })
            .collect();
        self.settle();
        for &id in &ids {
            self.client
                .tcp
                .send(id, Buffer::from(b"request".to_vec()).into());
        }
        self.settle();
        let events = std::iter::from_fn(|| self.client.poll_event());
        events
            .filter(|e| e.set.contains(EventSet::CONNECTED) && !e.set.contains(EventSet::CLOSED))
            .count()
    }
}

/// Every server hears everything; each connection is made by one, and reset by none.
#[test]
fn stacks_that_hear_the_same_frames_take_a_share_each() {
    let mut hub = Hub::new(2);
    (0..2).for_each(|n| {
        hub.listen(n, n as u32, 2);
    });
    assert_eq!(hub.connect(), CLIENTS);
    let accepted: Vec<_> = hub.servers.iter().map(|s| s.tcp.connections()).collect();
    assert_eq!(accepted.iter().sum::<usize>(), CLIENTS);
    assert!(
        accepted.iter().all(|&n| n > CLIENTS / 3),
        "unequal: {accepted:?}"
    );
    for server in &mut hub.servers {
        let counters = server.counters();
        assert_eq!(counters.tcp_resets_sent, 0);
        assert!(counters.drop_tcp_other_share > CLIENTS as u64 / 3);
        let share = Share {
            index: 0,
            of: 2,
            key: KEY,
        };
        let mut indices = Vec::new();
        while let Some(event) = server.poll_event() {
            let flow = *server.tcp.connection(event.connection).unwrap().flow();
            indices.push(share.index_of(flow.local(), flow.remote()));
            assert_eq!(server.tcp.readable(event.connection), b"request");
        }
        assert!(indices.windows(2).all(|w| w[0] == w[1]), "as the hash says");
    }
}

/// A stack that hears another's segments ignores them; with nobody else there, they time out.
#[test]
fn a_share_alone_takes_no_more_than_its_own() {
    let mut hub = Hub::new(1);
    hub.listen(0, 1, 4);
    let standing = hub.connect();
    assert!((CLIENTS / 8..CLIENTS / 2).contains(&standing), "{standing}");
    assert_eq!(hub.servers[0].tcp.connections(), standing);
    assert_eq!(hub.servers[0].counters().tcp_resets_sent, 0);
}

/// Several listeners of one stack: a connection knows whose it is.
#[test]
fn listeners_of_one_stack_share_a_port() {
    let mut hub = Hub::new(1);
    let listeners: Vec<_> = (0..3).map(|n| hub.listen(0, n, 3)).collect();
    assert_eq!(hub.connect(), CLIENTS);
    let server = &mut hub.servers[0];
    let mut counts = [0; 3];
    while let Some(event) = server.poll_event() {
        let listener = server.tcp.connection(event.connection).unwrap().listener();
        let at = listeners.iter().position(|&l| Some(l) == listener).unwrap();
        counts[at] += 1;
    }
    assert_eq!(counts.iter().sum::<usize>(), CLIENTS);
    assert!(counts.iter().all(|&n| n > CLIENTS / 6), "{counts:?}");
}

/// The address of the listeners decides before the share does.
#[test]
fn other_addresses_are_not_shared() {
    let mut hub = Hub::new(1);
    hub.servers[0]
        .tcp
        .listen(
            Some("10.0.0.2".parse().unwrap()),
            80,
            ListenOptions::default(),
        )
        .unwrap();
    hub.listen(0, 0, 2);
    let v6: SocketAddr = "[fd00::2]:80".parse().unwrap();
    let standing = hub.connect();
    assert!(standing > CLIENTS / 2 && standing < CLIENTS, "{standing}");
    while let Some(event) = hub.servers[0].poll_event() {
        let tcp = &hub.servers[0].tcp;
        let flow = *tcp.connection(event.connection).unwrap().flow();
        let share = Share {
            index: 0,
            of: 2,
            key: KEY,
        };
        assert!(flow.local() != v6 || share.index_of(v6, flow.remote()) == 0);
    }
}
