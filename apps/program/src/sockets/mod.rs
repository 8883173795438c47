//! Connections on the kernel's sockets, with the events of a stack of our own: the papers' baseline, and for where raw
//! packets cannot be used.
//!
//! One thread, epoll, sockets that do not block. In each turn: [`Sockets::wait`], then [`Sockets::poll_event`] until there
//! is none, with commands in between. A socket is registered once, for everything, and told of when something changes
//! (edge-triggered), so it is read until it is empty: a short read says that, unless the peer has finished or there is urgent
//! data, before which a read stops; both are told beside.
//!
//! What is read lies in one buffer for all, until the next event is polled. What of it nobody has consumed by then is
//! kept with its connection and put before what comes next. A connection that keeps as much as it may is not read until
//! some of that is consumed: its peer's window closes.
//!
//! What is sent waits until the next event is polled, or the next wait begins: slices leave together, in one call.

mod connection;
mod reading;
mod table;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use exos::clock;
use exos_buf::Slice;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event, EventSet, Reason};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::{Errno, Result};
use rustix::net::RecvFlags;

use connection::Connection;
pub use connection::File;
pub use table::Table;

use reading::{End, Reading};

/// Bytes of a socket that are read at once: as much as a fast peer has sent in the meantime.
const READ_LEN: usize = 64 * 1024;

/// Events taken at once: as many connections as are served between two looks at the clock.
const EVENTS_MAX: usize = 256;

/// What epoll says of descriptors that others watch, and of those that only end waits.
const OTHERS: u64 = u64::MAX;
const WAKERS: u64 = u64::MAX - 1;

/// What epoll is to tell of a connection.
const EVERYTHING: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::PRI)
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// What it is to tell of one that takes all that is sent, as far as is known.
const ALL_BUT_ROOM: EventFlags = EVERYTHING.difference(EventFlags::OUT);

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug)]
pub enum Shortage {
    /// Of descriptors, or of the kernel's memory.
    Room(Errno),
    /// Of local ports towards that peer.
    Ports(Errno),
}

/// Connections.
pub struct Sockets {
    epoll: OwnedFd,
    table: Table<Connection>,
    /// Bytes that a connection may have received and not consumed.
    unread_max: usize,
    /// That the kernel has taken something is told.
    tells_of_taken: bool,
    /// A peer that takes no more is still read to its end.
    reads_to_the_end: bool,
    /// What others watch has become readable.
    was_told: bool,
    events: Vec<epoll::Event>,
    /// What epoll told of and was not handled.
    ready: VecDeque<(ConnectionId, EventFlags)>,
    /// What happened while something was asked of connections.
    news: VecDeque<(ConnectionId, EventSet, Reason)>,
    /// Connections that were given something to send, each once.
    to_write: Vec<ConnectionId>,
    /// Connections that are read again.
    resumed: VecDeque<Reading>,
    reading: Option<Reading>,
    buffer: Box<[u8]>,
    /// Whose bytes lie in the buffer, and where.
    held: Option<(ConnectionId, Range<usize>)>,
}

impl Sockets {
    /// Without connections yet, each of which may have this many bytes that nobody has consumed.
    ///
    /// # Errors
    ///
    /// The kernel has no descriptor for it.
    pub fn new(unread_max: usize) -> Result<Sockets> {
        Ok(Sockets {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            table: Table::default(),
            unread_max,
            tells_of_taken: false,
            reads_to_the_end: false,
            was_told: false,
            events: Vec::with_capacity(EVENTS_MAX),
            ready: VecDeque::new(),
            news: VecDeque::new(),
            to_write: Vec::new(),
            resumed: VecDeque::new(),
            reading: None,
            buffer: vec![0; unread_max].into_boxed_slice(),
            held: None,
        })
    }

    /// Tells as [`EventSet::ACKNOWLEDGED`] from now on that the kernel has taken some of what was sent.
    pub fn tell_of_taken(&mut self) {
        self.tells_of_taken = true;
    }

    /// A peer that takes no more, or has closed without reading everything, is still read to its end from now on: it may
    /// have answered before.
    pub fn read_to_the_end(&mut self) {
        self.reads_to_the_end = true;
    }

