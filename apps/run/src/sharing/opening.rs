//! How a socket of the kernel's comes to be a shared one.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use exos::net::TcpStream;
use exos_host::intercept::{self, Call};
use exos_preload::memory::{LOW_WATER_MAX, Socket, options, state};
use rustix::net::{AddressFamily, sockopt};

use super::entry::{Entry, Kind};
use super::sockets::{SHARED, SharedSockets};
use crate::context::Context;
use crate::listener::Listener;
use crate::target::{Descriptor, buffers_set, header_options};
use crate::waiting::{Patience, Waiters};

impl SharedSockets {
    /// Has a socket of the kernel's be a shared one, under its number; gives the socket's.
    pub(super) fn share(
        &mut self,
        cx: &Context,
        by: (&Call, u32),
        descriptor: &Descriptor,
        entry: Entry,
        bits: u32,
    ) -> io::Result<u32> {
        let family = entry.family;
        let number = self.table.insert(entry, bits);
        let number = number.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOBUFS))?;
        let put = copy_options(descriptor, family, self.memory.socket(number))
            .and_then(|()| self.put_number(cx, by, number));
        if let Err(error) = put {
            self.table.remove(number);
            return Err(error);
        }
        Ok(number)
    }

    /// Has a descriptor be a shared socket.
    pub(super) fn put_number(
        &mut self,
        cx: &Context,
        (call, part): (&Call, u32),
        number: u32,
    ) -> io::Result<()> {
        let close_on_exec = intercept::closes_on_exec(call.thread, call.args[0] as i32)?;
        self.put(cx, (call, part), number, close_on_exec)
    }

    /// As above, where it is known whether it is closed on exec.
    pub(super) fn put(
        &mut self,
        cx: &Context,
        (call, part): (&Call, u32),
        number: u32,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let fd = call.args[0] as i32;
        let mark = self.marks.of(part)?;
        cx.calls.replace(call, fd, mark, close_on_exec)?;
        self.memory.assign(part, fd, number);
        Ok(())
    }

    pub fn share_listener(
        &mut self,
        cx: &Context,
        by: (&Call, u32),
        descriptor: &Descriptor,
        family: AddressFamily,
        listener: Listener,
    ) -> io::Result<()> {
        let entry = Entry {
            family,
            local: listener.local_addr()?,
            peer: None,
            kind: Kind::Listening(listener),
        };
        let number = self.share(cx, by, descriptor, entry, state::LISTENS)?;
        self.wait_for(cx, number)
    }

    /// Shares a connection that is being opened.
    pub fn share_attempt(
        &mut self,
        cx: &Context,
        by: (&Call, u32),
        (descriptor, family): (&Descriptor, AddressFamily),
        stream: TcpStream,
        to: SocketAddr,
    ) -> io::Result<()> {
        let patience = Patience::to_connect(&descriptor.fd, false)?;
        let number = self.share(cx, by, descriptor, attempt(family, stream, to)?, 0)?;
        let patience = (!descriptor.nonblocking).then_some(patience);
        self.await_attempt(cx, by.0, number, patience)
    }

    /// The call waits for a connection that is being opened, or the program hears of it later.
    pub(super) fn await_attempt(
        &mut self,
        cx: &Context,
        call: &Call,
        number: u32,
        patience: Option<Patience>,
    ) -> io::Result<()> {
        let socket = self.memory.socket(number);
        socket.set_option(options::UNHEARD, patience.is_none());
        if let Some(patience) = patience
            && let Some(Kind::Connecting(_, waiting)) =
                self.table.get_mut(number).map(|e| &mut e.kind)
        {
            waiting.push(cx, call, patience, SHARED + number as usize);
        }
        self.wait_for(cx, number)
    }
}

/// A connection that is being opened.
pub(super) fn attempt(
    family: AddressFamily,
    stream: TcpStream,
    to: SocketAddr,
) -> io::Result<Entry> {
    Ok(Entry {
        family,
        local: stream.local_addr()?,
        peer: Some(to),
        kind: Kind::Connecting(stream, Waiters::default()),
    })
}

/// The options that a socket of the kernel's was given, for the one in its place.
pub(super) fn copy_options(
    from: &Descriptor,
    family: AddressFamily,
    to: &Socket,
) -> io::Result<()> {
    to.set_option(options::NONBLOCK, from.nonblocking);
    let milliseconds = |which| {
        let time = sockopt::socket_timeout(&from.fd, which)?;
        let time = time.map_or(0, |time| time.as_millis().max(1));
        Ok::<_, io::Error>(u32::try_from(time).unwrap_or(u32::MAX))
    };
    let receive = milliseconds(sockopt::Timeout::Recv)?;
    to.receive_timeout.store(receive, Ordering::Relaxed);
    let send = milliseconds(sockopt::Timeout::Send)?;
    to.send_timeout.store(send, Ordering::Relaxed);
    to.set_option(options::KEEPALIVE, sockopt::socket_keepalive(&from.fd)?);
    to.set_option(options::REUSE, sockopt::socket_reuseaddr(&from.fd)?);
    to.set_option(options::REUSE_PORT, sockopt::socket_reuseport(&from.fd)?);
    let low_water = intercept::option(&from.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT)?;
    let low_water = u32::try_from(low_water).unwrap_or(0);
    let low_water = match from.tcp_family() {
        Some(_) => low_water.min(LOW_WATER_MAX),
        None => low_water,
    };
    to.low_water.store(low_water, Ordering::Relaxed);
    if let Some(linger) = sockopt::socket_linger(&from.fd)? {
        to.set_option(options::LINGER, true);
        let seconds = u32::try_from(linger.as_secs()).unwrap_or(u32::MAX);
        to.linger.store(seconds, Ordering::Relaxed);
    }
    for is_v6 in [false, true] {
        if !is_v6 || family == AddressFamily::INET6 {
            let (hops, class) = header_options(from, is_v6)?;
            to.headers(is_v6).set_hops(Some(hops));
            to.headers(is_v6).set_class(class);
        }
    }
    if from.tcp_family().is_some() {
        copy_tcp_options(from, to);
    }
    Ok(())
}

/// Those of TCP, and the sizes of buffers that the program has set. What a kernel does not tell it has not been told.
fn copy_tcp_options(from: &Descriptor, to: &Socket) {
    let number = |level, option| {
        let value = intercept::option(&from.fd, level, option).ok();
        value
            .and_then(|value| u32::try_from(value).ok())
            .unwrap_or(0)
    };
    let is_on = |level, option| number(level, option) != 0;
    to.set_option(
        options::NODELAY,
        is_on(libc::IPPROTO_TCP, libc::TCP_NODELAY),
    );
    to.set_option(
        options::V6_ONLY,
        is_on(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    );
    let liveness = &to.liveness;
    for (word, option) in [
        (&liveness.idle_seconds, libc::TCP_KEEPIDLE),
        (&liveness.interval_seconds, libc::TCP_KEEPINTVL),
        (&liveness.count, libc::TCP_KEEPCNT),
        (&liveness.user_timeout_ms, libc::TCP_USER_TIMEOUT),
    ] {
        word.store(number(libc::IPPROTO_TCP, option), Ordering::Relaxed);
    }
    for (option, size) in buffers_set(&from.fd) {
        let word = match option {
            libc::SO_SNDBUF => &to.send_buffer,
            _ => &to.receive_buffer,
        };
        word.store(size as u32, Ordering::Relaxed);
    }
}
