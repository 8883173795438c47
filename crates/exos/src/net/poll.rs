//! Waiting for many sockets, and beside them for descriptors of the kernel's (timers among them: timerfd_create(2)), the ends of child
//! processes, and words of shared memory.
//!
//! A registration that has become ready stands in its [`Poll`]'s queue: a wait costs as much as there is ready, not as much as is
//! registered. A level-triggered one stays in the queue for as long as it is ready.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use exos_host::uring::WordWait;
use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::datagrams::UdpSocket;
use super::inner::{Inner, Wait};
use super::listener::TcpListener;
use super::stack::Net;
use super::stream::TcpStream;
use super::table::Readiness;
use super::watches::{Interest, PollEvent, Source, SourceKey, Token, Trigger, Watches};
use crate::clock;
use crate::wait::Waited;

/// What a wait gives; its memory is used again by the next.
#[derive(Default)]
pub struct Events {
    list: Vec<PollEvent>,
    kernel: Vec<epoll::Event>,
}

impl Events {
    /// The events, in the order in which the registrations became ready; those of the kernel's descriptors come last.
    pub fn iter(&self) -> impl Iterator<Item = PollEvent> + '_ {
        self.list.iter().copied()
    }

    /// True when the wait ended by its timeout.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl From<&TcpStream> for Source {
    fn from(stream: &TcpStream) -> Self {
        Self(SourceKey::Connection(stream.key()))
    }
}

impl From<&TcpListener> for Source {
    fn from(listener: &TcpListener) -> Self {
        Self(SourceKey::Listener(listener.key()))
    }
}

impl From<&UdpSocket> for Source {
    fn from(socket: &UdpSocket) -> Self {
        Self(SourceKey::Datagrams(socket.key()))
    }
}

/// A set of sockets and descriptors to wait for.
///
/// ```no_run
/// # use exos::net::{Events, Interest, Net, Poll, TcpListener, Token, Trigger};
/// # fn run(net: Net) -> std::io::Result<()> {
/// let listener = TcpListener::bind(&net, "[::]:80")?;
/// listener.set_nonblocking(true);
/// let poll = Poll::new(&net)?;
/// poll.register(&listener, Token(0), Interest::READABLE, Trigger::Level)?;
/// let mut events = Events::default();
/// loop {
///     poll.wait(&mut events, None)?;
///     for event in events.iter() {
///         // Accept, read, write. What is written leaves with the next wait.
///     }
/// }
/// # }
/// ```
pub struct Poll {
    net: Net,
    id: usize,
    /// Descriptors of the kernel's.
    kernel: OwnedFd,
}

impl Poll {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// The kernel has no descriptor left.
    pub fn new(net: &Net) -> io::Result<Self> {
        let kernel = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let id = net.borrow().watches.open();
        Ok(Self {
            net: net.clone(),
            id,
            kernel,
        })
    }

    /// Waits for a socket too. One that is ready already is told with the next wait, whatever the trigger. It leaves the set
    /// when it is dropped.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`: it is registered, here or elsewhere.
    pub fn register(
        &self,
        source: impl Into<Source>,
        token: Token,
        interest: Interest,
        trigger: Trigger,
    ) -> io::Result<()> {
        let source = source.into();
        let inner = &mut *self.net.borrow();
        if inner.watch_of(source).is_some() {
            let why = "the socket is registered already; reregister it, or deregister it first";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        let registered = (token, interest, trigger);
        let key = inner.watches.add(self.id, source, registered);
        *inner.watch_of(source) = Some(key);
        let (watches, readiness) = inner.watches();
        watches.tell(key, readiness(source));
        Ok(())
    }

    /// Waits for something else of a registered socket, or again.
    ///
    /// # Errors
    ///
    /// `NotFound`: it is not registered.
    pub fn reregister(
        &self,
        source: impl Into<Source>,
        token: Token,
        interest: Interest,
        trigger: Trigger,
    ) -> io::Result<()> {
        let source = source.into();
        self.deregister(source)?;
        self.register(source, token, interest, trigger)
    }

    /// Waits for a socket no more.
    ///
    /// # Errors
    ///
    /// `NotFound`: it is not registered.
    pub fn deregister(&self, source: impl Into<Source>) -> io::Result<()> {
        let inner = &mut *self.net.borrow();
        let key = inner.watch_of(source.into()).take();
        let key = key.ok_or(io::ErrorKind::NotFound)?;
        inner.watches.remove(key);
        Ok(())
    }

    /// Waits for a descriptor of the kernel's too, as epoll(7) does. It leaves the set when its last copy is closed.
    ///
    /// # Errors
    ///
    /// Those of epoll_ctl(2): `AlreadyExists`, `PermissionDenied` for a file of a kind that cannot be waited for.
    pub fn register_fd(
        &self,
        fd: BorrowedFd<'_>,
        token: Token,
        interest: Interest,
        trigger: Trigger,
    ) -> io::Result<()> {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, interest.0.reading);
        flags.set(epoll::EventFlags::OUT, interest.0.writing);
        flags.set(epoll::EventFlags::ET, trigger == Trigger::Edge);
        flags.set(epoll::EventFlags::ONESHOT, trigger == Trigger::OneShot);
        let data = epoll::EventData::new_u64(token.0 as u64);
        epoll::add(&self.kernel, fd, data, flags)?;
        Ok(())
    }

