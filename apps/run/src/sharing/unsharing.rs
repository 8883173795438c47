//! How a shared socket comes to go by a Unix socket.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use exos_host::intercept::{Call, set_option};
use exos_preload::memory::{Socket, options, state};
use rustix::net::{Shutdown, SocketType, sockopt};

use super::datagrams::Datagrams;
use super::entry::{Kind, numbers_in};
use super::flowing::{Flowing, keepalive_of};
use super::sockets::SharedSockets;
use crate::context::Context;
use crate::loopback::{is_here, loopback_of};
use crate::unix::{self, Connecting, DatagramFlow, Flow, Listening, Made, UnixSockets, pair};
use crate::waiting::Waiters;

impl SharedSockets {
    /// Puts a Unix socket in the place of a descriptor of a shared one (with whether it closes on exec), which is shared no more.
    pub(super) fn unshare(
        &mut self,
        cx: &Context,
        unix: &mut UnixSockets,
        (call, fd, close_on_exec): (&Call, i32, bool),
        number: u32,
    ) -> io::Result<()> {
        let put = |theirs: &OwnedFd| cx.calls.replace(call, fd, theirs.as_fd(), close_on_exec);
        let Some(entry) = self.table.get_mut(number) else {
            return Ok(());
        };
        let nonblocking = self.memory.socket(number).has(options::NONBLOCK);
        let kind = match &mut entry.kind {
            Kind::Unshared(theirs) => return put(theirs),
            Kind::Kernels(waiting, listener) => {
                rustix::io::ioctl_fionbio(&waiting.connection, nonblocking)?;
                put(&waiting.connection)?;
                // It has the next one wait.
                self.memory.work().set(*listener);
                let taken = std::mem::replace(&mut entry.kind, Kind::Failed);
                if let Kind::Kernels(waiting, _) = taken {
                    entry.kind = Kind::Unshared(waiting.connection);
                }
                return Ok(());
            }
            Kind::Datagrams(datagrams) if datagrams.socket.is_none() => {
                // It was not used: it is what it was before, with what it was told since.
                let before = datagrams.before.fd.try_clone()?;
                give_options(self.memory.socket(number), &before)?;
                rustix::io::ioctl_fionbio(&before, nonblocking)?;
                put(&before)?;
                entry.kind = Kind::Unshared(before);
                self.memory.socket(number).add(state::UNSHARED);
                self.tell_unshared(number);
                return Ok(());
            }
            Kind::Datagrams(_) => {
                // What was written goes first.
                self.turn(cx, number);
                SocketType::SEQPACKET
            }
            _ => SocketType::STREAM,
        };
        let (theirs, ours) = pair(kind, nonblocking)?;
        give_options(self.memory.socket(number), &theirs)?;
        put(&theirs)?;
        self.go_by(cx, unix, (theirs, ours), number)
    }

    /// Has a shared socket go on by a Unix socket, of which these are both ends.
    fn go_by(
        &mut self,
        cx: &Context,
        unix: &mut UnixSockets,
        (theirs, ours): (OwnedFd, OwnedFd),
        number: u32,
    ) -> io::Result<()> {
        let Some(entry) = self.table.get_mut(number) else {
            return Ok(());
        };
        let has_moved_much = entry.has_moved_much();
        let kind = std::mem::replace(&mut entry.kind, Kind::Unshared(theirs.try_clone()?));
        let (family, mut local, peer) = (entry.family, entry.local, entry.peer);
        // Who uses its rings from now on sees that first, and who does now has its lock.
        let socket = self.memory.socket(number);
        socket.add(state::UNSHARED);
        for (bit, how) in [
            (state::NO_READS, Shutdown::Read),
            (state::NO_WRITES, Shutdown::Write),
        ] {
            if socket.is(bit) {
                rustix::net::shutdown(&theirs, how)?;
            }
        }
        if matches!(kind, Kind::Datagrams(_))
            && local.ip().is_unspecified()
            && let Some(source) = peer.and_then(|peer| match is_here(peer.ip()) {
                true => Some(loopback_of(peer.ip())),
                false => cx.source_for(peer.ip()),
            })
        {
            local.set_ip(source);
        }
        let listens = matches!(kind, Kind::Listening(_));
        let kind = self.unshared(cx, number, kind, peer)?;
        if has_moved_much {
            self.memory.free_rings(number);
        }
        self.tell_unshared(number);
        let key = unix.add(cx, (&theirs, ours), family, (local, peer), kind)?;
        if listens {
            // Connections that a program has just taken out of its ring leave their places to it.
            cx.later().add(2 * key);
        }
        unix.set_keepalive(key, keepalive_of(self.memory.socket(number)));
        unix.turn_with_made(cx, key);
        Ok(())
    }

