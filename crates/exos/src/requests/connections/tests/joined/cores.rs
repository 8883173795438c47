//! Connections that may begin on any of several cores.

use exos_inet::tcp::SynCookies;
use exos_testing::Random;

use super::*;
use crate::handoff::Handoff;

/// Cores, and what a client's segment acknowledges that brings back a cookie of theirs, the segment being the next behind the SYN with
/// this number.
struct Cores {
    cores: Vec<Bench>,
    ends: Vec<Handoff>,
    ack: u32,
}

const SYN_SEQ: u32 = 999;

impl Cores {
    fn new(count: usize) -> Self {
        Self::on(&memory(), count)
    }

    fn on(memory: &Arc<Memory>, count: usize) -> Self {
        let cores = (0..count).map(|_| Bench::on(memory.clone()));
        let mut cores: Vec<_> = cores.collect();
        for (number, core) in cores.iter_mut().enumerate() {
            core.connections.cores = vec![number];
            core.stack.hold_joined(true);
        }
        let mut ack = 0;
        for core in &mut cores {
            let (listener, always) = (
                core.connections.listener,
                ListenOptions {
                    syn_cookies: SynCookies::Always,
                    ..ListenOptions::default()
                },
            );
            core.stack.tcp.close_listener(listener);
            let listener = core.stack.tcp.listen(None, 80, always).unwrap();
            core.connections.listener = listener;
            let syn = frame(&segment((SYN_SEQ, 0), 2, &[]), 0);
            core.stack.handle_frame(now(), &syn, RxChecksum::Unknown);
            let answer = core.stack.poll_transmit(now()).expect("a SYN-ACK");
            let seq = answer.head[38..42].try_into().unwrap();
            ack = u32::from_be_bytes(seq).wrapping_add(1);
            core.stack.offload_syns(now(), listener);
        }
        let ends = Handoff::between(count).unwrap();
        Self { cores, ends, ack }
    }

    /// A segment in fragments comes to a core; whether that asks the others.
    fn comes_in_fragments(&mut self, number: usize, numbers: (u32, u32)) -> bool {
        let core = &mut self.cores[number];
        for frame in in_fragments(numbers, ACK) {
            let (now, checksum) = (now(), RxChecksum::Unknown);
            core.stack.handle_frame_among(now, &frame, checksum);
        }
        core.take_joined_in();
        let about = core.connections.take_asked_about();
        let asks = !about.is_empty();
        for joined in about {
            self.ends[number].ask_about(now(), joined);
        }
        asks
    }

    /// Fragments come to every core; which of them then ask the others.
    fn come(&mut self, numbers: (u32, u32)) -> Vec<bool> {
        let all = 0..self.cores.len();
        all.map(|core| self.comes_in_fragments(core, numbers))
            .collect()
    }

    /// The first request comes whole, by a queue of the core's.
    fn comes_whole(&mut self, number: usize) {
        let whole = frame(&segment((SYN_SEQ + 1, self.ack), ACK, REQUEST), 0);
        let stack = &mut self.cores[number].stack;
        self.ends[number].take_in(stack, now(), &whole, RxChecksum::Unknown);
    }

    /// A core takes in what others have handed to it; how much that was.
    fn turn(&mut self, number: usize) -> usize {
        self.turn_at(number, now())
    }

    fn turn_at(&mut self, number: usize, now: Instant) -> usize {
        let stack = &mut self.cores[number].stack;
        self.ends[number].receive(stack, now, |_| {})
    }

    /// The cores have turns, the last one first, until nothing is under way.
    fn turns(&mut self) {
        while (0..self.cores.len())
            .rev()
            .map(|core| self.turn(core))
            .sum::<usize>()
            > 0
        {}
    }

    fn received(&self) -> Vec<Option<usize>> {
        self.cores.iter().map(Bench::received).collect()
    }

    /// Frames that were lost between cores.
    fn lost(&self) -> u64 {
        let lost = self.ends.iter().map(|end| end.counters()[1].1);
        lost.sum()
    }

    fn is_closed(&self) -> bool {
        let flow = Flow::new("10.0.0.1:80".parse().unwrap(), PEER.parse().unwrap());
        let (ends, ports) = ends(&flow);
        let at = slot_of(self.cores[0].connections.key, ends, ports);
        assert_eq!(self.cores[0].memory.get(at + slot::LOCK), 0);
        self.cores[0].memory.get(at + slot::CLOSED) > now().millis()
    }
}

