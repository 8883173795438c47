//! Client, forwarder and servers on one network in memory, which loses, doubles and turns around: what one end says the other
//! hears, byte for byte, and nothing but the ends acknowledges anything.

mod failover;
mod health;
mod losses;
mod servers;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exos_buf::Buffer;
use exos_forward::flow::Class;
use exos_forward::forwarder::{Forwarder, Verdict};
use exos_forward::packets::packet::Transport;
use exos_forward::packets::reach::Reach;
use exos_forward::service::{Listen, Services};
use exos_inet::stack::RouteTo;
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, ListenerId, Options, Reason};
use exos_inet::{Config, Instant, Neighbors, RxChecksum, Stack};
use exos_testing::Random;
use exos_wire::Mac;
use servers::{set_neighbors, set_up_server, unwrap};

/// Places on the network.
const CLIENT: usize = 0;
const FORWARDER: usize = 1;
const SERVERS: [usize; 2] = [2, 3];

fn address(place: usize, ipv6: bool) -> IpAddr {
    let n = place as u16 + 1;
    match ipv6 {
        false => IpAddr::from([10, 0, 0, n as u8]),
        true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]),
    }
}

fn mac(place: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, place as u8 + 1])
}

/// A network that brings a frame to whom it is for.
struct Network {
    now: Instant,
    random: Random,
    stacks: Vec<Stack>,
    forwarder: Forwarder,
    under_way: Vec<(Instant, usize, Vec<u8>)>,
    /// Of a thousand frames.
    lost: u64,
    /// Nobody hears of frames to this place.
    cut_off: Option<usize>,
    /// Where servers listen.
    listeners: Vec<ListenerId>,
}

impl Network {
    fn new(seed: u64, lost: u64) -> Self {
        Self::by(Reach::Nat, seed, lost)
    }

    fn by(reach: Reach, seed: u64, lost: u64) -> Self {
        let now = Instant::from_millis(1_000_000);
        let port = match reach.may_change_port() {
            true => 8080,
            false => 80,
        };
        let stack = |place: usize| {
            let mut config = Config::new(mac(place), 1500);
            config.addresses = vec![(address(place, false), 24), (address(place, true), 64)];
            if SERVERS.contains(&place) {
                set_up_server(&mut config, reach);
            }
            if !reach.hears_servers() {
                config.neighbors = Neighbors::External;
            }
            let mut stack = Stack::new(config, seed + place as u64, now).unwrap();
            set_neighbors(now, &mut stack, reach);
            stack
        };
        // Servers that have the listener's address are spoken to from another.
        let ours = if reach.hears_servers() { FORWARDER } else { 9 };
        let wanted = [false, true].map(|ipv6| Listen {
            transport: Transport::Tcp,
            at: SocketAddr::new(address(FORWARDER, ipv6), 80),
            reach,
            to: SERVERS
                .map(|s| {
                    (
                        SocketAddr::new(address(s, ipv6), port),
                        1,
                        address(ours, ipv6),
                    )
                })
                .to_vec(),
        });
        let mut network = Self {
            now,
            random: Random(seed),
            stacks: (0..4).map(stack).collect(),
            forwarder: Forwarder::new(Services::new(&wanted).unwrap(), mac(FORWARDER), 1000, seed),
            under_way: Vec::new(),
            lost,
            cut_off: None,
            listeners: Vec::new(),
        };
        for server in SERVERS {
            let tcp = &mut network.stacks[server].tcp;
            let listener = tcp.listen(None, port, ListenOptions::default());
            network.listeners.push(listener.unwrap());
        }
        network
    }

    fn connect(&mut self, ipv6: bool) -> ConnectionId {
        let to = SocketAddr::new(address(FORWARDER, ipv6), 80);
        let options = Options::default();
        self.stacks[CLIENT]
            .tcp
            .connect(self.now, None, to, &options)
            .unwrap()
    }

    /// Puts a frame on the network.
    fn send(&mut self, frame: Vec<u8>) {
        let to = Mac(frame[..6].try_into().unwrap());
        let from = Mac(frame[6..12].try_into().unwrap());
        for place in 0..self.stacks.len() {
            let hears = to.is_multicast() || to == mac(place);
            if !hears || from == mac(place) || self.random.below(1000) < self.lost as usize {
                continue;
            }
            let copies = 1 + usize::from(self.lost > 0 && self.random.one_in(100));
            for _ in 0..copies {
                let delay = Duration::from_micros(500 + self.random.below(200) as u64);
                let at = self.now + delay;
                self.under_way.push((at, place, frame.clone()));
            }
        }
    }

