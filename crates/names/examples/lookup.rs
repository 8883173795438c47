//! Looks up host names over the kernel's sockets: `cargo run -p exos-names --example lookup NAME...`.
//!
//! [`Driver`] is all that a resolver needs around it: a socket for each query, one wait for all of them, and a clock.

use exos_inet::Instant;
use exos_names::{Action, Config, Error, Event, Families, Files, QueryId, Resolver};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A resolver over the kernel's sockets.
pub struct Driver {
    /// The state machine.
    pub resolver: Resolver,
    sockets: BTreeMap<QueryId, Socket>,
    started: std::time::Instant,
}

enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Driver {
    /// One that asks the servers of `config`.
    pub fn new(config: Config) -> Self {
        // The standard library's hasher has keys of the system's random numbers.
        let secret = RandomState::new().hash_one(0);
        Self {
            resolver: Resolver::new(config, secret),
            sockets: BTreeMap::new(),
            started: std::time::Instant::now(),
        }
    }

    /// The addresses of a name.
    pub fn lookup(&mut self, name: &str, families: Families) -> Result<Vec<IpAddr>, Error> {
        let wanted = self.resolver.lookup(self.now(), name, families)?;
        loop {
            while let Some(action) = self.resolver.poll_action() {
                self.act(action);
            }
            while let Some(event) = self.resolver.poll_event() {
                match event {
                    Event::Done { lookup, result } if lookup == wanted => return result,
                    _ => {}
                }
            }
            self.wait();
            self.resolver.handle_timeout(self.now());
        }
    }

    fn now(&self) -> Instant {
        Instant::START + self.started.elapsed()
    }

    fn act(&mut self, action: Action) {
        let now = self.now();
        let (query, socket) = match action {
            Action::Close { query } => {
                self.sockets.remove(&query);
                return;
            }
            Action::Datagram {
                query,
                port,
                server,
                message,
            } => (query, send(port, server, &message)),
            Action::Stream {
                query,
                server,
                bytes,
            } => (query, connect(server, &bytes)),
        };
        match socket {
            Ok(socket) => {
                self.sockets.insert(query, socket);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                self.resolver.handle_port_in_use(now, query);
            }
            Err(_) => self.resolver.handle_failure(now, query),
        }
    }

    /// Waits for something to come, or for the resolver's time, and gives it to the resolver.
    fn wait(&mut self) {
        // What is due already, or is a new action's, is not waited for.
        let Some(until) = self.resolver.poll_timeout() else {
            return;
        };
        let timeout = Timespec::try_from(until - self.now()).ok();
        let queries: Vec<QueryId> = self.sockets.keys().copied().collect();
        let sockets = self.sockets.values();
        let mut waited: Vec<PollFd> = sockets
            .map(|socket| PollFd::from_borrowed_fd(socket.fd(), PollFlags::IN))
            .collect();
        // A signal is no reason to fail.
        let _ = poll(&mut waited, timeout.as_ref());
        let ready = waited.iter().map(|socket| !socket.revents().is_empty());
        let ready: Vec<QueryId> = queries
            .into_iter()
            .zip(ready)
            .filter_map(|(query, ready)| ready.then_some(query))
            .collect();
        ready.into_iter().for_each(|query| self.read(query));
    }

    fn read(&mut self, query: QueryId) {
        let now = self.now();
        let mut bytes = [0; 4096];
        match self.sockets.get_mut(&query) {
            Some(Socket::Udp(socket)) => match socket.recv_from(&mut bytes) {
                Ok((count, from)) => {
                    self.resolver
                        .handle_datagram(now, query, from, &bytes[..count])
                }
                Err(_) => self.resolver.handle_failure(now, query),
            },
            Some(Socket::Tcp(stream)) => match stream.read(&mut bytes) {
                Ok(0) | Err(_) => self.resolver.handle_failure(now, query),
                Ok(count) => self.resolver.handle_stream(now, query, &bytes[..count]),
            },
            None => {}
        }
    }
}

impl Socket {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

fn send(port: u16, server: SocketAddr, message: &[u8]) -> io::Result<Socket> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, port))?;
    socket.send_to(message, server)?;
    Ok(Socket::Udp(socket))
}

/// Waits for the connection; a program with other work would wait for it together with the rest.
fn connect(server: SocketAddr, bytes: &[u8]) -> io::Result<Socket> {
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(5))?;
    stream.write_all(bytes)?;
    Ok(Socket::Tcp(stream))
}

fn main() -> io::Result<()> {
    let mut files = Files::of_system();
    let config = files.read_if_changed(files.modified())?.unwrap_or_default();
    let mut driver = Driver::new(config);
    for name in std::env::args().skip(1) {
        match driver.lookup(&name, Families::Both) {
            Ok(addresses) => addresses
                .iter()
                .for_each(|address| println!("{address} {name}")),
            Err(error) => eprintln!("{error}"),
        }
    }
    Ok(())
}
