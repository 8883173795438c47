//! Responses whose content is read while it is sent.
//!
//! What follows the slices of such a response is a list of pieces. A connection takes the chunks of the next ones as far
//! ahead as its client is fast: twice what is under way to it, and two chunks; more, where the client has had to wait
//! for the disk. So the send queue is the read-ahead, and a slow reader holds little. A chunk is released when its
//! last byte has been acknowledged. Requests behind the response wait until all of it is queued.
//!
//! A transport that sends files by itself gets the pieces as they are, all at once.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use exos_buf::Slice;
use exos_inet::tcp::ConnectionId;

use super::connection::{Connection, Outcome, Turn};
use super::transport::Transport;
use super::wait::Wait;
use crate::http::{Attempt, Missing, Piece, Tail};
use crate::limits::{CHUNK_LEN, QUEUE_LEN_MAX, REACH_MAX, REACH_MIN};
use crate::site::long::OpenFile;
use crate::stream::Streams;
use crate::stream::chunks::Slot;

/// What a connection has of a long file, and what it is still to send of it.
#[derive(Default)]
pub(super) struct Stream {
    /// The file and the pieces of which no chunk is taken yet.
    plan: Option<Tail>,
    /// What comes next, its chunks taken.
    steps: VecDeque<Step>,
    /// Chunks that are queued on the connection, with the place of their last byte among all that it was given.
    queued: VecDeque<(u64, Slot)>,
    /// Bytes of `steps` and of the plan.
    ahead: u64,
    left: u64,
    /// Chunks that are taken beyond what is under way to the client.
    reach: usize,
    /// It holds nothing and waits for memory.
    hungry: bool,
}

enum Step {
    Bytes(Slice),
    /// This part of a chunk.
    Chunk(Slot, Range<usize>),
}

impl Stream {
    fn begin(&mut self, tail: Tail) {
        self.left = tail.len();
        self.reach = REACH_MIN;
        self.plan = Some(tail);
    }

    /// True while something of a response is not queued yet.
    pub(super) fn is_under_way(&self) -> bool {
        self.plan.is_some()
    }

    /// Bytes of the response that are not queued yet.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    fn held(&self) -> usize {
        let chunks = self
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Chunk(..)));
        chunks.count() + self.queued.len()
    }

    /// Releases what has been acknowledged.
    fn release_until(&mut self, position: u64, streams: &mut Streams) {
        while let Some(&(end, slot)) = self.queued.front() {
            if end > position {
                break;
            }
            streams.release(slot);
            self.queued.pop_front();
        }
    }

    /// Releases everything: the connection is over.
    pub(super) fn end(mut self, streams: &mut Streams) {
        self.release_until(u64::MAX, streams);
        for step in self.steps.drain(..) {
            if let Step::Chunk(slot, _) = step {
                streams.release(slot);
            }
        }
        if let Some(plan) = self.plan.take() {
            streams.put_away(plan.file);
        }
    }

    /// The next slice, if it is there; `given` bytes were queued before it.
    fn next(&mut self, given: u64, streams: &Streams) -> Option<Slice> {
        let slice = match self.steps.front()? {
            Step::Bytes(slice) => slice.clone(),
            Step::Chunk(slot, range) => {
                let slice = streams.buffer(*slot)?.slice(range.clone());
                self.queued.push_back((given + slice.len() as u64, *slot));
                slice
            }
        };
        self.steps.pop_front();
        self.ahead -= slice.len() as u64;
        self.left -= slice.len() as u64;
        Some(slice)
    }

    /// What comes next is being read.
    fn is_reading(&self, streams: &Streams) -> bool {
        let next = self.steps.front();
        next.is_some_and(
            |step| matches!(step, Step::Chunk(slot, _) if streams.buffer(*slot).is_none()),
        )
    }

    /// All of the response is queued but for what is at hand.
    fn is_whole(&self) -> bool {
        let plan = self.plan.as_ref();
        self.steps.is_empty() && plan.is_some_and(|plan| plan.pieces.is_empty())
    }

    /// Takes chunks until this many bytes are at hand or under way.
    fn ask(&mut self, wanted: u64, id: ConnectionId, streams: &mut Streams, mut is_first: bool) {
        while self.ahead < wanted {
            let held = self.held();
            let Some(Tail { file, pieces }) = &mut self.plan else {
                return;
            };
            let step = match pieces.front_mut() {
                None => return,
                Some(Piece::Bytes(slice)) => Step::Bytes(slice.clone()),
                Some(Piece::File(range)) => {
                    let Some(step) = take(file, range, id, held, is_first, streams) else {
                        break;
                    };
                    step
                }
            };
            is_first = false;
            self.ahead += step.len();
            let is_rest = matches!(pieces.front(), Some(Piece::File(range)) if !range.is_empty());
            if !is_rest {
                pieces.pop_front();
            }
            self.steps.push_back(step);
        }
        if self.ahead < wanted && self.held() == 0 && self.plan.is_some() && !self.hungry {
            self.hungry = true;
            streams.hunger(id);
        }
    }
}

