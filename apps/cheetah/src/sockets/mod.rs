//! `exos serve --sockets`: the same server on the kernel's sockets, to be measured against (the papers' Baseline).
//!
//! One thread, epoll, sockets that do not block. HTTP, documents, log and statistics are those of the other way; what
//! differs is what a general interface makes of them: each connection is accepted by a system call, each request read
//! by one and copied on the way, each response copied into the kernel by another, which keeps it for retransmission.
//!
//! [`client`] is one connection, [`long`] what it sends from disk, [`clients`] all of them with their deadlines, `fetching` what
//! becomes of those that wait for a document; here is a turn of the loop, which is [`serve`](crate::serve)'s.

mod client;
mod clients;
mod fetching;
mod listener;
mod long;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use exos::{Error, clock};
use exos_inet::Instant;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::http::Server;
use crate::limits::ACCEPT_PAUSE;
use crate::serve::Bounds;
use crate::site::{Change, SitePath};

use clients::Clients;

/// What epoll says of the listener, and of what others watch; clients have smaller numbers.
const LISTENER: u64 = u64::MAX;
const OTHERS: u64 = u64::MAX - 1;

/// Events taken at once: as many connections as are served between two looks at the clock.
const EVENTS_MAX: usize = 256;

/// The server on sockets.
pub struct SocketServer {
    epoll: OwnedFd,
    listener: Option<OwnedFd>,
    /// What epoll tells of the listener.
    interest: EventFlags,
    /// No connection is accepted until then.
    pause_until: Option<Instant>,
    clients: Clients,
    started: Instant,
    events: Vec<epoll::Event>,
}

impl SocketServer {
    /// Listens; `server` answers.
    ///
    /// # Errors
    ///
    /// The address is taken, or is none of this host's.
    pub fn listen(address: SocketAddr, server: Server) -> Result<SocketServer, Error> {
        let what = || format!("cannot listen at {address}");
        let fail = |e: rustix::io::Errno| {
            Error::io(what(), e).mend("choose another --port, or an --address of this host")
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(fail)?;
        let listener = listener::listen(address).map_err(fail)?;
        let data = EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, EventFlags::IN).map_err(fail)?;
        let now = clock::now();
        Ok(SocketServer {
            epoll,
            listener: Some(listener),
            interest: EventFlags::IN,
            pause_until: None,
            clients: Clients::new(server, now),
            started: now,
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// It has stopped.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let listener = self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        listener::address(listener)
    }

    /// Limits clients from now on, each by itself and all together.
    pub fn set_bounds(&mut self, bounds: Bounds, connections_max: Option<u32>) {
        self.clients.set_bounds(bounds, connections_max);
        self.listen_where_there_is_room();
    }

    /// A turn begins, too, whenever something comes to be read here, for as long as it is open.
    ///
    /// # Errors
    ///
    /// The kernel has no memory for it.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        // Told once for each time: one that nobody reads any more does not keep the loop awake.
        let flags = EventFlags::IN | EventFlags::ET;
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(OTHERS),
            flags,
        )?)
    }

    /// Waits for something to do, until `until` at the latest, and does it.
    ///
    /// # Errors
    ///
    /// The kernel refuses to wait.
    pub fn turn(&mut self, until: Option<Instant>) -> io::Result<()> {
        self.wait(until)?;
        self.handle(clock::now(), clock::unix_secs());
        Ok(())
    }

    /// Waits for something to do, until `until` at the latest.
    ///
    /// # Errors
    ///
    /// The kernel refuses to wait.
    pub fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        let deadline = [until, self.clients.poll_timeout(), self.pause_until];
        let deadline = deadline.into_iter().flatten().min();
        let timeout = deadline.map(|at| timespec(at, clock::now()));
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Does what there is to do at a moment: what the last wait told of, and what is due.
    pub fn handle(&mut self, now: Instant, unix_secs: u64) {
        self.clients.begin(now, unix_secs);
        for event in &self.events {
            match event.data.u64() {
                LISTENER => {
                    if !self.clients.accept(&self.epoll, self.listener.as_ref()) {
                        self.pause_until = Some(now + ACCEPT_PAUSE);
                    }
                }
                OTHERS => {}
                number => self.clients.handle(&self.epoll, number, event.flags),
            }
        }
        self.events.clear();
        self.clients.end_turn(&self.epoll);
        self.pause_until = self.pause_until.filter(|until| *until > now);
        self.listen_where_there_is_room();
    }

    /// Connections for which there is no room wait in the kernel, which would tell of them in each turn.
    fn listen_where_there_is_room(&mut self) {
        let has_room = !self.clients.is_full() && self.pause_until.is_none();
        let wanted = if has_room {
            EventFlags::IN
        } else {
            EventFlags::empty()
        };
        if wanted != self.interest
            && let Some(listener) = &self.listener
        {
            self.interest = wanted;
            // It cannot fail for a descriptor that was added.
            let _ = epoll::modify(&self.epoll, listener, EventData::new_u64(LISTENER), wanted);
        }
    }

    /// The next document that a request waits for, by the number of its site and its path. What becomes of it is told by
    /// [`SocketServer::change`].
    pub fn poll_wanted(&mut self) -> Option<(usize, SitePath)> {
        self.clients.poll_wanted()
    }

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    pub fn change(&mut self, now: Instant, site: usize, change: Change) {
        self.clients.begin(now, clock::unix_secs());
        self.clients.change(&self.epoll, site, change);
    }

    /// Looks again for all that requests wait for, because everything is served again.
    pub fn retry_all(&mut self, now: Instant) {
        self.clients.begin(now, clock::unix_secs());
        self.clients.retry_all(&self.epoll);
    }

    /// Takes no new connections or requests; responses under way go on.
    pub fn stop(&mut self) {
        self.listener = None;
        self.clients.stop(&self.epoll);
    }

    /// True while responses are under way.
    pub fn is_busy(&self) -> bool {
        self.clients.is_busy()
    }

    /// Its clients, and what became of them.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// The HTTP server.
    pub fn server_mut(&mut self) -> &mut Server {
        self.clients.server_mut()
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }
}

fn timespec(at: Instant, now: Instant) -> Timespec {
    let left = at.saturating_duration_since(now);
    Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: left.subsec_nanos().into(),
    }
}
