//! Pairs against a model that knows which are in use.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::counters::Counters;
use crate::limits::{LOCAL_PORTS, PORT_PROBES, TIME_WAIT};
use crate::route::Prefix;

const LOCAL: Local = Local { mss: 1460 };

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// A stack's connections, with so few ports that they do not suffice.
struct Few {
    tcp: Tcp,
    now: Instant,
    pools: Vec<Prefix>,
    counters: Counters,
}

impl Few {
    fn new(ports: Range<u16>, pools: &[&str]) -> Self {
        let mut tcp = Tcp::new(Instant::START, 5, 1 << 20);
        tcp.set_local_ports(ports);
        Self {
            tcp,
            now: Instant::START,
            pools: pools.iter().map(|pool| prefix(pool)).collect(),
            counters: Counters::default(),
        }
    }

    fn open(&mut self, remote: SocketAddr) -> Result<ConnectionId, OpenError> {
        let source = match self.pools[..] {
            [] => Source::Address("192.0.2.1".parse().unwrap()),
            _ => Source::Pools(&self.pools),
        };
        let options = Options::default();
        self.tcp.open(self.now, &source, remote, LOCAL, &options)
    }

    fn local(&self, id: ConnectionId) -> SocketAddr {
        self.tcp.connection(id).unwrap().flow().local()
    }

    /// This many connections, and from where they are.
    fn open_some(&mut self, count: u64, remote: SocketAddr) -> Vec<(ConnectionId, SocketAddr)> {
        let mut one = |_| {
            let id = self.open(remote).unwrap();
            (id, self.local(id))
        };
        (0..count).map(&mut one).collect()
    }

    fn end(&mut self, id: ConnectionId) {
        self.tcp.reset(id, &mut self.counters);
        while self.tcp.poll_event().is_some() {}
    }

    fn wait(&mut self, id: ConnectionId) {
        self.tcp.start_time_wait(self.now, id, &mut self.counters);
        while self.tcp.poll_event().is_some() {}
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.tcp.handle_timeout(self.now, &mut self.counters);
        while self.tcp.poll_event().is_some() {}
    }
}

fn server(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 80))
}

/// Each address is as often used as any other, whatever the number of connections, and no pair twice.
#[test]
fn addresses_take_turns() {
    let mut few = Few::new(LOCAL_PORTS, &["10.9.0.0/28", "10.9.1.8/31"]);
    let mut times: HashMap<IpAddr, usize> = HashMap::new();
    let mut pairs = HashSet::new();
    for count in 1..=1000 {
        let id = few.open(server(1)).unwrap();
        let pair = few.local(id);
        assert!(pairs.insert(pair), "{pair} for the second time");
        *times.entry(pair.ip()).or_default() += 1;
        let least = if times.len() < 18 {
            0
        } else {
            times.values().copied().min().unwrap()
        };
        assert!(
            times.values().max().unwrap() - least <= 1,
            "after {count}: {times:?}"
        );
    }
    assert_eq!(times.len(), 18);
}

/// More connections to one server than an address has ports, each once; then there are none, which is found out once.
#[test]
fn all_pairs_and_then_none() {
    let mut few = Few::new(LOCAL_PORTS, &["fd01::/127", "fd01::4/128"]);
    let remote = "[fd00::1]:80".parse().unwrap();
    let count = 3 * LOCAL_PORTS.len();
    let ids: Vec<_> = (0..count).map(|_| few.open(remote).unwrap()).collect();
    let pairs: HashSet<_> = ids.iter().map(|&id| few.local(id)).collect();
    assert_eq!(pairs.len(), count);
    assert_eq!(few.open(remote).err(), Some(OpenError::NoPort));
    let tried = few.tcp.ports.tried();
    for _ in 0..100 {
        assert_eq!(few.open(remote).err(), Some(OpenError::NoPort));
    }
    assert!(few.tcp.ports.tried() - tried <= 100 * PORT_PROBES);
    // What becomes free among many that are taken is found without looking through them, in the order of its end.
    let freed: Vec<_> = ids.iter().step_by(7_001).map(|&id| few.local(id)).collect();
    ids.iter().step_by(7_001).for_each(|&id| few.end(id));
    let tried = few.tcp.ports.tried();
    let again: Vec<_> = (0..freed.len())
        .map(|_| few.open(remote).unwrap())
        .collect();
    let again: Vec<_> = again.into_iter().map(|id| few.local(id)).collect();
    assert_eq!(again, freed);
    assert!(few.tcp.ports.tried() - tried <= freed.len() as u64 * PORT_PROBES);
    // Another server is another matter.
    assert!(few.open("[fd00::2]:80".parse().unwrap()).is_ok());
}

/// A pair in TIME-WAIT is not free until its time is over, and is found then.
#[test]
fn pairs_in_time_wait() {
    let mut few = Few::new(40_000..40_100, &[]);
    let ids: Vec<_> = (0..100).map(|_| few.open(server(1)).unwrap()).collect();
    assert_eq!(few.open(server(1)).err(), Some(OpenError::NoPort));
    ids.iter().for_each(|&id| few.wait(id));
    assert_eq!(few.open(server(1)).err(), Some(OpenError::NoPort));
    few.pass(TIME_WAIT + Duration::from_millis(1));
    for _ in 0..100 {
        few.open(server(1)).unwrap();
    }
    assert_eq!(few.open(server(1)).err(), Some(OpenError::NoPort));
}

