//! What is not bytes: accepting, addresses, ends.

use std::sync::atomic::{Ordering, fence};

use crate::epoll;
use crate::memory::options::{IPV6, LINGER, NONBLOCK};
use crate::memory::state::{HAS_MORE, LISTENS, NO_READS, NO_WRITES, OPTIONS, OVER, STANDS};
use crate::memory::{Address, DESCRIPTORS};
use crate::process::Found;
use crate::sharing::forget;
use crate::system::{self, *};
use crate::wait::Patience;

impl Found {
    /// Takes a connection (accept4(2)).
    pub fn accept(self, flags: i32) -> Result<(i32, Address), i32> {
        let socket = self.socket();
        if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
            return Err(EINVAL);
        }
        if self.is_datagrams() {
            return Err(EOPNOTSUPP);
        }
        let patience = Patience::new(self, 0, &socket.receive_timeout);
        loop {
            if !self.listens() {
                return Err(EINVAL);
            }
            if let Some(taken) = self.take_connection(flags) {
                return taken;
            }
            self.take_error()?;
            if socket.is(OVER) {
                return Err(EINVAL);
            }
            let ready = || self.is_readable();
            patience.wait(self, (&socket.came, &socket.readers), ready)?;
        }
    }

    fn take_connection(self, flags: i32) -> Option<Result<(i32, Address), i32>> {
        let here = self.here;
        let listener = self.socket();
        let _one = here.lock(&listener.reads);
        if let Err(number) = self.check() {
            return Some(Err(number));
        }
        let ring = here.shared.inward(self.number);
        let mut number = [0; 4];
        if ring.peek(&mut number) < number.len() {
            return None;
        }
        let number = u32::from_ne_bytes(number);
        let fd = match here.descriptor(flags & O_CLOEXEC != 0) {
            Ok(fd) => fd,
            Err(error) => return Some(Err(error)),
        };
        if fd as usize >= DESCRIPTORS {
            // SAFETY: it was just made, and nobody knows of it.
            unsafe { system::close(fd) };
            return Some(Err(EMFILE));
        }
        let made = here.shared.socket(number);
        made.set_option(NONBLOCK, flags & O_NONBLOCK != 0);
        // Before it is taken out: what has an owner is let go of with it.
        here.assign(fd, number);
        ring.consume(size_of_val(&number));
        fence(Ordering::SeqCst);
        if listener.is(HAS_MORE) {
            here.submit(self.number);
        }
        Some(Ok((fd, made.peer.get())))
    }

    /// Takes connections again, after [`Self::shut`] (listen(2)).
    pub fn listen(self) -> Result<(), i32> {
        match self.socket().is(LISTENS) {
            true => {
                self.socket().clear(NO_READS);
                self.here.submit(self.number);
                Ok(())
            }
            false if self.is_datagrams() => Err(EOPNOTSUPP),
            false => Err(EINVAL),
        }
    }

    /// Nothing more will be read, or written (shutdown(2)).
    pub fn shut(self, how: i32) -> Result<(), i32> {
        const READ: i32 = 0;
        const BOTH: i32 = 2;
        let socket = self.socket();
        if !(READ..=BOTH).contains(&how) {
            return Err(EINVAL);
        }
        let was_told = socket.is(LISTENS) && !self.listens();
        if !socket.is(STANDS | LISTENS) || socket.is(OVER) || self.is_complete() || was_told {
            return Err(ENOTCONN);
        }
        let bits = match how {
            READ => NO_READS,
            BOTH => NO_READS | NO_WRITES,
            _ => NO_WRITES,
        };
        socket.add(bits);
        self.here.submit(self.number);
        Ok(())
    }

    /// Its own address, or the peer's.
    pub fn address(self, of_peer: bool) -> Result<Address, i32> {
        let socket = self.socket();
        match of_peer {
            false => Ok(socket.local.get()),
            true if socket.is(STANDS) && !socket.is(OVER) && !self.is_complete() => {
                Ok(socket.peer.get())
            }
            true => Err(ENOTCONN),
        }
    }

    /// Bytes that can be read (FIONREAD), or that were written and not taken (SIOCOUTQ).
    pub fn waiting(self, out: bool) -> Result<usize, i32> {
        match out {
            _ if self.listens() => Err(EINVAL),
            _ if self.socket().is(LISTENS) => Ok(0),
            true => Ok(self.here.shared.outward(self.number).len()),
            false if self.is_datagrams() => Ok(self.next_len()),
            false => Ok(self.here.shared.inward(self.number).len()),
        }
    }

    /// Whether it has failed to connect.
    fn has_failed(self) -> bool {
        self.socket().is(OVER) && !self.socket().is(STANDS)
    }

    /// Leaves what it is about to connect to (shutdown(2)): it is as new.
    pub fn stop_connecting(self, fd: i32) -> Result<(), i32> {
        let socket = self.socket();
        if socket.is(OVER | STANDS | LISTENS) {
            return Err(ENOTCONN);
        }
        socket.add(OVER);
        self.renew(fd, ENOTCONN)
    }

    /// Once a program has heard that a socket could not be connected, it is as new, and may be connected again: a socket of the
    /// kernel's takes its place, with its options.
    ///
    /// # Errors
    ///
    /// It is none of those: the error given.
    pub fn renew(self, fd: i32, otherwise: i32) -> Result<(), i32> {
        if !self.has_failed() || !self.here.is_here() {
            return Err(otherwise);
        }
        self.put_new(fd, || {}).map_err(|_| otherwise)
    }

    /// Has a connection or a listener be as new (connect(2) to no family): what it was is reset.
    pub fn disconnect(self, fd: i32) -> Result<(), i32> {
        if !self.here.is_here() {
            return Err(EINVAL);
        }
        let socket = self.socket();
        self.put_new(fd, || {
            socket.linger.store(0, Ordering::Relaxed);
            socket.set_option(LINGER, true);
            socket.add(OPTIONS);
            self.here.submit(self.number);
        })
    }

    /// Puts a socket of the kernel's in its place, with its options; `leave` is done once it is there.
    fn put_new(self, fd: i32, leave: impl FnOnce()) -> Result<(), i32> {
        let family = match self.socket().has(IPV6) {
            true => AF_INET6,
            false => AF_INET,
        };
        let flags = match self.socket().has(NONBLOCK) {
            true => O_NONBLOCK,
            false => 0,
        };
        // SAFETY: descriptors of this process.
        unsafe {
            let fresh = system::socket(family, SOCK_STREAM | flags | O_CLOEXEC, 0);
            if fresh < 0 {
                return Err(errno());
            }
            self.give_options(fresh);
            let close_on_exec = system::fcntl64(fd, F_GETFD, 0) & FD_CLOEXEC;
            let put = system::dup3(fresh, fd, if close_on_exec != 0 { O_CLOEXEC } else { 0 });
            system::close(fresh);
            if put < 0 {
                return Err(errno());
            }
            leave();
            let places = epoll::places(fd, self.number);
            forget(self.here, fd);
            for (set, mut event) in places {
                if system::epoll_ctl(set, EPOLL_CTL_ADD, fd, &raw mut event) == 0 {
                    epoll::remember(self.here, set, EPOLL_CTL_ADD, fd, Some(event));
                }
            }
        }
        Ok(())
    }

    /// Gives a socket of the kernel's the options that this one was given.
    fn give_options(self, to: i32) {
        const OPTIONS: [(i32, i32, usize); 17] = [
            (SOL_SOCKET, SO_RCVTIMEO, 16),
            (SOL_SOCKET, SO_SNDTIMEO, 16),
            (SOL_SOCKET, SO_LINGER, 8),
            (SOL_SOCKET, SO_KEEPALIVE, 4),
            (SOL_SOCKET, SO_REUSEADDR, 4),
            (SOL_SOCKET, SO_REUSEPORT, 4),
            (SOL_SOCKET, SO_RCVLOWAT, 4),
            (IPPROTO_TCP, TCP_NODELAY, 4),
            (IPPROTO_TCP, TCP_KEEPIDLE, 4),
            (IPPROTO_TCP, TCP_KEEPINTVL, 4),
            (IPPROTO_TCP, TCP_KEEPCNT, 4),
            (IPPROTO_TCP, TCP_USER_TIMEOUT, 4),
            (IPPROTO_IPV6, IPV6_V6ONLY, 4),
            (IPPROTO_IP, IP_TTL, 4),
            (IPPROTO_IP, IP_TOS, 4),
            (IPPROTO_IPV6, IPV6_UNICAST_HOPS, 4),
            (IPPROTO_IPV6, IPV6_TCLASS, 4),
        ];
        for (level, option, size) in OPTIONS {
            let (mut value, mut len) = ([0_u8; 16], size as u32);
            // SAFETY: there is room for as many bytes as it says. One of IPv4 alone refuses what is of IPv6.
            unsafe {
                if self.get_option((level, option), value.as_mut_ptr(), &raw mut len) == Ok(()) {
                    system::setsockopt(to, level, option, value.as_ptr(), len);
                }
            }
        }
        for (option, size) in self.buffers_set() {
            // SAFETY: a number, and how long it is.
            unsafe { system::setsockopt(to, SOL_SOCKET, option, (&raw const size).cast(), 4) };
        }
    }
}

/// Writes an address where the program wants it, cut to the room that there is, with its whole length.
///
/// # Errors
///
/// There is less than no room.
///
/// # Safety
///
/// `len`, if it is given, says how much can be written at `name`.
pub unsafe fn put_address(address: Address, name: *mut u8, len: *mut u32) -> Result<(), i32> {
    if name.is_null() || len.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe {
        if (*len).cast_signed() < 0 {
            return Err(EINVAL);
        }
        let count = (address.len as usize).min(*len as usize);
        name.copy_from_nonoverlapping(address.bytes.as_ptr(), count);
        *len = address.len;
    }
    Ok(())
}
