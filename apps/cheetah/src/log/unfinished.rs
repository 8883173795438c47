//! Lines of responses that are under way: in one pool for all connections, each connection's in a list through it.

use std::net::IpAddr;

use exos_inet::Instant;

/// The lines that a connection waits to be able to write; 24 bytes.
#[derive(Debug)]
pub struct Unfinished {
    /// Bytes of responses queued on the connection so far.
    pub(super) given: u64,
    /// How many of them the client has taken, as far as is known.
    pub(super) taken: u64,
    /// Places in the pool; [`NONE`] without lines.
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

impl Default for Unfinished {
    fn default() -> Self {
        Unfinished {
            given: 0,
            taken: 0,
            first: NONE,
            last: NONE,
        }
    }
}

/// A line without its client, its time and its numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub(super) text: Text,
    /// Bytes of the response's head.
    pub(super) head_len: u64,
    /// Bytes of the whole response.
    pub(super) len: u64,
}

/// A line that waits for its response to be taken.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) line: Line,
    pub(super) peer: IpAddr,
    /// When the first bytes of the request came.
    pub(super) begun: Instant,
    /// Where the response ends among all that its connection is given.
    pub(super) end: u64,
    next: u32,
}

/// What the request and the status say in a line, in three parts: up to the numbers, what is behind them, and Referer and User-Agent.
/// What comes before and between the first two is told when it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) bytes: Vec<u8>,
    first_end: u32,
    second_end: u32,
}

impl Text {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Here come the numbers.
    pub(super) fn end_first(&mut self) {
        self.first_end = self.bytes.len() as u32;
    }

    /// Here come Referer and User-Agent.
    pub(super) fn end_second(&mut self) {
        self.second_end = self.bytes.len() as u32;
    }

    /// Forgets those.
    pub(super) fn cut_to_second(&mut self) {
        self.bytes.truncate(self.second_end as usize);
    }

    pub(super) fn parts(&self) -> [&[u8]; 3] {
        let (before, last) = self.bytes.split_at(self.second_end as usize);
        let (first, second) = before.split_at(self.first_end as usize);
        [first, second, last]
    }

    /// What it costs to keep.
    pub(super) fn cost(&self) -> usize {
        self.bytes.capacity() + size_of::<Pending>()
    }
}

/// Text that is kept for the next line; what has grown longer is given back.
const KEPT_LEN: usize = 512;

/// All unfinished lines.
#[derive(Debug, Default)]
pub(super) struct Pool {
    places: Vec<Option<Pending>>,
    free: Vec<u32>,
    /// For the next lines.
    spare: Vec<Line>,
    bytes: usize,
}

impl Pool {
    /// One to write into.
    pub(super) fn take(&mut self) -> Line {
        self.spare.pop().unwrap_or_default()
    }

    /// It is written, or was not needed.
    pub(super) fn recycle(&mut self, line: Line) {
        if line.text.bytes.capacity() <= KEPT_LEN && self.spare.len() < SPARE_MAX {
            self.spare.push(line);
        }
    }

    /// Bytes that the lines of all connections take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts a line behind those of a connection, which was given its response already.
    pub(super) fn append(
        &mut self,
        queue: &mut Unfinished,
        line: Line,
        peer: IpAddr,
        begun: Instant,
    ) {
        let pending = Pending {
            line,
            peer,
            begun,
            end: queue.given,
            next: NONE,
        };
        self.bytes += pending.line.text.cost();
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[place as usize] = Some(pending);
        match self.places.get_mut(queue.last as usize) {
            Some(Some(last)) => last.next = place,
            _ => queue.first = place,
        }
        queue.last = place;
    }

    /// Takes the first line of a connection, if its response ends at `position` or before.
    #[inline]
    pub(super) fn pop_until(&mut self, queue: &mut Unfinished, position: u64) -> Option<Pending> {
        if queue.first == NONE {
            return None;
        }
        let place = &mut self.places[queue.first as usize];
        let pending = place.take_if(|pending| pending.end <= position)?;
        self.bytes -= pending.line.text.cost();
        self.free.push(queue.first);
        queue.first = pending.next;
        if queue.first == NONE {
            queue.last = NONE;
        }
        Some(pending)
    }
}

/// Lines kept for the next ones: as many as a batch of packets brings requests.
const SPARE_MAX: usize = 256;
