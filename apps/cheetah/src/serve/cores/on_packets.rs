//! The server on a stack of its own: what a core begins with, and what carries its connections.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use exos::via::Via;
use exos::{Core, Error, ErrorKind, Exos, clock};
use exos_inet::Instant;
use exos_inet::tcp::{FreeRoom, ListenOptions, ListenerId};
use exos_program::{taken_back, tell_losses};
use exos_quic::Loops;

use super::http3::Http3;
use super::outage::Outage;
use super::server_loop::ServerLoop;
use super::threads::Ready;
use super::worker::{Asks, Worker};
use crate::acme::{self, Acme, Caller};
use crate::applications::AllPermits;
use crate::config::Config;
use crate::connections::Carried;
use crate::connections::in_kernel::{Common, InKernel};
use crate::connections::peers::Peers;
use crate::connections::{Cheetah, Packets, Specialisation, Without};
use crate::http::Server;
use crate::limits::RECEIVE_BUFFER_LEN;
use crate::log::Log;
use crate::proxy_protocol::{Introduced, Introductions};
use crate::quic::Beside;
use crate::secure::{Acceptor, Secured, Sessions};
use crate::serve::content::files::Feed;
use crate::serve::content::sites::Fresh;
use crate::site::Change;
use crate::stream::Streams;
use crate::stream::disk::Disk;

/// What a core begins with, made where the program starts.
pub(in crate::serve) struct Setup {
    pub(in crate::serve) config: Config,
    pub(in crate::serve) without: Vec<Specialisation>,
    /// Where other threads than the loops may run.
    pub(in crate::serve) allowed: Vec<usize>,
    pub(in crate::serve) fresh: Fresh,
    pub(in crate::serve) feed: Feed,
    pub(in crate::serve) log: Option<Log>,
    pub(in crate::serve) peers: Peers,
    /// How many requests of HTTP/2 of each peer wait, on all cores.
    pub(in crate::serve) peer_streams: Peers,
    /// How many requests applications have at once, of all cores.
    pub(in crate::serve) permits: AllPermits,
    /// What accepts sessions of TLS, on all cores.
    pub(in crate::serve) acceptor: Option<Arc<Acceptor>>,
    /// What the cores' connections of QUIC are told apart by.
    pub(in crate::serve) quic_loops: Loops,
    /// For connections, on all cores together; unless the kernel answers requests, and has it.
    pub(in crate::serve) room: Arc<FreeRoom>,
    /// What the cores have together of what the kernel answers.
    pub(in crate::serve) in_kernel: Common,
    pub(in crate::serve) worker: Worker,
    /// Another loop runs on its core.
    pub(in crate::serve) shares_core: bool,
    /// All links of the program for people, where there are several.
    pub(in crate::serve) links: Option<Arc<str>>,
}

/// What carries the connections, for the time of a turn.
type Carrier<'a> = Beside<'a, Secured<'a, Introduced<'a, Packets<'a>>>>;

/// The server on a stack.
pub(in crate::serve) struct StackServer {
    pub(in crate::serve) exos: Exos,
    cheetah: Cheetah,
    listeners: Vec<ListenerId>,
    /// The connections that are encrypted.
    sessions: Option<Sessions>,
    /// Those that proxies pass on.
    introductions: Option<Introductions>,
    /// HTTP/3, where it is spoken.
    quic: Option<Http3>,
    /// What asks the authority of certificates that come by themselves.
    caller: Option<Caller>,
    /// Where there are several interfaces.
    outage: Option<Outage>,
    links: Option<Arc<str>>,
    /// What is measured without something.
    without: Option<Without>,
}

impl StackServer {
    /// Looks whether what the kernel answers arrives, and says so where it does not.
    pub(in crate::serve) fn see_to_handlers(&mut self) {
        if let Some(why) = self.exos.see_to_handlers() {
            let why = why.or_mend("leave --syn-handler out there");
            exos_program::warn!("exos serve: {why}");
        }
    }

    /// Does something with the server on what carries it.
    fn with<R>(&mut self, act: impl FnOnce(&mut Cheetah, &mut Carrier<'_>) -> R) -> R {
        let packets = Packets::without(&mut self.exos.stack, self.without.as_mut());
        let calls = self.caller.as_mut().map(|it| (acme::TOKEN, it.news()));
        let mut packets = packets.but_for(calls);
        let mut introduced = Introduced::new(&mut packets, self.introductions.as_mut());
        let secured = Secured::new(&mut introduced, self.sessions.as_mut());
        let quic = self.quic.as_mut().map(Http3::quic);
        let mut transport = Beside::new(secured, quic);
        act(&mut self.cheetah, &mut transport)
    }
}

impl Carried for StackServer {
    fn cheetah(&self) -> &Cheetah {
        &self.cheetah
    }

