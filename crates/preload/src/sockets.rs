//! What is not bytes: accepting, addresses, options, ends.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::ask::ask;
use crate::epoll;
use crate::memory::options::{IPV6, KEEPALIVE, LINGER, NODELAY, NONBLOCK, REUSE, REUSE_PORT};
use crate::memory::state::{HAS_MORE, LISTENS, NO_READS, NO_WRITES, OPTIONS, OVER, STANDS};
use crate::memory::{Address, Ask, DESCRIPTORS, RING};
use crate::process::Found;
use crate::sharing::forget;
use crate::system::{self, *};
use crate::wait::Patience;

impl Found {
    /// Takes a connection (accept4(2)).
    pub fn accept(self, flags: i32) -> Result<(i32, Address), i32> {
        let socket = self.socket();
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

    /// The value of an option, as one or two numbers (getsockopt(2)).
    ///
    /// # Safety
    ///
    /// `len` bytes at `value` can be written.
    pub unsafe fn get_option(
        self,
        (level, option): (i32, i32),
        value: *mut u8,
        len: *mut u32,
    ) -> Result<(), i32> {
        let socket = self.socket();
        let has = |option| i32::from(socket.has(option));
        let of_datagrams = self
            .is_datagrams()
            .then(|| self.datagram_option((level, option)));
        let time = |limit: &AtomicU32| {
            let ms = i64::from(limit.load(Ordering::Relaxed));
            [ms / 1000, ms % 1000 * 1000]
        };
        let number = match (level, option) {
            _ if let Some(Some(value)) = of_datagrams => value?,
            _ if let Some(value) = self.header_option((level, option)) => value,
            (SOL_SOCKET, SO_ERROR) => self.take_error().err().unwrap_or(0),
            (SOL_SOCKET, SO_TYPE) => SOCK_STREAM,
            (SOL_SOCKET, SO_DOMAIN) => match socket.has(IPV6) {
                true => AF_INET6,
                false => AF_INET,
            },
            (SOL_SOCKET, SO_PROTOCOL) => IPPROTO_TCP,
            (SOL_SOCKET, SO_ACCEPTCONN) => i32::from(self.listens()),
            (SOL_SOCKET, SO_REUSEADDR) => has(REUSE),
            (SOL_SOCKET, SO_REUSEPORT) => has(REUSE_PORT),
            (SOL_SOCKET, SO_KEEPALIVE) => has(KEEPALIVE),
            (SOL_SOCKET, SO_SNDBUF | SO_RCVBUF) => RING as i32,
            (SOL_SOCKET, SO_LINGER) => {
                let linger = [has(LINGER), socket.linger.load(Ordering::Relaxed) as i32];
                let bytes = linger.map(i32::to_ne_bytes).concat();
                // SAFETY: the caller's promise.
                return unsafe { put(&bytes, value, len) };
            }
            (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO) => {
                let limit = match option {
                    SO_RCVTIMEO => &socket.receive_timeout,
                    _ => &socket.send_timeout,
                };
                let bytes = time(limit).map(i64::to_ne_bytes).concat();
                // SAFETY: the caller's promise.
                return unsafe { put(&bytes, value, len) };
            }
            // SAFETY: the caller's promise.
            (IPPROTO_IP, IP_OPTIONS) => return unsafe { put(&[], value, len) },
            (IPPROTO_TCP, TCP_NODELAY) => has(NODELAY),
            (IPPROTO_TCP, TCP_INFO) => {
                // SAFETY: the caller's promise.
                return unsafe { put(&self.tcp_info()?, value, len) };
            }
            (IPPROTO_TCP, TCP_MAXSEG) => match self.tcp_info()?[16..20] {
                [0, 0, 0, 0] => NO_SEGMENT,
                [a, b, c, d] => i32::from_ne_bytes([a, b, c, d]),
                _ => return Err(ENOTCONN),
            },
            (SOL_SOCKET, NO_OPTIONS..) => return Err(ENOPROTOOPT),
            (SOL_SOCKET | IPPROTO_TCP | IPPROTO_IP | IPPROTO_IPV6, _) => 0,
            _ => return Err(ENOPROTOOPT),
        };
        // SAFETY: the caller's promise.
        unsafe { put(&number.to_ne_bytes(), value, len) }
    }

    /// What the stack knows of the connection (`struct tcp_info`, its first 104 bytes).
    fn tcp_info(self) -> Result<[u8; 104], i32> {
        let mut info = [0; 104];
        let at = info.as_mut_ptr().expose_provenance();
        match ask(self.number as i32, Ask::Info, at) {
            0.. => Ok(info),
            _ => Err(ENOTCONN),
        }
    }

    /// Sets an option (setsockopt(2)). Those that say how packets are sent are taken, and left to our TCP.
    pub fn set_option(self, (level, option): (i32, i32), value: &[u8]) -> Result<(), i32> {
        let socket = self.socket();
        let number = |at: usize| {
            let bytes = value.get(at..at + 4).ok_or(EINVAL)?;
            Ok::<_, i32>(i32::from_ne_bytes(bytes.try_into().expect("four")))
        };
        if self.is_datagrams()
            && let Some(set) = self.set_datagram_option((level, option), value)
        {
            return set;
        }
        if let Some(set) = self.set_header_option((level, option), value) {
            set?;
            socket.add(OPTIONS);
            self.here.submit(self.number);
            return Ok(());
        }
        match (level, option) {
            (SOL_SOCKET, SO_REUSEADDR) => socket.set_option(REUSE, number(0)? != 0),
            (SOL_SOCKET, SO_REUSEPORT) => socket.set_option(REUSE_PORT, number(0)? != 0),
            (SOL_SOCKET, SO_KEEPALIVE) => socket.set_option(KEEPALIVE, number(0)? != 0),
            (SOL_SOCKET, SO_LINGER) => {
                socket.linger.store(number(4)? as u32, Ordering::Relaxed);
                socket.set_option(LINGER, number(0)? != 0);
            }
            (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO) => {
                let word = |at: usize| {
                    let bytes = value.get(at..at + 8).ok_or(EINVAL)?;
                    Ok::<_, i32>(i64::from_ne_bytes(bytes.try_into().expect("eight")))
                };
                let (seconds, micros) = (word(0)?, word(8)?);
                if !(0..1_000_000).contains(&micros) {
                    return Err(EDOM);
                }
                let ms = seconds
                    .saturating_mul(1000)
                    .saturating_add((micros + 999) / 1000);
                let limit = match option {
                    SO_RCVTIMEO => &socket.receive_timeout,
                    _ => &socket.send_timeout,
                };
                limit.store(ms.clamp(0, u32::MAX.into()) as u32, Ordering::Relaxed);
                return Ok(());
            }
            (SOL_SOCKET, SO_TYPE | SO_ERROR | SO_DOMAIN | SO_PROTOCOL | SO_ACCEPTCONN) => {
                return Err(ENOPROTOOPT);
            }
            (SOL_SOCKET, NO_OPTIONS..) => return Err(ENOPROTOOPT),
            (SOL_SOCKET, _) => return Ok(()),
            (IPPROTO_TCP, TCP_NODELAY) => {
                // The other side never waits with what it sends.
                socket.set_option(NODELAY, number(0)? != 0);
                return Ok(());
            }
            (IPPROTO_TCP | IPPROTO_IP | IPPROTO_IPV6, _) => return Ok(()),
            _ => return Err(ENOPROTOOPT),
        }
        socket.add(OPTIONS);
        self.here.submit(self.number);
        Ok(())
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
        const OPTIONS: [(i32, i32, usize); 9] = [
            (SOL_SOCKET, SO_RCVTIMEO, 16),
            (SOL_SOCKET, SO_SNDTIMEO, 16),
            (SOL_SOCKET, SO_LINGER, 8),
            (SOL_SOCKET, SO_KEEPALIVE, 4),
            (SOL_SOCKET, SO_REUSEADDR, 4),
            (SOL_SOCKET, SO_REUSEPORT, 4),
            (IPPROTO_TCP, TCP_NODELAY, 4),
            (IPPROTO_IP, IP_TTL, 4),
            (IPPROTO_IP, IP_TOS, 4),
        ];
        if !self.has_failed() || !self.here.is_here() {
            return Err(otherwise);
        }
        let family = match self.socket().has(IPV6) {
            true => AF_INET6,
            false => AF_INET,
        };
        let flags = match self.socket().has(NONBLOCK) {
            true => O_NONBLOCK,
            false => 0,
        };
        // SAFETY: descriptors of this process, and options with room for them.
        unsafe {
            let fresh = system::socket(family, SOCK_STREAM | flags | O_CLOEXEC, 0);
            if fresh < 0 {
                return Err(otherwise);
            }
            for (level, option, size) in OPTIONS {
                let (mut value, mut len) = ([0_u8; 16], size as u32);
                if self.get_option((level, option), value.as_mut_ptr(), &raw mut len) == Ok(()) {
                    system::setsockopt(fresh, level, option, value.as_ptr(), len);
                }
            }
            let places = epoll::places(fd, self.number);
            let close_on_exec = system::fcntl64(fd, F_GETFD, 0) & FD_CLOEXEC;
            let put = system::dup3(fresh, fd, if close_on_exec != 0 { O_CLOEXEC } else { 0 });
            system::close(fresh);
            if put < 0 {
                return Err(otherwise);
            }
            forget(self.here, fd);
            for (set, mut event) in places {
                if system::epoll_ctl(set, EPOLL_CTL_ADD, fd, &raw mut event) == 0 {
                    epoll::remember(self.here, set, EPOLL_CTL_ADD, fd, Some(event));
                }
            }
        }
        Ok(())
    }
}

/// What a segment holds of a socket that is not connected.
const NO_SEGMENT: i32 = 536;

/// Options of sockets have lower numbers (asm/socket.h).
const NO_OPTIONS: i32 = 90;

/// Writes an option's value, cut to the room that there is, and how much that is.
unsafe fn put(bytes: &[u8], value: *mut u8, len: *mut u32) -> Result<(), i32> {
    if value.is_null() || len.is_null() {
        return Err(EFAULT);
    }
    // SAFETY: the caller's promise.
    unsafe {
        let count = bytes.len().min(*len as usize);
        value.copy_from_nonoverlapping(bytes.as_ptr(), count);
        *len = count as u32;
    }
    Ok(())
}

/// Writes an address where the program wants it, cut to the room that there is, with its whole length.
///
/// # Safety
///
/// `len`, if it is given, says how much can be written at `name`.
pub unsafe fn put_address(address: Address, name: *mut u8, len: *mut u32) {
    if name.is_null() || len.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let count = (address.len as usize).min(*len as usize);
        name.copy_from_nonoverlapping(address.bytes.as_ptr(), count);
        *len = address.len;
    }
}
