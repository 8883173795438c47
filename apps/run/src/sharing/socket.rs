//! One shared socket: what it is, how it comes to be, and its ends.

use std::io::{self};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::task::{Context, Poll as Ready, Waker};
use std::time::Duration;

use exos::net::{Interest, TcpListener, TcpStream, Token, Trigger};
use exos_host::intercept::{self, Call};
use exos_preload::memory::{Address, MARK, Shared, options, state};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, sockopt};

use super::datagrams::Datagrams;
use super::flowing::Flowing;
use super::{SHARED, Sharing};
use crate::calls::number as errno;
use crate::counters::Moved;
use crate::supervise::Supervisor;
use crate::target::{Descriptor, encode};

/// A shared socket, on our side.
pub(crate) struct Entry {
    pub family: AddressFamily,
    pub local: SocketAddr,
    pub peer: Option<SocketAddr>,
    pub kind: Kind,
}

/// What it does.
pub(crate) enum Kind {
    Listening(Listening),
    /// With the calls that wait for it.
    Connecting(TcpStream, Vec<Call>),
    Flowing(Flowing),
    Datagrams(Datagrams),
    /// It could not be connected, or is over.
    Failed,
    /// It goes by a Unix socket; this is the program's end, for other processes that have it.
    Unshared(OwnedFd),
}

pub(crate) struct Listening {
    pub listener: TcpListener,
    /// How many connections may wait in the ring.
    pub backlog: usize,
    /// Whose socket it is.
    pub user: u32,
}

impl Entry {
    pub fn stream(&self) -> Option<&TcpStream> {
        match &self.kind {
            Kind::Flowing(flowing) => Some(&flowing.stream),
            Kind::Connecting(stream, _) => Some(stream),
            Kind::Listening(_) | Kind::Datagrams(_) | Kind::Failed | Kind::Unshared(_) => None,
        }
    }

    /// It waits in a listener's ring, and no program has had it.
    pub fn is_offered(&self, memory: &Shared, number: u32) -> bool {
        matches!(self.kind, Kind::Flowing(_)) && !memory.socket(number).is(state::TAKEN)
    }

    /// What has passed.
    pub fn moved(&self) -> Moved {
        match &self.kind {
            Kind::Flowing(flowing) => flowing.moved,
            _ => Moved::default(),
        }
    }

    /// More than a few pages of its rings were used.
    pub fn has_moved_much(&self) -> bool {
        !matches!(self.kind, Kind::Flowing(_)) || self.moved().sum() > 64 << 10
    }
}

/// An address as programs have it.
pub(super) fn address_of(address: SocketAddr, family: AddressFamily) -> Address {
    let encoded = encode(address, family);
    let mut address = Address::default();
    address.bytes[..encoded.len()].copy_from_slice(&encoded);
    address.len = encoded.len() as u32;
    address
}

impl Sharing {
    /// Takes a connection that was made; gives its number.
    fn take(&mut self, stream: TcpStream, peer: SocketAddr, family: AddressFamily) -> Option<u32> {
        let local = stream.local_addr().ok()?;
        let number = self.insert(Entry {
            family,
            local,
            peer: Some(peer),
            kind: Kind::Flowing(Flowing::new(stream)),
        })?;
        self.describe(number, state::STANDS);
        Some(number)
    }

    /// Says in the memory what a socket is.
    fn describe(&self, number: u32, bits: u32) {
        let Some(Some(entry)) = self.entries.get(number as usize) else {
            return;
        };
        let socket = self.memory.socket(number);
        socket.local.set(address_of(entry.local, entry.family));
        if let Some(peer) = entry.peer {
            socket.peer.set(address_of(peer, entry.family));
        }
        socket.set_option(options::IPV6, entry.family == AddressFamily::INET6);
        socket.add(bits);
    }
}

