//! Datagrams: what reading and writing calls come to on a socket for them (udp(7)).

use std::sync::atomic::{Ordering, fence};

use crate::addresses::{address_at, family_of, is_ipv4, is_loopback};
use crate::ask::ask;
use crate::memory::options::{IPV6, V6_ONLY};
use crate::memory::state::{DATAGRAMS, HAS_MORE, HAS_PORT, NO_READS, NO_WRITES, STANDS};
use crate::memory::{Address, Ask, DATAGRAM_HEAD, DATAGRAM_ROOM, RING};
use crate::process::descriptor_set::DescriptorSet;
use crate::process::{Found, Here};
use crate::sharing::{find, move_in};
use crate::system::*;
use crate::wait::Patience;

pub mod kernels;
mod options;
mod sending;

/// A datagram that was read.
#[derive(Copy, Clone, Default)]
pub struct Came {
    /// How many of its bytes were copied, and how many it has.
    copied: usize,
    len: usize,
    /// Who sent it, and to which address of ours.
    pub from: Address,
    pub to: Address,
    /// How many hops it had left, and its class.
    pub hops: u8,
    pub class: u8,
}

impl Came {
    /// What a call that reads with these flags gives.
    pub fn count(&self, flags: i32) -> usize {
        match flags & MSG_TRUNC {
            0 => self.copied,
            _ => self.len,
        }
    }

    /// What it says of it (`msg_flags`).
    pub fn flags(&self) -> i32 {
        match self.copied < self.len {
            true => MSG_TRUNC,
            false => 0,
        }
    }
}

impl Found {
    pub fn is_datagrams(self) -> bool {
        self.socket().is(DATAGRAMS)
    }

    /// Takes the next datagram, or looks at it.
    ///
    /// # Safety
    ///
    /// The stretches can be written.
    pub unsafe fn receive_datagram(self, into: &[Iovec], flags: i32) -> Result<Came, i32> {
        if flags & MSG_ERRQUEUE != 0 {
            return Err(EAGAIN);
        }
        let socket = self.socket();
        let patience = Patience::new(self, flags, &socket.receive_timeout);
        loop {
            self.take_error()?;
            // SAFETY: the caller's promise.
            if let Some(came) = unsafe { self.take_datagram(into, flags)? } {
                return Ok(came);
            }
            if socket.is(NO_READS) && patience.may_wait() {
                return Ok(Came::default());
            }
            let ready = || self.is_readable();
            patience.wait(self, (&socket.came, &socket.readers), ready)?;
        }
    }

    unsafe fn take_datagram(self, into: &[Iovec], flags: i32) -> Result<Option<Came>, i32> {
        let socket = self.socket();
        let _one = self.here.lock(&socket.reads);
        self.check()?;
        let ring = self.here.shared.inward(self.number);
        let Some(head) = ring.next_datagram() else {
            return Ok(None);
        };
        let len = head.len as usize;
        let mut copied = 0;
        for part in into {
            let wanted = part.len.min(len - copied);
            // SAFETY: the caller's promise.
            let now = unsafe { ring.peek_at(DATAGRAM_HEAD + copied, part.base, wanted) };
            copied += now;
            if now < part.len {
                break;
            }
        }
        if flags & MSG_PEEK == 0 {
            ring.consume(DATAGRAM_HEAD + len);
            // What was taken is seen before it is looked whether there is more.
            fence(Ordering::SeqCst);
            if socket.is(HAS_MORE) && ring.free() >= RING / 2 {
                self.here.submit(self.number);
            }
        }
        let (from, to) = (head.peer, head.local);
        Ok(Some(Came {
            copied,
            len,
            from,
            to,
            hops: head.hops,
            class: head.class,
        }))
    }

    /// Bytes of the next datagram (FIONREAD).
    pub fn next_len(self) -> usize {
        let _one = self.here.lock(&self.socket().reads);
        let head = self.here.shared.inward(self.number).next_datagram();
        head.map_or(0, |head| head.len as usize)
    }

    /// Has it have a port, as one has from its first use on.
    fn take_port(self) -> Result<(), i32> {
        if self.socket().is(HAS_PORT) {
            return Ok(());
        }
        match ask(self.number as i32, Ask::Port, 0) {
            0.. => Ok(()),
            error => Err(-error),
        }
    }

