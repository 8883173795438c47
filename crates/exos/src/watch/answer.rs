//! The program's side of a question about its sockets.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use exos_host::user_memory::UserMemory;
use exos_inet::tcp::{Connection, State};
use exos_inet::{Instant, Stack};
use exos_link::Link;

use super::holders::Holders;
use super::layout::{begin, end};
use super::sockets::{
    Known, MAGIC, MEMORY_WORDS, NAME, Protocol, SOCKETS, Socket, head, socket_words,
};

/// How long after an answer the next question is expected, by one who goes on from there.
const EXPECTED: Duration = Duration::from_millis(20);

/// Places below this one: listeners and sockets of datagrams. Zero is the first, and so the beginning.
const CONNECTIONS: u32 = 1 << 30;

/// Places from here on: connections in TIME-WAIT. Between the two stand the other connections.
const WAITING: u32 = 1 << 31;

/// A stack's sockets, for the one that may look into the process.
#[derive(Debug)]
pub(crate) struct Answers {
    memory: UserMemory,
    /// The request that was answered last.
    request: u64,
    /// Another is expected until then.
    expects: Instant,
    /// The program answers, with the holders of its sockets ([`Exos::tell_sockets`](crate::Exos::tell_sockets)).
    is_left_to_program: bool,
}

impl Answers {
    /// `None` where there is no memory for them.
    pub(crate) fn new(link: &Link) -> Option<Self> {
        let memory = UserMemory::create(NAME, MEMORY_WORDS).ok()?;
        begin(&memory, MAGIC, link);
        Some(Self {
            memory,
            request: 0,
            expects: Instant::START,
            is_left_to_program: false,
        })
    }

    /// Looks whether anybody asks, once a turn.
    #[inline]
    pub(crate) fn look(&mut self, now: Instant, stack: &Stack) {
        if self.is_asked() && !self.is_left_to_program {
            self.answer(now, stack, &Holders::default());
        }
    }

    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.memory.words()[head::REQUEST].load(Relaxed) != self.request
    }

    pub(super) fn leave_to_program(&mut self) {
        self.is_left_to_program = true;
    }

    /// Whether somebody is about to ask on.
    pub(crate) fn expects_more(&self, now: Instant) -> bool {
        now < self.expects
    }

    #[cold]
    pub(super) fn answer(&mut self, now: Instant, stack: &Stack, holders: &Holders) {
        let words = self.memory.words();
        let request = words[head::REQUEST].load(Acquire);
        self.request = request;
        let (mut count, mut next) = (0, 0);
        for (place, mut socket) in sockets_from(request as u32, now, stack) {
            if count == SOCKETS {
                next = place;
                self.expects = now + EXPECTED;
                break;
            }
            socket.holders = holders.of(&socket);
            socket.put(socket_words(words, count));
            count += 1;
        }
        words[head::COUNT].store(count as u64, Relaxed);
        words[head::NEXT].store(next.into(), Relaxed);
        words[head::ANSWERED].store(request, Release);
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        end(&self.memory);
    }
}

/// All sockets of a stack from a place on, each with its place: listeners and those of datagrams first.
fn sockets_from(place: u32, now: Instant, stack: &Stack) -> impl Iterator<Item = (u32, Socket)> {
    let bound = (place < CONNECTIONS).then(|| listening(stack).chain(datagrams(stack)));
    let bound = (0..CONNECTIONS).zip(bound.into_iter().flatten());
    let bound = bound.skip(place as usize);
    let connections = stack.tcp.standing_from(place.saturating_sub(CONNECTIONS));
    let connections = connections.map(move |(n, c)| (CONNECTIONS + n, connection(c, now)));
    let waiting = stack
        .tcp
        .waiting_from(place.saturating_sub(WAITING) as usize);
    let waiting = waiting.map(|(n, flow)| {
        let socket = between(State::TimeWait, flow.local(), flow.remote());
        (WAITING.saturating_add(n as u32), socket)
    });
    bound.chain(connections).chain(waiting)
}

fn between(state: State, local: std::net::SocketAddr, peer: std::net::SocketAddr) -> Socket {
    Socket {
        protocol: Protocol::Tcp,
        state,
        address: Some(local.ip()),
        port: local.port(),
        peer: Some(peer),
        receive_queue: 0,
        send_queue: 0,
        tcp: None,
        holders: Vec::new(),
    }
}

fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}

fn connection(connection: &Connection, now: Instant) -> Socket {
    let (info, flow) = (connection.info(), connection.flow());
    Socket {
        receive_queue: count(info.unread),
        send_queue: count(info.unacknowledged),
        tcp: Some(Known::of(&info, now)),
        ..between(info.state, flow.local(), flow.remote())
    }
}

fn listening(stack: &Stack) -> impl Iterator<Item = Socket> {
    stack.tcp.listening().map(|listener| Socket {
        protocol: Protocol::Tcp,
        state: State::Listen,
        address: listener.address,
        port: listener.port,
        peer: None,
        receive_queue: count(listener.half_open),
        send_queue: count(listener.backlog),
        tcp: None,
        holders: Vec::new(),
    })
}

fn datagrams(stack: &Stack) -> impl Iterator<Item = Socket> {
    stack.udp.sockets().map(|socket| Socket {
        protocol: Protocol::Udp,
        state: match socket.remote {
            Some(_) => State::Established,
            None => State::Closed,
        },
        address: socket.local,
        port: socket.port,
        peer: socket.remote,
        receive_queue: count(socket.queued),
        send_queue: 0,
        tcp: None,
        holders: Vec::new(),
    })
}
