//! Datagrams between the rings of a shared socket and the stack.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{Ordering, fence};

use exos::inet::udp::{HeaderFields, Received};
use exos_preload::memory::{DATAGRAM_HEAD, DATAGRAM_ROOM, DatagramHead, RING, Shared, state};
use rustix::net::AddressFamily;

use super::addresses::{address, address_of};
use crate::answer::{errno, fails};
use crate::context::Context;
use crate::datagram_socket::DatagramSocket;
use crate::limits::DATAGRAMS_AT_ONCE;
use crate::target::Descriptor;

/// A shared socket for datagrams, on our side.
pub(super) struct Datagrams {
    /// None: it has no port.
    pub socket: Option<DatagramSocket>,
    /// The program has chosen its port: it keeps that when it is connected no more.
    pub keeps_port: bool,
    /// Has come, and has no room in the ring.
    rest: Option<Received>,
    /// What it was. Other processes may have that still, and come with it: as long as we have it, its number is no other's.
    pub before: Descriptor,
}

/// What a turn of one that sends comes to.
pub(super) struct Sent {
    /// The program is to hear of room.
    pub is_news: bool,
    /// It is to hear of an error.
    pub has_failed: bool,
    /// The link has no room for what is left, or others are to have their turn.
    pub has_more: bool,
}

impl Datagrams {
    /// One that has no port, and was this socket of the kernel's.
    pub fn new(before: Descriptor) -> Self {
        Self {
            socket: None,
            keeps_port: false,
            rest: None,
            before,
        }
    }

    /// Moves what has come into the ring; gives whether there is news.
    pub fn fill(&mut self, memory: &Shared, number: u32, family: AddressFamily) -> bool {
        let (ring, socket) = (memory.inward(number), memory.socket(number));
        let mut news = false;
        while let Some(from) = &mut self.socket {
            let next = self.rest.take().map_or_else(|| from.receive(), Ok);
            let received = match next {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    socket.error.store(errno(&error) as u32, Ordering::Release);
                    news = true;
                    continue;
                }
            };
            let head = DatagramHead {
                len: received.payload.len() as u32,
                hops: received.fields.hop_limit,
                class: received.fields.traffic_class,
                peer: address_of(received.from, family),
                local: address_of(SocketAddr::new(received.to, 0), family),
            };
            if ring.push_datagram(&head, &received.payload) {
                news = true;
                continue;
            }
            let wanted = DATAGRAM_HEAD + received.payload.len();
            self.rest = Some(received);
            // The stack's queue holds what comes further, as far as that has room.
            socket.add(state::HAS_MORE);
            fence(Ordering::SeqCst);
            if ring.free() < wanted {
                break;
            }
        }
        news
    }

    /// Sends what the program has written.
    pub fn drain(&mut self, cx: &Context, memory: &Shared, number: u32) -> Sent {
        let (ring, socket) = (memory.outward(number), memory.socket(number));
        let (mut has_more, mut has_failed) = (false, false);
        for sent in 0.. {
            let Some(head) = ring.next_datagram() else {
                break;
            };
            has_more = sent == DATAGRAMS_AT_ONCE || !cx.has_room(head.len as usize);
            if has_more {
                break;
            }
            let Some((head, payload)) = ring.take_datagram() else {
                break;
            };
            if let Err(error) = self.send(cx, &head, payload) {
                socket.error.store(errno(&error) as u32, Ordering::Release);
                has_failed = true;
            }
        }
        let is_news = ring.free() >= DATAGRAM_ROOM && socket.clear(state::WANTS_ROOM);
        Sent {
            is_news,
            has_failed,
            has_more,
        }
    }

    /// Sends one, of whose head nothing is sure.
    fn send(&self, cx: &Context, head: &DatagramHead, payload: Vec<u8>) -> io::Result<()> {
        let (Some(socket), Some(to)) = (&self.socket, address(&head.peer)) else {
            return fails(libc::EINVAL);
        };
        let from = address(&head.local).map(|from| from.ip());
        let fields = HeaderFields {
            hop_limit: head.hops,
            traffic_class: head.class,
        };
        socket.send(cx, payload, (from, to), fields)
    }

    /// What has come and was not read, of one that is to be shared no more, with who sent it.
    pub fn unread(&mut self, memory: &Shared, number: u32) -> Vec<(Option<SocketAddr>, Vec<u8>)> {
        let ring = memory.inward(number);
        // The program also writes the ring's positions: of a ring that it fills again and again no more than it holds.
        let most = RING / DATAGRAM_HEAD;
        let waiting = std::iter::from_fn(|| ring.take_datagram()).take(most);
        let mut unread: Vec<_> = waiting
            .map(|(head, payload)| (address(&head.peer), payload))
            .collect();
        let rest = self.rest.take();
        unread.extend(rest.map(|rest| (Some(rest.from), rest.payload)));
        unread
    }
}
