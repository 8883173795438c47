//! What becomes of connections, on plain memory.

mod cores;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use exos_filter::handler::web::layout::entry;
use exos_inet::tcp::{ListenOptions, State};
use exos_inet::{Config, Neighbors, RouteTo, RxChecksum};
use exos_wire::{Mac, Sum};

use super::fate::QUIET;
use super::*;
use crate::requests::room::{Admission, Room};
use crate::requests::table::Response;

const ENTRIES: Entries = Entries {
    count: 4,
    response_max: 64,
};
const LEN: u32 = 40;
const REQUEST: &[u8] = b"GET";
/// The numbers wrap within a response.
const UNA: u32 = 0xffff_fff0;

fn now() -> Instant {
    Instant::from_micros(100_000_000)
}

fn memory() -> Arc<Memory> {
    let words = (0..ENTRIES.memory_len_with_reports() / 8).map(|_| 0.into());
    Arc::new(Memory::Plain(words.collect()))
}

/// The memory, and a stack that listens.
struct Bench {
    memory: Arc<Memory>,
    table: Mutex<Table>,
    stack: Stack,
    reports: Reports,
    connections: Connections,
}

impl Bench {
    fn new() -> Self {
        Self::on(memory())
    }

    fn on(memory: Arc<Memory>) -> Self {
        let mut config = Config::new(Mac([2, 0, 0, 0, 0, 1]), 1500);
        config.neighbors = Neighbors::External;
        config.addresses = vec![("10.0.0.1".parse().unwrap(), 24)];
        let gateway = "10.0.0.2".parse().unwrap();
        config.routes = vec![RouteTo {
            network: "10.1.0.0".parse().unwrap(),
            prefix: 16,
            gateway: Some(gateway),
        }];
        let mut stack = Stack::new(config, 7, now()).unwrap();
        stack.set_neighbor(now(), gateway, Mac([2, 0, 0, 0, 0, 2]));
        let listener = stack.tcp.listen(None, 80, ListenOptions::default());
        Self {
            memory,
            table: Mutex::new(Table::new(ENTRIES, 7, false)),
            stack,
            reports: Reports::new(ENTRIES, false),
            connections: Connections {
                listener: listener.unwrap(),
                key: 1,
                entries: ENTRIES,
                peers: None,
                cores: vec![0],
                own: 0..3,
                ring: 0,
                next: 0,
                taken: 0,
                sent: VecDeque::new(),
                asked_about: Vec::new(),
            },
        }
    }

    /// A slot has a connection that stands, on which nothing came for `quiet`.
    fn put(&self, number: u64, state: i32, (una, nxt): (u32, u32), quiet: Duration) -> u64 {
        let at = layout::SLOTS + number * layout::SLOT_LEN;
        let remote = format!("10.1.{}.{}", number / 200, number % 200 + 1);
        let ends = layout::ends("10.0.0.1".parse().unwrap(), remote.parse().unwrap());
        for (word, at) in ends.into_iter().zip((at + slot::ENDS..).step_by(8)) {
            self.memory.set(at, word);
        }
        self.memory.set_halves(at + slot::PORTS, 80 << 16 | 4000, 0);
        self.memory.set(at + slot::STATE, state as u64);
        self.memory.set_halves(at + slot::RCV, 1000, nxt);
        self.memory.set_halves(at + slot::UNA, una, 990);
        self.memory.set_halves(at + slot::KEPT, 3 << 8 | 0xff, 1000);
        let (entry, version) = self.response();
        self.memory.set_halves(at + slot::ENTRY, entry, 0);
        self.memory.set_halves(at + slot::VERSION, version, 0);
        let time = now().millis() - quiet.as_micros() as u64 / 1000;
        self.memory.set(at + slot::TIME, time);
        at
    }

    /// The request is answered with this.
    fn enter(&self, response: &[u8]) {
        let response = Response {
            bytes: response,
            closes: false,
            note: 0,
        };
        // Long after the one before.
        let (_, version) = self.response();
        let then = now() + Duration::from_secs(version.into());
        lock(&self.table).put(&self.memory, then, REQUEST, response);
    }

    /// The entry of the one request that there is, and the version of its response.
    fn response(&self) -> (u32, u32) {
        let entries = (0..ENTRIES.count).map(|place| place * ENTRIES.entry_len());
        let version = |at: u64| self.memory.half(layout::ENTRIES + at + entry::VERSION);
        let mut all = entries.map(|at| (at as u32, version(at)));
        all.find(|(_, version)| *version != 0).unwrap_or_default()
    }