impl Supervisor {
    /// Has a socket of the kernel's be a shared one, under its number; gives the socket's.
    pub(super) fn share_socket(
        &mut self,
        (call, part): (&Call, u32),
        descriptor: &Descriptor,
        entry: Entry,
        bits: u32,
    ) -> io::Result<u32> {
        let sharing = self.sharing.as_mut().expect("a part of it");
        let number = sharing.insert(entry);
        let number = number.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOBUFS))?;
        sharing.describe(number, bits);
        if let Err(error) = self.put_shared((call, part), descriptor, number) {
            self.sharing
                .as_mut()
                .and_then(|sharing| sharing.remove(number));
            return Err(error);
        }
        Ok(number)
    }

    /// Gives a shared socket the options of one of the kernel's, and its place.
    fn put_shared(
        &self,
        (call, part): (&Call, u32),
        descriptor: &Descriptor,
        number: u32,
    ) -> io::Result<()> {
        let sharing = self.sharing.as_ref().expect("a part of it");
        let socket = sharing.memory.socket(number);
        socket.set_option(options::NONBLOCK, descriptor.nonblocking);
        let milliseconds = |which| {
            let time = sockopt::socket_timeout(&descriptor.fd, which)?;
            let time = time.map_or(0, |time| time.as_millis().max(1));
            Ok::<_, io::Error>(u32::try_from(time).unwrap_or(u32::MAX))
        };
        let receive = milliseconds(sockopt::Timeout::Recv)?;
        socket.receive_timeout.store(receive, Ordering::Relaxed);
        let send = milliseconds(sockopt::Timeout::Send)?;
        socket.send_timeout.store(send, Ordering::Relaxed);
        let keepalive = sockopt::socket_keepalive(&descriptor.fd)?;
        socket.set_option(options::KEEPALIVE, keepalive);
        if let Some(linger) = sockopt::socket_linger(&descriptor.fd)? {
            socket.set_option(options::LINGER, true);
            let seconds = u32::try_from(linger.as_secs()).unwrap_or(u32::MAX);
            socket.linger.store(seconds, Ordering::Relaxed);
        }
        self.put_number((call, part), number)
    }

    /// Has a descriptor be a shared socket.
    pub(super) fn put_number(&self, (call, part): (&Call, u32), number: u32) -> io::Result<()> {
        let sharing = self.sharing.as_ref().expect("a part of it");
        let fd = call.args[0] as i32;
        let made = eventfd(MARK, EventfdFlags::CLOEXEC)?;
        let close_on_exec = intercept::closes_on_exec(call.thread, fd)?;
        self.calls.replace(call, fd, made.as_fd(), close_on_exec)?;
        sharing.memory.assign(part, fd, number);
        Ok(())
    }

    pub fn share_listener(
        &mut self,
        by: (&Call, u32),
        descriptor: &Descriptor,
        family: AddressFamily,
        listening: Listening,
    ) -> io::Result<()> {
        let local = listening.listener.local_addr()?;
        let entry = Entry {
            family,
            local,
            peer: None,
            kind: Kind::Listening(listening),
        };
        let number = self.share_socket(by, descriptor, entry, state::LISTENS)?;
        self.wait_for_shared(number)
    }

    pub fn share_attempt(
        &mut self,
        by: (&Call, u32),
        descriptor: &Descriptor,
        family: AddressFamily,
        stream: TcpStream,
        to: SocketAddr,
    ) -> io::Result<()> {
        let local = stream.local_addr()?;
        let waiting = match descriptor.nonblocking {
            true => Vec::new(),
            false => vec![*by.0],
        };
        let entry = Entry {
            family,
            local,
            peer: Some(to),
            kind: Kind::Connecting(stream, waiting),
        };
        let number = self.share_socket(by, descriptor, entry, 0)?;
        if let Some(sharing) = &self.sharing {
            let socket = sharing.memory.socket(number);
            socket.set_option(options::UNHEARD, descriptor.nonblocking);
        }
        self.wait_for_shared(number)
    }

    pub(super) fn wait_for_shared(&mut self, number: u32) -> io::Result<()> {
        let sharing = self.sharing.as_ref().expect("a socket of it");
        let token = Token(SHARED + number as usize);
        let (both, edge) = (Interest::BOTH, Trigger::Edge);
        match sharing.entries[number as usize]
            .as_ref()
            .map(|entry| &entry.kind)
        {
            Some(Kind::Listening(l)) => self.poll.register(&l.listener, token, both, edge),
            Some(Kind::Datagrams(datagrams)) => match &datagrams.socket {
                Some(socket) => self.poll.register(socket, token, both, edge),
                None => Ok(()),
            },
            Some(Kind::Connecting(stream, _)) => self.poll.register(stream, token, both, edge),
            Some(Kind::Flowing(flowing)) => self.poll.register(&flowing.stream, token, both, edge),
            _ => Ok(()),
        }
    }

    /// Goes on with a shared socket.
    pub fn turn_of_shared(&mut self, number: u32) {
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        let memory = &sharing.memory;
        let socket = memory.socket(number);
        let Some(Some(entry)) = sharing.entries.get_mut(number as usize) else {
            return;
        };
        match &mut entry.kind {
            Kind::Flowing(flowing) => {
                if socket.clear(state::OPTIONS) {
                    flowing.apply_options(memory, number);
                }
                let is_closed = socket.is_closed();
                socket.clear(state::HAS_MORE);
                // What comes for nobody is left to the stack.
                let reading = !is_closed && flowing.fill(memory, number);
                let writing = flowing.drain(memory, number);
                if is_closed && flowing.is_drained(memory, number) {
                    self.close_shared(number);
                } else {
                    let ends = socket.is(state::NO_READS);
                    sharing.tell_of(number, [reading || ends, writing]);
                }
            }
            Kind::Datagrams(datagrams) => {
                // What was written before a close is there now.
                let is_closed = socket.is_closed();
                let sent = datagrams.drain(&self.net, memory, number);
                socket.clear(state::HAS_MORE);
                let reading = datagrams.fill(memory, number, entry.family);
                if sent.has_more {
                    memory.work().set(number);
                } else if is_closed {
                    return self.close_shared(number);
                }
                let ends = socket.is(state::NO_READS | state::NO_WRITES) || sent.has_failed;
                sharing.tell_of(number, [reading || ends, sent.is_news || ends]);
            }
            _ if socket.is_closed() => self.close_shared(number),
            Kind::Listening(_) if socket.is(state::NO_READS) => {
                sharing.tell_of(number, [true, true]);
            }
            Kind::Listening(_) => self.take_shared(number),
            Kind::Connecting(..) => self.turn_of_shared_attempt(number),
            Kind::Failed | Kind::Unshared(_) => {}
        }
    }

    /// No descriptor refers to a socket any more, and what was written is the stack's.
    fn close_shared(&mut self, number: u32) {
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        let unread = sharing.memory.inward(number).take(usize::MAX);
        let Some(entry) = sharing.remove(number) else {
            return;
        };
        match entry.kind {
            // Something was not read: the peer is sent a reset (RFC 1122 §4.2.2.13).
            Kind::Flowing(flowing) if !unread.is_empty() => {
                let _ = flowing.stream.set_linger(Some(Duration::ZERO));
            }
            Kind::Listening(_) => {
                for waiting in unread.chunks_exact(4) {
                    let waiting = u32::from_ne_bytes(waiting.try_into().expect("four"));
                    let entry = sharing.entries.get(waiting as usize);
                    // A program may have written other numbers there.
                    let is_offered = |entry: &Entry| entry.is_offered(&sharing.memory, waiting);
                    if !entry.and_then(Option::as_ref).is_some_and(is_offered) {
                        continue;
                    }
                    let waiting = sharing.remove(waiting);
                    if let Some(stream) = waiting.as_ref().and_then(Entry::stream) {
                        let _ = stream.set_linger(Some(Duration::ZERO));
                    }
                }
            }
            Kind::Connecting(_, waiting) => {
                for call in waiting {
                    let aborted = io::Error::from_raw_os_error(libc::ECONNABORTED);
                    self.respond(&call, Err(aborted));
                }
            }
            _ => {}
        }
    }

    /// Takes connections that were made, as many as the program wants to wait.
    fn take_shared(&mut self, number: u32) {
        let mut made = Vec::new();
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        loop {
            let has_room = sharing.has_room();
            let Some(Some(entry)) = sharing.entries.get(number as usize) else {
                break;
            };
            let Kind::Listening(listening) = &entry.kind else {
                break;
            };
            let (listener, backlog) = (&listening.listener, listening.backlog);
            let (ring, socket) = (sharing.memory.inward(number), sharing.memory.socket(number));
            if !has_room {
                sharing.stalled.push(number);
                break;
            }
            if ring.len() / 4 >= backlog {
                socket.add(state::HAS_MORE);
                fence(Ordering::SeqCst);
                if ring.len() / 4 >= backlog {
                    break;
                }
            }
            socket.clear(state::HAS_MORE);
            let Ok((stream, peer)) = listener.accept() else {
                break;
            };
            // It cannot fail.
            let _ = stream.set_nonblocking(true);
            let Some(taken) = sharing.take(stream, peer, entry.family) else {
                break;
            };
            if let Some(Some(entry)) = sharing.entries.get_mut(taken as usize)
                && let Kind::Flowing(flowing) = &mut entry.kind
            {
                flowing.fill(&sharing.memory, taken);
            }
            sharing.memory.inward(number).push(&taken.to_ne_bytes());
            made.push(taken);
        }
        if !made.is_empty() {
            sharing.tell_of(number, [true, false]);
        }
        for taken in made {
            // The set of sockets takes all that come.
            let _ = self.wait_for_shared(taken);
        }
    }

    /// Sees whether a connection that is being opened stands.
    fn turn_of_shared_attempt(&mut self, number: u32) {
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        let Some(Some(entry)) = sharing.entries.get_mut(number as usize) else {
            return;
        };
        let Kind::Connecting(stream, _) = &entry.kind else {
            return;
        };
        let mut cx = Context::from_waker(Waker::noop());
        let Ready::Ready(opened) = stream.poll_opened(&mut cx) else {
            return;
        };
        let kind = std::mem::replace(&mut entry.kind, Kind::Failed);
        let Kind::Connecting(stream, mut waiting) = kind else {
            return;
        };
        waiting.retain(|call| self.calls.waits(call));
        let socket = sharing.memory.socket(number);
        let result = match opened {
            Ok(()) => {
                entry.kind = Kind::Flowing(Flowing::new(stream));
                socket.add(state::STANDS | state::OPTIONS);
                Ok(0)
            }
            Err(error) => {
                if waiting.is_empty() {
                    socket.error.store(errno(&error) as u32, Ordering::Release);
                }
                socket.add(state::OVER);
                Err(errno(&error))
            }
        };
        sharing.tell_of(number, [true, true]);
        for call in waiting {
            self.respond(&call, result.map_err(io::Error::from_raw_os_error));
        }
        if result.is_ok() {
            self.turn_of_shared(number);
        }
    }
}
