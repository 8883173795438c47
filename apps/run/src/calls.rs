//! All sockets of the programs, and what each intercepted call does: which way a socket goes is decided where it listens or connects.

mod connecting;

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use exos::watch::Holders;
use exos_host::affinity::has_one_core;
use exos_host::intercept::{self, Call};
use exos_preload::memory::{ASK_LEVEL, MARKED};
use rustix::net::{AddressFamily, sockopt};

use crate::answer::{Answer, fails};
use crate::context::Context;
use crate::counters::SocketCounters;
use crate::listener::Listener;
use crate::loopback::is_taken;
use crate::ports::Ports;
use crate::sharing::{SHARED, SharedSockets, Sharing, is_of_shared};
use crate::target::{is_of_v6_alone, read_address, write_address};
use crate::unix::UnixSockets;

/// The calls that are told to us.
pub(crate) const TOLD: &[libc::c_long] = &[
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_io_uring_setup,
    libc::SYS_epoll_create1,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_create,
];

/// Told too where sockets are shared: a process becomes another program.
pub(crate) const BECOMING: [libc::c_long; 2] = [libc::SYS_execve, libc::SYS_execveat];

/// All sockets of the programs.
pub(crate) struct Sockets {
    /// Those that go by a Unix socket.
    unix: UnixSockets,
    /// Those that are shared with programs, where any may be.
    sharing: Option<Sharing>,
    /// Those that are the kernel's still.
    ports: Ports,
    /// A program has asked for an io_uring.
    has_refused_ring: bool,
    /// We started with one processor, which programs inherit.
    has_one_core: bool,
}

impl Sockets {
    pub fn new(sharing: Option<Sharing>) -> Self {
        Self {
            unix: UnixSockets::default(),
            sharing,
            ports: Ports::default(),
            has_refused_ring: false,
            has_one_core: has_one_core(),
        }
    }

    pub fn are_none(&self) -> bool {
        self.unix.is_empty() && self.sharing.as_ref().is_none_or(Sharing::is_empty)
    }

    /// What was counted: of shared sockets, and of those that go by a Unix socket.
    pub fn counters(&self) -> (SocketCounters, SocketCounters) {
        let shared = self.sharing.as_ref().map(Sharing::counters);
        (shared.unwrap_or_default(), self.unix.counters())
    }

    /// Tells those that ask of the sockets, and says how soon it is to be called again.
    pub fn tell(&self, cx: &Context) -> Duration {
        let holders = || {
            let mut holders = Holders::default();
            self.unix.add_holders(&mut holders);
            if let Some(sharing) = &self.sharing {
                sharing.add_holders(&mut holders);
            }
            holders
        };
        cx.net.with(|exos| exos.tell_sockets(holders))
    }

    /// Looks at what programs have done to shared sockets.
    pub fn look_at_shared(&mut self, cx: &Context) {
        if let Some(sharing) = &mut self.sharing {
            sharing.look(cx);
        }
    }

    /// Tells programs of what there is, and says how long to wait.
    pub fn before_waiting(
        &mut self,
        cx: &Context,
        left: Option<Duration>,
    ) -> io::Result<Option<Duration>> {
        match &mut self.sharing {
            Some(sharing) => sharing.before_waiting(cx, left),
            None => Ok(left),
        }
    }

    /// Whether a program may run that has no processor but ours. Nothing is known by intercepted calls, where that is assumed.
    pub fn others_want_core(&self) -> bool {
        let sharing = self.sharing.as_ref();
        sharing.map_or(self.has_one_core, Sharing::others_want_core)
    }

    pub fn after_waiting(&mut self, tokens: impl IntoIterator<Item = usize>) {
        if let Some(sharing) = &mut self.sharing {
            sharing.after_waiting(tokens.into_iter().any(is_of_shared));
        }
    }

    /// An event of a socket's, or of what sharing needs.
    pub fn handle(&mut self, cx: &Context, token: usize) -> io::Result<()> {
        match &mut self.sharing {
            Some(sharing) if token >= SHARED => sharing.handle(cx, token)?,
            _ => self.unix.handle(cx, token),
        }
        Ok(())
    }