    /// The ring has the connection of a slot, with a response that is not acknowledged.
    fn hand_up(&self, from: u64, closes: bool) {
        let (memory, end) = (&self.memory, UNA.wrapping_add(LEN));
        let to = layout::RING;
        for word in (0..40).step_by(8) {
            memory.set(
                to + handed::ENDS + word,
                memory.get(from + slot::ENDS + word),
            );
        }
        memory.set_halves(to + handed::NUMBERS, 1000, end);
        memory.set(to + handed::KEPT, memory.get(from + slot::KEPT));
        let (entry, version) = self.response();
        memory.set_halves(to + handed::SENT, version, entry);
        let nxt = end.wrapping_add(u32::from(closes));
        memory.set_halves(to + handed::UNA, UNA, nxt);
        memory.set(to + handed::TIME, now().millis());
        memory.set(to + handed::NUMBER, 1);
        memory.set(layout::HANDED, 1);
    }

    fn state(&self, number: u64) -> i32 {
        let at = layout::SLOTS + number * layout::SLOT_LEN;
        self.memory.get(at + slot::STATE) as i32
    }

    fn look(&mut self, is_last: bool) -> bool {
        let mut turn = Turn {
            memory: &self.memory,
            table: &self.table,
            now: now(),
            stack: &mut self.stack,
            reports: &mut self.reports,
        };
        match is_last {
            true => self.connections.end(&mut turn),
            false => self.connections.each_slot(&mut turn, fate),
        }
    }

    /// The peers whose connections are reset with what leaves now.
    fn resets(&mut self) -> HashSet<SocketAddr> {
        let mut peers = HashSet::new();
        while let Some(frame) = self.stack.poll_transmit_within(now(), 1) {
            if frame.head[47] & 4 != 0 {
                let address: [u8; 4] = frame.head[30..34].try_into().unwrap();
                let port = u16::from_be_bytes([frame.head[36], frame.head[37]]);
                peers.insert((address, port).into());
            }
        }
        peers
    }
}

/// By the state and what is not acknowledged with our FIN: whether the stack has a connection when it is due, and with its response.
#[test]
fn what_is_to_become_of_connections() {
    let bench = Bench::new();
    bench.enter(&[7; LEN as usize]);
    let (none, reset) = (Fate::TakenOn(None), Fate::Reset);
    let with = Fate::TakenOn(Some(SentResponse {
        response: bench.response(),
        una: UNA,
    }));
    for (state, out, wanted) in [
        (slot::FREE, 0, Fate::GoesOn),
        (slot::FREE, LEN, Fate::GoesOn),
        (slot::DONE, 0, Fate::GoesOn),
        (slot::DONE, LEN + 1, Fate::GoesOn),
        (slot::OPEN, 0, none),
        (slot::OPEN, LEN, with),
        (slot::FINISHED, 0, reset),
        (slot::FINISHED, LEN + 1, with),
        (slot::LAST_ACK, 1, none),
        (slot::LAST_ACK, LEN + 1, with),
    ] {
        let what = format!("state {state}, {out} out");
        let due = |fate: FateOf, quiet: Duration| {
            let at = bench.put(3, state, (UNA, UNA.wrapping_add(out)), quiet);
            fate(&bench.memory, now(), at)
        };
        let ms = Duration::from_millis;
        let bound = ms(if out == 0 { 5000 } else { 1000 });
        let (at_bound, at_the_end) = match wanted {
            Fate::Reset => (Fate::GoesOn, Fate::GoesOn),
            wanted => (wanted, wanted),
        };
        assert_eq!(due(fate, bound - ms(1)), Fate::GoesOn, "{what}");
        assert_eq!(due(fate, bound), at_bound, "{what}");
        assert_eq!(due(fate, FORGOTTEN), wanted, "{what}");
        assert_eq!(due(last_fate, ms(0)), at_the_end, "{what}");
    }
}