    /// The address that a program sends to (sendto(2)); `None` for the peer of one that is connected.
    ///
    /// # Safety
    ///
    /// `len` bytes at `name` can be read.
    pub unsafe fn destination(self, name: *const u8, len: u32) -> Result<Option<Address>, i32> {
        self.take_port()?;
        // It goes where it began to go.
        let is_v6 = self.socket().has(IPV6);
        if self.is_corked() && !is_v6 {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        let address = unsafe { address_at(name, len)? };
        let speaks_v6_alone = is_v6 && self.socket().has(V6_ONLY);
        let family = match (is_v6, family_of(address)) {
            // By IPv6 it does not go there, whatever else the address says.
            (_, AF_INET) if speaks_v6_alone => return Err(ENETUNREACH),
            (_, AF_INET) | (false, AF_UNSPEC) => AF_INET,
            (true, AF_INET6) => AF_INET6,
            // It goes to the peer, by IPv6.
            (true, AF_UNSPEC) if !self.is_corked() && self.has_ipv4_peer() => {
                return Err(ENETUNREACH);
            }
            (true, AF_UNSPEC) => return Ok(None),
            (false, _) if address.len < 16 => return Err(EINVAL),
            (false, _) => return Err(EAFNOSUPPORT),
            (true, _) => return Err(EINVAL),
        };
        let mut address = address;
        if address.len < if family == AF_INET { 16 } else { 24 } {
            return Err(EINVAL);
        }
        if speaks_v6_alone && is_ipv4(address) {
            return Err(ENETUNREACH);
        }
        if self.is_corked() {
            return Ok(None);
        }
        if address.bytes[2..4] == [0, 0] {
            return Err(EINVAL);
        }
        address.bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        Ok(Some(address))
    }

    fn has_ipv4_peer(self) -> bool {
        self.socket().is(STANDS) && is_ipv4(self.socket().peer.get())
    }

    /// Whether what it sends there, or to its peer, is of IPv6: a socket for that may speak IPv4, too.
    pub fn speaks_v6(self, to: Option<Address>) -> bool {
        let connected = || self.socket().is(STANDS).then(|| self.socket().peer.get());
        self.socket().has(IPV6) && !to.or_else(connected).is_some_and(is_ipv4)
    }

    /// Whether an address may be one to connect to, or to bind to.
    ///
    /// # Safety
    ///
    /// `len` bytes at `name` can be read.
    pub unsafe fn accepts(self, name: *const u8, len: u32, is_bind: bool) -> Result<(), i32> {
        // SAFETY: the caller's promise.
        let address = unsafe { address_at(name, len)? };
        let least = if self.socket().has(IPV6) { 24 } else { 16 };
        let accepted = match (self.socket().has(IPV6), family_of(address)) {
            (_, AF_UNSPEC) if !is_bind => Ok(()),
            (true, AF_INET) if !is_bind && address.len >= 16 => Ok(()),
            _ if address.len < least => Err(EINVAL),
            (true, AF_INET6) | (false, AF_INET) => Ok(()),
            _ => Err(EAFNOSUPPORT),
        };
        if accepted.is_err() && !is_bind {
            // It has a port from then on, also where it is connected to an address that is none.
            self.take_port()?;
        }
        accepted
    }

    /// Nothing more will be read, or written (shutdown(2)). One that is not connected is told that, and yet it is done.
    pub fn shut_datagrams(self, how: i32) -> Result<(), i32> {
        let bits = match how {
            0 => NO_READS,
            1 => NO_WRITES,
            2 => NO_READS | NO_WRITES,
            _ => return Err(EINVAL),
        };
        self.socket().add(bits);
        self.here.submit(self.number);
        match self.socket().is(STANDS) {
            true => Ok(()),
            false => Err(ENOTCONN),
        }
    }

    /// What it is ready for, in epoll's bits (udp(7)).
    pub fn datagram_readiness(self, wanted: u32) -> u32 {
        let socket = self.socket();
        let mut ready = 0;
        if self.check().is_err() || !self.here.shared.inward(self.number).is_empty() {
            ready |= IN | RDNORM;
        }
        if socket.is(NO_READS) {
            ready |= IN | RDNORM | RDHUP;
        }
        if socket.is(NO_READS) && socket.is(NO_WRITES) {
            ready |= HUP;
        }
        if wanted & (OUT | WRNORM) != 0 && self.is_writable() {
            ready |= OUT | WRNORM;
        }
        if socket.error.load(Ordering::Relaxed) != 0 {
            ready |= ERR;
        }
        ready
    }

    /// Whether one that was not used so far is to be used with this host: it is the kernel's again then.
    ///
    /// # Safety
    ///
    /// `len` bytes at `name` can be read.
    pub unsafe fn stays_here(self, name: *const u8, len: u32) -> bool {
        // SAFETY: the caller's promise.
        let address = || unsafe { address_at(name, len) };
        self.is_datagrams() && !self.socket().is(HAS_PORT) && address().is_ok_and(is_loopback)
    }

    /// Free bytes of the ring out, from which on it can be written to.
    pub fn room_wanted(self) -> usize {
        match self.is_datagrams() {
            true => DATAGRAM_ROOM,
            false => crate::memory::ROOM,
        }
    }
}

/// Sockets that were made for datagrams, and may not have been used since.
static MADE: DescriptorSet = DescriptorSet::new();

/// One was made.
pub fn made(fd: i32) {
    MADE.insert(fd);
}

/// One of the kernel's that was not used so far is shared, before there is another descriptor of it, or something is done to it that it
/// would not know of as ours.
pub fn share_made(fd: i32) {
    if MADE.has(fd) && find(fd).is_none() {
        MADE.remove(fd);
        share(fd);
    }
}

/// Has a socket of the kernel's be a shared one, if it is for datagrams and has no port.
pub fn share(fd: i32) {
    let socket = kernels::Inode::of(fd);
    if socket.stays_kernels() {
        return;
    }
    match -ask(fd, Ask::Datagrams, 0) {
        ..=0 => move_in(fd),
        EPROTOTYPE | EINVAL => socket.remember(),
        _ => {}
    }
}

/// Before a fork: those that were not used so far are shared, so that they are one socket in both processes, whichever uses it first.
pub fn share_unused(here: &'static Here) {
    MADE.drain(|fd| {
        // It may have been closed since, and be something else.
        if !here.knows(fd) {
            share(fd);
        }
    });
}
