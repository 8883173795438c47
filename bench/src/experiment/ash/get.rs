//! A value of 100 bytes from a cache: from what the kernel answers for a cache of ours, also for one without privilege by the daemon, from
//! that cache by itself, and from memcached on the kernel's sockets.
//!
//! Over UDP the client is that of the increments, and what its calls take where each datagram comes straight back is taken off, so that the
//! processor time of the server's side is told. Over TCP there are the clients of `exos bench sockets`: one, whose round trips are told, and
//! then fifty.

use super::Cell;
use super::asked::Question;
use super::cache::{CacheServer, PORT};
use super::client::Answered;
use super::sandbox::reflector;
use super::session::{CLIENT, KERNEL, OURS, Session, socket_of};
use crate::experiment::figure::{Figures, Goal};
use crate::experiment::sockets::{Requests, Store};
use crate::stage::calls::Bare;
use crate::stage::cpu::{self, SoftirqThread};
use crate::stage::daemon::Daemon;
use crate::stage::helper::Helping;
use crate::stage::process::find_program;
use crate::stage::{Started, link};
use exos_host::Result;
use exos_lab::{INTERFACE, Side};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Over what it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
enum Cache {
    Handler,
    HandlerDaemon,
    Stack,
    Memcached,
}

impl Cache {
    fn at(self) -> Ipv4Addr {
        match self {
            Self::Handler | Self::HandlerDaemon | Self::Stack => OURS,
            Self::Memcached => KERNEL,
        }
    }

    fn is_handler(self) -> bool {
        matches!(self, Self::Handler | Self::HandlerDaemon)
    }
}

/// Datagrams under way: as many as make a call of the client cheap, which is to wait for the servers and not they for it.
const DATAGRAMS: u32 = 256;
/// Clients' connections, with a request under way each.
const CONNECTIONS: u32 = 50;

/// What is known of a server.
struct Seen {
    per_sec: f64,
    /// How busy the server's core was, and the client's.
    busy: [f64; 2],
    /// Processor time of the server's side for a request, where that is told.
    side_us: Option<f64>,
    /// Over TCP: one at a time, how long an answer takes, the median and the 99th percentile.
    took_us: Option<[f64; 2]>,
    /// The part of the requests that the kernel gave up, so that the program answered them; of a handler over TCP.
    given_up: Option<f64>,
}

/// A run: each in turn.
pub(super) fn measure(
    session: &Session,
    transport: Transport,
    figures: &mut Figures,
) -> Result<()> {
    if let Err(error) = find_program("memcached", "memcached") {
        session.note(format!("nothing is got from a cache: {error}"));
        return Ok(());
    }
    let bare = match transport {
        Transport::Udp => bare(session)?,
        Transport::Tcp => None,
    };
    let cell = Cell::Get(transport);
    let mut all = Vec::new();
    for cache in [
        Cache::Handler,
        Cache::HandlerDaemon,
        Cache::Stack,
        Cache::Memcached,
    ] {
        let seen = match transport {
            Transport::Udp => by_datagrams(session, cache, bare)?,
            Transport::Tcp => by_connections(session, cache)?,
        };
        seen.add(&format!("{cell}/{cache}"), figures);
        all.push(seen);
    }
    compare(transport, &all, figures);
    Ok(())
}

impl Seen {
    fn add(&self, name: &str, figures: &mut Figures) {
        figures.add(name, "req/s", self.per_sec);
        let [server, client] = self.busy;
        let told = [
            ("busy", "of a core", Some(server)),
            ("client-busy", "of a core", Some(client)),
            ("server-side", "us", self.side_us),
            ("roundtrip", "us", self.took_us.map(|[median, _]| median)),
            ("roundtrip/p99", "us", self.took_us.map(|[_, p99]| p99)),
            ("given-up", "of requests", self.given_up),
        ];
        for (what, unit, value) in told {
            if let Some(value) = value {
                figures.add(format!("{name}/{what}"), unit, value);
            }
        }
    }
}