    /// A tenth of a millisecond.
    fn step(&mut self) {
        self.now += Duration::from_micros(100);
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.under_way)
            .into_iter()
            .partition::<Vec<_>, _>(|(at, ..)| *at <= now);
        self.under_way = later;
        for (_, place, frame) in due {
            if self.cut_off != Some(place) {
                self.arrive(place, frame);
            }
        }
        self.forwarder.handle_timeout(now);
        for place in 0..self.stacks.len() {
            self.stacks[place].handle_timeout(now);
            while let Some(t) = self.stacks[place].poll_transmit(now) {
                let frame = [&[t.head], t.body.parts()].concat().concat();
                self.send(frame);
            }
        }
    }

    fn arrive(&mut self, place: usize, mut frame: Vec<u8>) {
        let now = self.now;
        let stack = &mut self.stacks[place];
        let onward = match place {
            FORWARDER => self
                .forwarder
                .handle_frame(now, &mut frame, RxChecksum::Unknown),
            _ => Verdict::Stack,
        };
        while let Some((to, made)) = self.forwarder.poll_made() {
            stack.pass(now, to, made);
        }
        if SERVERS.contains(&place) {
            unwrap(&mut frame);
        }
        match onward {
            Verdict::Stack => stack.handle_frame(now, &frame, RxChecksum::Unknown),
            Verdict::Onward(to) => stack.pass(now, to, frame),
            Verdict::Drop | Verdict::Generated | Verdict::Answered | Verdict::Held => {}
        }
    }
}

/// What a client asks for, and what it has heard.
struct Visit {
    id: ConnectionId,
    question: Vec<u8>,
    heard: Vec<u8>,
    ended: Option<Reason>,
}

/// Servers send back what they hear, and finish after the client.
fn serve(network: &mut Network) {
    for server in SERVERS {
        let stack = &mut network.stacks[server];
        while let Some(event) = stack.poll_event() {
            let heard = stack.tcp.readable(event.connection).to_vec();
            stack.tcp.consume(event.connection, heard.len());
            if !heard.is_empty() {
                stack
                    .tcp
                    .send(event.connection, Buffer::from(heard).whole());
            }
            if event.set.contains(EventSet::FINISHED) {
                stack.tcp.finish(event.connection);
            }
        }
    }
}

fn hear(network: &mut Network, visits: &mut [Visit]) {
    let stack = &mut network.stacks[CLIENT];
    while let Some(event) = stack.poll_event() {
        let visit = visits.iter_mut().find(|visit| visit.id == event.connection);
        let visit = visit.expect("a connection of ours");
        let heard = stack.tcp.readable(event.connection).to_vec();
        stack.tcp.consume(event.connection, heard.len());
        visit.heard.extend(heard);
        if event.set.contains(EventSet::CLOSED) {
            visit.ended = Some(event.reason);
        }
    }
}

fn visit(network: &mut Network, n: usize, len: usize) -> Visit {
    let id = network.connect(n % 2 == 1);
    let question = network.random.bytes(len);
    let tcp = &mut network.stacks[CLIENT].tcp;
    tcp.send(id, Buffer::from(question.clone()).whole());
    tcp.finish(id);
    Visit {
        id,
        question,
        heard: Vec::new(),
        ended: None,
    }
}

fn run(reach: Reach, seed: u64, lost: u64, visits: usize, len: usize) -> Network {
    let mut network = Network::by(reach, seed, lost);
    let mut all: Vec<Visit> = (0..visits).map(|n| visit(&mut network, n, len)).collect();
    let limit = network.now + Duration::from_secs(600);
    while all.iter().any(|visit| visit.ended.is_none()) {
        network.step();
        serve(&mut network);
        hear(&mut network, &mut all);
        assert!(network.now < limit, "seed {seed}: not all have ended");
    }
    for visit in &all {
        assert_eq!(visit.ended, Some(Reason::Done), "seed {seed}");
        assert!(
            visit.heard == visit.question,
            "seed {seed}: other bytes came back"
        );
    }
    network
}