/// However often a response was replaced, and by what, its connection has it with the stack as it was sent.
#[test]
fn what_was_replaced_is_sent_again_as_it_was() {
    for times in 0..4 {
        let mut bench = Bench::new();
        let first = [1; LEN as usize];
        bench.enter(&first);
        bench.put(
            3,
            slot::OPEN,
            (UNA, UNA.wrapping_add(LEN)),
            Duration::from_secs(1),
        );
        for n in 0..times {
            bench.enter(&vec![2 + n; usize::from(5 + n)]);
        }
        assert!(!bench.look(false));
        let id = bench.stack.tcp.connections_where(|_| true)[0];
        assert_eq!(bench.connections.poll_sent().unwrap().connection, id);
        let soon = now() + Duration::from_millis(1);
        bench.stack.handle_timeout(soon);
        let mut sent = Vec::new();
        while let Some(frame) = bench.stack.poll_transmit_within(soon, 1) {
            sent.push(frame.body.parts().concat());
        }
        assert!(sent.contains(&first.to_vec()), "{times}: {sent:?}");
    }
}

/// The stack has what was sent, our FIN and the peer's as they were.
#[test]
fn connections_go_on_where_they_stood() {
    use State::*;
    for (state, out, stands, closes) in [
        (slot::OPEN, 0, Established, false),
        (slot::OPEN, LEN, Established, false),
        (slot::FINISHED, LEN + 1, FinWait1, true),
        (slot::LAST_ACK, 1, LastAck, true),
        (slot::LAST_ACK, LEN + 1, LastAck, true),
    ] {
        let mut bench = Bench::new();
        bench.enter(&[7; LEN as usize]);
        let nxt = UNA.wrapping_add(out);
        bench.put(3, state, (UNA, nxt), Duration::from_secs(1));
        assert!(!bench.look(true));
        let id = bench.stack.tcp.connections_where(|_| true)[0];
        let connection = bench.stack.tcp.connection(id).unwrap();
        assert_eq!(connection.state(), stands);
        assert_eq!(
            connection.unacknowledged(),
            (out - u32::from(closes)) as usize
        );
        let sent = bench.connections.poll_sent();
        assert_eq!(sent.is_some(), out > 1);
        if let Some(sent) = sent {
            assert_eq!((sent.connection, sent.len), (id, LEN as usize));
            assert_eq!(sent.closes, closes);
        }
        // Of what was sent a second ago all is due: it leaves again, with our FIN.
        let soon = now() + Duration::from_millis(1);
        bench.stack.handle_timeout(soon);
        let mut left = Vec::new();
        while let Some(frame) = bench.stack.poll_transmit_within(soon, 1) {
            let data: usize = frame.body.parts().iter().map(|part| part.len()).sum();
            left.push((frame.head[47] & 1 == 1, data as u32));
        }
        let expected = (closes, out - u32::from(closes));
        assert_eq!(left.contains(&expected), out > 0, "{state} {out}: {left:?}");
    }
}

/// What is handed up says whether our FIN has left.
#[test]
fn what_is_handed_up_brings_our_fin() {
    for (closes, stands) in [(false, State::Established), (true, State::FinWait1)] {
        let mut bench = Bench::new();
        bench.enter(&[7; LEN as usize]);
        let from = bench.put(3, slot::FREE, (0, 0), Duration::from_secs(0));
        bench.hand_up(from, closes);
        assert!(!bench.look(true));
        let sent = bench.connections.poll_sent().expect("a response");
        assert_eq!(sent.closes, closes);
        let connection = bench.stack.tcp.connection(sent.connection).unwrap();
        assert_eq!(connection.state(), stands);
        assert_eq!(connection.unacknowledged(), LEN as usize);
    }
}

