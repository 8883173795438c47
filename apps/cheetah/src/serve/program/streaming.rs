//! Responses whose content is read while it is sent.
//!
//! What follows the slices of such a response is a list of pieces. A connection takes the chunks of the next ones as far
//! ahead as its client is fast: twice what is under way to it, and two chunks; more, where the client has had to wait
//! for the disk. So the send queue is the read-ahead, and a slow reader holds little. A chunk is released when its
//! last byte has been acknowledged. Requests behind the response wait until all of it is queued.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use exos_buf::Slice;
use exos_inet::tcp::{Connection as Tcp, ConnectionId};
use exos_inet::{Instant, Stack};

use super::super::bounds::Pace;
use super::super::wait::Wait;
use super::super::without::copy;
use super::Cheetah;
use super::connection::find;
use crate::http::{Piece, Tail};
use crate::limits::{CHUNK_LEN, QUEUE_LEN_MAX, REACH_MAX, REACH_MIN};
use crate::site::long::OpenFile;
use crate::stream::chunks::Slot;
use crate::stream::{Done, Streams};

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
    pub(super) fn new(tail: Tail) -> Stream {
        let mut stream = Stream::default();
        stream.begin(tail);
        stream
    }

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

    /// The client has taken all, and what comes next is being read.
    fn is_dry(&self, stack: &Stack, id: ConnectionId, streams: &Streams) -> bool {
        let tcp = stack.tcp.connection(id);
        let is_reading =
            |step: &Step| matches!(step, Step::Chunk(slot, _) if streams.buffer(*slot).is_none());
        tcp.is_some_and(|tcp| tcp.unacknowledged() == 0)
            && self.steps.front().is_some_and(is_reading)
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

/// How many bytes shall be queued on a connection, or be on their way there.
fn queue_wanted(tcp: &Tcp, reach: usize) -> usize {
    let under_way = tcp.unacknowledged() - tcp.unsent();
    (2 * under_way + reach * CHUNK_LEN).min(QUEUE_LEN_MAX)
}

impl Cheetah {
    /// Reads long files in this way from now on, before there are connections.
    pub fn set_streams(&mut self, streams: Streams) {
        self.streams = streams;
    }

    /// The long files.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Takes in what has been read, gives it to those who wait, and starts what they want next.
    pub(super) fn turn_streams(&mut self, now: Instant, stack: &mut Stack) {
        self.take_read(now, stack);
        for _ in 0..self.streams.hungry() {
            let Some(id) = self.streams.feed() else {
                break;
            };
            self.send_on(now, id, true, stack);
        }
        self.streams.submit();
        // What was in memory is there already.
        self.take_read(now, stack);
    }

    fn take_read(&mut self, now: Instant, stack: &mut Stack) {
        while let Some(done) = self.streams.poll() {
            match done {
                Done::Opened(place, file) => {
                    for id in self.fetching.take(&place) {
                        self.resume(now, id, None, stack);
                    }
                    self.streams.put_away(file);
                }
                Done::Failed(place) => self.fail(now, place, stack),
                Done::Filled(ids) => {
                    for id in ids {
                        self.send_on(now, id, false, stack);
                    }
                }
                Done::Lost(ids) => {
                    for id in ids {
                        self.break_off(id, stack);
                    }
                }
            }
        }
    }

    /// What a client was promised is not there any more: better a response that ends early than one of two versions.
    fn break_off(&mut self, id: ConnectionId, stack: &mut Stack) {
        if find(&mut self.connections, id).is_some_and(|c| c.is_streaming()) {
            self.counters.broken_off += 1;
            stack.tcp.abort(id);
        }
    }

    /// Goes on with a response, and with the requests behind it when all of it is queued.
    pub(super) fn send_on(
        &mut self,
        now: Instant,
        id: ConnectionId,
        is_first: bool,
        stack: &mut Stack,
    ) {
        let Some(connection) = find(&mut self.connections, id) else {
            return; // It has gone.
        };
        if is_first && let Some(stream) = &mut connection.stream {
            stream.hungry = false;
        }
        if connection.is_streaming() && self.stream(now, id, is_first, stack) {
            self.serve(now, id, stack);
            let Some(connection) = find(&mut self.connections, id) else {
                return;
            };
            if connection.client_finished && !connection.waits_to_serve() {
                connection.finish(now, stack, &mut self.alarms, &mut self.unmerged);
            }
        }
    }

    /// A response follows whose content is to be read; true when all of it is queued at once.
    pub(super) fn begin_stream(
        &mut self,
        now: Instant,
        id: ConnectionId,
        tail: Tail,
        stack: &mut Stack,
    ) -> bool {
        let Some(connection) = find(&mut self.connections, id) else {
            return false;
        };
        match &mut connection.stream {
            Some(stream) => stream.begin(tail),
            none => *none = Some(Box::new(Stream::new(tail))),
        }
        self.stream(now, id, false, stack)
    }

    /// Releases the chunks of a connection that were acknowledged.
    pub(super) fn release_acknowledged(&mut self, id: ConnectionId, stack: &Stack) {
        if let Some(connection) = find(&mut self.connections, id)
            && let Some(stream) = &mut connection.stream
        {
            let pending = stack.tcp.connection(id).map_or(0, Tcp::unacknowledged);
            stream.release_until(connection.given - pending as u64, &mut self.streams);
            if !stream.is_under_way() && stream.queued.is_empty() {
                connection.stream = None;
            }
        }
    }

    /// Queues what is there and takes what is next; true when all of the response is queued.
    fn stream(
        &mut self,
        now: Instant,
        id: ConnectionId,
        is_first: bool,
        stack: &mut Stack,
    ) -> bool {
        let Some(connection) = find(&mut self.connections, id) else {
            return false;
        };
        let Some(mut stream) = connection.stream.take() else {
            return false;
        };
        let before = connection.given;
        if stack
            .tcp
            .connection(id)
            .is_some_and(|tcp| tcp.unacknowledged() == 0)
        {
            // Nothing was asked of the client until now.
            connection.pace = Pace::new(now, before);
        }
        let wanted = |stack: &Stack, reach| {
            let tcp = stack.tcp.connection(id);
            tcp.map_or((0, 0), |tcp| {
                (tcp.unacknowledged(), queue_wanted(tcp, reach))
            })
        };
        if connection.wait == Wait::Sending && stream.is_dry(stack, id, &self.streams) {
            stream.reach = (2 * stream.reach).min(REACH_MAX);
        }
        loop {
            let (queued, wanted) = wanted(stack, stream.reach);
            let more = wanted.saturating_sub(queued) as u64;
            stream.ask(more, id, &mut self.streams, is_first);
            if queued >= QUEUE_LEN_MAX || !self.give(&mut stream, id, stack) {
                break;
            }
        }
        let Some(connection) = find(&mut self.connections, id) else {
            return false;
        };
        let is_whole = stream.steps.is_empty()
            && (stream.plan.as_ref()).is_some_and(|plan| plan.pieces.is_empty());
        if is_whole && let Some(plan) = stream.plan.take() {
            self.streams.put_away(plan.file);
        }
        connection.stream = Some(stream);
        let waits = matches!(connection.wait, Wait::Sending | Wait::Reading);
        if connection.given > before || !waits {
            let is_queued = stack
                .tcp
                .connection(id)
                .is_some_and(|tcp| tcp.unacknowledged() > 0);
            let wait = if is_queued {
                Wait::Sending
            } else {
                Wait::Reading
            };
            connection.wait(now, wait, &mut self.alarms);
        }
        is_whole
    }

    /// Queues the next slice of a response; false when it is not there.
    fn give(&mut self, stream: &mut Stream, id: ConnectionId, stack: &mut Stack) -> bool {
        let Some(connection) = find(&mut self.connections, id) else {
            return false;
        };
        let Some(slice) = stream.next(connection.given, &self.streams) else {
            return false;
        };
        connection.given += slice.len() as u64;
        let slice = if self.copies { copy(&slice) } else { slice };
        stack.tcp.send(id, slice);
        true
    }
}
