//! An exchange between two stacks, kept as a tape: what one side was given, and when.
//!
//! The side under test is recorded once against a peer, then a fresh one with the same seed is given the same
//! turns. All is deterministic (`now` and seeds are parameters), so it says the same again, and what is counted
//! while it replays is its own work only: the peer, the recording and the wire are not there.
//!
//! A turn is one frame, or none when only time has passed; in some exchanges (`Plan::frames_a_turn`) it is as many
//! as a ring of a busy link has ready when it is looked at. Rules: turns are replayed in order, from the first;
//! the last `Tape::measured` of them are what a measurement is about, those before warm up.

use exos_inet::{Duration, Instant};
use std::collections::VecDeque;
use std::hint::black_box;
use std::ops::Range;

/// When every tape begins: not at zero, where some clocks mean "never".
pub(super) const START: Instant = Instant::from_millis(1000);

/// Who takes the frames that a side sends.
pub(super) trait Sink {
    /// A frame, as a head and the parts of its body; gone when this returns.
    fn frame(&mut self, head: &[u8], body: &[&[u8]]);
}

/// One side of the wire: a stack and its program.
pub(super) trait Side {
    /// Take in the frames that came, if any did; see to the time, let the program work, send what there is to send.
    fn turn(&mut self, now: Instant, frames: &[Vec<u8>], sink: &mut impl Sink);

    /// When it wants a turn although nothing came.
    fn deadline(&mut self, now: Instant) -> Option<Instant>;

    /// Connections that are over, for scenarios that count them; requests answered, for those.
    fn operations(&self) -> u64;
}

/// Counts frames, and has them looked at so that nothing about them is optimised away.
#[derive(Default)]
pub(super) struct Count {
    pub frames: u64,
    pub bytes: u64,
}

impl Sink for Count {
    #[inline]
    fn frame(&mut self, head: &[u8], body: &[&[u8]]) {
        black_box(head);
        self.frames += 1;
        self.bytes += head.len() as u64;
        for part in body {
            black_box(*part);
            self.bytes += part.len() as u64;
        }
    }
}

/// Keeps frames for the other side.
impl Sink for VecDeque<Vec<u8>> {
    fn frame(&mut self, head: &[u8], body: &[&[u8]]) {
        let mut frame = head.to_vec();
        body.iter().for_each(|part| frame.extend_from_slice(part));
        self.push_back(frame);
    }
}

/// What is given to the side under test at one moment.
struct Turn {
    now: Instant,
    frames: Vec<Vec<u8>>,
}

/// What one operation is.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Unit {
    /// A frame with data that the side under test receives.
    DataIn,
    /// A frame with data that it sends.
    DataOut,
    /// What its program counts.
    Program,
}

/// How an exchange is recorded.
#[derive(Copy, Clone, Debug)]
pub(super) struct Plan {
    pub unit: Unit,
    /// Operations that warm up: buffers grow, windows open.
    pub warm_up: u64,
    /// Operations that are measured.
    pub operations: u64,
    /// Time between two turns.
    pub step: Duration,
    /// The most frames that the side under test is given in one turn. It waits for this many while the peer still
    /// has something to take in.
    pub frames_a_turn: usize,
}

/// A recorded exchange.
pub(super) struct Tape {
    turns: Vec<Turn>,
    /// The turns that are measured.
    measured: Range<usize>,
    /// Operations in them.
    pub operations: u64,
    /// Frames that the side under test received and sent in them.
    pub frames_in: u64,
    pub frames_out: u64,
    /// Bytes that it sent in them.
    pub bytes_out: u64,
}

/// Turns after which a recording that has not come to its end never will: a peer that has lost its way.
const TURNS_MAX: usize = 4_000_000;

/// Frames of at least this many bytes carry data: acknowledgements are shorter, also over IPv6 with timestamps.
const DATA_FRAME_BYTES: usize = 150;

/// The state of a recording.
struct Recorder<'a, S, P> {
    subject: &'a mut S,
    peer: &'a mut P,
    unit: Unit,
    frames_a_turn: usize,
    now: Instant,
    to_subject: VecDeque<Vec<u8>>,
    to_peer: VecDeque<Vec<u8>>,
    turns: Vec<Turn>,
    data_in: u64,
    data_out: u64,
    frames_out: u64,
    bytes_out: u64,
}

