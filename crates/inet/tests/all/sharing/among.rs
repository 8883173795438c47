//! Several stacks with one address, and a device that brings each frame to any of them: what a stack does not know it
//! leaves to the others, and nobody outside can tell how many there are.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use exos_buf::Buffer;
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options, SynCookies};
use exos_inet::{Concern, Config, Instant, RxChecksum, Stack};
use exos_testing::Random;
use exos_wire::Mac;

use super::frames;

const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "fd00::1"], ["10.0.0.2", "fd00::2"]];
const REQUEST: usize = 20_000;

fn stack(n: usize) -> Stack {
    let mut config = Config::new(Mac([2, 0, 0, 0, 0, n as u8 + 1]), 1500);
    let ip = |s: &str| s.parse::<IpAddr>().unwrap();
    config.addresses = vec![(ip(ADDRESSES[n][0]), 24), (ip(ADDRESSES[n][1]), 64)];
    Stack::new(config, 42 + n as u64, Instant::from_millis(1)).unwrap()
}

/// How the device chooses among the servers.
#[derive(Copy, Clone)]
enum Steering {
    /// Each frame again.
    Anyhow,
    /// By what the frame says of its connection, but for one in this many.
    Mostly(usize),
}

struct Wire {
    client: Stack,
    servers: Vec<Stack>,
    /// Sees SYNs in their place.
    answerer: Option<Stack>,
    now: Instant,
    random: Random,
    steering: Steering,
    /// Of a hundred frames this many are lost.
    lost: u64,
    passed_on: u64,
}

impl Wire {
    fn new(servers: usize, seed: u64, steering: Steering, lost: u64) -> Self {
        let mut servers: Vec<Stack> = (0..servers).map(|_| stack(1)).collect();
        for server in &mut servers {
            let options = ListenOptions::default();
            server.tcp.listen(None, 80, options).unwrap();
        }
        Self {
            client: stack(0),
            servers,
            answerer: None,
            now: Instant::from_millis(1),
            random: Random(seed),
            steering,
            lost,
            passed_on: 0,
        }
    }

    fn whose(&mut self, frame: &[u8]) -> usize {
        let of = self.servers.len();
        let anyhow = match self.steering {
            Steering::Anyhow => true,
            Steering::Mostly(exception) => self.random.one_in(exception),
        };
        if anyhow {
            return self.random.below(of);
        }
        // The client's port, or whatever lies there. Ports to one server are all even.
        let ports = if frame[12] == 0x86 { 54 } else { 34 };
        frame.get(ports + 1).map_or(0, |b| usize::from(*b >> 1)) % of
    }

    /// SYNs are answered with cookies by something that keeps nothing, as a program in the kernel does.
    fn offload_syns(&mut self) {
        let mut answerer = stack(1);
        let always = ListenOptions {
            syn_cookies: SynCookies::Always,
            ..ListenOptions::default()
        };
        answerer.tcp.listen(None, 80, always).unwrap();
        self.answerer = Some(answerer);
        for server in &mut self.servers {
            *server = stack(1);
            let listener = server.tcp.listen(None, 80, ListenOptions::default());
            server.offload_syns(self.now, listener.unwrap()).unwrap();
        }
    }

    /// To what answers SYNs, where there is something: true of one.
    fn answer_syn(&mut self, frame: &[u8]) -> bool {
        let Some(answerer) = &mut self.answerer else {
            return false;
        };
        let ipv6 = frame[12..14] == [0x86, 0xdd];
        let (protocol, flags) = if ipv6 { (20, 67) } else { (23, 47) };
        let is_ip = ipv6 || frame[12..14] == [8, 0];
        let is_tcp = is_ip && frame[protocol] == 6;
        let is_syn = is_tcp && frame[flags] & 0x12 == 0x02;
        if is_syn || !is_tcp {
            answerer.handle_frame(self.now, frame, RxChecksum::Unknown);
        }
        is_syn
    }

    /// What the caller of several stacks does with a frame.
    fn bring(&mut self, frame: &[u8]) {
        let (of, first) = (self.servers.len(), self.whose(frame));
        let link = RxChecksum::Unknown;
        for n in 0..of {
            let server = &mut self.servers[(first + n) % of];
            match server.handle_frame_among(self.now, frame, link) {
                Concern::Nobody => return,
                Concern::Another | Concern::Begins(_) => self.passed_on += 1,
                Concern::Everybody => {
                    for other in (1..of).map(|n| (first + n) % of) {
                        self.servers[other].handle_frame_among(self.now, frame, link);
                    }
                    return;
                }
            }
        }
        self.servers[first].handle_frame(self.now, frame, link);
    }

    /// Servers answer each whole request with itself, and finish.
    fn serve(&mut self) {
        for server in &mut self.servers {
            while let Some(event) = server.poll_event() {
                let id = event.connection;
                if event.set.contains(EventSet::READABLE)
                    && server.tcp.readable(id).len() == REQUEST
                {
                    let answer = Buffer::from(server.tcp.readable(id));
                    server.tcp.consume(id, REQUEST);
                    server.tcp.send(id, answer.into());
                    server.tcp.finish(id);
                }
            }
        }
    }