    /// Programs hear that a socket is shared no more, and it is looked at: it may be that nobody of the library's refers to it.
    fn tell_unshared(&mut self, number: u32) {
        self.news.tell(number, [true, true]);
        self.memory.work().set(number);
    }

    /// What a shared socket is, for one that goes by a Unix socket.
    fn unshared(
        &mut self,
        cx: &Context,
        number: u32,
        kind: Kind,
        peer: Option<SocketAddr>,
    ) -> io::Result<unix::Kind> {
        Ok(match kind {
            Kind::Listening(listener) => {
                listener.deregister(cx)?;
                unix::Kind::Listening(Listening {
                    of: listener,
                    made: self.unshared_waiting(cx, number),
                    waiting: Waiters::default(),
                })
            }
            Kind::Datagrams(datagrams) => self.unshared_datagrams(cx, number, datagrams, peer)?,
            Kind::Connecting(stream, waiting) => {
                cx.poll.deregister(&stream)?;
                unix::Kind::Connecting(Connecting {
                    stream,
                    filled: 0,
                    waiting,
                })
            }
            Kind::Flowing(flowing) => unix::Kind::Flowing(self.flow_of(cx, number, flowing)),
            Kind::Kernels(..) | Kind::Failed | Kind::Unshared(_) => unix::Kind::Failed,
        })
    }

    /// A socket for datagrams, with what has come and was not read.
    fn unshared_datagrams(
        &self,
        cx: &Context,
        number: u32,
        mut datagrams: Datagrams,
        peer: Option<SocketAddr>,
    ) -> io::Result<unix::Kind> {
        let Some(mut socket) = datagrams.socket.take() else {
            return Ok(unix::Kind::Failed);
        };
        socket.deregister(cx)?;
        let shared = self.memory.socket(number);
        let _still = self.memory.lock_soon(&shared.reads);
        let unread = datagrams.unread(&self.memory, number);
        let flow = DatagramFlow::with(socket, peer, unread);
        Ok(unix::Kind::Datagrams(flow))
    }

    /// The connections that wait in a listener's ring.
    fn unshared_waiting(&mut self, cx: &Context, number: u32) -> VecDeque<(Made, SocketAddr)> {
        let mut made = VecDeque::new();
        let waiting = {
            let socket = self.memory.socket(number);
            let _still = self.memory.lock_soon(&socket.reads);
            self.memory.inward(number).take(usize::MAX)
        };
        for taken in numbers_in(&waiting) {
            let Some(entry) = self.table.get_mut(taken) else {
                continue;
            };
            if !entry.is_offered(&self.memory, taken) {
                continue;
            }
            let has_moved_much = entry.has_moved_much();
            let kind = std::mem::replace(&mut entry.kind, Kind::Failed);
            let peer = entry.peer;
            let waiting = match kind {
                Kind::Flowing(flowing) => Some(Made::Ours(self.flow_of(cx, taken, flowing))),
                Kind::Kernels(waiting, _) => Some(Made::Kernels(waiting)),
                _ => None,
            };
            made.extend(waiting.zip(peer));
            if has_moved_much {
                self.memory.free_rings(taken);
            }
            self.table.remove(taken);
        }
        made
    }