/// What the stack takes on brings its room along, and what is reset gives it back.
#[test]
fn room_goes_with_connections() {
    let mut bench = Bench::new();
    for number in 0..5 {
        let out = if number < 2 { LEN } else { 0 };
        bench.put(number, slot::OPEN, (7, 7 + out), Duration::from_secs(0));
    }
    // Each has another peer.
    let peers = PeerRoom::new(bench.memory.clone(), 0x1234_5678_9abc_def1, 1);
    bench.connections.peers = Some(peers.clone());
    let remotes: Vec<_> = (1..6).map(|n| IpAddr::from([10, 1, 0, n])).collect();
    for remote in &remotes {
        assert_eq!(peers.admit(*remote, 0), Admission::Counted);
    }
    let may_have_more = || {
        let admissions = remotes.iter().map(|remote| peers.admit(*remote, 0));
        let admitted = admissions.zip(&remotes).filter(|(it, remote)| {
            let is_admitted = *it == Admission::Counted;
            if is_admitted {
                peers.leave(**remote, false);
            }
            is_admitted
        });
        admitted.count()
    };
    assert_eq!(may_have_more(), 0);
    bench.memory.set(layout::ROOM, 1);
    let room = Room::new(bench.memory.clone(), 0, Some(peers.clone()));
    bench.stack.tcp.share_room(Arc::new(room));
    assert!(!bench.look(true));
    assert_eq!(bench.stack.tcp.connections(), 3);
    assert_eq!(bench.resets().len(), 2);
    bench.stack.tcp.give_room_back();
    assert_eq!(bench.memory.get(layout::ROOM), 3);
    assert_eq!(may_have_more(), 2);
    for id in bench.stack.tcp.connections_where(|_| true) {
        bench.stack.tcp.abort(id);
    }
    bench.stack.tcp.give_room_back();
    assert_eq!(bench.memory.get(layout::ROOM), 6);
    assert_eq!(may_have_more(), 5);
}

/// Each core sees to the connections whose segments come by its queues, at the end also to those of a core of its interface that is not
/// there any more.
#[test]
fn connections_of_other_cores_are_theirs() {
    let mut bench = Bench::new();
    for core in 0..4 {
        let at = bench.put(core, slot::OPEN, (7, 7), QUIET);
        let window = 1000 | (core as u32) << slot::CORE_SHIFT;
        bench
            .memory
            .set_halves(at + slot::KEPT, 3 << 8 | 0xff, window);
    }
    let stand = |bench: &Bench| [0, 1, 2, 3].map(|number| bench.state(number) == slot::OPEN);
    assert!(!bench.look(false));
    assert_eq!(stand(&bench), [false, true, true, true]);
    bench.connections.take_over(vec![2, 3]);
    assert!(!bench.look(true));
    assert_eq!(stand(&bench), [false, true, false, true]);
    assert_eq!(bench.stack.tcp.connections(), 2);
}

/// However many there are, the stack has all that it can at the end of the server.
#[test]
fn all_that_stand_are_the_stacks_in_the_end() {
    let mut bench = Bench::new();
    let most = layout::SLOT_COUNT;
    for number in 0..most {
        bench.put(number, slot::OPEN, (7, 7), Duration::from_secs(0));
    }
    assert!(!bench.look(true), "nobody is reset");
    assert_eq!(bench.stack.tcp.connections() as u64, most);
    assert!((0..most).all(|number| bench.state(number) == slot::FREE));
}

/// Of those that it cannot have no more are reset at once than there is room for, and each is.
#[test]
fn all_others_are_reset_in_the_end() {
    let mut bench = Bench::new();
    let most = layout::SLOT_COUNT;
    for number in 0..most {
        bench.put(number, slot::OPEN, (7, 7 + LEN), Duration::from_secs(0));
    }
    let mut peers = HashSet::new();
    let mut looks = 0;
    loop {
        let has_more = bench.look(true);
        peers.extend(bench.resets());
        looks += 1;
        if !has_more {
            break;
        }
    }
    assert_eq!(looks, most / RESETS_AT_ONCE as u64 + 1);
    assert_eq!(peers.len() as u64, most);
}

/// A look goes on where the last one stopped, however many are due in low slots again.
#[test]
fn high_slots_are_seen_to() {
    let mut bench = Bench::new();
    let bound = RESETS_AT_ONCE as u64;
    let last = 2 * bound;
    let all = (0..bound).chain([last]);
    for number in all {
        bench.put(number, slot::OPEN, (7, 7 + LEN), FORGOTTEN);
    }
    assert!(bench.look(false));
    for number in 0..bound {
        assert_eq!(bench.state(number), slot::FREE);
        bench.put(number, slot::OPEN, (7, 7 + LEN), FORGOTTEN);
    }
    assert_eq!(bench.state(last), slot::OPEN);
    bench.resets();
    assert!(bench.look(false));
    assert_eq!(bench.state(last), slot::FREE);
}

/// The other end of the connection of the slot that [`Bench::put_own`] fills.
const PEER: &str = "10.1.0.1:4000";
const FIN: u8 = 1;
const ACK: u8 = 16;

