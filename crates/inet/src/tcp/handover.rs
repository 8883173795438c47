//! Connections as values: taken out of one stack, put into another, also in another process.
//!
//! A [`DetachedConnection`] is bytes, owned and `Send`: what both sides have agreed on, the numbers, the
//! bytes queued and received, and what is known of the path. Times are told as ages, and the clock of
//! timestamps by what it showed, so that the stacks' clocks need not have the same start.
//!
//! What does not travel: when each segment in flight left (the whole flight counts as one that has left
//! just now and measures nothing), a repair in progress, the neighbour, the listener, the pacing of the
//! moment. The congestion window travels.
//!
//! **Between the stacks** the peer goes on sending. The old stack remembers the flow (`silence`) and is
//! silent about its segments for [`HANDED_OVER_HOLD`](crate::limits::HANDED_OVER_HOLD), and for as long again
//! after each that still comes. Until then the caller brings the flow's packets to the new stack; what is lost
//! on the way is sent again by its sender.
//!
//! **The bytes**, all numbers little-endian:
//!
//! ```text
//! 0   "EXTC"
//! 4   version, 2 bytes
//! 6   length of all, 4 bytes
//! 10  the flow: our address and the peer's, 16 bytes each (IPv4 in its mapped form), our port and theirs
//! 46  the other fields, in the order of the list in `fields`, each as `codec` says of its kind;
//!     the send queue is the last but one of the list; then the full MSS (2 bytes), congestion control (the name
//!     as a block, four numbers of 8 bytes), the received bytes (a block), what waits beyond gaps:
//!     how many ranges (4 bytes), of each its first sequence number and the bytes (a block, zeros
//!     where they are skipped), and how many more bytes are skipped (4 bytes)
//! ```
//!
//! They come from another process, so they are judged like a packet: [`DetachedConnection::decode`] gives a
//! connection of which all holds that this stack relies on, or says what does not. They are not signed:
//! anyone who can write them can send and read as the program that takes them.

mod fields;
mod silence;

use core::ops::Range;

use exos_wire::SeqNumber;

pub use super::codec::HandoverError;
use super::codec::Wire;
pub(super) use silence::HandedOver;

use super::congestion::{Algorithm, Congestion};
use super::connection::{Connection, Opening};
use super::event::EventSet;
use super::flow::Flow;
use super::id::ConnectionId;
use super::memory::{Memory, Pressure};
use super::options::Options;
use super::state::State;
use super::{Local, OpenError, Tcp};
use crate::time::Instant;

/// Of the format. Another one is not read.
pub(super) const VERSION: u16 = 4;

/// What the bytes begin with.
const MAGIC: [u8; 4] = *b"EXTC";

/// Bytes before the first field.
const HEAD: usize = 10;

/// A connection without a stack.
pub struct DetachedConnection {
    bytes: Vec<u8>,
    /// Its congestion control as it was, while it stays in this process.
    congestion: Option<Box<Congestion>>,
    flow: Flow,
    state: State,
    token: u64,
    unacknowledged: usize,
    readable: Range<usize>,
}

impl DetachedConnection {
    /// The connection as bytes, for another process: [`Self::decode`] reads them.
    pub fn encode(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    /// A connection that another process has encoded. Whatever the bytes are, this ends with a value or an
    /// error, and takes memory in proportion to them.
    ///
    /// Ages count from the moment at which it was taken out, and what is in flight counts as sent when it is
    /// put in: the time between is the caller's to keep short.
    pub fn decode(bytes: &[u8]) -> Result<Self, HandoverError> {
        Self::decode_with(bytes, &|_| None)
    }

    /// As [`decode`](Self::decode), where the program has congestion control of its own: `algorithms` knows it by its name.
    pub fn decode_with(
        bytes: &[u8],
        algorithms: &dyn Fn(&str) -> Option<Algorithm>,
    ) -> Result<Self, HandoverError> {
        let mut memory = Memory::default();
        let (connection, readable) = read(bytes, Instant::START, &mut memory, algorithms)?;
        Ok(Self::of(connection, bytes.to_vec(), readable))
    }

    /// What people may ask is kept beside the bytes.
    fn of(connection: Connection, bytes: Vec<u8>, readable: Range<usize>) -> Self {
        Self {
            bytes,
            flow: connection.flow,
            state: connection.state,
            token: connection.token,
            unacknowledged: connection.queue().len(),
            congestion: Some(Box::new(connection.sender.into_congestion())),
            readable,
        }
    }

    /// The four-tuple.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The connection's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// The program's own word for it.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Bytes queued and not acknowledged, sent or not.
    pub fn unacknowledged(&self) -> usize {
        self.unacknowledged
    }

    /// Bytes received and not taken by the program.
    pub fn readable(&self) -> &[u8] {
        &self.bytes[self.readable.clone()]
    }
}

impl core::fmt::Debug for DetachedConnection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DetachedConnection")
            .field("flow", self.flow())
            .field("state", &self.state())
            .field("unacknowledged", &self.unacknowledged())
            .field("unread", &self.readable().len())
            .finish()
    }
}