#[test]
fn every_byte_comes_back() {
    for reach in Reach::ALL {
        let network = run(reach, 1, 0, 20, 30_000);
        let flows = network.forwarder.flows();
        assert_eq!((flows.len(), flows.count(Class::Closing)), (20, 20));
        let accepted = |s: &usize| network.stacks[*s].counters().tcp_accepted;
        assert!(SERVERS.iter().all(|s| accepted(s) > 0), "{reach:?}");
        assert_eq!(network.stacks[FORWARDER].counters().tcp_resets_sent, 0);
        let counters = network.forwarder.counters();
        assert_eq!(counters.unknown_flow, 0);
        assert_eq!(counters.forwarded_to_clients > 0, reach.hears_servers());
    }
}

/// Three of a hundred frames are lost on each way, and one is doubled.
#[test]
fn every_byte_comes_back_over_bad_wires() {
    for reach in Reach::ALL {
        for seed in 0..8 {
            run(reach, seed, 30, 10, 20_000);
        }
    }
}

/// While the server hears nothing, nothing that the client has sent is acknowledged: there is nobody between who could.
#[test]
fn nobody_acknowledges_for_the_server() {
    for (ipv6, reach) in [false, true]
        .into_iter()
        .flat_map(|ipv6| Reach::ALL.map(|reach| (ipv6, reach)))
    {
        let mut network = Network::by(reach, 3, 0);
        let id = network.connect(ipv6);
        for _ in 0..100 {
            network.step();
        }
        let accepted = |n: &Network, s: usize| n.stacks[s].counters().tcp_accepted == 1;
        let server = SERVERS.into_iter().find(|&s| accepted(&network, s));
        network.cut_off = Some(server.expect("the connection stands"));
        let tcp = &mut network.stacks[CLIENT].tcp;
        tcp.send(id, Buffer::from(vec![7; 1000]).whole());
        for _ in 0..20_000 {
            network.step();
        }
        assert_eq!(unacknowledged(&network, id), 1000);
        network.cut_off = None;
        for _ in 0..100_000 {
            network.step();
        }
        assert_eq!(unacknowledged(&network, id), 0, "then the server does");
    }
}

fn unacknowledged(network: &Network, id: ConnectionId) -> usize {
    let connection = network.stacks[CLIENT].tcp.connection(id);
    connection.expect("it stands").info().unacknowledged
}

/// A connection to a port where the server has nobody is refused, by the server.
#[test]
fn a_refusal_is_passed_on() {
    let mut network = Network::new(4, 0);
    let listener = Listen {
        transport: Transport::Tcp,
        at: SocketAddr::new(address(FORWARDER, false), 80),
        reach: Reach::Nat,
        to: vec![(
            SocketAddr::new(address(SERVERS[0], false), 9),
            1,
            address(FORWARDER, false),
        )],
    };
    let services = Services::new(&[listener]).unwrap();
    network.forwarder = Forwarder::new(services, mac(FORWARDER), 10, 1);
    let mut visits = vec![visit(&mut network, 0, 10)];
    for _ in 0..1000 {
        network.step();
        hear(&mut network, &mut visits);
    }
    assert_eq!(visits[0].ended, Some(Reason::Refused));
    assert_eq!(network.stacks[FORWARDER].counters().tcp_resets_sent, 0);
    assert_eq!(network.stacks[SERVERS[0]].counters().tcp_resets_sent, 1);
}

/// Six thousand connections, twenty at a time, in a table for a thousand: no flow is left behind, and no port.
#[test]
fn churn_leaves_nothing_behind() {
    let mut network = Network::new(5, 0);
    let mut visits: Vec<Visit> = Vec::new();
    for round in 0..300 {
        visits.clear();
        for n in 0..20 {
            let next = visit(&mut network, n + round % 2, 10);
            visits.push(next);
        }
        while visits.iter().any(|visit| visit.ended.is_none()) {
            network.step();
            serve(&mut network);
            hear(&mut network, &mut visits);
        }
        assert!(network.forwarder.flows().len() <= 1000);
    }
    assert_eq!(network.forwarder.counters().flows_begun, 6000);
    network
        .forwarder
        .handle_timeout(network.now + Duration::from_secs(120));
    for _ in 0..10 {
        network
            .forwarder
            .handle_timeout(network.now + Duration::from_secs(120));
    }
    assert_eq!(network.forwarder.flows().len(), 0);
    let taken = |n: &Network| {
        n.forwarder
            .services()
            .servers
            .iter()
            .map(|s| s.ports.taken())
            .sum::<u32>()
    };
    assert_eq!(taken(&network), 0);
}