impl Bench {
    /// Of a connection's own slot; its request is the next of the peer that comes, if that stands.
    fn put_own(&self, state: i32, numbers: (u32, u32)) -> u64 {
        let flow = Flow::new("10.0.0.1:80".parse().unwrap(), PEER.parse().unwrap());
        let (ends, ports) = ends(&flow);
        let at = slot_of(self.connections.key, ends, ports);
        let number = (at - layout::SLOTS) / layout::SLOT_LEN;
        self.put(number, state, numbers, Duration::from_secs(0));
        for (word, to) in ends.into_iter().zip((at + slot::ENDS..).step_by(8)) {
            self.memory.set(to, word);
        }
        at
    }

    /// A segment comes in two fragments.
    fn comes_in_fragments(&mut self, (seq, ack): (u32, u32), flags: u8) {
        for frame in in_fragments((seq, ack), flags) {
            self.stack.handle_frame(now(), &frame, RxChecksum::Unknown);
        }
        self.take_joined_in();
    }

    fn take_joined_in(&mut self) {
        let joined = self.stack.take_joined().expect("it waits");
        let mut turn = Turn {
            memory: &self.memory,
            table: &self.table,
            now: now(),
            stack: &mut self.stack,
            reports: &mut self.reports,
        };
        self.connections.take_in(&mut turn, joined);
    }

    /// What the stack has received on its one connection.
    fn received(&self) -> Option<usize> {
        let id = *self.stack.tcp.connections_where(|_| true).first()?;
        Some(self.stack.tcp.connection(id).unwrap().readable().len())
    }
}

/// A segment from the peer with this number, which acknowledges this, and what it says.
fn segment((seq, ack): (u32, u32), flags: u8, said: &[u8]) -> Vec<u8> {
    let mut tcp = Vec::new();
    tcp.extend(4000_u16.to_be_bytes());
    tcp.extend(80_u16.to_be_bytes());
    tcp.extend(seq.to_be_bytes());
    tcp.extend(ack.to_be_bytes());
    // No-operations behind: the header ends where a fragment may.
    tcp.extend([6 << 4, flags, 0xff, 0xff, 0, 0, 0, 0, 1, 1, 1, 1]);
    tcp.extend(said);
    let pseudo = Sum::pseudo(
        ADDRESSES[0].into(),
        ADDRESSES[1].into(),
        6,
        tcp.len() as u32,
    );
    let sum = pseudo.plus(Sum::of(&tcp)).finish();
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    tcp
}

/// The peer's address, and ours.
const ADDRESSES: [[u8; 4]; 2] = [[10, 1, 0, 1], [10, 0, 0, 1]];