/// All that travels, and where in it the received bytes stand.
fn write(
    connection: &mut Connection,
    now: Instant,
    memory: &mut Memory,
) -> (Vec<u8>, Range<usize>) {
    if connection.state != State::FinWait2 {
        // Only the end of that state is kept; what else may be due follows from the wishes.
        connection.liveness.disarm();
    }
    let mut wire = Wire::writer(now);
    let mut length = 0;
    let written = head(&mut wire, &mut length)
        .and_then(|()| fields::travel_all(connection, &mut wire, memory, &|_| None));
    let readable = written.expect("writing a connection that stands cannot fail");
    let mut bytes = wire.into_bytes();
    length = bytes.len() as u32;
    bytes[HEAD - 4..HEAD].copy_from_slice(&length.to_le_bytes());
    (bytes, readable)
}

/// Everything that comes before the fields.
fn head(wire: &mut Wire<'_>, length: &mut u32) -> Result<(), HandoverError> {
    let (mut magic, mut version) = (MAGIC, VERSION);
    wire.raw(&mut magic)?;
    if magic != MAGIC {
        return Err(HandoverError::NotAConnection);
    }
    wire.u16(&mut version)?;
    if version != VERSION {
        return Err(HandoverError::Version(version));
    }
    wire.u32(length)
}

/// A connection from its bytes, before it begins to go on.
fn read(
    bytes: &[u8],
    now: Instant,
    memory: &mut Memory,
    algorithms: &dyn Fn(&str) -> Option<Algorithm>,
) -> Result<(Connection, Range<usize>), HandoverError> {
    let mut wire = Wire::reader(bytes, now);
    let mut length = 0;
    head(&mut wire, &mut length)?;
    match bytes.len().checked_sub(length as usize) {
        None => return Err(HandoverError::Truncated),
        Some(0) => {}
        Some(more) => return Err(HandoverError::Trailing(more)),
    }
    // Every one of these is read, or does not travel.
    let opening = Opening {
        flow: Flow::from_bytes([0; 36]),
        iss: SeqNumber(0),
        ts_offset: 0,
        mss_announced: 0,
        now,
    };
    let options = Options::default();
    let mut connection = Connection::resumed(opening, &options, State::Established);
    let readable = fields::travel_all(&mut connection, &mut wire, memory, algorithms)?;
    wire.end()?;
    fields::check_all(&connection)?;
    Ok((connection, readable))
}

impl Connection {
    /// Go on in a stack whose link has this to offer.
    fn go_on(&mut self, now: Instant, local: Local) {
        // The new stack's link may be narrower.
        self.sender.resume(now, local.mss);
        if self.state != State::FinWait2 {
            self.liveness.disarm();
        }
        self.receiver.resume();
        let retries = self.sender.retries();
        self.liveness.resume(now, retries > 0);
        self.liveness.rearm(self.state, retries);
    }
}

impl Tcp {
    /// Take a connection out of this stack: nothing of it is left but the memory that its segments are
    /// to be met with silence. The program hears nothing more of it here.
    ///
    /// `None` when it is gone, does not stand yet, or is over and the program has only not heard of it.
    pub fn take_out(&mut self, now: Instant, id: ConnectionId) -> Option<DetachedConnection> {
        let connection = self.slab.get_mut(id)?;
        if !connection.state().is_synchronized() {
            return None;
        }
        let flow = *connection.flow();
        self.unindex(id);
        let mut connection = self.slab.take(id)?;
        let (bytes, readable) = write(&mut connection, now, &mut self.memory);
        connection.receiver.queue_mut().release(&mut self.memory);
        self.handed_over.insert(now, flow);
        self.ports.may_have_become_free();
        Some(DetachedConnection::of(connection, bytes, readable))
    }

    /// Go on with a connection. On failure it is given back.
    pub(super) fn go_on_with(
        &mut self,
        now: Instant,
        mut detached: DetachedConnection,
        local: Local,
    ) -> Result<ConnectionId, (OpenError, DetachedConnection)> {
        let flow = *detached.flow();
        let full = self.index.len() >= self.connections_max;
        if full || self.memory.pressure() == Pressure::Full {
            return Err((OpenError::Full, detached));
        }
        if self.is_taken(&flow) {
            return Err((OpenError::FlowTaken, detached));
        }
        self.handed_over.remove(&flow);
        // What is read of the algorithm is replaced in the next line: any will do.
        let any = |_: &str| Some(Algorithm::default());
        let (mut connection, _) = read(&detached.bytes, now, &mut self.memory, &any)
            .expect("a detached connection was read before, or written here");
        if let Some(congestion) = detached.congestion.take() {
            *connection.sender.congestion_mut() = *congestion;
        }
        connection.go_on(now, local);
        connection.receiver.set_pressure(self.memory.pressure());
        let has_gap = connection.receiver.queue().has_gap();
        if !connection.readable().is_empty() {
            connection.tell(EventSet::READABLE);
        }
        let id = self.insert(connection, flow.table_hash(&self.key));
        if let Some(entry) = self.slab.entry_mut(id) {
            // Its program knows it, and is to hear of its end.
            entry.announced = true;
        }
        if has_gap {
            self.note_prunable(id);
        }
        self.settle(id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests;
