//! Bytes between the rings of a shared socket and its connection.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use exos::inet::tcp::Keepalive;
use exos::net::TcpStream;
use exos::{Buffer, Slice};
use exos_preload::memory::{ROOM, Shared, Socket, options, state};

use crate::answer::errno;
use crate::counters::Moved;
use crate::limits::PIECE;

/// A connection whose bytes flow.
pub(super) struct Flowing {
    pub stream: TcpStream,
    /// Taken out of the ring, and not taken by the connection.
    pub rest: Option<Slice>,
    /// The peer's end was seen.
    pub(super) peer_finished: bool,
    /// Ours was told.
    pub told_end: bool,
    pub moved: Moved,
}

impl Flowing {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            rest: None,
            peer_finished: false,
            told_end: false,
            moved: Moved::default(),
        }
    }

    /// Moves what has come into the ring; gives whether there is news.
    pub(super) fn fill(&mut self, memory: &Shared, number: u32) -> bool {
        let (ring, socket) = (memory.inward(number), memory.socket(number));
        let mut news = false;
        if self.peer_finished
            && let Ok(Some(error)) = self.stream.take_error()
        {
            self.fails(memory, number, &error);
            return true;
        }
        while !self.peer_finished {
            let moved = self.stream.read_with(|bytes| match bytes {
                [] => (0, None),
                bytes => {
                    let count = ring.push(bytes);
                    (count, Some(count))
                }
            });
            match moved {
                Ok(None) => {
                    self.peer_finished = true;
                    socket.add(state::FINISHED);
                    news = true;
                }
                Ok(Some(0)) => {
                    socket.add(state::HAS_MORE);
                    fence(Ordering::SeqCst);
                    if ring.free() < ROOM {
                        return news;
                    }
                }
                Ok(Some(count)) => {
                    self.moved.to_program += count as u64;
                    news = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return news,
                Err(error) => {
                    self.fails(memory, number, &error);
                    return true;
                }
            }
        }
        news
    }

    /// Moves what the program has written to the stack; gives whether the program is to hear of room.
    pub(super) fn drain(&mut self, memory: &Shared, number: u32) -> bool {
        let (ring, socket) = (memory.outward(number), memory.socket(number));
        loop {
            // Before the ring is looked at: what was written before the end is in it then.
            let is_all = socket.is(state::NO_WRITES) || socket.is_closed();
            let next = self.rest.take().or_else(|| {
                let bytes = ring.take(PIECE);
                self.moved.from_program += bytes.len() as u64;
                (!bytes.is_empty()).then(|| Buffer::from(bytes).into())
            });
            let Some(slice) = next else {
                if is_all && !self.told_end {
                    self.told_end = true;
                    // What is over needs no end.
                    let _ = self.stream.shutdown(Shutdown::Write);
                }
                break;
            };
            match self.stream.send(slice.clone()) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.rest = Some(slice);
                    break;
                }
                Err(error) => {
                    self.fails(memory, number, &error);
                    return true;
                }
            }
        }
        ring.free() >= ROOM && socket.clear(state::WANTS_ROOM)
    }

    pub(super) fn fails(&mut self, memory: &Shared, number: u32, error: &io::Error) {
        let socket = memory.socket(number);
        self.peer_finished = true;
        self.told_end = true;
        self.rest = None;
        memory.outward(number).take(usize::MAX);
        match error.kind() {
            // Of one who has finished already and takes no more.
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe if socket.is(state::FINISHED) => {
                socket.error.store(libc::EPIPE as u32, Ordering::Release);
            }
            ErrorKind::BrokenPipe => {}
            _ => socket.error.store(errno(error) as u32, Ordering::Release),
        }
        socket.add(state::OVER);
    }

    /// Everything that the program wrote is the stack's.
    pub(super) fn is_drained(&self, memory: &Shared, number: u32) -> bool {
        self.rest.is_none() && memory.outward(number).is_empty()
    }

    /// Has the stack do what the program wants of this connection.
    pub(super) fn apply_options(&self, memory: &Shared, number: u32) {
        let socket = memory.socket(number);
        let is_asked = socket.has(options::KEEPALIVE);
        self.stream
            .set_keepalive(is_asked.then(|| keepalive_of(socket)));
        let user_timeout = socket.liveness.user_timeout_ms.load(Ordering::Relaxed);
        let user_timeout = Duration::from_millis(user_timeout.into());
        self.stream
            .set_user_timeout((!user_timeout.is_zero()).then_some(user_timeout));
        let reset = socket.has(options::LINGER) && socket.linger.load(Ordering::Relaxed) == 0;
        // It cannot fail.
        let _ = self.stream.set_linger(reset.then_some(Duration::ZERO));
        let headers = socket.headers(self.stream.peer_addr().is_ok_and(|peer| peer.is_ipv6()));
        // No hops at all there are not.
        let _ = self.stream.set_ttl(headers.hops().max(1).into());
        let _ = self.stream.set_tos(headers.class());
    }
}

/// When the peer of a socket is asked whether it is still there, if it is at all.
pub(super) fn keepalive_of(socket: &Socket) -> Keepalive {
    let liveness = &socket.liveness;
    Keepalive {
        idle: Duration::from_secs(liveness.idle_seconds().into()),
        interval: Duration::from_secs(liveness.interval_seconds().into()),
        count: liveness.count(),
    }
}