    fn cheetah_mut(&mut self) -> &mut Cheetah {
        &mut self.cheetah
    }

    fn now(&self) -> Instant {
        self.exos.now()
    }

    fn receive(&mut self) {
        self.exos.receive();
        if let Some(without) = &mut self.without {
            without.begin_turn(&mut self.exos.stack);
        }
    }

    fn answer(&mut self, unix_secs: u64) {
        let now = self.now();
        if let Some(requests) = self.exos.requests() {
            self.cheetah.hear_of_sent(requests);
        }
        if let Some(sessions) = &mut self.sessions {
            sessions.begin_turn();
        }
        if let Some(introductions) = &mut self.introductions {
            introductions.begin_turn(now, &mut Packets::new(&mut self.exos.stack));
        }
        if let Some(http3) = &mut self.quic {
            http3.receive(now, &mut self.exos.stack);
        }
        self.with(|cheetah, transport| cheetah.handle(now, unix_secs, transport));
        if let Some(requests) = self.exos.requests()
            && self.cheetah.turn_in_kernel(now, unix_secs, requests)
        {
            self.exos.see_to_requests();
        }
        if let Some(caller) = &mut self.caller {
            caller.turn(&mut self.exos);
        }
    }

    fn send(&mut self) -> Result<(), Error> {
        if let Some(http3) = &mut self.quic {
            http3.send(self.exos.now(), &mut self.exos.stack);
        }
        let sent = self.exos.send();
        match &mut self.outage {
            Some(outage) => outage.hear(sent),
            None => sent.map(|_| ()),
        }
    }

    fn wait(&mut self, until: Option<Instant>, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let is_without = self.without.as_ref().is_some_and(Without::is_waiting);
        let now = is_without.then(|| self.now());
        let here = self.exos.now();
        let requests = self.exos.requests();
        let soon = requests.map(|requests| requests.poll_timeout(here).unwrap_or_else(next_second));
        let is_waiting = self.sessions.as_ref().is_some_and(Sessions::is_waiting);
        let sessions = is_waiting.then_some(here);
        let quic = self.quic.as_ref();
        let quic = quic.and_then(|quic| quic.poll_timeout(here, &self.exos.stack));
        let introductions = self.introductions.as_ref();
        let headers = introductions.and_then(Introductions::poll_timeout);
        let answers = self.cheetah.poll_timeout();
        let calls = self.caller.as_ref().and_then(Caller::poll_timeout);
        let until = [until, answers, now, soon, sessions, headers, quic, calls];
        let mut fds = fds.to_vec();
        fds.extend(self.caller.as_ref().map(Caller::fd));
        fds.extend(self.cheetah.streams().fd());
        fds.extend(self.cheetah.applications().fds().into_iter().flatten());
        let until = until.into_iter().flatten().min();
        if let Some(outage) = &self.outage
            && outage.sleep(until, &fds)?
        {
            return Ok(());
        }
        let is_asked = self.cheetah.applications().is_asked_here();
        self.exos.hold_spins(is_asked);
        self.exos.wait(until, &fds)
    }

    fn change(&mut self, site: usize, change: Change) {
        let now = self.now();
        let unix_secs = clock::unix_secs();
        self.with(|cheetah, transport| cheetah.change(now, unix_secs, site, change, transport));
    }

    fn retry_all(&mut self) {
        let now = self.now();
        let unix_secs = clock::unix_secs();
        self.with(|cheetah, transport| cheetah.retry_all(now, unix_secs, transport));
    }

    fn leave_to_others(&mut self) -> bool {
        self.exos.via().is_some_and(Via::retire)
    }

    fn stop(&mut self) {
        let (now, unix_secs) = (self.now(), clock::unix_secs());
        if let Some(mut requests) = self.exos.answer_requests_here() {
            self.cheetah.end_in_kernel(now, unix_secs, &mut requests);
        }
        self.exos.answer_syns_here();
        if let Some(mut caller) = self.caller.take() {
            caller.end(&mut self.exos);
        }
        for listener in self.listeners.drain(..) {
            self.exos.stack.tcp.close_listener(listener);
        }
        if let Some(http3) = &mut self.quic {
            http3.quic().stop(now);
            http3.send(now, &mut self.exos.stack);
        }
        self.with(|cheetah, transport| {
            // It hears of the connections that the kernel had, so that they end too.
            cheetah.handle(now, unix_secs, transport);
            cheetah.stop(now, unix_secs, transport);
        });
    }