    /// A shared connection, with what lies in its rings, to go by a Unix socket.
    fn flow_of(&mut self, cx: &Context, number: u32, shared: Flowing) -> Flow {
        self.table.count(shared.moved);
        // Those that were set last may not have been looked at.
        shared.apply_options(&self.memory, number);
        // It may be over, and out of the set.
        let _ = cx.poll.deregister(&shared.stream);
        let socket = self.memory.socket(number);
        let _still = (
            self.memory.lock_soon(&socket.reads),
            self.memory.lock_soon(&socket.writes),
        );
        let mut rest = shared
            .rest
            .map_or_else(Vec::new, |rest| rest.as_bytes().to_vec());
        rest.extend(self.memory.outward(number).take(usize::MAX));
        let unread = self.memory.inward(number).take(usize::MAX);
        Flow::with(shared.stream, rest, unread, shared.told_end)
    }
}

/// As below, for a connection of the kernel's, with those of TCP and IP. What the kernel refuses stays as it is.
pub(super) fn give_kernels_options(from: &Socket, to: &OwnedFd) {
    let _ = give_options(from, to);
    // Its listener's port can be listened at again while this is there still.
    let _ = sockopt::set_socket_reuseaddr(to, true);
    let set = |(level, option, value)| drop(set_option(to, level, option, value));
    let (tcp, liveness) = (libc::IPPROTO_TCP, &from.liveness);
    let user_timeout = liveness.user_timeout_ms.load(Ordering::Relaxed);
    set((tcp, libc::TCP_NODELAY, from.has(options::NODELAY).into()));
    set((tcp, libc::TCP_KEEPIDLE, liveness.idle_seconds() as i32));
    set((tcp, libc::TCP_KEEPINTVL, liveness.interval_seconds() as i32));
    set((tcp, libc::TCP_KEEPCNT, liveness.count().into()));
    set((tcp, libc::TCP_USER_TIMEOUT, user_timeout as i32));
    for (option, size) in [
        (libc::SO_SNDBUF, &from.send_buffer),
        (libc::SO_RCVBUF, &from.receive_buffer),
    ] {
        // The kernel doubles what it is told.
        let size = size.load(Ordering::Relaxed) / 2;
        if size > 0 {
            set((libc::SOL_SOCKET, option, size as i32));
        }
    }
    let (v4, v6) = (from.headers(false), from.headers(true));
    set((libc::IPPROTO_IP, libc::IP_TTL, v4.hops().into()));
    set((libc::IPPROTO_IP, libc::IP_TOS, v4.class().into()));
    set((
        libc::IPPROTO_IPV6,
        libc::IPV6_UNICAST_HOPS,
        v6.hops().into(),
    ));
    set((libc::IPPROTO_IPV6, libc::IPV6_TCLASS, v6.class().into()));
}

/// The options that a shared socket was given, for the Unix socket in its place: it waits as long, and says the same of them.
fn give_options(from: &Socket, to: &OwnedFd) -> io::Result<()> {
    let time = |word: &AtomicU32| match word.load(Ordering::Relaxed) {
        0 => None,
        ms => Some(Duration::from_millis(ms.into())),
    };
    let (receive, send) = (time(&from.receive_timeout), time(&from.send_timeout));
    sockopt::set_socket_timeout(to, sockopt::Timeout::Recv, receive)?;
    sockopt::set_socket_timeout(to, sockopt::Timeout::Send, send)?;
    sockopt::set_socket_keepalive(to, from.has(options::KEEPALIVE))?;
    sockopt::set_socket_reuseaddr(to, from.has(options::REUSE))?;
    if from.has(options::REUSE_PORT) {
        // Newer kernels have none of Unix sockets.
        let _ = sockopt::set_socket_reuseport(to, true);
    }
    let low_water = from.low_water.load(Ordering::Relaxed);
    if low_water > 0 {
        set_option(to, libc::SOL_SOCKET, libc::SO_RCVLOWAT, low_water as i32)?;
    }
    let seconds = || Duration::from_secs(from.linger.load(Ordering::Relaxed).into());
    let linger = from.has(options::LINGER).then(seconds);
    sockopt::set_socket_linger(to, linger)?;
    Ok(())
}
