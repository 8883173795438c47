//! The engine's connections on the kernel's sockets: the paper's baseline, and for where raw packets cannot be used.
//!
//! One thread, epoll, sockets that do not block. In each turn: [`Sockets::wait`], then [`Sockets::poll_event`] until there
//! is none. A socket is registered once, for everything, and told of when something changes (edge-triggered), so it is
//! read until it is empty: a short read says that, unless the server has finished, which is told beside.
//!
//! What is read lies in one buffer for all, until the next event is polled. What of it nobody has consumed by then, a
//! head of which not all has come, is kept with its connection and put before what comes next.

mod connection;
mod places;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

use exos::{Error, clock};
use exos_buf::Slice;
use exos_inet::Instant;
use exos_inet::tcp::{EventSet, OpenError, Reason};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::limits::{EVENTS_MAX, HEAD_LEN_MAX, READ_LEN, READS_MAX};
use crate::transport::Transport;

use connection::Connection;
use places::Places;
pub use places::SocketId;

/// What epoll says of descriptors that others watch.
const OTHERS: u64 = u64::MAX;

/// What a connection of ours says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it was opened with.
    pub token: u64,
    /// What happened.
    pub set: EventSet,
    /// Why it is over, where it is.
    pub reason: Reason,
}

/// A connection that is being read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    id: SocketId,
    /// Reads that it may have before the others' turn.
    left: u32,
    end: End,
}

/// What is behind the bytes that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// More may come.
    Open,
    /// The server has finished.
    Finished,
    /// An error.
    Failed,
}

/// Connections to a server.
pub struct Sockets {
    epoll: OwnedFd,
    to: SocketAddr,
    places: Places,
    /// What epoll told of and was not handled.
    ready: VecDeque<(SocketId, EventFlags)>,
    events: Vec<epoll::Event>,
    /// Connections that failed while something was asked of them.
    failed: VecDeque<(SocketId, Reason)>,
    reading: Option<Reading>,
    buffer: Box<[u8]>,
    /// Whose bytes lie in the buffer, and where.
    held: Option<(SocketId, Range<usize>)>,
    shortage: Option<Errno>,
    shortage_told: bool,
}