/// The handlers by the others.
fn compare(transport: Transport, all: &[Seen], figures: &mut Figures) {
    let [handler, by_daemon, stack, memcached] = all else {
        unreachable!("there are four")
    };
    let cell = Cell::Get(transport);
    for (seen, cache, place) in [
        (handler, Cache::Handler, cell.to_string()),
        (
            by_daemon,
            Cache::HandlerDaemon,
            format!("{cell}/handler-daemon"),
        ),
    ] {
        let rate = seen.per_sec / memcached.per_sec;
        if transport == Transport::Tcp {
            let ratio = seen.per_sec / stack.per_sec;
            figures.add(format!("{cell}/{cache}/stack"), "", ratio);
            figures.add(format!("{place}/rate"), "", rate);
            continue;
        }
        let goal = Goal::AtLeast(6.0);
        figures.add_goal(format!("{place}/rate"), "", goal, rate);
        if let Some((ours, theirs)) = seen.side_us.zip(memcached.side_us) {
            figures.add_goal(format!("{place}/capacity"), "", goal, theirs / ours);
        }
    }
}

/// A `get` as a datagram (memcached's `doc/protocol.txt`): a frame header, whose first number is the client's, and the command.
fn question() -> Question {
    let [set, get] = Store::Memcached.exchanges("get");
    let framed = |text: &str| [&[0, 0, 0, 0, 0, 1, 0, 0], text.as_bytes()].concat();
    Question {
        port: PORT,
        first: framed(&set.request),
        message: framed(&get.request),
        number_len: 2,
        answer: Some(framed(&get.answer).split_off(2)),
    }
}

/// What the client's calls take with such datagrams where each comes straight back; `None` where the kernel does not tell, which is noted.
fn bare(session: &Session) -> Result<Option<Bare>> {
    let reflecting = || link::attach(INTERFACE, "reflect", &reflector(PORT));
    let _reflecting = session.lab.netns(Side::A).run(reflecting)??;
    let calls = |under_way| -> Result<_> {
        let question = question();
        let question = Question {
            first: question.message.clone(),
            answer: None,
            ..question
        };
        let asking = session.ask(question, KERNEL, under_way)?;
        let seen = asking.measured(session, session.seconds)?;
        seen.calls.note_untold(session);
        Ok(seen.calls.per_request(seen.answers))
    };
    let (many, one) = (calls(DATAGRAMS)?, calls(1)?);
    Ok(many.zip(one).map(|(many, one)| Bare::of(many, one)))
}

/// A server that runs.
enum Serving<'s> {
    Ours(Helping<CacheServer>, Option<Daemon<'s>>),
    Theirs(Started),
}

impl<'s> Serving<'s> {
    fn start(session: &'s Session, cache: Cache) -> Result<Self> {
        let (lab, core) = (&session.lab, session.cores[0]);
        if cache == Cache::Memcached {
            let mut command = lab.command(Side::A, find_program("memcached", "memcached")?)?;
            let port = PORT.to_string();
            command.args(["-t", "1", "-u", "root", "-p", &port, "-U", &port]);
            return Ok(Self::Theirs(session.start("memcached", command, core)?));
        }
        // What a handler answers arrives only where a program of XDP receives, as the client's does.
        let _receiving = lab.netns(Side::B).run(|| link::pass_all(INTERFACE))??;
        let daemon = session.daemon_for(cache == Cache::HandlerDaemon)?;
        let server = CacheServer {
            at: OURS.into(),
            in_kernel: cache.is_handler(),
            daemon: socket_of(&daemon),
        };
        Ok(Self::Ours(session.serve(&daemon, &server)?, daemon))
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Ours(helping, _) => helping.started.running.pid(),
            Self::Theirs(started) => started.running.pid(),
        }
    }

    /// Ends it; how many requests of connections the kernel answered for it.
    fn stop(self) -> Result<u64> {
        match self {
            Self::Ours(helping, _daemon) => Ok(helping.stop_measured()?.connection_gets),
            Self::Theirs(started) => started.stop().map(|()| 0),
        }
    }
}

