//! What a connection has of a response whose content is read while it is sent: what is to come, what is at hand, and what
//! is under way.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use exos_buf::Slice;
use exos_inet::tcp::ConnectionId;

use crate::http::{Piece, Tail};
use crate::limits::{CHUNK_LEN, REACH_MIN};
use crate::site::long::OpenFile;
use crate::stream::Streams;
use crate::stream::chunks::Slot;

/// What a connection has of a long file, and what it is still to send of it.
#[derive(Default)]
pub(super) struct Stream {
    /// The file and the pieces of which no chunk is taken yet.
    pub(super) plan: Option<Tail>,
    /// What comes next, its chunks taken.
    steps: VecDeque<Step>,
    /// Chunks that are queued on the connection, with the place of their last byte among all that it was given.
    pub(super) queued: VecDeque<(u64, Slot)>,
    /// Bytes of `steps` and of the plan.
    ahead: u64,
    left: u64,
    /// Chunks that are taken beyond what is under way to the client.
    pub(super) reach: usize,
    /// It holds nothing and waits for memory.
    pub(super) hungry: bool,
}

enum Step {
    Bytes(Slice),
    /// This part of a chunk.
    Chunk(Slot, Range<usize>),
}

impl Stream {
    pub(super) fn begin(&mut self, tail: Tail) {
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

    /// Chunks that it holds.
    pub(super) fn held(&self) -> usize {
        let chunks = self
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Chunk(..)));
        chunks.count() + self.queued.len()
    }

    /// Releases what has been acknowledged.
    pub(super) fn release_until(&mut self, position: u64, streams: &mut Streams) {
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
    pub(super) fn next(&mut self, given: u64, streams: &Streams) -> Option<Slice> {
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
    pub(super) fn is_reading(&self, streams: &Streams) -> bool {
        let next = self.steps.front();
        next.is_some_and(
            |step| matches!(step, Step::Chunk(slot, _) if streams.buffer(*slot).is_none()),
        )
    }

    /// All of the response is queued but for what is at hand.
    pub(super) fn is_whole(&self) -> bool {
        let plan = self.plan.as_ref();
        self.steps.is_empty() && plan.is_some_and(|plan| plan.pieces.is_empty())
    }

    /// Takes chunks until this many bytes are at hand or under way.
    pub(super) fn ask(
        &mut self,
        wanted: u64,
        id: ConnectionId,
        streams: &mut Streams,
        mut is_first: bool,
    ) {
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