/// Record an exchange. Every frame is a turn of its own for the peer, and for the side under test unless the plan says
/// otherwise, in the order in which it was sent.
pub(super) fn record(subject: &mut impl Side, peer: &mut impl Side, plan: &Plan) -> Tape {
    let mut recorder = Recorder {
        subject,
        peer,
        unit: plan.unit,
        frames_a_turn: plan.frames_a_turn,
        now: START,
        to_subject: VecDeque::new(),
        to_peer: VecDeque::new(),
        turns: Vec::new(),
        data_in: 0,
        data_out: 0,
        frames_out: 0,
        bytes_out: 0,
    };
    recorder.run_until(plan.warm_up, plan.step);
    let (start, before) = (recorder.turns.len(), recorder.done());
    let (frames, bytes) = (recorder.frames_out, recorder.bytes_out);
    recorder.run_until(plan.warm_up + plan.operations, plan.step);
    let measured = start..recorder.turns.len();
    Tape {
        operations: recorder.done() - before,
        frames_in: recorder.turns[measured.clone()]
            .iter()
            .map(|t| t.frames.len() as u64)
            .sum(),
        frames_out: recorder.frames_out - frames,
        bytes_out: recorder.bytes_out - bytes,
        measured,
        turns: recorder.turns,
    }
}

impl<S: Side, P: Side> Recorder<'_, S, P> {
    fn done(&self) -> u64 {
        match self.unit {
            Unit::DataIn => self.data_in,
            Unit::DataOut => self.data_out,
            Unit::Program => self.subject.operations(),
        }
    }

    fn run_until(&mut self, operations: u64, step: Duration) {
        while self.done() < operations {
            assert!(
                self.turns.len() < TURNS_MAX,
                "the exchange stands still after {} operations",
                self.done()
            );
            self.step(step);
        }
    }

    /// A turn of each side that has a frame; where none has, time passes.
    fn step(&mut self, step: Duration) {
        let for_peer: Vec<_> = self.to_peer.pop_front().into_iter().collect();
        let for_subject = self.frames_of_turn(for_peer.is_empty());
        let idle = for_peer.is_empty() && for_subject.is_empty();
        if !for_peer.is_empty() || idle {
            self.peer.turn(self.now, &for_peer, &mut self.to_subject);
        }
        let due = self
            .subject
            .deadline(self.now)
            .is_some_and(|at| at <= self.now);
        if !for_subject.is_empty() || due || self.turns.is_empty() {
            self.turn_of_subject(for_subject);
        }
        self.now += step;
        if self.to_peer.is_empty() && self.to_subject.is_empty() {
            let deadlines = [
                self.peer.deadline(self.now),
                self.subject.deadline(self.now),
            ];
            let next = deadlines.into_iter().flatten().min();
            self.now = next.map_or(self.now, |at| at.max(self.now));
        }
    }

    /// What the side under test is given now: a full turn, or what there is when the peer does nothing more.
    fn frames_of_turn(&mut self, peer_is_done: bool) -> Vec<Vec<u8>> {
        let ready = self.to_subject.len().min(self.frames_a_turn);
        if ready < self.frames_a_turn && !peer_is_done {
            return Vec::new();
        }
        self.to_subject.drain(..ready).collect()
    }

    fn turn_of_subject(&mut self, frames: Vec<Vec<u8>>) {
        let before = self.to_peer.len();
        self.subject.turn(self.now, &frames, &mut self.to_peer);
        for sent in self.to_peer.range(before..) {
            self.frames_out += 1;
            self.bytes_out += sent.len() as u64;
            self.data_out += u64::from(sent.len() >= DATA_FRAME_BYTES);
        }
        let data = frames.iter().filter(|f| f.len() >= DATA_FRAME_BYTES);
        self.data_in += data.count() as u64;
        self.turns.push(Turn {
            now: self.now,
            frames,
        });
    }
}

impl Tape {
    /// Give a fresh side all turns. Only those that are measured run inside [`measured_turns`]; how long they took.
    ///
    /// Panics when it does not send what it sent when it was recorded: the numbers would be of something else.
    pub fn replay(&self, subject: &mut impl Side) -> std::time::Duration {
        for turn in &self.turns[..self.measured.start] {
            subject.turn(turn.now, &turn.frames, &mut Count::default());
        }
        let mut count = Count::default();
        let begin = std::time::Instant::now();
        measured_turns(subject, &self.turns[self.measured.clone()], &mut count);
        let took = begin.elapsed();
        assert_eq!(
            (count.frames, count.bytes),
            (self.frames_out, self.bytes_out),
            "a replay sends what was recorded"
        );
        took
    }
}

/// What callgrind counts: the tool is told to look at nothing outside of this function, by its name.
#[inline(never)]
fn measured_turns(subject: &mut impl Side, turns: &[Turn], sink: &mut impl Sink) {
    for turn in turns {
        subject.turn(turn.now, &turn.frames, sink);
    }
}
