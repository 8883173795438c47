//! Watching a program's packets: what comes and what leaves, through a filter, with a snap length, and what was lost.

use std::net::Ipv4Addr;
use std::sync::Mutex;

use exos::Exos;
use exos::watch::{Direction, Watchable, Watcher, watchable};
use exos_inet::{Config, Instant, Stack};
use exos_link::{MemoryConfig, MemoryLink, TxMeta};
use exos_wire::Mac;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];

/// A program, and the other end of its link. Programs of other tests in this process are told apart by `id`.
struct Program {
    exos: Exos,
    wire: MemoryLink,
    id: u64,
}

impl Program {
    fn new() -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock();
        let known: Vec<u64> = all().iter().map(|found| found.id).collect();
        let [link, wire] = MemoryLink::pair(MACS, MemoryConfig::default());
        let config = Config {
            addresses: vec![(OURS.into(), 24)],
            ..Config::new(MACS[0], 1500)
        };
        let stack = Stack::new(config, 1, Instant::START).expect("a stack");
        let exos = Exos::new(stack, link.into());
        // Others of this process, which may begin just now, have links of other kinds.
        let is_new = |found: &Watchable| !known.contains(&found.id) && found.interface == "memory";
        let new = all().into_iter().find(is_new);
        let id = new.expect("it is offered").id;
        Self { exos, wire, id }
    }

    fn watch(&self, filter: &str, snaplen: u32) -> Watcher {
        let found = all().into_iter().find(|found| found.id == self.id);
        let found = found.expect("it is offered");
        assert_eq!(
            (found.pid, &found.interface[..]),
            (std::process::id(), "memory")
        );
        found.watch(filter, snaplen).expect("there is a place")
    }

    /// One turn, with these frames on the wire.
    fn turn(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            assert!(self.wire.transmit(frame, &[], TxMeta::default()));
        }
        self.wire.flush();
        while self.exos.receive() > 0 {}
        self.exos.send().expect("it sends");
    }
}

fn all() -> Vec<Watchable> {
    watchable(Some(std::process::id()))
}

/// An echo request with this many bytes of data.
fn echo_request(number: u16, data: usize) -> Vec<u8> {
    let mut frame = [&MACS[0].0[..], &MACS[1].0, &[8, 0]].concat();
    let mut ip = vec![0x45, 0];
    ip.extend((28 + data as u16).to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 1, 0, 0]);
    ip.extend(THEIRS.octets().into_iter().chain(OURS.octets()));
    let sum = exos_wire::checksum::Sum::of(&ip).finish().to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let mut icmp = vec![8, 0, 0, 0, 0, 1];
    icmp.extend(number.to_be_bytes());
    icmp.resize(8 + data, 7);
    let sum = exos_wire::checksum::Sum::of(&icmp).finish().to_be_bytes();
    icmp[2..4].copy_from_slice(&sum);
    frame.extend(ip);
    frame.extend(icmp);
    frame
}

fn arp_request() -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &MACS[1].0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.extend(MACS[1].0.into_iter().chain(THEIRS.octets()));
    frame.extend([0; 6].into_iter().chain(OURS.octets()));
    frame
}

fn taken(watcher: &mut Watcher) -> Vec<(Direction, usize, Vec<u8>)> {
    let (mut bytes, mut all) = (Vec::new(), Vec::new());
    let mut last = 0;
    while let Some(record) = watcher.take(&mut bytes).expect("sound") {
        assert!(record.time_ns >= last && record.time_ns > 0);
        last = record.time_ns;
        all.push((record.direction, record.length, bytes.clone()));
    }
    all
}

#[test]
fn both_directions_are_seen_through_a_filter_and_cut() {
    use Direction::{In, Out};
    let mut program = Program::new();
    program.turn(&[arp_request()]);
    let (mut everything, mut pings) = (program.watch("", 1 << 18), program.watch("icmp", 40));
    // What came before is not there; and nothing is before the program has had a turn.
    assert_eq!((taken(&mut everything), everything.lost()), (Vec::new(), 0));
    program.turn(&[arp_request(), echo_request(1, 101)]);
    let seen = taken(&mut everything);
    let request = echo_request(1, 101);
    let shown: Vec<_> = seen
        .iter()
        .map(|(way, length, _)| (*way, *length))
        .collect();
    assert_eq!(
        shown,
        [
            (In, 42),
            (In, request.len()),
            (Out, 42),
            (Out, request.len())
        ]
    );
    assert_eq!(seen[1].2, request);
    // The answer goes back to where the request came from.
    assert_eq!((&seen[3].2[..6], seen[3].2[34]), (&MACS[1].0[..], 0));
    let cut: Vec<_> = taken(&mut pings)
        .into_iter()
        .map(|(way, length, bytes)| (way, length, bytes.len()))
        .collect();
    assert_eq!(cut, [(In, request.len(), 40), (Out, request.len(), 40)]);

    // Of two the other goes on.
    drop(everything);
    program.turn(&[echo_request(2, 8)]);
    assert_eq!(taken(&mut pings).len(), 2);
    assert!(!pings.has_ended());
    program.turn(&[echo_request(3, 8)]);
    drop(program);
    assert!(pings.has_ended());
    assert_eq!(taken(&mut pings).len(), 2, "what was copied is there still");
}

/// The ring does not wait for anyone who reads it: what has no room is counted, and said of the packet after it.
#[test]
fn what_has_no_room_is_counted_and_the_program_goes_on() {
    let mut program = Program::new();
    let mut watcher = program.watch("icmp[0] = 8", 1 << 18);
    let request = echo_request(1, 1400);
    let record = 4 + request.len().div_ceil(8);
    let room = (1 << 20) / record;
    for _ in 0..room + 10 {
        program.turn(std::slice::from_ref(&request));
    }
    let mut bytes = Vec::new();
    assert!(watcher.take(&mut bytes).expect("sound").is_some());
    assert_eq!((watcher.lost_before(), watcher.lost()), (0, 10));
    assert_eq!(taken(&mut watcher).len(), room - 1);
    // Round and round.
    for _ in 0..3 {
        for _ in 0..room / 2 {
            program.turn(std::slice::from_ref(&request));
        }
        let seen = taken(&mut watcher);
        assert_eq!(seen.len(), room / 2);
        assert!(seen.iter().all(|(_, _, bytes)| *bytes == request));
        assert_eq!((watcher.lost_before(), watcher.lost()), (10, 10));
    }
}

/// A place is free again when its watcher has ended, even if the program has had no turn meanwhile; and a new watcher
/// never sees what was copied for another.
#[test]
fn places_are_for_so_many_at_once_and_whoever_comes_next() {
    let mut program = Program::new();
    let watchers: Vec<Watcher> = (0..4).map(|_| program.watch("icmp", 100)).collect();
    let found = all().into_iter().find(|found| found.id == program.id);
    let refused = found.expect("offered").watch("", 100).expect_err("full");
    assert!(
        refused.to_string().contains("end one of the others"),
        "{refused}"
    );
    program.turn(&[echo_request(1, 8)]);
    drop(watchers);
    let mut next = program.watch("arp", 100);
    assert_eq!(taken(&mut next), Vec::new());
    program.turn(&[echo_request(2, 8), arp_request()]);
    assert_eq!(taken(&mut next).len(), 2);
}