impl Step {
    fn len(&self) -> u64 {
        match self {
            Step::Bytes(slice) => slice.len() as u64,
            Step::Chunk(_, range) => range.len() as u64,
        }
    }
}

/// Takes the chunk in which a range begins, and as much of the range as lies in it.
fn take(
    file: &Rc<OpenFile>,
    range: &mut Range<u64>,
    id: ConnectionId,
    held: usize,
    is_first: bool,
    streams: &mut Streams,
) -> Option<Step> {
    let number = range.start / CHUNK_LEN as u64;
    let slot = streams.ask(file, number, id, held, is_first)?;
    let chunk_start = number * CHUNK_LEN as u64;
    let end = range.end.min(chunk_start + CHUNK_LEN as u64);
    let within = (range.start - chunk_start) as usize..(end - chunk_start) as usize;
    range.start = end;
    Some(Step::Chunk(slot, within))
}

impl Connection {
    /// A response follows whose content is to be read; true when all of it is queued at once.
    pub(super) fn begin_stream<T: Transport>(
        &mut self,
        tail: Tail,
        turn: &mut Turn<'_, T>,
    ) -> bool {
        if T::SENDS_FILES {
            self.send_tail(tail, turn);
            return true;
        }
        self.stream.get_or_insert_default().begin(tail);
        self.stream(false, turn)
    }

    /// Queues all that follows the slices of a response.
    fn send_tail<T: Transport>(&mut self, tail: Tail, turn: &mut Turn<'_, T>) {
        for piece in tail.pieces {
            match piece {
                Piece::Bytes(slice) => self.send(slice, turn.transport),
                Piece::File(range) => {
                    self.given += range.end - range.start;
                    turn.transport.send_file(self.id(), &tail.file, range);
                }
            }
        }
        self.wait(turn.now, Wait::Sending);
    }

    /// Goes on with a response, and with the requests behind it when all of it is queued; `is_first` says that it has waited
    /// for memory. Gives what the first of them waits for.
    pub(super) fn send_on<T: Transport>(
        &mut self,
        is_first: bool,
        turn: &mut Turn<'_, T>,
    ) -> Option<Box<Missing>> {
        if is_first && let Some(stream) = &mut self.stream {
            stream.hungry = false;
        }
        if !(self.is_streaming() && self.stream(is_first, turn)) {
            return None;
        }
        let missing = self.serve(Attempt::default(), turn);
        self.finish_if_the_client_has(turn);
        missing
    }

    /// What its client was promised is not there any more: better a response that ends early than one of two versions.
    pub(super) fn break_off<T: Transport>(&mut self, turn: &mut Turn<'_, T>) -> Outcome {
        if !self.is_streaming() {
            return Outcome::GoesOn;
        }
        turn.shared.counters.broken_off += 1;
        Outcome::Broken
    }

    /// Releases the chunks that were acknowledged.
    pub(super) fn release_acknowledged<T: Transport>(&mut self, turn: &mut Turn<'_, T>) {
        let pending = turn.transport.unacknowledged(self.id());
        if let Some(stream) = &mut self.stream {
            stream.release_until(self.given - pending as u64, &mut turn.shared.streams);
            if !stream.is_under_way() && stream.queued.is_empty() {
                self.stream = None;
            }
        }
    }

    /// Queues what is there and takes what is next; true when all of the response is queued.
    fn stream<T: Transport>(&mut self, is_first: bool, turn: &mut Turn<'_, T>) -> bool {
        let Some(mut stream) = self.stream.take() else {
            return false;
        };
        let (id, before) = (self.id(), self.given);
        let (streams, transport) = (&mut turn.shared.streams, &mut *turn.transport);
        if transport.unacknowledged(id) == 0 {
            self.begin_pace(turn.now);
            if self.waits_for() == Wait::Sending && stream.is_reading(streams) {
                // The client has taken all that there was.
                stream.reach = (2 * stream.reach).min(REACH_MAX);
            }
        }
        loop {
            let queued = transport.unacknowledged(id);
            let wanted = queue_wanted(queued - transport.unsent(id), stream.reach);
            let more = wanted.saturating_sub(queued) as u64;
            stream.ask(more, id, streams, is_first);
            if queued >= QUEUE_LEN_MAX {
                break;
            }
            let Some(slice) = stream.next(self.given, streams) else {
                break;
            };
            self.send(slice, transport);
        }
        let is_whole = stream.is_whole();
        if is_whole && let Some(plan) = stream.plan.take() {
            streams.put_away(plan.file);
        }
        self.stream = Some(stream);
        let waits = matches!(self.waits_for(), Wait::Sending | Wait::Reading);
        if self.given > before || !waits {
            let is_queued = transport.unacknowledged(id) > 0;
            let wait = if is_queued {
                Wait::Sending
            } else {
                Wait::Reading
            };
            self.wait(turn.now, wait);
        }
        is_whole
    }
}

/// How many bytes shall be queued on a connection, or be on their way there; it grows with the bytes under way.
fn queue_wanted(under_way: usize, reach: usize) -> usize {
    (2 * under_way + reach * CHUNK_LEN).min(QUEUE_LEN_MAX)
}
