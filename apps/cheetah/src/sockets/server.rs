//! The server on sockets: accepts connections, waits for what happens on them, and has it answered.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use exos::wire::Prefix;
use exos::{Error, clock};
use exos_inet::Instant;
use exos_program::sockets::Sockets;
use rustix::io::Errno;

use super::datagrams::Datagrams;
use super::listener;

use crate::connections::{Bounds, Carried, Cheetah};
use crate::http::Server;
use crate::limits::{ACCEPT_PAUSE, QUIC_DATAGRAM_LEN_MAX, RECEIVE_BUFFER_LEN};
use crate::proxy_protocol::{Introduced, Introductions};
use crate::quic::{Beside, Quic};
use crate::secure::{Acceptor, Secured, Sessions};
use crate::site::Change;
use crate::stream::Streams;

/// What carries the connections, for the time of a turn.
type Carrier<'a> = Beside<'a, Secured<'a, Introduced<'a, Sockets>>>;

/// The server on sockets.
pub struct SocketServer {
    cheetah: Cheetah,
    sockets: Sockets,
    /// Where connections come from: the port of HTTP, and that of HTTPS.
    listeners: Vec<OwnedFd>,
    /// Those that are encrypted.
    sessions: Option<Sessions>,
    /// Those that proxies pass on.
    introductions: Option<Introductions>,
    /// HTTP/3, where it is spoken.
    quic: Option<(Quic, Datagrams)>,
    /// Connections may wait to be accepted.
    has_newcomers: bool,
    /// None is accepted until then.
    pause_until: Option<Instant>,
    /// Connections at once.
    connections_max: usize,
    /// Connections that the kernel gave.
    accepted: u64,
    /// What comes from applications wakes it.
    hears_applications: [bool; 2],
    accept_errors: u64,
}

