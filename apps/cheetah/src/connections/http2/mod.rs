//! The streams of a connection that speaks HTTP/2.
//!
//! A request is answered where it is read, if all that it asks for is in memory: its response is put together with those of others,
//! or waits as slices for the client's windows. Every other request gets an exchange: a connection of its own to all that answers
//! it ([`Connection`](super::connection::Connection), which waits, asks applications and sends what is read), carried by frames
//! ([`StreamTransport`]) instead of segments. So what a server does for HTTP/1.1 it does for each stream.
//!
//! ```text
//!   transport ──frames──> receiving ──a request──> answered at once ──slices──> sending ──frames──> transport
//!                             │                                                    ^
//!                             └──a request that waits, its body──> exchange ──slices┘
//! ```
//!
//! What leaves in a turn is put together: heads, shortened by what the client has in its table of header compression; frames' heads and
//! short bodies in one buffer; long bodies as the slices that they
//! are. Frames are made only as far as the transport has not enough to send, so that what is urgent comes first.
//!
//! | file | what is in it |
//! |---|---|
//! | [`driver`] | what happens to a connection: all its streams together |
//! | [`exchanging`] | its streams: how they begin, what becomes of them, their ends |
//! | [`waiting`] | what it waits for, and for how long |
//! | [`receiving`] | frames in: requests, bodies, what is given up |
//! | [`sending`] | responses out, by their priorities |
//! | [`reading_ahead`] | how much of long files its streams may hold |
//! | [`stream`] | what waits on a stream, in and out |
//! | [`transport`] | a stream as what carries a connection |
//! | [`exchanges`] | the streams of all connections that wait |
//! | [`counters`] | what was wrong, by name |

pub(super) mod counters;
mod driver;
mod exchanges;
mod exchanging;
mod reading_ahead;
mod receiving;
mod sending;
mod stream;
mod transport;
mod waiting;

use std::collections::VecDeque;

use exos_buf::Slice;
use exos_http2::StreamId;
use exos_http2::priority::Schedule;
use exos_inet::Instant;

pub(super) use driver::Driver;
pub(super) use exchanges::Exchanges;

use crate::log::Unfinished;
use stream::Stream;

/// What a connection has of its streams.
pub(super) struct Http2 {
    core: exos_http2::connection::Connection,
    /// Those of which something waits, by their numbers.
    streams: Vec<Stream>,
    /// Those that have something to send.
    schedule: Schedule,
    /// Frames that are put together, and slices before them.
    frames: Vec<u8>,
    slices: Vec<Slice>,
    slices_len: usize,
    /// Bytes that the connection was given before these.
    given: u64,
    /// What was sent of streams that are not over.
    flights: VecDeque<Flight>,
    /// Chunks of long files that its streams hold, and those that wait to be let have some.
    chunks: usize,
    starved: VecDeque<StreamId>,
    /// Responses that are whole.
    lines: Vec<Finished>,
    /// When a request came last, and when something of a response was framed or taken.
    active: Instant,
    progressed: Instant,
    /// Since when there has always been something that the client has not taken, if it is only the answer to a ping.
    owes_since: Option<Instant>,
    /// Bytes of responses that were framed or taken since, too few to count.
    dripped: usize,
    /// When the client was told that no more requests are wanted.
    going_since: Instant,
    /// When the frame began that is not whole.
    frame_begun: Option<Instant>,
    /// Since when bodies that nobody takes have used up what their client may send.
    stalled_since: Option<Instant>,
    /// Frames wait to be read for room in the send queue.
    held: bool,
    /// It is over by a fault.
    has_failed: bool,
}

/// A response that is whole: its lines for the log.
struct Finished {
    lines: Unfinished,
    /// Bytes of its header block, as it was sent.
    head_len: usize,
    /// Where it ends among all that the connection was given.
    end: u64,
}

/// Bytes of a stream that were sent.
struct Flight {
    stream: StreamId,
    len: usize,
    /// Where they end among all that the connection was given.
    end: u64,
}

impl Http2 {
    /// A connection of which nothing is read.
    pub(super) fn new(now: Instant) -> Http2 {
        let mut frames = Vec::new();
        let core = exos_http2::connection::Connection::server(&mut frames);
        Http2 {
            core,
            streams: Vec::new(),
            schedule: Schedule::default(),
            frames,
            slices: Vec::new(),
            slices_len: 0,
            given: 0,
            flights: VecDeque::new(),
            chunks: 0,
            starved: VecDeque::new(),
            lines: Vec::new(),
            active: now,
            progressed: now,
            owes_since: None,
            dripped: 0,
            going_since: now,
            frame_begun: None,
            stalled_since: None,
            held: false,
            has_failed: false,
        }
    }

    /// Requests are under way, or their client has not heard that no more are wanted.
    pub(super) fn is_busy(&self) -> bool {
        let has_streams = self.core.stream_count() > 0 || !self.streams.is_empty();
        !self.has_failed && (has_streams || self.core.is_telling())
    }

    /// The streams of which something waits.
    fn into_streams(self) -> Vec<Stream> {
        self.streams
    }

    /// Adds a stream of which something waits.
    fn add(&mut self, stream: Stream) {
        // Its number is the highest, nearly always.
        let at = self
            .streams
            .partition_point(|other| other.id() < stream.id());
        self.streams.insert(at, stream);
    }

    fn find(&mut self, id: StreamId) -> Option<&mut Stream> {
        let at = self.streams.binary_search_by_key(&id, Stream::id).ok()?;
        Some(&mut self.streams[at])
    }

    fn remove(&mut self, id: StreamId) -> Option<Stream> {
        let at = self.streams.binary_search_by_key(&id, Stream::id).ok()?;
        self.schedule.remove(id);
        self.leave_row(id);
        let stream = self.streams.remove(at);
        self.chunks -= stream.chunks;
        // What nobody consumed gives the others room.
        let len = stream.held_from_others();
        self.core.consume(id, len, &mut self.frames);
        Some(stream)
    }
}
