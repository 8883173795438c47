//! A connection without a stack: taken out of one, put into another.

use core::ops::Range;

use exos_wire::SeqNumber;

use crate::tcp::congestion::algorithm::{Algorithm, Congestion};
use crate::tcp::connection::travel::ByName;
use crate::tcp::connection::{Connection, Opening};
use crate::tcp::shared::memory::Memory;
use crate::tcp::values::codec::{HandoverError, VERSION, Wire};
use crate::tcp::values::flow::Flow;
use crate::tcp::values::local::Local;
use crate::tcp::values::options::Options;
use crate::tcp::values::state::State;
use crate::time::Instant;

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

    /// All of a connection that is taken out of its stack.
    pub(in crate::tcp) fn take(
        mut connection: Connection,
        now: Instant,
        memory: &mut Memory,
    ) -> Self {
        let (bytes, readable) = write(&mut connection, now, memory);
        connection.receiver.queue_mut().release(memory);
        Self::of(connection, bytes, readable)
    }

    /// The connection as it goes on in a stack whose link has this to offer.
    pub(in crate::tcp) fn resume(
        mut self,
        now: Instant,
        local: Local,
        memory: &mut Memory,
    ) -> Connection {
        // What is read of the algorithm is replaced in the next line: any will do.
        let any = |_: &str| Some(Algorithm::default());
        let (mut connection, _) = read(&self.bytes, now, memory, &any)
            .expect("a detached connection was read before, or written here");
        if let Some(congestion) = self.congestion.take() {
            *connection.sender.congestion_mut() = *congestion;
        }
        connection.resume(now, local);
        connection
    }

    /// What people may ask is kept beside the bytes.
    fn of(connection: Connection, bytes: Vec<u8>, readable: Range<usize>) -> Self {
        Self {
            bytes,
            flow: *connection.flow(),
            state: connection.state(),
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
    connection.leave();
    let mut wire = Wire::writer(now);
    let mut length = 0;
    let written =
        head(&mut wire, &mut length).and_then(|()| connection.travel(&mut wire, memory, &|_| None));
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
    algorithms: ByName<'_>,
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
    let readable = connection.travel(&mut wire, memory, algorithms)?;
    wire.end()?;
    connection.check_fields()?;
    Ok((connection, readable))
}