    /// Frames to and fro until nothing is to be done before `until`.
    fn run(&mut self, until: Instant, mut heard: impl FnMut(&mut Stack)) {
        loop {
            let out = frames(&mut self.client, self.now);
            let mut moved = !out.is_empty();
            for frame in &out {
                if !self.random.chance(self.lost) && !self.answer_syn(frame) {
                    self.bring(frame);
                }
            }
            self.serve();
            for server in self.servers.iter_mut().chain(&mut self.answerer) {
                for frame in frames(server, self.now) {
                    moved = true;
                    if !self.random.chance(self.lost) {
                        self.client
                            .handle_frame(self.now, &frame, RxChecksum::Unknown);
                    }
                }
            }
            heard(&mut self.client);
            if !moved {
                let all = self.servers.iter().chain([&self.client]);
                let next = all.filter_map(|stack| stack.poll_timeout(self.now)).min();
                match next.filter(|next| *next < until) {
                    None => return,
                    Some(next) => self.now = self.now.max(next),
                }
            }
            self.now += std::time::Duration::from_micros(50);
        }
    }
}

/// This many requests, each on a connection of its own: all are answered with themselves.
fn exchange(wire: &mut Wire, clients: usize) {
    let mut answers: HashMap<ConnectionId, (Vec<u8>, Vec<u8>)> = HashMap::new();
    for n in 0..clients {
        let remote: SocketAddr = ["10.0.0.2:80", "[fd00::2]:80"][n % 2].parse().unwrap();
        let options = Options::default();
        let id = wire.client.tcp.connect(wire.now, None, remote, &options);
        let id = id.unwrap();
        let request: Vec<u8> = wire.random.bytes(REQUEST);
        wire.client.tcp.send(id, Buffer::from(&request[..]).into());
        answers.insert(id, (request, Vec::new()));
    }
    let until = wire.now + std::time::Duration::from_secs(60);
    wire.run(until, |client| {
        while let Some(event) = client.poll_event() {
            let id = event.connection;
            let bytes = client.tcp.readable(id).to_vec();
            client.tcp.consume(id, bytes.len());
            answers.get_mut(&id).unwrap().1.extend(bytes);
            if event.set.contains(EventSet::FINISHED) {
                client.tcp.finish(id);
            }
        }
    });
    for (request, answer) in answers.values() {
        assert!(
            request == answer,
            "{} of {REQUEST} bytes came back",
            answer.len()
        );
    }
    for server in &wire.servers {
        assert_eq!(server.counters().tcp_resets_sent, 0);
    }
}

#[test]
fn connections_stand_however_their_segments_are_spread() {
    for seed in 0..20 {
        let mut wire = Wire::new(3, seed, Steering::Anyhow, 0);
        exchange(&mut wire, 30);
        assert!(wire.passed_on > 100, "seed {seed}: {}", wire.passed_on);
        let accepted = wire.servers.iter().map(|s| s.counters().tcp_accepted);
        assert_eq!(accepted.sum::<u64>(), 30, "seed {seed}");
    }
}

/// A SYN that is repeated may be answered by two of them.
#[test]
fn and_when_some_are_lost() {
    for seed in 0..20 {
        exchange(&mut Wire::new(3, seed, Steering::Anyhow, 10), 30);
    }
}

/// As a device does it: little is to be passed on.
#[test]
fn what_comes_to_the_right_one_is_not_passed_on() {
    let mut wire = Wire::new(2, 1, Steering::Mostly(100), 0);
    exchange(&mut wire, 100);
    let received: u64 = wire
        .servers
        .iter()
        .map(|s| s.counters().tcp_segments_received)
        .sum();
    assert!(
        wire.passed_on * 20 < received,
        "{} of {received}",
        wire.passed_on
    );
    for server in &wire.servers {
        assert!(server.counters().tcp_accepted > 20);
    }
}

/// What nobody knows is reset once, as one stack would.
#[test]
fn what_nobody_knows_is_reset_once() {
    let mut wire = Wire::new(3, 1, Steering::Anyhow, 0);
    let closed: SocketAddr = "10.0.0.2:81".parse().unwrap();
    let options = Options::default();
    let now = wire.now;
    wire.client
        .tcp
        .connect(now, None, closed, &options)
        .unwrap();
    let mut ended = 0;
    wire.run(now + std::time::Duration::from_secs(5), |client| {
        while let Some(event) = client.poll_event() {
            ended += usize::from(event.set.contains(EventSet::CLOSED));
        }
    });
    assert_eq!(ended, 1, "refused");
    let resets = wire.servers.iter().map(|s| s.counters().tcp_resets_sent);
    assert_eq!(resets.sum::<u64>(), 1);
}

/// With a full backlog nothing is kept of a SYN: the cookie comes back to another stack, which takes it.
#[test]
fn a_cookie_of_one_is_good_in_another() {
    for seed in 0..10 {
        let mut wire = Wire::new(2, seed, Steering::Anyhow, 0);
        for server in &mut wire.servers {
            let options = ListenOptions {
                syn_cookies: SynCookies::Always,
                ..ListenOptions::default()
            };
            *server = stack(1);
            server.tcp.listen(None, 80, options).unwrap();
        }
        exchange(&mut wire, 20);
        let redeemed = wire
            .servers
            .iter()
            .map(|s| s.counters().tcp_syn_cookies_accepted);
        assert_eq!(redeemed.sum::<u64>(), 20, "seed {seed}");
    }
}

/// What brings a cookie back may come again, by another hash: where all SYNs are answered with cookies, the stack that has made the
/// connection is asked before another one makes it again.
#[test]
fn a_cookie_makes_one_connection_wherever_it_comes_again() {
    for seed in 0..20 {
        let mut wire = Wire::new(3, seed, Steering::Anyhow, 10);
        wire.offload_syns();
        exchange(&mut wire, 30);
        let redeemed = |s: &Stack| s.counters().tcp_syn_cookies_accepted;
        let all: u64 = wire.servers.iter().map(redeemed).sum();
        assert_eq!(all, 30, "seed {seed}");
    }
}
