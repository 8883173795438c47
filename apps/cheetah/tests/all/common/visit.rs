//! A client's stack, a server's with its site, and a wire without faults, in virtual time.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_cheetah::connections::{Cheetah, Packets, Specialisation, Without};
use exos_cheetah::site::Change;
use exos_cheetah::{Server, Site};
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;

/// The time of day when a visit begins: 22 November 2026.
pub const UNIX_SECS: u64 = 1_795_357_943;

/// A visit of one client's machine, on several connections.
pub struct Visit {
    pub now: Instant,
    pub client: Stack,
    pub server: Stack,
    pub cheetah: Cheetah,
    without: Option<Without>,
    /// How long what the client sends is on its way.
    pub latency: Duration,
    late: VecDeque<(Instant, Vec<u8>)>,
    /// The client's connections, and what it has read of each.
    pub connections: Vec<Side>,
}

/// The client's side of a connection.
pub struct Side {
    pub id: ConnectionId,
    pub received: Vec<u8>,
    /// Set when it is over.
    pub over: Option<EventSet>,
}

impl Visit {
    /// Nobody is connected yet.
    pub fn new(site: Site, prepare: impl FnOnce(&mut Server)) -> Self {
        let now = Instant::from_millis(1);
        let stack = |n: u8, ips: &[(&str, u8)]| {
            let mut config = Config::new(Mac([2, 0, 0, 0, 0, n]), 1500);
            let ips = ips.iter();
            config.addresses = ips.map(|(ip, len)| (ip.parse().unwrap(), *len)).collect();
            Stack::new(config, u64::from(n), now).unwrap()
        };
        let client = stack(
            1,
            &[
                ("10.0.0.1", 24),
                ("10.0.0.3", 24),
                ("fd00::1", 16),
                ("fd00::1:1", 16),
                ("fd00:1::1", 16),
            ],
        );
        let mut stack = stack(2, &[("10.0.0.2", 24), ("fd00::2", 16)]);
        stack
            .tcp
            .listen(None, 80, ListenOptions::default())
            .unwrap();
        let mut server = Server::new(site, UNIX_SECS);
        prepare(&mut server);
        Self {
            now,
            client,
            server: stack,
            cheetah: Cheetah::new(server, now),
            without: None,
            latency: Duration::ZERO,
            late: VecDeque::new(),
            connections: Vec::new(),
        }
    }

    /// The server does without these from now on.
    pub fn do_without(&mut self, all: &[Specialisation]) {
        self.without = Without::these(all, self.cheetah.server_mut(), &mut self.server);
    }

    /// Connects from one of the client's addresses and sends a request; returns the connection's place.
    pub fn ask(&mut self, from: &str, request: &[u8]) -> usize {
        // What the client does not read stays with the server.
        self.ask_within(from, request, 64 * 1024)
    }

    /// Does so as a client that has this much room for what it does not read.
    pub fn ask_within(&mut self, from: &str, request: &[u8], room: u32) -> usize {
        let from: IpAddr = from.parse().unwrap();
        let to = if from.is_ipv6() {
            "fd00::2"
        } else {
            "10.0.0.2"
        };
        let to = SocketAddr::new(to.parse().unwrap(), 80);
        let local = SocketAddr::new(from, 10_000 + self.connections.len() as u16);
        let options = Options::with_receive_buffer(room);
        let id = self
            .client
            .tcp
            .connect(self.now, Some(local), to, &options)
            .unwrap();
        if !request.is_empty() {
            self.client.tcp.send(id, Buffer::from(request).into());
        }
        self.connections.push(Side {
            id,
            received: Vec::new(),
            over: None,
        });
        self.connections.len() - 1
    }

    /// Sends more on a connection.
    pub fn say(&mut self, place: usize, bytes: &[u8]) {
        let id = self.connections[place].id;
        self.client.tcp.send(id, Buffer::from(bytes).into());
    }

