//! Two stacks joined by a wire in memory that loses nothing, on a clock of its own.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_inet::tcp::{ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

/// One way takes this long.
const DELAY: Duration = Duration::from_millis(1);

/// A client's stack and a server's.
pub struct World {
    pub now: Instant,
    pub client: Stack,
    pub server: Stack,
    /// Frames under way and when they arrive, to the server and to the client.
    wires: [Vec<(Instant, Vec<u8>)>; 2],
}

pub const CLIENT: &str = "10.0.0.1";
pub const SERVER: &str = "10.0.0.2";

/// The server's address with this port.
pub fn server(port: u16) -> SocketAddr {
    SocketAddr::new(SERVER.parse().unwrap(), port)
}

impl World {
    pub fn new() -> Self {
        let now = Instant::from_millis(1);
        let stack = |n: u8, ip: &str| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n]), 1500);
            config.addresses = vec![(ip.parse::<IpAddr>().unwrap(), 24)];
            Stack::new(config, u64::from(n), now).unwrap()
        };
        Self {
            now,
            client: stack(1, CLIENT),
            server: stack(2, SERVER),
            wires: [Vec::new(), Vec::new()],
        }
    }

    /// A server listens on this port.
    pub fn listen_with(&mut self, port: u16, connection: Options) {
        let options = ListenOptions {
            connection,
            ..ListenOptions::default()
        };
        self.server.tcp.listen(None, port, options).unwrap();
    }

    /// The client opens a connection to this port.
    pub fn connect(&mut self, port: u16) -> exos_inet::tcp::ConnectionId {
        self.client
            .tcp
            .connect(self.now, None, server(port), &Options::default())
            .unwrap()
    }

    /// Let `time` pass in steps of a tenth of a millisecond; `program` has its turn in each.
    pub fn run(&mut self, time: Duration, mut program: impl FnMut(&mut Self)) {
        let end = self.now + time;
        while self.now < end {
            self.arrive();
            program(self);
            self.depart();
            self.now += Duration::from_micros(100);
        }
    }

    fn arrive(&mut self) {
        let now = self.now;
        for (wire, stack) in self
            .wires
            .iter_mut()
            .zip([&mut self.server, &mut self.client])
        {
            let arrived = wire.iter().take_while(|(at, _)| *at <= now).count();
            for (_, frame) in wire.drain(..arrived) {
                stack.handle_frame(now, &frame, RxChecksum::Unknown);
            }
            stack.handle_timeout(now);
        }
    }

    fn depart(&mut self) {
        let now = self.now;
        for (wire, stack) in self
            .wires
            .iter_mut()
            .zip([&mut self.client, &mut self.server])
        {
            while let Some(t) = stack.poll_transmit(now) {
                let frame = [&[t.head], t.body.parts()].concat().concat();
                wire.push((now + DELAY, frame));
            }
        }
    }
}