/// What is seen of the cores in the middle of a load: how busy each was, and the server's processor time where that is told.
struct Watched {
    busy: [f64; 2],
    server_ns: Option<u64>,
    took: Duration,
}

fn watch(session: &Session, serving: &Serving<'_>) -> Result<Watched> {
    let part = Duration::from_secs_f64(session.seconds / 4.0);
    session.pause(part)?;
    let (begin, before_ns) = (Instant::now(), server_ns(session, serving)?);
    let busy = session.busy_for(2 * part)?;
    let server_ns = server_ns(session, serving)?.zip(before_ns);
    Ok(Watched {
        busy,
        server_ns: server_ns.map(|(now, then)| now - then),
        took: begin.elapsed(),
    })
}

/// Has one asked over UDP.
fn by_datagrams(session: &Session, cache: Cache, bare: Option<Bare>) -> Result<Seen> {
    let serving = Serving::start(session, cache)?;
    let client = session.ask(question(), cache.at(), DATAGRAMS)?;
    let watched = watch(session, &serving)?;
    let asked = client.measured(session, session.seconds)?;
    serving.stop()?;
    let requests = asked.per_sec * watched.took.as_secs_f64();
    let own_us = watched.server_ns.map(|ns| ns as f64 / 1e3 / requests);
    Ok(Seen {
        per_sec: asked.per_sec,
        busy: watched.busy,
        side_us: side_us(session, cache, own_us, &asked, bare),
        took_us: None,
        given_up: None,
    })
}

/// Has one asked over TCP: on one connection, and then on many.
fn by_connections(session: &Session, cache: Cache) -> Result<Seen> {
    let serving = Serving::start(session, cache)?;
    let one = connections(session, cache, 1)?.measured(session, session.seconds)?;
    let client = connections(session, cache, CONNECTIONS)?;
    let watched = watch(session, &serving)?;
    let many = client.measured(session, session.seconds)?;
    let requests = (one.per_sec + many.per_sec) * session.seconds;
    let given_up = (1.0 - serving.stop()? as f64 / requests).max(0.0);
    Ok(Seen {
        per_sec: many.per_sec,
        busy: watched.busy,
        side_us: None,
        took_us: one.took_us,
        given_up: cache.is_handler().then_some(given_up),
    })
}

/// Processor time of the server's side for a request, where it is told. A run in which what is taken off is all or more has none,
/// which is noted.
fn side_us(
    session: &Session,
    cache: Cache,
    own_us: Option<f64>,
    asked: &Answered,
    bare: Option<Bare>,
) -> Option<f64> {
    asked.calls.note_untold(session);
    let (calls, calls_us) = asked.calls.per_request(asked.answers)?;
    let us = own_us? + calls_us - bare?.us(calls);
    if us > 0.0 {
        return Some(us);
    }
    session.note(format!(
        "a run of get/udp/{cache} is in neither server-side nor capacity: the client's part was measured as {:.2} us more than all of it",
        -us
    ));
    None
}

/// Processor time of a server so far, and of the kernel's thread for soft interrupts on its core, where that is seen.
fn server_ns(session: &Session, serving: &Serving<'_>) -> Result<Option<u64>> {
    let softirqs = SoftirqThread::of_core(session.cores[0])?;
    let own_ns = cpu::of_threads(serving.pid())?.all_ns;
    Ok(softirqs.map(|softirqs| own_ns + softirqs.ns()))
}

/// Starts this many clients.
fn connections(session: &Session, cache: Cache, connections: u32) -> Result<Helping<Requests>> {
    let [first, then] = Store::Memcached.exchanges("get");
    let requests = Requests {
        to: SocketAddr::from((cache.at(), PORT)),
        from: CLIENT.into(),
        connections,
        gathers: true,
        seconds: session.seconds,
        first,
        then,
    };
    session.helper(Side::B, &requests)
}
