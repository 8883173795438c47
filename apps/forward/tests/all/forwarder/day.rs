//! A day in virtual time: connections and datagrams of all kinds that come and go over both families, floods of them, strangers
//! who forge packets of those that are there, servers that come and go. Anyone who has shown to be there keeps their server; memory
//! is what it was after the first hours; in the end nothing is left.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use exos_inet::Instant;
use exos_testing::Random;
use exos_testing::heap::{Counting, counted, held};

use super::life::{HANDSHAKE, Life, Step, connection, datagrams, somebody};
use super::*;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Flows that there may be.
const FLOWS: u32 = 4096;
/// The servers of a day; the first is always there.
const SERVERS: [&str; 6] = [
    SERVER,
    "10.0.0.12:8080",
    "10.0.0.13:8080",
    "10.0.0.14:8080",
    "10.0.0.15:8080",
    "10.0.0.16:8080",
];

/// All that happens.
struct Day {
    now: Instant,
    random: Random,
    forwarder: Forwarder,
    lives: Vec<Option<Life>>,
    free: Vec<usize>,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Who is there, by connections and by datagrams.
    clients: HashSet<(SocketAddr, bool)>,
    begun: u64,
    /// Who had to make room before anybody was sure of them.
    crowded_out: u64,
    /// Packets of strangers.
    forged: u64,
}

impl Day {
    fn new() -> Self {
        let forwarder = counted(|| forwarder(FLOWS));
        Self {
            now: START,
            random: Random(24),
            forwarder,
            lives: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            clients: HashSet::new(),
            begun: 0,
            crowded_out: 0,
            forged: 0,
        }
    }

    /// Somebody begins, from an end that nobody has now, but many have had.
    fn begin(&mut self, steps: Vec<Step>) {
        let life = Life::new(somebody(&mut self.random), steps);
        if !self.clients.insert((life.client, life.is_tcp)) {
            return;
        }
        let place = self.free.pop().unwrap_or(self.lives.len());
        if place == self.lives.len() {
            self.lives.push(None);
        }
        self.lives[place] = Some(life);
        self.due.push(Reverse((self.now, place)));
        self.begun += 1;
    }

    /// All that is due until then.
    fn go_on_until(&mut self, until: Instant) {
        while let Some(&Reverse((at, place))) = self.due.peek().filter(|next| next.0.0 <= until) {
            self.due.pop();
            self.pass_time(at);
            self.step(place);
        }
        self.pass_time(until);
    }

    fn pass_time(&mut self, until: Instant) {
        while let Some(due) = self.forwarder.poll_timeout().filter(|due| *due <= until) {
            let now = due.max(self.now);
            counted(|| self.forwarder.handle_timeout(now));
        }
        self.now = until;
    }

    /// The next packet of a connection.
    fn step(&mut self, place: usize) {
        let mut life = self.lives[place].take().expect("it has something to do");
        let pause = match life.next() {
            Some(Step::Silence(minutes)) => Some(self.random.below(minutes as usize * 60_000)),
            Some(step) if self.give(&mut life, step) => Some(1 + self.random.below(400)),
            _ => None,
        };
        match pause {
            Some(millis) => {
                let at = self.now + Duration::from_millis(millis as u64);
                self.due.push(Reverse((at, place)));
                self.lives[place] = Some(life);
            }
            None => {
                self.clients.remove(&(life.client, life.is_tcp));
                self.free.push(place);
            }
        }
    }

    /// Gives a packet to the forwarder; false when the connection has lost its flow, which only one may that nobody is sure of.
    fn give(&mut self, life: &mut Life, step: Step) -> bool {
        let (forwarder, now, frame) = (&mut self.forwarder, self.now, life.packet(step));
        let mut onward = counted(|| give(forwarder, now, frame));
        // It was refused, and another server is asked, which refuses too.
        while onward == Err(Verdict::Generated) {
            let syn = counted(|| forwarder.poll_made().map(|(_, syn)| ends_of(&syn)));
            life.went_elsewhere(syn.expect("the SYN once more"));
            let frame = life.packet(step);
            onward = counted(|| give(forwarder, now, frame));
        }
        let Ok(onward) = onward else {
            assert!(
                !life.is_protected(),
                "{now:?}: {} was given up",
                life.client
            );
            self.crowded_out += u64::from(life.is_young());
            return false;
        };
        life.passed(step, ends_of(&onward));
        true
    }

