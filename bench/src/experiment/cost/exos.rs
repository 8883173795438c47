//! Our stack as a side of the wire, and the programs of both sides.
//!
//! The programs do as little as a real one could: what is counted is the stack's work and its interface's.

use super::role::{MESSAGE_BYTES, PORT, Role};
use super::scenario::{Family, Link};
use super::tape::{START, Side, Sink};
use exos_buf::{Buffer, Slice};
use exos_inet::limits::RECEIVE_BUFFER_BYTES;
use exos_inet::tcp::{ConnectionId, EventSet, ListenOptions, Options};
use exos_inet::{Config, Instant, RxChecksum, Stack};
use exos_wire::Mac;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes that a source keeps queued beyond what has left, and of each slice that it queues.
const QUEUED_BYTES: usize = 64 * 1024;

/// The address of a side: 0 is the one under test.
pub(super) fn address(side: u8, family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::new(10, 10, 0, side + 1).into(),
        Family::Ipv6 => Ipv6Addr::new(0xfd10, 0, 0, 0, 0, 0, 0, u16::from(side) + 1).into(),
    }
}

/// The link address of a side.
pub(super) const fn mac(side: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, side + 1])
}

/// Our stack with a program.
pub(super) struct Exos {
    stack: Stack,
    role: Role,
    family: Family,
    link: Link,
    document: Buffer,
    message: Slice,
    operations: u64,
    /// A request to send in the next turn: a client whose acknowledgement leaves before its request does.
    request: Option<ConnectionId>,
    /// Connect in the next turn.
    connect: bool,
    /// Where what is taken goes, if anywhere.
    into: Vec<u8>,
}

/// Windows as wide as they are at first, as smoltcp's are: one that grows would keep slow start going for all of
/// an exchange.
fn options() -> Options {
    Options::with_receive_buffer(RECEIVE_BUFFER_BYTES)
}

impl Exos {
    /// Side `side` of the wire, with a program.
    pub fn new(side: u8, role: Role, family: Family, link: Link) -> Self {
        let mut config = Config::new(mac(side), 1500);
        config.addresses = vec![
            (address(side, Family::Ipv4), 24),
            (address(side, Family::Ipv6), 64),
        ];
        let mut stack =
            Stack::new(config, 42 + u64::from(side), START).expect("addresses of one network each");
        if !role.connects() {
            stack
                .tcp
                .listen(
                    None,
                    PORT,
                    ListenOptions {
                        connection: options(),
                        ..ListenOptions::default()
                    },
                )
                .expect("a port of a fresh stack");
        }
        let document = Buffer::from(
            (0..1 << 20)
                .map(|n: u32| (n % 251) as u8)
                .collect::<Vec<_>>(),
        );
        document.prepare_sums();
        let message = Buffer::from(vec![b'm'; MESSAGE_BYTES]);
        message.prepare_sums();
        Self {
            stack,
            role,
            family,
            link,
            document,
            message: message.into(),
            operations: 0,
            request: None,
            connect: role.connects(),
            into: Vec::new(),
        }
    }

    /// With a program that copies what it takes into memory of its own.
    pub fn copying(mut self) -> Self {
        self.into = vec![0; RECEIVE_BUFFER_BYTES as usize];
        self
    }

    /// What was taken last, and what is left of before.
    #[cfg(test)]
    pub fn copied(&self) -> &[u8] {
        &self.into
    }

    fn connect(&mut self, now: Instant) {
        let server = SocketAddr::new(address(0, self.family), PORT);
        self.stack
            .tcp
            .connect(now, None, server, &options())
            .expect("a route and a free port");
    }

    #[inline]
    fn program(&mut self, now: Instant) {
        if let Some(id) = self.request.take() {
            self.stack.tcp.send(id, self.message.clone());
        }
        if std::mem::take(&mut self.connect) {
            self.connect(now);
        }
        while let Some(event) = self.stack.poll_event() {
            self.hear(event.connection, event.set);
        }
    }

    #[inline]
    fn hear(&mut self, id: ConnectionId, set: EventSet) {
        let has = |event| set.contains(event);
        match self.role {
            Role::Sink | Role::ConnectingSink => {
                self.take(id);
            }
            Role::EagerSink => {
                self.take(id);
                self.stack.tcp.acknowledge_now(id);
            }
            Role::Source | Role::ConnectingSource => self.refill(id),
            Role::Server | Role::ClosingServer => {
                if has(EventSet::READABLE) && self.take(id) >= MESSAGE_BYTES {
                    self.stack.tcp.send(id, self.message.clone());
                    if self.role == Role::ClosingServer {
                        self.stack.tcp.finish(id);
                    } else {
                        self.operations += 1;
                    }
                }
                if has(EventSet::CLOSED) {
                    self.operations += 1;
                }
            }
            Role::Client => {
                if has(EventSet::CONNECTED) || (has(EventSet::READABLE) && self.take(id) > 0) {
                    self.request = Some(id);
                }
            }
            Role::ReconnectingClient => {
                if has(EventSet::CONNECTED) {
                    self.request = Some(id);
                }
                self.take(id);
                if has(EventSet::FINISHED) {
                    self.stack.tcp.finish(id);
                }
                self.connect |= has(EventSet::CLOSED);
            }
        }
    }

    /// Take what there is to read; returns how much.
    #[inline]
    fn take(&mut self, id: ConnectionId) -> usize {
        let readable = self.stack.tcp.readable(id);
        let count = readable.len();
        if !self.into.is_empty() {
            self.into[..count].copy_from_slice(readable);
        }
        self.stack.tcp.consume(id, count);
        count
    }

    /// Keep enough of the document queued.
    #[inline]
    fn refill(&mut self, id: ConnectionId) {
        while let Some(c) = self.stack.tcp.connection(id)
            && c.unsent() < QUEUED_BYTES
        {
            let slice = self.document.slice(0..QUEUED_BYTES);
            if !self.stack.tcp.send(id, slice) {
                break;
            }
        }
    }

    /// A function of its own, so that its share of the instructions can be told.
    #[inline(never)]
    fn transmit_phase(&mut self, now: Instant, sink: &mut impl Sink) {
        while let Some(t) = self.stack.poll_transmit(now) {
            sink.frame(t.head, t.body.parts());
        }
    }
}

impl Side for Exos {
    fn turn(&mut self, now: Instant, frames: &[Vec<u8>], sink: &mut impl Sink) {
        let checksum = match self.link {
            Link::Verified => RxChecksum::Verified,
            Link::Unknown => RxChecksum::Unknown,
        };
        for frame in frames {
            self.stack.handle_frame(now, frame, checksum);
        }
        self.stack.handle_timeout(now);
        self.program(now);
        self.transmit_phase(now, sink);
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        if self.request.is_some() || self.connect {
            return Some(now);
        }
        self.stack.poll_timeout(now)
    }

    fn operations(&self) -> u64 {
        self.operations
    }
}
