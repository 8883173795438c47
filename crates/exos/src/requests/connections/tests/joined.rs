//! Segments that were joined of fragments: which are taken in, which have their connection taken on, and which begin one.

mod cores;

use exos_inet::RxChecksum;
use exos_wire::Sum;

use super::*;

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