impl Sockets {
    /// Without connections yet.
    ///
    /// # Errors
    ///
    /// The kernel has no descriptor for it.
    pub fn new(to: SocketAddr) -> Result<Self, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|e| Error::io("cannot wait for sockets", e))?;
        Ok(Self {
            epoll,
            to,
            places: Places::default(),
            ready: VecDeque::new(),
            events: Vec::with_capacity(EVENTS_MAX),
            failed: VecDeque::new(),
            reading: None,
            buffer: vec![0; HEAD_LEN_MAX + READ_LEN].into_boxed_slice(),
            held: None,
            shortage: None,
            shortage_told: false,
        })
    }

    /// A wait ends, too, whenever something comes to be read here, for as long as it is open.
    ///
    /// # Errors
    ///
    /// The kernel has no memory for it.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let flags = EventFlags::IN | EventFlags::ET;
        let added = epoll::add(&self.epoll, fd, EventData::new_u64(OTHERS), flags);
        added.map_err(|e| Error::io("cannot wait for signals", e))
    }

    /// Waits for events, until `until` at the latest. All events were polled before.
    ///
    /// # Errors
    ///
    /// The kernel refuses to wait.
    pub fn wait(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let now = clock::now();
        // Who failed does not wait.
        let until = if self.failed.is_empty() {
            until
        } else {
            Some(now)
        };
        let timeout = until.map(|at| timespec(at, now));
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(e) => return Err(Error::io("cannot wait for sockets", e)),
        }
        let told = self.events.iter().filter(|e| e.data.u64() != OTHERS);
        self.ready
            .extend(told.map(|e| (SocketId::of(e.data.u64()), e.flags)));
        Ok(())
    }

    /// What happened next. What a connection read before is gone or kept, and not to be consumed any more.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.keep_rest();
        loop {
            let event = if let Some((id, reason)) = self.failed.pop_front() {
                self.closed(id, reason)
            } else if let Some(reading) = self.reading.take() {
                self.read(reading)
            } else {
                let (id, flags) = self.ready.pop_front()?;
                self.handle_ready(id, flags)
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Why a connection could not be opened, and what can be done about it: told once.
    pub fn poll_shortage(&mut self) -> Option<Error> {
        let errno = self.shortage.take().filter(|_| !self.shortage_told)?;
        self.shortage_told = true;
        let mend = match errno {
            Errno::MFILE => {
                "each takes a descriptor of this process: raise `ulimit -n`, or give fewer --connections"
            }
            Errno::NFILE => {
                "each takes a descriptor of the system: raise fs.file-max, or give fewer --connections"
            }
            Errno::ADDRNOTAVAIL | Errno::AGAIN => {
                "every local port is used towards the server, or remembered by it: widen net.ipv4.ip_local_port_range, \
                 or let connections have more requests (--requests-per-connection)"
            }
            _ => "the kernel has no room for them: give fewer --connections",
        };
        let what = "some connections cannot be opened";
        Some(Error::io(what, errno).mend(mend))
    }

    /// The event of a connection that is over.
    fn closed(&mut self, id: SocketId, reason: Reason) -> Option<Event> {
        let connection = self.places.take(id)?;
        Some(event(connection.token, EventSet::CLOSED, reason))
    }

    /// What epoll tells of a connection.
    fn handle_ready(&mut self, id: SocketId, flags: EventFlags) -> Option<Event> {
        let over = EventFlags::ERR | EventFlags::HUP;
        let connection = self.places.get(id)?;
        let comes_to_stand = !std::mem::replace(&mut connection.stands, true);
        if comes_to_stand
            && flags.intersects(over)
            && let Some(errno) = connection.error()
        {
            return self.did_not_stand(id, errno);
        }
        let connection = self.places.get(id)?;
        if flags.contains(EventFlags::OUT)
            && let Err(errno) = connection.send_unsent()
        {
            return self.closed(id, reason(errno));
        }
        if flags.intersects(over | EventFlags::IN | EventFlags::RDHUP) {
            let end = match () {
                () if flags.contains(EventFlags::ERR) => End::Failed,
                () if flags.contains(EventFlags::RDHUP) => End::Finished,
                () => End::Open,
            };
            let left = READS_MAX;
            self.reading = Some(Reading { id, left, end });
        }
        let token = self.places.get(id)?.token;
        comes_to_stand.then(|| event(token, EventSet::CONNECTED, Reason::Done))
    }

    /// A connection is over of which nothing else was told before.
    fn did_not_stand(&mut self, id: SocketId, errno: Errno) -> Option<Event> {
        let mut event = self.closed(id, reason(errno))?;
        if event.reason == Reason::Reset {
            // A SYN that is answered by a reset is refused: this one stood before.
            event.set = event.set.with(EventSet::CONNECTED);
        }
        Some(event)
    }

    /// Reads once, behind what is left of the read before.
    fn read(&mut self, reading: Reading) -> Option<Event> {
        let id = reading.id;
        let connection = self.places.get(id)?;
        let before = connection.rest.len();
        assert!(before < HEAD_LEN_MAX, "only heads are left unread");
        let room = &mut self.buffer[before..before + READ_LEN];
        let count = match rustix::io::read(&connection.socket, room) {
            Ok(count) => count,
            Err(Errno::AGAIN) => return None,
            Err(Errno::INTR) => {
                self.reading = Some(reading);
                return None;
            }
            Err(errno) => return self.closed(id, reason(errno)),
        };
        let token = connection.token;
        let rest = std::mem::take(&mut connection.rest);
        self.buffer[..before].copy_from_slice(&rest);
        self.held = Some((id, 0..before + count));
        if count == 0 {
            return Some(event(token, EventSet::FINISHED, Reason::Done));
        }
        let mut set = EventSet::READABLE;
        match reading.end {
            // The server's end is told with its last bytes: who asked again for want of it would ask in vain.
            End::Finished if count < READ_LEN => set = set.with(EventSet::FINISHED),
            End::Open if count < READ_LEN => (),
            _ => self.read_on(reading),
        }
        Some(event(token, set, Reason::Done))
    }

    /// There is more to read: at once, or, of who sends as fast as we read, when the others have had their turn.
    fn read_on(&mut self, reading: Reading) {
        let left = reading.left - 1;
        if left > 0 {
            self.reading = Some(Reading { left, ..reading });
        } else if let Some(connection) = self.places.get(reading.id) {
            // Being registered again it is told of again. It cannot fail for a descriptor that was added.
            let _ = epoll::modify(
                &self.epoll,
                &connection.socket,
                reading.id.data(),
                EVERYTHING,
            );
        }
    }

    /// Keeps what nobody has consumed of the last read.
    fn keep_rest(&mut self) {
        let Some((id, range)) = self.held.take() else {
            return;
        };
        let rest = self.buffer[range].to_vec();
        if let Some(connection) = self.places.get(id) {
            connection.rest = rest;
        }
    }
}

/// What epoll is to tell of a connection.
const EVERYTHING: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

impl Transport for Sockets {
    type Id = SocketId;

    fn open(&mut self, token: u64) -> Result<SocketId, OpenError> {
        let to = self.to;
        let connection = Connection::new(&to, token).map_err(|errno| {
            self.shortage = Some(errno);
            OpenError::Full
        })?;
        let connected = connection.connect(&to);
        if let Err(errno @ (Errno::ADDRNOTAVAIL | Errno::AGAIN)) = connected {
            self.shortage = Some(errno);
            return Err(OpenError::NoPort);
        }
        let id = self.places.insert(connection);
        if let Err(errno) = connected {
            self.failed.push_back((id, reason(errno)));
            return Ok(id);
        }
        let socket = &self.places.get(id).expect("it was put there").socket;
        if let Err(errno) = epoll::add(&self.epoll, socket, id.data(), EVERYTHING) {
            self.places.take(id);
            self.shortage = Some(errno);
            return Err(OpenError::Full);
        }
        Ok(id)
    }

    fn send(&mut self, id: SocketId, bytes: &Slice) {
        if let Some(connection) = self.places.get(id)
            && let Err(errno) = connection.send(bytes)
        {
            self.failed.push_back((id, reason(errno)));
        }
    }

    fn readable(&self, id: SocketId) -> &[u8] {
        match &self.held {
            Some((of, range)) if *of == id => &self.buffer[range.clone()],
            _ => &[],
        }
    }

    fn consume(&mut self, id: SocketId, count: usize) {
        if let Some((of, range)) = &mut self.held
            && *of == id
        {
            range.start += count;
        }
    }

    /// The kernel does so when it thinks fit.
    fn acknowledge(&mut self, _id: SocketId) {}

    fn finish(&mut self, id: SocketId) {
        if let Some(connection) = self.places.get(id) {
            connection.finish();
        }
    }

    fn leave(&mut self, id: SocketId) {
        // Closed, it ends by itself.
        self.places.take(id);
    }

    fn abort(&mut self, id: SocketId) {
        if let Some(connection) = self.places.take(id) {
            connection.reset();
        }
    }
}

fn event(token: u64, set: EventSet, reason: Reason) -> Event {
    Event { token, set, reason }
}

/// What the kernel's error says of a connection.
fn reason(errno: Errno) -> Reason {
    match errno {
        Errno::CONNREFUSED => Reason::Refused,
        Errno::TIMEDOUT => Reason::TimedOut,
        Errno::HOSTUNREACH
        | Errno::NETUNREACH
        | Errno::HOSTDOWN
        | Errno::NETDOWN
        | Errno::ACCESS
        | Errno::PERM => Reason::Unreachable,
        _ => Reason::Reset,
    }
}

fn timespec(at: Instant, now: Instant) -> Timespec {
    let left = at.saturating_duration_since(now);
    Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: left.subsec_nanos().into(),
    }
}
