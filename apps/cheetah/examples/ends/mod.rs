//! A client's stack and a server with its own, in one process: frames of one are handed to the other, and nothing else takes part.

use exos_cheetah::connections::{Cheetah, Packets};
use exos_cheetah::proxy_protocol::Introduced;
use exos_cheetah::quic::Beside;
use exos_cheetah::secure::Secured;
use exos_cheetah::{Server, Site};
use exos_inet::tcp::{ConnectionId, ListenOptions, Options};
use exos_inet::{Config, Duration, Instant, RxChecksum, Stack};
use exos_wire::Mac;

pub const UNIX_SECS: u64 = 784_111_777;

pub struct Ends {
    now: Instant,
    pub client: Stack,
    server: Stack,
    cheetah: Cheetah,
    /// Frames that go to each.
    to_client: Vec<Vec<u8>>,
    to_server: Vec<Vec<u8>>,
}

fn stack(address: u8, now: Instant) -> Stack {
    let mut config = Config::new(Mac([2, 0, 0, 0, 0, address]), 1500);
    config.addresses = vec![([10, 0, 0, address].into(), 24)];
    Stack::new(config, u64::from(address), now).expect("an address of one network")
}

impl Ends {
    pub fn new(site: Site) -> Ends {
        let now = Instant::from_millis(1);
        let mut server = stack(2, now);
        let listener = server.tcp.listen(None, 80, ListenOptions::default());
        listener.expect("a port of a fresh stack");
        Ends {
            now,
            client: stack(1, now),
            server,
            cheetah: Cheetah::new(Server::new(site, UNIX_SECS), now),
            to_client: Vec::new(),
            to_server: Vec::new(),
        }
    }

    pub fn connect(&mut self, options: &Options) -> ConnectionId {
        let server = ([10, 0, 0, 2], 80).into();
        let begun = self.client.tcp.connect(self.now, None, server, options);
        begun.expect("a route and a free port")
    }

    /// The client takes in what has come.
    pub fn receive(&mut self) {
        for frame in std::mem::take(&mut self.to_client) {
            self.client
                .handle_frame(self.now, &frame, RxChecksum::Verified);
        }
        self.client.handle_timeout(self.now);
    }

    /// It sends.
    pub fn send(&mut self) {
        while let Some(transmit) = self.client.poll_transmit(self.now) {
            let frame = [&[transmit.head], transmit.body.parts()].concat().concat();
            self.to_server.push(frame);
        }
    }

    /// The server takes in what has come, answers it, and sends, as it does on packets without TLS.
    #[inline(always)]
    pub fn server_turn(&mut self) {
        for frame in self.to_server.drain(..) {
            self.server
                .handle_frame(self.now, &frame, RxChecksum::Verified);
        }
        self.server.handle_timeout(self.now);
        let mut packets = Packets::new(&mut self.server);
        let mut introduced = Introduced::new(&mut packets, None);
        let secured = Secured::new(&mut introduced, None);
        let mut transport = Beside::new(secured, None);
        self.cheetah.handle(self.now, UNIX_SECS, &mut transport);
        drop(transport);
        while let Some(transmit) = self.server.poll_transmit(self.now) {
            let frame = [&[transmit.head], transmit.body.parts()].concat().concat();
            self.to_client.push(frame);
        }
        self.now += Duration::from_micros(100);
    }

    /// The function that callgrind is told of.
    #[inline(never)]
    pub fn counted_turn(&mut self) {
        self.server_turn();
    }
}