    /// A stranger sends a packet in the name of somebody who is there.
    fn forge(&mut self) {
        let place = self.random.below(self.lives.len().max(1));
        let Some(Some(life)) = self.lives.get(place) else {
            return;
        };
        if !life.is_protected() {
            return;
        }
        let (frame, answer) = life.forged(&mut self.random);
        let (forwarder, now) = (&mut self.forwarder, self.now);
        for frame in [Some(frame), answer].into_iter().flatten() {
            let passed = counted(|| give(forwarder, now, frame));
            passed.expect("its receiver judges it");
        }
        self.forged += 1;
    }

    /// A server comes, goes, is drained, or gets another weight.
    fn change_servers(&mut self) {
        let server = at(SERVERS[1 + self.random.below(SERVERS.len() - 1)]);
        let weight = self.random.below(4) as u16;
        let what = self.random.below(5);
        let services = self.forwarder.services_mut();
        // What does not fit, as the removal of one that is not there, changes nothing.
        counted(|| {
            let _ = match what {
                0 | 1 => services.add_server(0, server, weight, at(VIP).ip()),
                2 => services.remove_server(0, server).map(drop),
                3 => services.set_draining(0, server, weight < 2),
                _ => services.set_weight(0, server, weight),
            };
        });
    }

    /// A minute: as many come as the time of day says, and now and then a flood.
    fn minute(&mut self, minute: u64) {
        let of_day = minute as f64 / 1440.0 * std::f64::consts::TAU;
        let visitors = 60.0 * (1.0 - 0.8 * of_day.cos());
        let begin = START + Duration::from_secs(minute * 60);
        for first in [HANDSHAKE[0], Step::Question] {
            if self.random.one_in(60) {
                (0..FLOWS).for_each(|_| self.begin(vec![first]));
            }
        }
        if self.random.one_in(5) {
            self.change_servers();
        }
        for n in 0..visitors as u64 {
            self.go_on_until(begin + Duration::from_millis(n * 60_000 / visitors as u64));
            let steps = match self.random.one_in(4) {
                true => datagrams(&mut self.random),
                false => connection(&mut self.random),
            };
            self.begin(steps);
            self.forge();
        }
        self.go_on_until(begin + Duration::from_secs(60));
    }

    /// Everybody ends what they have begun, and the rest is forgotten.
    fn end(&mut self) {
        self.go_on_until(self.now + Duration::from_secs(24 * 3600));
    }
}

#[test]
fn a_day_leaves_nothing_behind() {
    let mut day = Day::new();
    let mut memory = Vec::new();
    for hour in 0..24 {
        (0..60).for_each(|minute| day.minute(hour * 60 + minute));
        memory.push(held());
    }
    // Until then somebody has had a port of each page of each server.
    let (first, rest) = memory.split_at(6);
    assert!(first[0] > 1 << 20, "it is counted");
    assert!(rest.iter().max() <= first.iter().max(), "{memory:?}");
    day.end();
    let (counters, services) = (day.forwarder.counters(), day.forwarder.services());
    assert!(counters.flows_begun > 150_000, "{counters:?}");
    assert!(day.forged > 10_000, "{}", day.forged);
    assert!(counters.resets_doubted > 1000, "{counters:?}");
    assert!(
        counters.flows_replaced > 50_000,
        "there are floods: {counters:?}"
    );
    assert!(
        day.crowded_out * 1000 < day.begun,
        "floods harm nobody else: {}",
        day.crowded_out
    );
    assert_eq!((day.forwarder.flows().len(), day.clients.len()), (0, 0));
    let taken = services.servers.iter().map(|server| server.ports.taken());
    assert_eq!(taken.sum::<u32>(), 0);
    // Places are used again: six servers here, and three of the other listeners.
    assert_eq!(services.servers.len(), SERVERS.len() + 3);
}