    /// Waits for a descriptor of the kernel's no more.
    ///
    /// # Errors
    ///
    /// `NotFound`: it is not registered.
    pub fn deregister_fd(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.kernel, fd)?)
    }

    /// Waits for a child's end too: it is readable then, and `Child::try_wait` says how it ended. Drop the result to wait for it
    /// no more.
    ///
    /// # Errors
    ///
    /// The kernel has no descriptor left.
    pub fn register_child(&self, child: &Child, token: Token) -> io::Result<OwnedFd> {
        let pid = Pid::from_child(child);
        let fd = pidfd_open(pid, PidfdFlags::empty())?;
        self.register_fd(fd.as_fd(), token, Interest::READABLE, Trigger::Level)?;
        Ok(fd)
    }

    /// Waits for a word of memory too, which other threads or processes change, and wake those that wait for it (futex(2)): it is told
    /// once it is not `is`, and until the result is to [wait again](WordWait::again). Drop the result to wait for it no more.
    ///
    /// # Errors
    ///
    /// `Unsupported`: the kernel cannot wait so (before Linux 6.7).
    pub fn register_word(&self, word: &AtomicU32, is: u32, token: Token) -> io::Result<WordWait> {
        let wait = WordWait::new(word, is)?;
        self.register_fd(wait.as_fd(), token, Interest::READABLE, Trigger::Level)?;
        Ok(wait)
    }

    /// Sends what was written, and waits until something registered is ready, or until the timeout.
    ///
    /// # Errors
    ///
    /// The interface has gone.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        /// As many turns in a row may go by that move frames of no interest.
        const TURNS: u32 = 16;
        let until = timeout.map(|time| clock::now() + time);
        events.list.clear();
        let mut turn = 0_u32;
        loop {
            turn = turn.wrapping_add(1);
            let is_ready = self.net.borrow().has_ready(self.id);
            let kernel = [self.kernel.as_fd()];
            let wait = match is_ready {
                true => Wait::No,
                false => Wait::Until(until, &kernel),
            };
            let waited = self.net.turn_and_wait(wait)?;
            self.net.borrow().take_ready(self.id, &mut events.list);
            let is_over = !events.is_empty() || until.is_some_and(|at| at <= clock::now());
            let is_to_look = match waited {
                // The next turn looks, or sleeps.
                Waited::Worked => is_over || turn.is_multiple_of(TURNS),
                Waited::Awake => true,
                Waited::Slept(is_ready) => is_ready,
            };
            if is_to_look {
                self.look_at_kernel(events)?;
            }
            if is_over || !events.is_empty() {
                return Ok(());
            }
        }
    }

    fn look_at_kernel(&self, events: &mut Events) -> io::Result<()> {
        /// More come with the next wait.
        const AT_ONCE: usize = 64;
        let now = rustix::event::Timespec::default();
        events.kernel.clear();
        events.kernel.reserve(AT_ONCE);
        let spare = rustix::buffer::spare_capacity(&mut events.kernel);
        match epoll::wait(&self.kernel, spare, Some(&now)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let ends = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        events.list.extend(events.kernel.iter().map(|event| {
            let flags = event.flags;
            PollEvent {
                token: Token(event.data.u64() as usize),
                readable: flags.intersects(epoll::EventFlags::IN | ends),
                writable: flags.intersects(epoll::EventFlags::OUT | ends),
            }
        }));
        Ok(())
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        let inner = &mut *self.net.borrow();
        for source in inner.watches.close(self.id) {
            *inner.watch_of(source) = None;
        }
    }
}

impl Inner {
    /// The registration of a socket.
    fn watch_of(&mut self, source: Source) -> &mut Option<usize> {
        let waiters = match source.0 {
            SourceKey::Connection(key) => &mut self.connections[key].waiters,
            SourceKey::Listener(key) => &mut self.listeners[key].waiters,
            SourceKey::Datagrams(key) => &mut self.datagrams[key].waiters,
        };
        &mut waiters.watch
    }

    /// The registrations, and what each socket is ready for.
    fn watches(&mut self) -> (&mut Watches, impl Fn(Source) -> Readiness) {
        let (connections, listeners) = (&self.connections, &self.listeners);
        let (datagrams, stack) = (&self.datagrams, &self.exos.stack);
        let readiness = move |source: Source| match source.0 {
            SourceKey::Connection(key) => connections[key].readiness(&stack.tcp),
            SourceKey::Listener(key) => listeners[key].readiness(),
            SourceKey::Datagrams(key) => datagrams[key].readiness(&stack.udp),
        };
        (&mut self.watches, readiness)
    }

    fn has_ready(&mut self, poll: usize) -> bool {
        let (watches, readiness) = self.watches();
        watches.has_ready(poll, readiness)
    }

    fn take_ready(&mut self, poll: usize, events: &mut Vec<PollEvent>) {
        let (watches, readiness) = self.watches();
        watches.take_ready(poll, readiness, events);
    }
}
