//! `exos serve --sockets`: the same server on the kernel's sockets, to be measured against (the papers' Baseline).
//!
//! One thread, epoll, sockets that do not block. Connections, HTTP, documents, log and statistics are those of the other
//! way; what differs is what a general interface makes of them: each connection is accepted by a system call, each request
//! read by one and copied on the way, each response copied into the kernel by another, which keeps it for retransmission.
//! Long files the kernel sends from its own memory (sendfile), and this thread waits for the disk, as servers of this kind
//! do.

mod listener;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use exos::{Error, clock};
use exos_inet::Instant;
use exos_program::sockets::Sockets;
use rustix::io::Errno;

use crate::connections::{Bounds, Cheetah};
use crate::http::Server;
use crate::limits::{ACCEPT_PAUSE, RECEIVE_BUFFER_LEN};
use crate::site::Change;

/// The server on sockets.
pub struct SocketServer {
    cheetah: Cheetah,
    sockets: Sockets,
    listener: Option<OwnedFd>,
    /// Connections may wait to be accepted.
    has_newcomers: bool,
    /// None is accepted until then.
    pause_until: Option<Instant>,
    /// Connections at once.
    connections_max: usize,
    /// Connections that the kernel gave.
    accepted: u64,
    accept_errors: u64,
}

impl SocketServer {
    /// Listens; `server` answers.
    ///
    /// # Errors
    ///
    /// The address is taken, or is none of this host's.
    pub fn listen(address: SocketAddr, server: Server) -> Result<SocketServer, Error> {
        let fail = |e: Errno| {
            let what = format!("cannot listen at {address}");
            Error::io(what, e).mend("choose another --port, or an --address of this host")
        };
        let mut sockets = Sockets::new(RECEIVE_BUFFER_LEN as usize).map_err(fail)?;
        sockets.tell_of_taken();
        let listener = listener::listen(address).map_err(fail)?;
        sockets.watch(listener.as_fd()).map_err(fail)?;
        Ok(SocketServer {
            cheetah: Cheetah::new(server, clock::now()),
            sockets,
            listener: Some(listener),
            has_newcomers: false,
            pause_until: None,
            connections_max: usize::MAX,
            accepted: 0,
            accept_errors: 0,
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
        self.cheetah.set_bounds(bounds);
        self.connections_max = connections_max.map_or(usize::MAX, |most| most as usize);
    }

    /// A turn begins, too, whenever something comes to be read here, for as long as it is open.
    ///
    /// # Errors
    ///
    /// The kernel has no memory for it.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(self.sockets.watch(fd)?)
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
        let may_accept = self.may_accept().then(clock::now);
        let pause = self.pause_until.filter(|_| self.has_newcomers);
        let until = [until, self.cheetah.poll_timeout(), may_accept, pause];
        Ok(self.sockets.wait(until.into_iter().flatten().min())?)
    }

    /// Does what there is to do at a moment: what the last wait told of, and what is due.
    pub fn handle(&mut self, now: Instant, unix_secs: u64) {
        self.has_newcomers |= self.sockets.was_told();
        self.pause_until = self.pause_until.filter(|until| *until > now);
        self.accept(now);
        self.cheetah.handle(now, unix_secs, &mut self.sockets);
        self.answer_what_follows(now);
        // Where some have ended, there may be room for others.
        while self.may_accept() {
            self.accept(now);
            self.answer_what_follows(now);
        }
    }

    /// What the kernel does with what was sent it says at once.
    fn answer_what_follows(&mut self, now: Instant) {
        self.cheetah.handle_events(now, &mut self.sockets);
    }

    /// Connections may wait for which there is room. Those for which there is none wait in the kernel.
    fn may_accept(&self) -> bool {
        let has_room = self.sockets.open() < self.connections_max;
        self.has_newcomers && has_room && self.pause_until.is_none()
    }

    /// Takes connections that wait.
    fn accept(&mut self, now: Instant) {
        while self.may_accept() {
            let Some(listener) = &self.listener else {
                self.has_newcomers = false;
                return;
            };
            let accepted = match listener::accept(listener) {
                Ok(Some((socket, peer))) => self.sockets.adopt(socket, peer),
                Ok(None) => {
                    self.has_newcomers = false;
                    return;
                }
                Err(e) => Err(e),
            };
            match accepted {
                Ok(()) => self.accepted += 1,
                // The kernel has no room: it is better asked later.
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.accept_errors += 1;
                    self.pause_until = Some(now + ACCEPT_PAUSE);
                }
                // The client has gone again.
                Err(_) => self.accept_errors += 1,
            }
        }
    }

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    pub fn change(&mut self, now: Instant, site: usize, change: Change) {
        let unix_secs = clock::unix_secs();
        self.cheetah
            .change(now, unix_secs, site, change, &mut self.sockets);
        self.answer_what_follows(now);
    }

    /// Looks again for all that requests wait for, because everything is served again.
    pub fn retry_all(&mut self, now: Instant) {
        self.cheetah
            .retry_all(now, clock::unix_secs(), &mut self.sockets);
        self.answer_what_follows(now);
    }

    /// Takes no new connections or requests; responses under way go on.
    pub fn stop(&mut self, now: Instant) {
        self.listener = None;
        self.cheetah
            .stop(now, clock::unix_secs(), &mut self.sockets);
        self.answer_what_follows(now);
    }

    /// The server and its connections.
    pub fn cheetah(&self) -> &Cheetah {
        &self.cheetah
    }

    /// The server and its connections, to be told what they ask for.
    pub fn cheetah_mut(&mut self) -> &mut Cheetah {
        &mut self.cheetah
    }

    /// Connections that were accepted, and those that the kernel did not give, by name. Those that were reset at once
    /// because of their peer are `http_peer_refusals`, and not among them.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        let accepted = self.accepted - self.cheetah.peer_refusals();
        [
            ("sockets_accepted", accepted),
            ("sockets_accept_errors", self.accept_errors),
        ]
    }
}