impl SocketServer {
    /// Listens, for HTTPS too where there is what accepts it; `server` answers.
    ///
    /// # Errors
    ///
    /// The address is taken, or is none of this host's.
    pub fn listen(
        address: SocketAddr,
        server: Server,
        acceptor: Option<Arc<Acceptor>>,
    ) -> Result<SocketServer, Error> {
        let plain = address.port();
        let fail = |what: SocketAddr, e: Errno| {
            let option = match what.port() == plain {
                true => "--port",
                false => "--tls-port (in a file: port below [tls])",
            };
            let what = format!("cannot listen at {what}");
            Error::io(what, e).mend(remedy(e, option))
        };
        let failed = |e| fail(address, e);
        let mut sockets = Sockets::new(RECEIVE_BUFFER_LEN as usize).map_err(failed)?;
        sockets.tell_of_taken();
        let encrypted = acceptor
            .iter()
            .map(|it| SocketAddr::new(address.ip(), it.port()));
        let mut listeners = Vec::new();
        for address in [address].into_iter().chain(encrypted) {
            let listener = listener::listen(address).map_err(|e| fail(address, e))?;
            sockets.watch(listener.as_fd()).map_err(failed)?;
            listeners.push(listener);
        }
        Ok(SocketServer {
            cheetah: Cheetah::new(server, clock::now()),
            sockets,
            listeners,
            sessions: acceptor.map(Sessions::new),
            quic: None,
            introductions: None,
            has_newcomers: false,
            pause_until: None,
            connections_max: usize::MAX,
            accepted: 0,
            hears_applications: [false; 2],
            accept_errors: 0,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// It has stopped.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let listener = self.listeners.first().ok_or(io::ErrorKind::NotConnected)?;
        listener::address(listener)
    }

    /// Limits clients from now on, each by itself and all together.
    pub fn set_bounds(&mut self, bounds: Bounds, connections_max: Option<u32>) {
        self.cheetah.set_bounds(bounds);
        self.connections_max = connections_max.map_or(usize::MAX, |most| most as usize);
    }

    /// Whether HTTP/2 is spoken to clients that want it, from now on.
    pub fn speak_http2(&mut self, speaks: bool) {
        self.cheetah.speak_http2(speaks);
    }

    /// Proxies in these networks say from now on by the PROXY protocol for whom they connect.
    pub fn trust_proxies(&mut self, networks: &[Prefix]) {
        self.introductions = Introductions::by(networks, clock::now());
    }

    /// Speaks HTTP/3, too, at the port of HTTPS; behind [`set_bounds`](Self::set_bounds), whose limits count for it.
    ///
    /// # Errors
    ///
    /// The port of UDP is taken, or HTTPS has no TLS 1.3.
    pub fn speak_http3(&mut self, acceptor: Arc<Acceptor>) -> Result<(), Error> {
        let port = acceptor.port();
        let address = self.address().map(|it| SocketAddr::new(it.ip(), port));
        let bound = address.and_then(Datagrams::bind);
        let datagrams = bound.map_err(|e| {
            let what = format!("cannot have UDP port {port} for HTTP/3");
            Error::io(what, e).mend("choose another port of HTTPS, or leave http3 out")
        })?;
        let datagram_max = datagrams.are_whole().then_some(QUIC_DATAGRAM_LEN_MAX);
        let mut quic = Quic::new(acceptor, None, datagram_max, clock::now())?;
        let most = u32::try_from(self.connections_max).ok();
        quic.set_bounds(most, self.cheetah.peers());
        let watched = self.sockets.wake_by(datagrams.as_fd());
        watched.map_err(|e| Error::io("cannot wait for datagrams", e))?;
        self.quic = Some((quic, datagrams));
        self.cheetah.server_mut().announce_http3(port);
        Ok(())
    }

    /// Reads long files in this way from now on, where the kernel does not send them itself.
    pub fn set_streams(&mut self, streams: Streams) {
        self.cheetah.set_streams(streams);
    }

    /// Waits for something to do, until `until` at the latest, and does it.
    ///
    /// # Errors
    ///
    /// The kernel refuses to wait.
    pub fn turn(&mut self, until: Option<Instant>) -> Result<(), Error> {
        self.wait(until, &[])?;
        self.handle(clock::now(), clock::unix_secs());
        Ok(())
    }

    /// Does what there is to do at a moment: what the last wait told of, and what is due.
    pub fn handle(&mut self, now: Instant, unix_secs: u64) {
        self.has_newcomers |= self.sockets.was_told();
        self.pause_until = self.pause_until.filter(|until| *until > now);
        self.accept(now);
        if let Some(sessions) = &mut self.sessions {
            sessions.begin_turn();
        }
        if let Some(introductions) = &mut self.introductions {
            introductions.begin_turn(now, &mut self.sockets);
        }
        if let Some((quic, datagrams)) = &mut self.quic {
            quic.begin_turn(now);
            datagrams.receive(quic);
        }
        self.with(|cheetah, transport| cheetah.handle(now, unix_secs, transport));
        self.answer_what_follows(now);
        // Where some have ended, there may be room for others.
        while self.may_accept() {
            self.accept(now);
            self.answer_what_follows(now);
        }
        self.send_datagrams();
    }

    /// Does something with the server on what carries it.
    fn with<R>(&mut self, act: impl FnOnce(&mut Cheetah, &mut Carrier<'_>) -> R) -> R {
        let mut introduced = Introduced::new(&mut self.sockets, self.introductions.as_mut());
        let secured = Secured::new(&mut introduced, self.sessions.as_mut());
        let quic = self.quic.as_mut().map(|(quic, _)| quic);
        act(&mut self.cheetah, &mut Beside::new(secured, quic))
    }

    fn send_datagrams(&mut self) {
        if let Some((quic, datagrams)) = &mut self.quic {
            datagrams.send(quic);
        }
    }

    /// What the kernel does with what was sent it says at once.
    fn answer_what_follows(&mut self, now: Instant) {
        self.with(|cheetah, transport| cheetah.handle_events(now, transport));
    }

    /// Connections may wait for which there is room. Those for which there is none wait in the kernel.
    fn may_accept(&self) -> bool {
        let has_room = self.sockets.open() < self.connections_max;
        self.has_newcomers && has_room && self.pause_until.is_none()
    }

    /// Takes connections that wait.
    fn accept(&mut self, now: Instant) {
        while self.may_accept() {
            let mut all = self.listeners.iter();
            let Some(next) = all.find_map(|it| listener::accept(it).transpose()) else {
                self.has_newcomers = false;
                return;
            };
            let accepted = next.and_then(|(socket, peer)| self.sockets.adopt(socket, peer));
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
}

impl Carried for SocketServer {
    fn cheetah(&self) -> &Cheetah {
        &self.cheetah
    }

    fn cheetah_mut(&mut self) -> &mut Cheetah {
        &mut self.cheetah
    }

    fn now(&self) -> Instant {
        clock::now()
    }

    fn answer(&mut self, unix_secs: u64) {
        self.handle(clock::now(), unix_secs);
    }

    fn wait(&mut self, until: Option<Instant>, _: &[BorrowedFd<'_>]) -> Result<(), Error> {
        if self.hears_applications != [true; 2] {
            let fds = self.cheetah.applications().fds();
            let heard = self.hears_applications;
            let new = fds.iter().zip(heard).filter(|(_, is_heard)| !is_heard);
            for fd in new.filter_map(|(fd, _)| *fd) {
                self.watch(fd)?;
            }
            self.hears_applications = fds.map(|fd| fd.is_some());
        }
        let may_accept = self.may_accept().then(clock::now);
        let pause = self.pause_until.filter(|_| self.has_newcomers);
        let is_waiting = self.sessions.as_ref().is_some_and(Sessions::is_waiting);
        let soon = is_waiting.then(clock::now);
        let quic = self.quic.as_ref();
        let quic = quic.and_then(|(quic, datagrams)| datagrams.poll_timeout(quic, clock::now()));
        let introductions = self.introductions.as_ref();
        let headers = introductions.and_then(Introductions::poll_timeout);
        let answers = self.cheetah.poll_timeout();
        let until = [until, answers, may_accept, pause, soon, headers, quic];
        let waited = self.sockets.wait(until.into_iter().flatten().min());
        waited.map_err(|e| Error::io("cannot wait for connections", e))
    }

    fn watch(&self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        // Whether newcomers wait is told by the listener alone.
        let watched = self.sockets.wake_by(fd);
        watched.map_err(|e| Error::io("cannot wait for connections", e))
    }

    fn change(&mut self, site: usize, change: Change) {
        let (now, unix_secs) = (clock::now(), clock::unix_secs());
        self.with(|cheetah, transport| cheetah.change(now, unix_secs, site, change, transport));
        self.answer_what_follows(now);
        self.send_datagrams();
    }

    fn retry_all(&mut self) {
        let (now, unix_secs) = (clock::now(), clock::unix_secs());
        self.with(|cheetah, transport| cheetah.retry_all(now, unix_secs, transport));
        self.answer_what_follows(now);
        self.send_datagrams();
    }

    fn stop(&mut self) {
        self.listeners.clear();
        let (now, unix_secs) = (clock::now(), clock::unix_secs());
        if let Some((quic, _)) = &mut self.quic {
            quic.stop(now);
        }
        self.with(|cheetah, transport| cheetah.stop(now, unix_secs, transport));
        self.answer_what_follows(now);
        self.send_datagrams();
    }

    fn abort_all(&mut self) -> Result<(), Error> {
        // Each by itself: what is under way has a line in the log.
        while self.with(|cheetah, transport| cheetah.abort_some(transport)) {}
        // Clients of HTTP/3 hear of their requests before their connections end.
        self.send_datagrams();
        if let Some((quic, _)) = &mut self.quic {
            quic.close_all();
        }
        self.send_datagrams();
        Ok(())
    }

    fn describe(&self) -> String {
        "the kernel's sockets".to_owned()
    }

    fn certificate_expires(&self) -> Option<i64> {
        self.sessions.as_ref().and_then(Sessions::expires)
    }

    /// Connections that were accepted, and those that the kernel did not give. Those that were reset at once because of
    /// their peer are `http_peer_refusals`, and not among them.
    fn counters(&self) -> Vec<(String, u64)> {
        let accepted = self.accepted - self.cheetah.peer_refusals();
        let own = [
            ("sockets_accepted", accepted),
            ("sockets_accept_errors", self.accept_errors),
        ];
        let sessions = self.sessions.iter().flat_map(Sessions::counters);
        let quic = self.quic.iter().flat_map(|(quic, _)| quic.counters());
        let introductions = self.introductions.iter().flat_map(Introductions::counters);
        let all = own
            .into_iter()
            .chain(sessions)
            .chain(introductions)
            .chain(quic);
        all.map(|(name, count)| (name.to_owned(), count)).collect()
    }
}

/// What helps where nobody may listen at a port that this option names.
fn remedy(error: Errno, option: &str) -> String {
    match error {
        Errno::ACCESS => format!(
            "ports below 1024 take root or CAP_NET_BIND_SERVICE; or choose another {option}"
        ),
        _ => format!("choose another {option}, or an --address of this host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_takes_privilege_is_told_from_one_that_is_taken() {
        for (error, what) in [
            (Errno::ACCESS, "CAP_NET_BIND_SERVICE"),
            (Errno::ADDRINUSE, "an --address of this host"),
        ] {
            let remedy = remedy(error, "--port");
            assert!(remedy.contains(what) && remedy.contains("another --port"));
        }
    }
}