/// A port that somebody listens on is not given out, and is once they have gone.
#[test]
fn ports_that_are_listened_on() {
    let mut few = Few::new(40_000..40_002, &[]);
    let listener = few
        .tcp
        .listen(None, 40_001, ListenOptions::default())
        .unwrap();
    let first = few.open(server(1)).unwrap();
    assert_eq!(few.local(first).port(), 40_000);
    assert_eq!(few.open(server(1)).err(), Some(OpenError::NoPort));
    few.tcp.close_listener(listener);
    assert_eq!(
        few.open(server(1)).map(|id| few.local(id).port()),
        Ok(40_001)
    );
}

/// Stacks that take a part each give out every pair once between them, whatever has become of those before, and each finds its
/// own again.
#[test]
fn parts_have_no_pair_together() {
    for pools in [&["10.9.0.0/30", "10.9.1.0/31"][..], &["fd01::/126"], &[]] {
        let remote = match pools {
            ["fd01::/126"] => "[fd00::1]:80".parse().unwrap(),
            _ => server(1),
        };
        let addresses: u64 = pools.iter().map(|p| prefix(p).addresses()).sum();
        let all = 101 * addresses.max(1);
        let mut seen = HashSet::new();
        for part in Part::all(3) {
            let mut few = Few::new(40_000..40_101, pools);
            few.tcp.set_local_part(part);
            let mine = part.count(all);
            let first = few.open_some(mine, remote);
            assert_eq!(few.open(remote).err(), Some(OpenError::NoPort));
            assert!(first.iter().all(|(_, pair)| seen.insert(*pair)), "{part:?}");
            first.iter().for_each(|(id, _)| few.end(*id));
            let again = few.open_some(mine, remote);
            let pairs = |of: Vec<(_, SocketAddr)>| -> HashSet<_> {
                of.into_iter().map(|(_, pair)| pair).collect()
            };
            assert_eq!(pairs(again), pairs(first), "{part:?}");
        }
        assert_eq!(seen.len() as u64, all);
    }
}

/// A pair of another's part is not taken, though it has become free here.
#[test]
fn a_pair_of_anothers_part_is_left() {
    let mut few = Few::new(40_000..40_010, &[]);
    few.tcp.set_local_part(Part::new(0, 2));
    let mine = few.open_some(5, server(1));
    assert_eq!(few.open(server(1)).err(), Some(OpenError::NoPort));
    let ours = "192.0.2.1".parse().unwrap();
    let others = (40_000..40_010).map(|port| SocketAddr::new(ours, port));
    for pair in others.filter(|pair| mine.iter().all(|(_, its)| its != pair)) {
        let (source, options) = (Source::Exactly(pair), Options::default());
        let opened = few.tcp.open(few.now, &source, server(1), LOCAL, &options);
        few.end(opened.unwrap());
    }
    assert_eq!(few.open(server(1)).err(), Some(OpenError::NoPort));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u8),
    End(usize),
    Wait(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u8..=2).prop_map(Step::Open),
        2 => any::<usize>().prop_map(Step::End),
        2 => any::<usize>().prop_map(Step::Wait),
        1 => (1u64..40).prop_map(Step::Pass),
    ]
}

proptest! {
    /// Whatever comes and goes: a pair is given out exactly when no connection to that server has it and none waits in
    /// TIME-WAIT, and is refused exactly when there is none.
    #[test]
    fn pairs_are_given_out_once(
        steps in prop::collection::vec(step(), 1..300),
        pools in prop::sample::select(vec![&["10.9.0.0/30", "10.9.1.0/31"][..], &["10.9.0.0/32"], &[]]),
    ) {
        let ports = 40_000..40_007;
        let all = ports.len() * if pools.is_empty() { 1 } else { pools.iter().map(|p| prefix(p).addresses()).sum::<u64>() as usize };
        let mut few = Few::new(ports, pools);
        let mut open: Vec<(ConnectionId, u8, SocketAddr)> = Vec::new();
        let mut waiting: Vec<(Instant, u8, SocketAddr)> = Vec::new();
        for step in steps {
            match step {
                Step::Open(n) => {
                    let taken: HashSet<_> = open
                        .iter()
                        .map(|&(_, to, pair)| (to, pair))
                        .chain(waiting.iter().map(|&(_, to, pair)| (to, pair)))
                        .filter(|(to, _)| *to == n)
                        .collect();
                    match few.open(server(n)) {
                        Ok(id) => {
                            let pair = few.local(id);
                            prop_assert!(!taken.contains(&(n, pair)), "{} is in use", pair);
                            open.push((id, n, pair));
                        }
                        Err(e) => {
                            prop_assert_eq!(e, OpenError::NoPort);
                            prop_assert_eq!(taken.len(), all);
                        }
                    }
                }
                Step::End(n) if !open.is_empty() => {
                    let (id, ..) = open.swap_remove(n % open.len());
                    few.end(id);
                }
                Step::Wait(n) if !open.is_empty() => {
                    let (id, to, pair) = open.swap_remove(n % open.len());
                    few.wait(id);
                    waiting.push((few.now + TIME_WAIT, to, pair));
                }
                Step::End(_) | Step::Wait(_) => {}
                Step::Pass(secs) => {
                    few.pass(Duration::from_secs(secs));
                    waiting.retain(|(until, ..)| *until > few.now);
                    // Nobody answers: some have been given up.
                    open.retain(|(id, ..)| few.tcp.connection(*id).is_some());
                }
            }
        }
    }
}