    fn carry(from: &mut Stack, to: &mut Stack, now: Instant) -> bool {
        from.handle_timeout(now);
        let mut moved = false;
        while let Some(t) = from.poll_transmit(now) {
            let frame = [&[t.head], t.body.parts()].concat().concat();
            to.handle_frame(now, &frame, RxChecksum::Unknown);
            moved = true;
        }
        moved
    }

    /// Lets `time` pass; the client reads up to `bytes` of each connection a second.
    pub fn run(&mut self, time: Duration, bytes: usize) {
        let end = self.now + time;
        while self.now < end {
            while self.turn() && (self.latency.is_zero() || self.now < end) {}
            self.read(bytes.div_ceil(100));
            self.now = Instant::from_millis((self.now.millis() / 10 + 1) * 10);
        }
    }

    /// A turn of the server, and what both send then; false when that is nothing.
    pub fn turn(&mut self) -> bool {
        let unix_secs = self.unix_secs();
        if let Some(without) = &mut self.without {
            without.begin_turn(&mut self.server);
        }
        let mut packets = Packets::without(&mut self.server, self.without.as_mut());
        self.cheetah.handle(self.now, unix_secs, &mut packets);
        let mut moved = Self::carry(&mut self.server, &mut self.client, self.now);
        moved |= match self.latency.is_zero() {
            true => Self::carry(&mut self.client, &mut self.server, self.now),
            false => self.carry_late(),
        };
        self.now += Duration::from_micros(100);
        moved
    }

    /// The server gets what the client has sent some time ago.
    fn carry_late(&mut self) -> bool {
        self.client.handle_timeout(self.now);
        while let Some(t) = self.client.poll_transmit(self.now) {
            let frame = [&[t.head], t.body.parts()].concat().concat();
            self.late.push_back((self.now + self.latency, frame));
        }
        while let Some((_, frame)) = self.late.pop_front_if(|(at, _)| *at <= self.now) {
            self.server
                .handle_frame(self.now, &frame, RxChecksum::Unknown);
        }
        !self.late.is_empty()
    }

    /// The time of day.
    pub fn unix_secs(&self) -> u64 {
        UNIX_SECS + self.now.millis() / 1000
    }

    /// Changes the site between two turns.
    pub fn change(&mut self, change: Change) {
        let (unix_secs, mut packets) = (self.unix_secs(), Packets::new(&mut self.server));
        self.cheetah
            .change(self.now, unix_secs, 0, change, &mut packets);
    }

    /// Looks again for all that requests wait for.
    pub fn retry_all(&mut self) {
        let (unix_secs, mut packets) = (self.unix_secs(), Packets::new(&mut self.server));
        self.cheetah.retry_all(self.now, unix_secs, &mut packets);
    }

    /// The server is to stop.
    pub fn stop(&mut self) {
        let (unix_secs, mut packets) = (self.unix_secs(), Packets::new(&mut self.server));
        self.cheetah.stop(self.now, unix_secs, &mut packets);
    }

    /// The client reads up to this much of each connection.
    pub fn read(&mut self, bytes: usize) {
        for side in &mut self.connections {
            let readable = self.client.tcp.readable(side.id);
            let count = readable.len().min(bytes);
            side.received.extend_from_slice(&readable[..count]);
            self.client.tcp.consume(side.id, count);
        }
        while let Some(event) = self.client.poll_event() {
            if event.set.contains(EventSet::CLOSED) {
                let mut sides = self.connections.iter_mut();
                let side = sides.find(|side| side.id == event.connection);
                side.expect("one of ours").over = Some(event.set);
            }
        }
    }

    /// Gives a connection up as a client does that is closed in the middle of a download.
    pub fn give_up(&mut self, place: usize) {
        self.client.tcp.abort(self.connections[place].id);
    }
}

/// A site with one document of this many bytes at `/big`.
pub fn big(len: usize) -> Site {
    let mut site = Site::new();
    let document = exos_cheetah::site::Document::new(
        &vec![7; len],
        &exos_cheetah::site::Description::plain("image/png", 0),
    );
    site.insert(b"/big", document);
    site
}