    /// Goes on with all that go by a Unix socket.
    pub fn go_on_with_all(&mut self, cx: &Context) {
        self.unix.turn_all(cx);
    }

    pub fn answer(&mut self, cx: &Context, call: &Call) -> io::Result<Answer> {
        match call.number {
            libc::SYS_execve | libc::SYS_execveat => match &mut self.sharing {
                Some(sharing) => sharing.becomes_another(cx, &mut self.unix, call),
                None => Ok(Answer::Pass),
            },
            libc::SYS_setsockopt if call.args[1] as i32 == ASK_LEVEL => match &mut self.sharing {
                Some(sharing) => sharing.asked(cx, &mut self.unix, call),
                None => fails(libc::ENOPROTOOPT),
            },
            // The library asks what a socket is.
            libc::SYS_getsockopt if call.args[5] == MARKED => Ok(Answer::Pass),
            libc::SYS_bind => self.bind(cx, call),
            libc::SYS_listen => self.listen(cx, call),
            libc::SYS_connect => self.connect(cx, call),
            libc::SYS_accept | libc::SYS_accept4 => self.unix.accept(cx, call),
            libc::SYS_getsockname => self.name(cx, call, false),
            libc::SYS_getpeername => self.name(cx, call, true),
            libc::SYS_getsockopt => self.unix.get_option(cx, call),
            libc::SYS_setsockopt => self.set_option(cx, call),
            libc::SYS_io_uring_setup => self.refuse_ring(call),
            libc::SYS_epoll_create1 => Ok(self.unix.sets.create(cx, call)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_create => Ok(self.unix.sets.create(cx, call)),
            _ => Ok(Answer::Pass),
        }
    }

    /// The program finds io_uring missing, for what it asks of a ring passes by us; once that is said.
    fn refuse_ring(&mut self, call: &Call) -> io::Result<Answer> {
        if !std::mem::replace(&mut self.has_refused_ring, true) {
            let process = intercept::process_of(call.thread).unwrap_or(call.thread);
            crate::trace::say(format_args!(
                "exos run: process {process} asks for io_uring, which is refused (ENOSYS), so that it takes other calls"
            ));
        }
        fails(libc::ENOSYS)
    }

    /// Where the socket that a call is of is to be a shared one: with the part of the memory that its process has.
    fn shared_for(&mut self, call: &Call) -> Option<(&mut SharedSockets, u32)> {
        self.sharing.as_mut()?.shared_for(call)
    }

    /// The shared socket for datagrams that a call is of.
    fn shared_datagrams(&mut self, call: &Call) -> Option<(&mut SharedSockets, u32)> {
        self.sharing.as_mut()?.datagrams_of(call)
    }

    fn random_port(&mut self) -> u16 {
        let (unix, sharing) = (&self.unix, &self.sharing);
        let shares = |port| sharing.as_ref().is_some_and(|s| s.sockets().has_port(port));
        self.ports
            .draw(|port| unix.has_port(port) || shares(port) || is_taken(port))
    }

    /// Sockets of other users listen there: with those none is shared.
    fn others_listen(&self, at: SocketAddr, user: u32) -> bool {
        let shared = self.sharing.iter();
        let shared = shared.flat_map(|sharing| sharing.sockets().listeners_at(at));
        let mut users = self.unix.listeners_at(at).chain(shared);
        users.any(|other| other != user)
    }

    fn bind(&mut self, cx: &Context, call: &Call) -> io::Result<Answer> {
        let address = read_address(&cx.calls, call, call.args[1], call.args[2])?;
        if let Some((shared, number)) = self.shared_datagrams(call) {
            let address = address.ok_or(ErrorKind::InvalidInput)?;
            shared.bind_datagrams(cx, number, Some(address))?;
            return Ok(Answer::Value(0));
        }
        let Some(address) = address.filter(|address| cx.is_ours(address.ip())) else {
            return Ok(Answer::Pass);
        };
        // Sockets that the program has closed before it asks have left their ports.
        self.look_at_shared(cx);
        let (descriptor, key) = self.unix.descriptor(call)?;
        if key.is_some() || self.ports.bound(descriptor.inode).is_some() {
            return fails(libc::EINVAL);
        }
        if let (Some(family), Some((shared, part))) =
            (descriptor.udp_family(), self.shared_for(call))
            && !descriptor.is_bound()
        {
            let number = shared.share_datagrams(cx, (call, part), &descriptor, family)?;
            shared.bind_datagrams(cx, number, Some(address))?;
            return Ok(Answer::Value(0));
        }
        if descriptor.tcp_family().is_none() {
            return Ok(Answer::Pass);
        }
        // The program may ask which port it is before it listens.
        let port = match address.port() {
            0 => self.random_port(),
            port => port,
        };
        let address = SocketAddr::new(address.ip(), port);
        if is_of_v6_alone(address.ip()) {
            sockopt::set_ipv6_v6only(&descriptor.fd, true)?;
        }
        self.ports.bind(descriptor.inode, address);
        self.touch(call);
        Ok(Answer::Value(0))
    }

    /// One of ours has the option here, and of one of the kernel's it is known that it may have one, which the library may not have seen.
    fn set_option(&mut self, cx: &Context, call: &Call) -> io::Result<Answer> {
        let (descriptor, key) = self.unix.descriptor(call)?;
        match key {
            Some(key) => return self.unix.set_option(cx, call, key, &descriptor),
            None if self.sharing.is_some() && descriptor.tcp_family().is_some() => self.touch(call),
            None => {}
        }
        Ok(Answer::Pass)
    }

    fn touch(&mut self, call: &Call) {
        if let Some(sharing) = &mut self.sharing {
            sharing.touch(call);
        }
    }

    fn listen(&mut self, cx: &Context, call: &Call) -> io::Result<Answer> {
        self.look_at_shared(cx);
        let (descriptor, key) = self.unix.descriptor(call)?;
        if let Some(key) = key {
            return self.unix.listen_again(key);
        }
        let Some(family) = descriptor.tcp_family() else {
            return Ok(Answer::Pass);
        };
        let at = match self.ports.bound(descriptor.inode) {
            Some(bound) => bound,
            None if descriptor.is_bound() => return Ok(Answer::Pass),
            // Without an address: at all, and a port that is free.
            None if family == AddressFamily::INET6 => {
                (Ipv6Addr::UNSPECIFIED, self.random_port()).into()
            }
            None => (Ipv4Addr::UNSPECIFIED, self.random_port()).into(),
        };
        let shares = sockopt::socket_reuseport(&descriptor.fd)?;
        if shares && self.others_listen(at, descriptor.user) {
            return fails(libc::EADDRINUSE);
        }
        let backlog = (call.args[1] as i32).max(1) as usize;
        let listener = Listener::open(cx, &descriptor, family, (at, backlog), shares)?;
        match self.shared_for(call) {
            Some((shared, part)) => {
                shared.share_listener(cx, (call, part), &descriptor, family, listener)?;
            }
            None => self.unix.listen(cx, call, &descriptor, family, listener)?,
        }
        self.ports.forget(descriptor.inode);
        Ok(Answer::Value(0))
    }

    /// Says where a socket is bound, or whom it is connected to.
    fn name(&self, cx: &Context, call: &Call, peer: bool) -> io::Result<Answer> {
        let (descriptor, key) = self.unix.descriptor(call)?;
        let (address, family) = match key {
            Some(key) => self.unix.name(key, peer)?,
            None => match (self.ports.bound(descriptor.inode), descriptor.tcp_family()) {
                (Some(bound), Some(family)) if !peer => (bound, family),
                _ => return Ok(Answer::Pass),
            },
        };
        let to = [call.args[1], call.args[2]];
        write_address(&cx.calls, call, to, address, family)?;
        Ok(Answer::Value(0))
    }
}