/// A packet from the peer, or a part of one: `field` are flags and the offset.
fn frame(part: &[u8], field: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((20 + part.len() as u16).to_be_bytes());
    frame.extend([0, 7]);
    frame.extend(field.to_be_bytes());
    frame.extend([64, 6, 0, 0]);
    frame.extend(ADDRESSES.concat());
    let sum = Sum::of(&frame[14..]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend(part);
    frame
}

/// A segment with the request in two fragments, the header and what it says.
fn in_fragments(numbers: (u32, u32), flags: u8) -> [Vec<u8>; 2] {
    let segment = segment(numbers, flags, REQUEST);
    let (first, rest) = segment.split_at(24);
    [frame(first, 0x2000), frame(rest, 3)]
}

/// A segment that was joined of fragments comes to the stack behind its connection, or not where it does not acknowledge what that has sent.
#[test]
fn fragments_have_their_connection_taken_on() {
    let all = UNA.wrapping_add(LEN);
    for (state, out, ack, flags, wanted) in [
        (slot::OPEN, 0, UNA, ACK, true),
        (slot::OPEN, LEN, all, ACK, true),
        (slot::OPEN, LEN, UNA, ACK, true),
        (slot::OPEN, LEN, all.wrapping_add(1), ACK, false),
        (slot::OPEN, LEN, UNA.wrapping_sub(1), ACK, false),
        (slot::OPEN, 0, UNA, 2, false),
        (slot::OPEN, 0, UNA, 8, false),
        (slot::FINISHED, LEN + 1, UNA, ACK, true),
        (slot::FINISHED, 0, UNA, ACK, false),
        (slot::DONE, 0, UNA, ACK, false),
        (slot::FREE, 0, UNA, ACK, false),
    ] {
        let mut bench = Bench::new();
        bench.stack.hold_joined(true);
        bench.enter(&[7; LEN as usize]);
        let at = bench.put_own(state, (UNA, UNA.wrapping_add(out)));
        bench.comes_in_fragments((1000, ack), flags);
        let what = format!("state {state}, {out} out, {ack} acknowledged, flags {flags}");
        let left = if wanted { slot::FREE } else { state };
        assert_eq!(bench.memory.get(at + slot::STATE) as i32, left, "{what}");
        assert_eq!(bench.memory.get(at + slot::LOCK), 0, "{what}");
        let is_closed = bench.memory.get(at + slot::CLOSED) > now().millis();
        assert_eq!(is_closed, wanted, "{what}");
        let received = wanted.then_some(REQUEST.len());
        assert_eq!(bench.received(), received, "{what}");
        let is_sent = wanted && out > 0;
        assert_eq!(bench.connections.poll_sent().is_some(), is_sent, "{what}");
    }
}

/// Of another core's connection nothing becomes here, nor while its slot is locked; and the next fragments do not need the slot.
#[test]
fn fragments_of_connections_that_others_have_are_lost() {
    let mut bench = Bench::new();
    bench.stack.hold_joined(true);
    let at = bench.put_own(slot::OPEN, (UNA, UNA));
    bench.memory.set(at + slot::LOCK, 1);
    bench.comes_in_fragments((1000, UNA), ACK);
    assert_eq!(
        (bench.received(), bench.memory.get(at + slot::LOCK)),
        (None, 1)
    );
    bench.memory.set(at + slot::LOCK, 0);
    bench.connections.cores = vec![1];
    bench.comes_in_fragments((1000, UNA), ACK);
    assert_eq!(bench.received(), None);
    bench.connections.cores = vec![0];
    for times in 1..4_u32 {
        bench.comes_in_fragments((997 + 3 * times, UNA), ACK);
        assert_eq!(bench.received(), Some(3 * times as usize));
    }
}

/// Of a connection that is handed up behind the frame before, and before its slot is looked at, the stack has the segment, too.
#[test]
fn fragments_find_what_is_handed_up_meanwhile() {
    let mut bench = Bench::new();
    bench.stack.hold_joined(true);
    bench.enter(&[7; LEN as usize]);
    let at = bench.put_own(slot::FREE, (UNA, UNA.wrapping_add(LEN)));
    bench.hand_up(at, false);
    bench.comes_in_fragments((1000, UNA.wrapping_add(LEN)), ACK);
    assert_eq!(bench.received(), Some(REQUEST.len()));
    assert!(bench.connections.poll_sent().is_some());
    assert_eq!(bench.memory.get(at + slot::LOCK), 0);
    assert_eq!(bench.resets(), HashSet::new());
}

/// What comes behind our FIN is reset where it is new, and where it has come before nothing is said to it.
#[test]
fn fragments_that_have_come_before_reset_nothing() {
    const FIRST: u32 = 900;
    for (state, seq, flags, wanted) in [
        (slot::FINISHED, FIRST, ACK, false),
        (slot::FINISHED, 990, ACK, false),
        (slot::FINISHED, 997, ACK, false),
        (slot::FINISHED, 997, ACK | FIN, true),
        (slot::FINISHED, 998, ACK, true),
        (slot::FINISHED, 1000, ACK, true),
        // Of another connection.
        (slot::FINISHED, 800, ACK, true),
        (slot::FINISHED, 0x8000_0000, ACK, true),
        (slot::DONE, 997, ACK, false),
        (slot::DONE, 998, ACK, true),
    ] {
        let mut bench = Bench::new();
        bench.stack.hold_joined(true);
        let at = bench.put_own(state, (UNA, UNA));
        let (entry, _) = bench.memory.halves(at + slot::ENTRY);
        bench.memory.set_halves(at + slot::ENTRY, entry, FIRST);
        bench.comes_in_fragments((seq, UNA), flags);
        let what = format!("state {state}, {seq}, flags {flags}");
        assert_eq!(!bench.resets().is_empty(), wanted, "{what}");
        assert_eq!(bench.memory.get(at + slot::STATE) as i32, state, "{what}");
        assert_eq!(bench.memory.get(at + slot::LOCK), 0, "{what}");
        assert_eq!(bench.received(), None, "{what}");
    }
}
