//! [`HostNames`]: the resolver over the kernel's sockets, for programs that have no stack, or none yet.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, Waker};

use exos_inet::Instant;
use exos_names::{Config, Counters, Event, Families, Family, LookupId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::driver::{Driver, Received, Socket, as_io_error};
use crate::clock;
use crate::limits::{LOOKUPS_AT_ONCE, NAMES_SLOW};

/// A caching resolver over the kernel's sockets. Its calls wait.
///
/// ```no_run
/// # use exos::names::{Families, HostNames};
/// let mut names = HostNames::of_system()?;
/// let addresses = names.lookup("www.example", Families::Both)?;
/// # std::io::Result::Ok(())
/// ```
pub struct HostNames {
    driver: Driver<KernelSocket>,
}

/// The addresses of a name.
#[derive(Debug)]
pub struct Found {
    /// All of them, IPv6 first; why there are none as [`net::Names::lookup`](crate::net::Names::lookup) says it.
    pub addresses: io::Result<Vec<IpAddr>>,
    /// Until when they hold, on [`clock::now`]; `None` where no server has told them.
    pub until: Option<Instant>,
    /// The family of which nobody could say whether the name has addresses, and why, where it has some of the other.
    pub failed: Option<(Family, io::Error)>,
}

impl HostNames {
    /// As this host is configured: `/etc/resolv.conf` and `/etc/hosts`, read again when they have changed.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn of_system() -> io::Result<Self> {
        let driver = Driver::of_system()?;
        Ok(Self { driver })
    }

    /// As the program says.
    pub fn new(config: Config) -> Self {
        let driver = Driver::new(config);
        Self { driver }
    }

    /// How names are looked up now.
    pub fn config(&self) -> &Config {
        self.driver.resolver().config()
    }

    /// How many queries, answers and forgeries there were, by name.
    pub fn counters(&self) -> &Counters {
        self.driver.resolver().counters()
    }

    /// How many answers are kept.
    pub fn cached(&self) -> usize {
        self.driver.resolver().cached()
    }

    /// Forgets all answers: what is looked up next is asked for again, and the files are looked at.
    pub fn forget(&mut self) {
        self.driver.forget();
    }

    /// The addresses of a name, IPv6 first.
    ///
    /// # Errors
    ///
    /// As [`net::Names::lookup`](crate::net::Names::lookup).
    pub fn lookup(&mut self, name: &str, families: Families) -> io::Result<Vec<IpAddr>> {
        let found = self.lookup_all(&[name], families, |_| ()).pop();
        found.expect("one for each name").addresses
    }

    /// What each name has, all of them looked up side by side. `slow` is called once where that takes longer than
    /// [`NAMES_SLOW`].
    pub fn lookup_all(
        &mut self,
        names: &[&str],
        families: Families,
        slow: impl FnOnce(&Config),
    ) -> Vec<Found> {
        let mut slow = Some((clock::now() + NAMES_SLOW, slow));
        let mut found = Vec::new();
        for some in names.chunks(LOOKUPS_AT_ONCE) {
            found.extend(self.lookup_some(some, families, &mut slow));
        }
        found
    }

    fn lookup_some(
        &mut self,
        names: &[&str],
        families: Families,
        slow: &mut Option<(Instant, impl FnOnce(&Config))>,
    ) -> Vec<Found> {
        let begun = names.iter().map(|name| self.driver.begin(name, families));
        let begun: Vec<io::Result<LookupId>> = begun.collect();
        let mut done = HashMap::new();
        while begun.iter().flatten().any(|id| !done.contains_key(id)) {
            let mut cx = Context::from_waker(Waker::noop());
            for event in self.driver.step(&(), &mut cx) {
                if let Event::Done {
                    lookup,
                    result,
                    until,
                    failed,
                } = event
                {
                    let found = Found {
                        addresses: result.map_err(as_io_error),
                        until,
                        failed: failed.map(|(family, error)| (family, as_io_error(error))),
                    };
                    done.insert(lookup, found);
                }
            }
            if let Some((_, tell)) = slow.take_if(|(at, _)| *at <= clock::now()) {
                tell(self.config());
            }
            self.wait(slow.as_ref().map(|(at, _)| *at));
        }
        let found = begun.into_iter().map(|id| match id {
            Ok(id) => done.remove(&id).expect("all have come to their end"),
            Err(error) => Found {
                addresses: Err(error),
                until: None,
                failed: None,
            },
        });
        found.collect()
    }

    /// Waits for something to come, or for the resolver's time or this one. Nothing is under way: it does not wait.
    fn wait(&self, at: Option<Instant>) {
        let Some(deadline) = self.driver.deadline() else {
            return;
        };
        let until = at.map_or(deadline, |at| at.min(deadline));
        let timeout = Timespec::try_from(until - clock::now()).ok();
        let sockets = self.driver.sockets().map(KernelSocket::awaited);
        let mut fds: Vec<PollFd<'_>> = sockets
            .map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags))
            .collect();
        // A signal is no reason to fail: the next step looks at the time.
        let _ = poll(&mut fds, timeout.as_ref());
    }
}

enum KernelSocket {
    Udp(UdpSocket),
    /// With what is yet to be written.
    Tcp(TcpStream, Vec<u8>),
}

impl KernelSocket {
    fn awaited(&self) -> (BorrowedFd<'_>, PollFlags) {
        match self {
            Self::Udp(socket) => (socket.as_fd(), PollFlags::IN),
            Self::Tcp(stream, left) if left.is_empty() => (stream.as_fd(), PollFlags::IN),
            Self::Tcp(stream, _) => (stream.as_fd(), PollFlags::OUT),
        }
    }
}

impl Socket for KernelSocket {
    type On = ();

    fn ask((): &(), port: u16, server: SocketAddr, message: &[u8]) -> io::Result<Self> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, port))?;
        socket.set_nonblocking(true)?;
        // That nobody listens there is told to connected sockets alone.
        socket.connect(server)?;
        socket.send(message)?;
        Ok(Self::Udp(socket))
    }

    fn connect((): &(), server: SocketAddr, bytes: Vec<u8>) -> io::Result<Self> {
        let family = match server {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &server) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self::Tcp(socket.into(), bytes)),
            Err(error) => Err(error.into()),
        }
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Received>> {
        let mut bytes = [0; 4096];
        let received = match self {
            Self::Udp(socket) => socket
                .recv_from(&mut bytes)
                .map(|(count, from)| Received::Datagram(from, bytes[..count].to_vec())),
            Self::Tcp(stream, left) => write_some(stream, left)
                .and_then(|()| stream.read(&mut bytes))
                .map(|count| Received::Bytes(bytes[..count].to_vec())),
        };
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            received => Poll::Ready(received),
        }
    }
}

/// Writes as much as the connection takes; `WouldBlock` while it is being opened.
fn write_some(stream: &mut TcpStream, left: &mut Vec<u8>) -> io::Result<()> {
    while !left.is_empty() {
        let count = stream.write(left)?;
        left.drain(..count);
    }
    Ok(())
}