const WHOLE: Option<usize> = Some(REQUEST.len());

/// A first request in fragments whose handshake's acknowledgement was lost: all cores join it, and one begins its connection.
#[test]
fn fragments_begin_a_connection_on_one_core() {
    let mut cores = Cores::new(2);
    assert_eq!(cores.come((SYN_SEQ + 1, cores.ack)), [true, false]);
    assert!(
        cores.is_closed(),
        "it does not begin in the kernel meanwhile"
    );
    assert_eq!(cores.received(), [None, None]);
    cores.turns();
    assert_eq!(cores.received(), [WHOLE, None]);
    // It comes again, for its acknowledgement was lost.
    assert_eq!(cores.come((SYN_SEQ + 1, cores.ack)), [false, false]);
    cores.turns();
    assert_eq!(cores.received(), [WHOLE, None]);
}

/// Where another core has the connection, it begins on none.
#[test]
fn fragments_begin_no_connection_that_another_core_has() {
    let mut cores = Cores::new(2);
    let whole = frame(&segment((SYN_SEQ + 1, cores.ack), ACK, REQUEST), 0);
    let (now, checksum) = (now(), RxChecksum::Unknown);
    cores.cores[1].stack.handle_frame(now, &whole, checksum);
    assert_eq!(cores.received(), [None, WHOLE]);
    assert_eq!(cores.come((SYN_SEQ + 1, cores.ack)), [true, false]);
    cores.turns();
    assert_eq!(cores.received(), [None, WHOLE]);
}

/// What brings no cookie back asks nobody, and closes no slot.
#[test]
fn fragments_without_a_cookie_ask_nobody() {
    let mut cores = Cores::new(2);
    let wrong = cores.ack.wrapping_add(1);
    assert_eq!(cores.come((SYN_SEQ + 1, wrong)), [false, false]);
    assert_eq!(cores.come((SYN_SEQ + 2, cores.ack)), [false, false]);
    assert!(!cores.is_closed());
}

/// A copy of it comes whole to the other core before either has an answer: the first begins the connection, whichever has its turn first.
#[test]
fn fragments_and_a_copy_begin_one_connection() {
    for first in [0, 1] {
        let mut cores = Cores::new(2);
        assert_eq!(cores.come((SYN_SEQ + 1, cores.ack)), [true, false]);
        cores.comes_whole(1);
        cores.turn(first);
        cores.turns();
        assert_eq!(cores.received(), [WHOLE, None], "core {first} is first");
        assert_eq!(cores.lost(), 0);
    }
}

/// However copies, whole and in fragments, and turns of cores follow each other, one core begins the connection.
#[test]
fn copies_begin_one_connection_in_any_order() {
    let (mut random, memory) = (Random(2311), memory());
    for case in 0..500 {
        let count = 2 + random.below(3);
        let mut cores = Cores::on(&memory, count);
        let numbers = (SYN_SEQ + 1, cores.ack);
        for _ in 0..2 + random.below(6) {
            let core = random.below(count);
            match random.below(4) {
                0 => drop(cores.comes_in_fragments(core, numbers)),
                1 => cores.comes_whole(core),
                _ => drop(cores.turn(core)),
            }
        }
        // There is one at least.
        cores.comes_whole(random.below(count));
        cores.turns();
        let mut received = cores.received();
        received.retain(Option::is_some);
        assert_eq!(received, [WHOLE], "case {case}");
    }
}

/// A question that is lost between cores is given up after a second, with the copy that waits for it: then another core may begin the connection.
#[test]
fn a_question_that_is_lost_is_given_up() {
    let mut cores = Cores::new(3);
    // The last core takes in nothing, until there is no room.
    let other = frame(&segment((7, 7), ACK, REQUEST), 0);
    while cores.lost() == 0 {
        let stack = &mut cores.cores[1].stack;
        cores.ends[1].take_in(stack, now(), &other, RxChecksum::Unknown);
    }
    cores.comes_whole(0);
    cores.turn(1);
    assert_eq!(cores.lost(), 2, "the question of the first");
    cores.comes_whole(2);
    cores.turns();
    assert_eq!(cores.received(), [None; 3]);
    let lost = cores.lost();
    cores.turn_at(0, now() + Duration::from_secs(1));
    assert_eq!(cores.lost(), lost + 1, "the copy that waited");
    cores.comes_whole(2);
    cores.turns();
    assert_eq!(cores.received(), [None, None, WHOLE]);
}