    fn abort_all(&mut self) -> Result<(), Error> {
        loop {
            let has_more = self.with(|cheetah, transport| cheetah.abort_some(transport));
            let now = self.exos.now();
            // Clients of HTTP/3 hear of their requests before their connections end.
            let have_left = self.quic.as_mut().is_none_or(|http3| {
                http3.send(now, &mut self.exos.stack)
                    && (has_more || {
                        http3.quic().close_all();
                        http3.send(now, &mut self.exos.stack)
                    })
            });
            // Also the resets of connections that the kernel had.
            let mut sent = 0;
            loop {
                match self.exos.send() {
                    Ok(0) => break,
                    Ok(count) => sent += count,
                    // Nobody hears it, and the other interfaces end in order.
                    Err(_) if self.outage.is_some() => break,
                    Err(error) => return Err(error),
                }
            }
            if !has_more && (have_left || sent == 0) {
                return Ok(());
            }
        }
    }

    fn describe(&self) -> String {
        match &self.links {
            Some(links) => links.to_string(),
            None => self.exos.describe_link(),
        }
    }

    fn time_wait(&self) -> usize {
        self.exos.stack.tcp.time_wait_connections()
    }

    fn certificate_expires(&self) -> Option<i64> {
        self.sessions.as_ref().and_then(Sessions::expires)
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let sessions = self.sessions.iter().flat_map(Sessions::counters);
        let quic = self.quic.iter().flat_map(Http3::counters);
        let introductions = self.introductions.iter().flat_map(Introductions::counters);
        let own = sessions.chain(introductions).chain(quic);
        let own = own.map(|(name, count)| (name.to_owned(), count));
        self.exos.counters().into_iter().chain(own).collect()
    }
}

/// On a stack that listens; tables and all else that belongs to this thread is made here.
pub(in crate::serve) fn open(
    mut exos: Exos,
    listeners: Vec<ListenerId>,
    setup: Setup,
) -> Result<ServerLoop<StackServer>, Error> {
    let config = &setup.config;
    let shutdown_time = config.bounds.shutdown_time();
    let mut server = Server::new(setup.fresh.into_sites(), clock::unix_secs());
    if let Some(log) = setup.log {
        server.set_log(log);
    }
    if let Some(pages) = config.status.pages()? {
        server.set_status_pages(pages);
    }
    if let Some(acme) = setup.acceptor.as_ref().and_then(|it| it.acme()) {
        server.set_acme(acme.clone());
    }
    let without = Without::these(&setup.without, &mut server, &mut exos.stack);
    let mut cheetah = Cheetah::new(server, clock::now());
    if let Some(requests) = exos.requests() {
        cheetah.answer_in_kernel(InKernel::new(setup.in_kernel, requests));
    }
    let is_first = setup.worker.is_first();
    cheetah.speak_http2(config.http2);
    cheetah.set_streams(streams(config, &setup.allowed, is_first)?);
    cheetah.set_bounds(config.bounds.bounds());
    let in_kernel = exos.requests().and_then(|requests| requests.peer_room());
    cheetah.share_peers(setup.peers.beside(in_kernel));
    cheetah.share_peer_streams(setup.peer_streams);
    if exos.requests().is_none() {
        exos.stack.tcp.share_room(setup.room);
    }
    if setup.worker.count() > 1 {
        let worker = setup.worker.clone();
        let wake = move |number| worker.ask(number, Asks::PERMITS);
        cheetah.share_applications(setup.permits.of_loop(setup.worker.number(), wake));
    }
    if setup.shares_core {
        exos.share_core();
    }
    let introductions = Introductions::by(&config.proxy_protocol, clock::now());
    let acme = setup.acceptor.as_ref().and_then(|it| it.acme());
    let caller = acme
        .filter(|_| is_first)
        .and_then(|acme| caller(acme, config, &exos));
    let http3 = config.speaks_http3();
    let quic = match setup.acceptor.as_ref().filter(|_| http3) {
        None => None,
        Some(acceptor) => {
            let shared = (setup.worker.count() > 1).then(|| setup.worker.number());
            let shared = shared.map(|number| (setup.quic_loops.clone(), number as u16));
            cheetah.server_mut().announce_http3(acceptor.port());
            let mut http3 = Http3::new(acceptor.clone(), shared, &mut exos)?;
            let bounds = (config.bounds.max_connections, cheetah.peers());
            http3.quic().set_bounds(bounds.0, bounds.1);
            Some(http3)
        }
    };
    let served = StackServer {
        exos,
        cheetah,
        introductions,
        listeners,
        quic,
        caller,
        sessions: setup.acceptor.map(Sessions::new),
        outage: Outage::of(&setup.worker),
        links: setup.links,
        without,
    };
    ServerLoop::new(served, setup.worker, setup.feed, shutdown_time)
}

/// What asks the authority by this stack, if that leads to others.
fn caller(acme: &Acme, config: &Config, exos: &Exos) -> Option<Caller> {
    let desk = acme.desk()?;
    let why = match () {
        () if config.link.share_address => "the address is shared with the host",
        () if exos.pair().is_some() => "the link ends at this host",
        () => return Some(Caller::new(desk.clone())),
    };
    desk.close(why);
    None
}

/// What reads long files for the loop of the calling thread: io_uring, or a thread on these cores, which the first loop
/// says.
fn streams(config: &Config, cores: &[usize], is_first: bool) -> Result<Streams, Error> {
    let started = Disk::start(cores);
    let (disk, reason) = started.map_err(|e| Error::io("cannot start reading long files", e))?;
    if let Some(reason) = reason.filter(|_| is_first) {
        exos_program::warn!(
            "exos serve: no io_uring ({reason}; see the sysctl kernel.io_uring_disabled): a thread reads long files"
        );
    }
    Ok(Streams::new(disk, config.stream_memory))
}

/// What the thread of another core than the first does, from its start to its end.
pub(in crate::serve) fn serve(core: Core, setup: Setup, ready: Ready) -> Result<(), Error> {
    let mut exos = core.start()?;
    let listeners = listen(&mut exos, &setup.config)?;
    let mut server = open(exos, listeners, setup)?;
    server.begin();
    ready.say();
    let mut revoked = false;
    while !revoked && !server.handle_asks()?.contains(Asks::STOP) {
        server.turn()?;
        server.served.see_to_handlers();
        revoked = tell_losses("serve", &mut server.served.exos);
        server.wait(None, &[])?;
    }
    if revoked {
        server.worker.tell_first(Asks::ONE_LEFT);
    }
    let ended = server.end(&[], |_, _| {});
    server.served.exos.leave();
    server.close();
    if revoked {
        return Err(taken_back());
    }
    ended
}

/// When the time of day has another second: dates in the kernel change then.
fn next_second() -> Instant {
    let part = clock::unix_time().subsec_micros();
    clock::now() + std::time::Duration::from_micros(u64::from(1_000_000 - part))
}

/// Listens on a stack, and has the kernel answer SYNs where that is wanted, which takes privilege.
pub(in crate::serve) fn listen(exos: &mut Exos, config: &Config) -> Result<Vec<ListenerId>, Error> {
    let mut connection = config.tcp.options();
    if config.tcp.receive_buffer.is_none() {
        // Requests need no more, and nobody can have us keep more.
        connection.receive_buffer_bytes = RECEIVE_BUFFER_LEN;
        connection.receive_buffer_max_bytes = RECEIVE_BUFFER_LEN;
    }
    let options = ListenOptions {
        connection,
        ..ListenOptions::default()
    };
    let mut listen = |port| {
        let listener = exos.stack.tcp.listen(None, port, options.clone());
        listener.map_err(|e| Error::new(format!("cannot listen on port {port}: {e}")))
    };
    let listener = listen(config.port)?;
    let encrypted = config.tls.as_ref().map(|tls| listen(tls.port));
    if config.in_kernel {
        let answers = exos.answer_requests_in_kernel(
            listener,
            config.bounds.capacity(),
            config.log.target().is_some(),
        );
        answers.map_err(|e| match e.kind {
            ErrorKind::Invalid => e.mend("leave --no-sack out, or --in-kernel"),
            _ => e.or_mend("leave --in-kernel out"),
        })?;
    } else if config.syn_handler {
        let answers = exos.answer_syns_in_kernel(listener);
        answers.map_err(|e| match e.kind {
            ErrorKind::Invalid => e.mend("leave --no-sack out, or --syn-handler"),
            _ => e.or_mend("leave --syn-handler out"),
        })?;
    }
    Ok([listener]
        .into_iter()
        .chain(encrypted.transpose()?)
        .collect())
}