    /// A wait ends, too, whenever something comes to be read here, for as long as it is open.
    ///
    /// # Errors
    ///
    /// The kernel has no memory for it.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> Result<()> {
        self.watch_as(fd, OTHERS)
    }

    /// As [`Sockets::watch`], but what comes there is not told by [`Sockets::was_told`]: its reader looks in each turn.
    ///
    /// # Errors
    ///
    /// The kernel has no memory for it.
    pub fn wake_by(&self, fd: BorrowedFd<'_>) -> Result<()> {
        self.watch_as(fd, WAKERS)
    }

    fn watch_as(&self, fd: BorrowedFd<'_>, number: u64) -> Result<()> {
        // Told once for each time: one that nobody reads any more does not keep the loop awake.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&self.epoll, fd, EventData::new_u64(number), flags)
    }

    /// Whether something came to be read at a watched descriptor since the last call.
    pub fn was_told(&mut self) -> bool {
        std::mem::take(&mut self.was_told)
    }

    /// Readable when there are events: for who waits for other things, too, and then waits here for no time.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// How many connections there are.
    pub fn open(&self) -> usize {
        self.table.open()
    }

    // Connections that come.

    /// Opens a connection to there, whose events are told with this token. That it is refused is told by an event.
    ///
    /// # Errors
    ///
    /// Something is lacking for it.
    pub fn connect(
        &mut self,
        to: &SocketAddr,
        token: u64,
    ) -> std::result::Result<ConnectionId, Shortage> {
        let socket = connection::socket(to).map_err(Shortage::Room)?;
        let connected = connection::connect(&socket, to);
        if let Err(errno @ (Errno::ADDRNOTAVAIL | Errno::AGAIN)) = connected {
            return Err(Shortage::Ports(errno));
        }
        let connection = Connection::new(socket, to.ip(), token, false);
        let id = self.table.insert(connection);
        match connected {
            Err(errno) => self.news.push_back((id, EventSet::CLOSED, reason(errno))),
            Ok(()) => self.register(id).map_err(Shortage::Room)?,
        }
        Ok(id)
    }

    /// Opens a connection to the Unix socket of this name, whose events are told with this token. It stands at once.
    ///
    /// # Errors
    ///
    /// There is none, nobody listens, we may not connect, as many as may wait do so already ([`Errno::AGAIN`]), or the
    /// kernel has no room for a socket. That it has none to tell of the connection is told by an event.
    pub fn connect_unix(&mut self, path: &Path, token: u64) -> Result<ConnectionId> {
        let socket = connection::connected_unix(path)?;
        let mut connection = Connection::new(socket, Ipv4Addr::UNSPECIFIED.into(), token, true);
        // That it has room is known: being told so would end a wait for nothing.
        connection.events = ALL_BUT_ROOM;
        // It is registered behind the first bytes: connecting has woken its peer, who would find nothing to read until these are there.
        connection.is_to_write = true;
        let id = self.table.insert(connection);
        self.to_write.push(id);
        Ok(id)
    }

    /// Takes over a connection that was accepted from there; it is told of as such.
    ///
    /// # Errors
    ///
    /// The kernel has no memory for it.
    pub fn adopt(&mut self, socket: OwnedFd, peer: IpAddr) -> Result<()> {
        let id = self.table.insert(Connection::new(socket, peer, 0, true));
        self.register(id)?;
        self.news.push_back((id, EventSet::ACCEPTED, Reason::Done));
        Ok(())
    }

    fn register(&mut self, id: ConnectionId) -> Result<()> {
        let Some(connection) = self.table.get_mut(id) else {
            return Ok(());
        };
        let added = register(&self.epoll, id, connection);
        if added.is_err() {
            self.table.take(id);
        }
        added
    }

    // What arrives.

    /// Waits for events, until `until` at the latest. All events were polled before.
    ///
    /// # Errors
    ///
    /// The kernel refuses to wait.
    pub fn wait(&mut self, until: Option<Instant>) -> Result<()> {
        self.write_all();
        // What has happened does not wait.
        let has_news = !self.news.is_empty() || !self.resumed.is_empty();
        let timeout = match until {
            _ if has_news => Some(Timespec::default()),
            // Who looks without waiting needs no clock.
            Some(Instant::START) => Some(Timespec::default()),
            until => until.and_then(|at| Timespec::try_from(at - clock::now()).ok()),
        };
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        for event in &self.events {
            match event.data.u64() {
                OTHERS => self.was_told = true,
                WAKERS => {}
                bits => (self.ready).push_back((ConnectionId::from_bits(bits), event.flags)),
            }
        }
        Ok(())
    }

    /// Whether the last wait took as many events as it takes at once: there may be more.
    pub fn may_have_more(&self) -> bool {
        self.events.len() == EVENTS_MAX
    }

    /// What happened next. What a connection read before is gone or kept.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.keep_rest();
        loop {
            self.write_all();
            let event = if let Some((id, set, reason)) = self.news.pop_front() {
                self.tell(id, set, reason)
            } else if let Some(reading) = self.reading.take() {
                self.read(reading)
            } else if let Some(reading) = self.resumed.pop_front() {
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

    /// An event of a connection, if it is still there; it is gone when it is told that it is over.
    /// Where a peer is read to its end, that waits until everything is consumed that came before.
    fn tell(&mut self, id: ConnectionId, set: EventSet, reason: Reason) -> Option<Event> {
        let connection = self.table.get_mut(id)?;
        let token = connection.token;
        if set.contains(EventSet::CLOSED) && self.reads_to_the_end && !connection.rest.is_empty() {
            connection.over = Some(reason);
            return None;
        }
        if set.contains(EventSet::CLOSED) {
            self.table.take(id);
        }
        Some(Event {
            connection: id,
            token,
            set,
            reason,
        })
    }

    /// What epoll tells of a connection.
    fn handle_ready(&mut self, id: ConnectionId, flags: EventFlags) -> Option<Event> {
        let over = EventFlags::ERR | EventFlags::HUP;
        let connection = self.table.get_mut(id)?;
        let comes_to_stand = !std::mem::replace(&mut connection.stands, true);
        if comes_to_stand
            && flags.intersects(over)
            && let Some(errno) = connection.error()
        {
            return self.did_not_stand(id, errno);
        }
        if flags.intersects(over | EventFlags::IN | EventFlags::RDHUP) {
            let reading = Reading::new(id, flags);
            match &mut connection.paused {
                // Nobody waits for what it still has to say.
                Some(_) if reading.end == End::Failed && !self.reads_to_the_end => {
                    return self.tell(id, EventSet::CLOSED, Reason::Reset);
                }
                Some(paused) => {
                    paused.end = paused.end.max(reading.end);
                    paused.is_urgent |= reading.is_urgent;
                }
                // It has been read to its end.
                None if connection.is_peer_finished && reading.end != End::Failed => {}
                None => self.reading = Some(reading),
            }
        }
        if flags.contains(EventFlags::OUT) {
            self.write(id);
        }
        if !comes_to_stand {
            return None;
        }
        self.tell(id, EventSet::CONNECTED, Reason::Done)
    }

    /// A connection is over of which nothing else was told before.
    fn did_not_stand(&mut self, id: ConnectionId, errno: Errno) -> Option<Event> {
        let set = match reason(errno) {
            // A SYN that is answered by a reset is refused: this one stood before.
            Reason::Reset => EventSet::CLOSED.with(EventSet::CONNECTED),
            _ => EventSet::CLOSED,
        };
        self.tell(id, set, reason(errno))
    }

    /// Reads once, behind what is left of the read before.
    fn read(&mut self, reading: Reading) -> Option<Event> {
        let id = reading.id;
        let connection = self.table.get_mut(id)?;
        let before = connection.rest.len();
        if before >= self.unread_max {
            connection.paused = Some(reading);
            return None;
        }
        let most = READ_LEN.min(self.unread_max - before);
        let room = &mut self.buffer[before..before + most];
        let count = match rustix::net::recv(&connection.socket, room, RecvFlags::empty()) {
            Ok((count, _)) => count,
            Err(Errno::AGAIN) => return None,
            Err(Errno::INTR) => {
                self.reading = Some(reading);
                return None;
            }
            Err(errno) => return self.tell(id, EventSet::CLOSED, reason(errno)),
        };
        if count == 0 && reading.end == End::Failed {
            // Its error was told elsewhere, or came behind the peer's end.
            return self.tell(id, EventSet::CLOSED, Reason::Reset);
        }
        let may_be_more = count == most || reading.is_urgent;
        let mut set = EventSet::NONE;
        if count > 0 && !connection.discards {
            let rest = std::mem::take(&mut connection.rest);
            self.buffer[..before].copy_from_slice(&rest);
            self.held = Some((id, 0..before + count));
            set = EventSet::READABLE;
        }
        // The peer's end is told with its last bytes: who asked again for want of it would ask in vain.
        if count == 0 || (reading.end == End::Finished && !may_be_more) {
            connection.is_peer_finished = true;
            if connection.is_over() {
                self.news.push_back((id, EventSet::CLOSED, Reason::Done));
            }
            set = set.with(EventSet::FINISHED);
        } else if may_be_more || reading.end != End::Open {
            self.read_on(reading);
        }
        match set {
            EventSet::NONE => None,
            set => self.tell(id, set, Reason::Done),
        }
    }

    /// There is more to read: at once, or, of who sends as fast as we read, when the others have had their turn.
    fn read_on(&mut self, reading: Reading) {
        let left = reading.left - 1;
        if left > 0 {
            self.reading = Some(Reading { left, ..reading });
        } else if let Some(connection) = self.table.get(reading.id) {
            // Being registered again it is told of again. It cannot fail for a descriptor that was added.
            let data = EventData::new_u64(reading.id.to_bits());
            let _ = epoll::modify(&self.epoll, &connection.socket, data, connection.events);
        }
    }

    /// Keeps what nobody has consumed of the last read.
    fn keep_rest(&mut self) {
        if let Some((id, range)) = self.held.take()
            && let Some(connection) = self.table.get_mut(id)
        {
            connection.rest = self.buffer[range].to_vec();
        }
    }

    // What leaves.

    fn write_all(&mut self) {
        let mut ids = std::mem::take(&mut self.to_write);
        ids.drain(..).for_each(|id| self.write_now(id));
        self.to_write = ids;
    }

    /// Writes what there is for a connection now, not when others have what is theirs: its peer may begin.
    pub fn write_now(&mut self, id: ConnectionId) {
        let is_to_write = |connection: &Connection| connection.is_to_write;
        if self.table.get(id).is_some_and(is_to_write) {
            self.write(id);
        }
    }

    fn write(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        connection.is_to_write = false;
        let written = connection.write();
        if connection.queued() > 0 {
            connection.events = EVERYTHING;
        }
        if let Err(errno) = register(&self.epoll, id, connection) {
            self.news.push_back((id, EventSet::CLOSED, reason(errno)));
        }
        match written {
            Ok(taken) => {
                if taken > 0 && self.tells_of_taken {
                    (self.news).push_back((id, EventSet::ACKNOWLEDGED, Reason::Done));
                }
                if connection.is_over() {
                    self.news.push_back((id, EventSet::CLOSED, Reason::Done));
                }
            }
            // What it has said before is there to be read, and then its end.
            Err(Errno::PIPE | Errno::CONNRESET) if self.reads_to_the_end => connection.drop_queue(),
            Err(errno) => self.news.push_back((id, EventSet::CLOSED, reason(errno))),
        }
    }

    /// The connection, which is to be written to.
    fn sending(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.table.get_mut(id)?;
        if !std::mem::replace(&mut connection.is_to_write, true) {
            self.to_write.push(id);
        }
        Some(connection)
    }

    /// Sends this, all of it.
    pub fn send(&mut self, id: ConnectionId, bytes: Slice) {
        if let Some(connection) = self.sending(id) {
            connection.send(bytes);
        }
    }

    /// Sends a part of a file. The connection is given up ([`Reason::Aborted`]) if the file changes meanwhile.
    pub fn send_file(&mut self, id: ConnectionId, file: Rc<dyn File>, range: Range<u64>) {
        if let Some(connection) = self.sending(id) {
            connection.send_file(file, range);
        }
    }

    /// Ends our side behind what was sent. When the peer has finished too, the connection is over.
    pub fn finish(&mut self, id: ConnectionId) {
        if let Some(connection) = self.sending(id) {
            connection.finish();
        }
    }

    /// Ends the connection in good order; nobody wants to hear of it any more. One that was not told to stand is reset, and nothing was
    /// sent on it.
    pub fn leave(&mut self, id: ConnectionId) {
        if let Some(mut connection) = self.table.take(id) {
            if !connection.stands {
                return connection.reset();
            }
            // Closed, it ends by itself, behind what the kernel has.
            let _ = connection.write();
        }
    }

    /// Gives the connection up at once: the peer is reset. Nobody wants to hear of it any more.
    pub fn abort(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.take(id) {
            connection.reset();
        }
    }

    // Getters, and what was read.

    /// The peer's address.
    pub fn peer(&self, id: ConnectionId) -> Option<IpAddr> {
        self.table.get(id).map(|connection| connection.peer)
    }

    /// Our end of it, and the peer's, if they are addresses of IP.
    pub fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        self.table.get(id)?.ends()
    }

    /// Bytes of what was sent that the kernel has not taken.
    pub fn unsent(&self, id: ConnectionId) -> usize {
        self.table.get(id).map_or(0, Connection::queued)
    }

    /// Whether the kernel has nothing of the peer's that was not read: no bytes, no end, no error.
    pub fn is_silent(&self, id: ConnectionId) -> bool {
        let connection = self.table.get(id);
        connection.is_some_and(|connection| connection.rest.is_empty() && connection.is_silent())
    }

    /// Bytes that came in order and were not consumed.
    pub fn readable(&self, id: ConnectionId) -> &[u8] {
        match &self.held {
            Some((of, range)) if *of == id => &self.buffer[range.clone()],
            _ => self.table.get(id).map_or(&[], |it| &it.rest),
        }
    }

    /// Takes this many of them.
    pub fn consume(&mut self, id: ConnectionId, count: usize) {
        match &mut self.held {
            Some((of, range)) if *of == id => range.start += count,
            _ => {
                if let Some(connection) = self.table.get_mut(id) {
                    connection.rest.drain(..count);
                    self.resume_reading(id);
                    self.tell_of_over(id);
                }
            }
        }
    }

    /// Throws away what has come and still comes.
    pub fn discard_received(&mut self, id: ConnectionId) {
        self.held.take_if(|(of, _)| *of == id);
        if let Some(connection) = self.table.get_mut(id) {
            connection.discards = true;
            connection.rest = Vec::new();
            self.resume_reading(id);
            self.tell_of_over(id);
        }
    }

    /// A connection that was over before everything was consumed is told of when it is.
    fn tell_of_over(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && connection.rest.is_empty()
            && let Some(reason) = connection.over.take()
        {
            self.news.push_back((id, EventSet::CLOSED, reason));
        }
    }

    /// Goes on reading a connection that has room again, with the reads that it has left: who makes room at once gets no more
    /// turns than others.
    fn resume_reading(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && connection.rest.len() < self.unread_max
            && let Some(paused) = connection.paused.take()
        {
            self.resumed.push_back(paused);
        }
    }
}

/// Has epoll tell of a connection what is to be told.
fn register(epoll: &OwnedFd, id: ConnectionId, connection: &mut Connection) -> Result<()> {
    let data = EventData::new_u64(id.to_bits());
    let events = connection.events;
    match connection.registered {
        Some(now) if now == events => return Ok(()),
        Some(_) => epoll::modify(epoll, &connection.socket, data, events)?,
        None => epoll::add(epoll, &connection.socket, data, events)?,
    }
    connection.registered = Some(events);
    Ok(())
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
        // Of a file.
        Errno::IO => Reason::Aborted,
        _ => Reason::Reset,
    }
}
