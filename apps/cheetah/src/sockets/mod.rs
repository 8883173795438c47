//! `exos serve --sockets`: the same server on the kernel's sockets, to be measured against (the papers' Baseline).
//!
//! One thread, epoll, sockets that do not block. HTTP, documents, log and statistics are those of the other way; what
//! differs is what a general interface makes of them: each connection is accepted by a system call, each request read
//! by one and copied on the way, each response copied into the kernel by another, which keeps it for retransmission.
//!
//! [`client`] is one connection, [`long`] what it sends from disk, [`clients`] all of them with their timers; here are the loop and its end.

mod client;
mod clients;
mod listener;
mod long;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use exos::signals::{Ask, Signals};
use exos::{Error, clock};
use exos_inet::Instant;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::http::Server;
use crate::limits::{GOODBYE_TIME, STOP_TIME};

use clients::Clients;

/// What epoll says of the listener and of signals; clients have smaller numbers.
const LISTENER: u64 = u64::MAX;
const SIGNALS: u64 = u64::MAX - 1;

/// Events taken at once: as many connections as are served between two looks at the clock.
const EVENTS_MAX: usize = 256;

/// The server on sockets.
pub struct SocketServer {
    epoll: OwnedFd,
    listener: Option<OwnedFd>,
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

    fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        let deadline = [until, self.clients.poll_timeout()];
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
                LISTENER => self.clients.accept(&self.epoll, self.listener.as_ref()),
                SIGNALS => {}
                number => self.clients.handle(&self.epoll, number, event.flags),
            }
        }
        self.events.clear();
        self.clients.end_turn(&self.epoll);
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

/// Serves until a signal asks to stop. `print` says how it goes, when it is asked for and at the end; `show` brings
/// the status pages up to date before each turn's requests are answered.
///
/// # Errors
///
/// The kernel refuses to wait.
pub fn run(
    mut server: SocketServer,
    signals: &Signals,
    print: impl Fn(&SocketServer),
    show: impl Fn(&mut SocketServer),
) -> Result<ExitCode, Error> {
    let what = |e: io::Error| Error::io("cannot wait for connections", e);
    let data = EventData::new_u64(SIGNALS);
    epoll::add(&server.epoll, signals.fd(), data, EventFlags::IN).map_err(|e| what(e.into()))?;
    while !signals.stop_requested() {
        server.wait(None).map_err(what)?;
        show(&mut server);
        server.handle(clock::now(), clock::unix_secs());
        if signals.take_report_request() {
            print(&server);
        }
        if signals.take_asked(Ask::Reopen)
            && let Some(log) = server.server_mut().log_mut()
        {
            log.reopen();
        }
    }
    server.stop();
    let (busy_until, until) = (clock::now() + STOP_TIME, clock::now() + GOODBYE_TIME);
    while (server.is_busy() && clock::now() < busy_until)
        || (server.clients().open() > 0 && clock::now() < until)
    {
        server
            .turn(Some(clock::now() + GOODBYE_TIME))
            .map_err(what)?;
        // Another signal changes nothing, but must not keep the loop awake.
        signals.stop_requested();
    }
    if let Some(log) = server.server_mut().log_mut() {
        log.finish();
    }
    print(&server);
    Ok(ExitCode::SUCCESS)
}
