//! Names: a caching resolver ([`exos_names`]) over sockets of a stack.
//!
//! All lookups of a [`Names`] share its cache and its queries. Whoever is polled moves all of them on, and wakes the tasks of
//! those that have come to an end.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use exos_inet::Instant;
use exos_inet::tcp::Options;
use exos_names::{Action, Config, Counters, Event, Families, Files, LookupId, QueryId, Resolver};

use super::datagrams::UdpSocket;
use super::stack::Net;
use super::stream::TcpStream;
use crate::clock;
use crate::limits::{FILES_EVERY, NAMES_REMEMBERED};

/// A caching resolver. Clones are the same one.
///
/// ```no_run
/// # use exos::net::{Names, Net};
/// # fn run(net: Net) -> std::io::Result<()> {
/// let names = Names::of_system(&net)?;
/// let stream = names.connect("www.example", 80, None)?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Names {
    net: Net,
    driver: Rc<RefCell<Driver>>,
}

/// A resolver with its sockets.
struct Driver {
    resolver: Resolver,
    /// Where its configuration comes from, unless the program has given it.
    files: Option<Files>,
    /// When they were looked at last.
    looked: Instant,
    sockets: BTreeMap<QueryId, Socket>,
    /// Lookups under way.
    lookups: HashMap<LookupId, PendingLookup>,
    /// By which address a name was reached the last time.
    worked: HashMap<String, IpAddr>,
}

enum Socket {
    Udp(UdpSocket),
    /// With what is yet to be written.
    Tcp(TcpStream, Vec<u8>),
}

/// What a lookup has come to, and who waits for it.
#[derive(Default)]
struct PendingLookup {
    events: VecDeque<Event>,
    waker: Option<Waker>,
}

impl Names {
    /// As this host is configured: `/etc/resolv.conf` and `/etc/hosts`, read again when they have changed.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn of_system(net: &Net) -> io::Result<Self> {
        let mut files = Files::of_system();
        let config = files.read_if_changed(files.modified())?;
        Ok(Self::with(net, config.unwrap_or_default(), Some(files)))
    }

    /// As the program says.
    pub fn new(net: &Net, config: Config) -> Self {
        Self::with(net, config, None)
    }

    fn with(net: &Net, config: Config, files: Option<Files>) -> Self {
        // The standard library's hasher has keys of the system's random numbers.
        let secret = RandomState::new().hash_one(0);
        let driver = Driver {
            resolver: Resolver::new(config, secret),
            files,
            looked: clock::now(),
            sockets: BTreeMap::new(),
            lookups: HashMap::new(),
            worked: HashMap::new(),
        };
        Self {
            net: net.clone(),
            driver: Rc::new(RefCell::new(driver)),
        }
    }

    /// The stack whose sockets ask.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// How many queries, answers and forgeries there were, by name.
    pub fn counters(&self) -> Counters {
        self.driver.borrow().resolver.counters().clone()
    }

    /// Begins a lookup, which goes on with [`poll_events`](Self::poll_events) until it is [let go](Self::let_go).
    pub(super) fn begin(&self, name: &str, families: Families) -> io::Result<LookupId> {
        let mut driver = self.driver.borrow_mut();
        driver.read_files()?;
        let id = driver.resolver.lookup(clock::now(), name, families);
        let id = id.map_err(of_names)?;
        driver.lookups.insert(id, PendingLookup::default());
        Ok(id)
    }

    /// By which address the name was reached the last time.
    pub(super) fn remembered(&self, name: &str) -> Option<IpAddr> {
        self.driver.borrow().worked.get(name).copied()
    }

    /// Moves all lookups on, and takes what one has come to.
    pub(super) fn poll_events(&self, cx: &mut Context<'_>, id: LookupId) -> VecDeque<Event> {
        let (events, woken) = {
            let driver = &mut *self.driver.borrow_mut();
            let woken = driver.step(&self.net, cx, id);
            let asked = driver
                .lookups
                .get_mut(&id)
                .expect("it is under way until it is dropped");
            asked.waker = Some(cx.waker().clone());
            (std::mem::take(&mut asked.events), woken)
        };
        woken.into_iter().for_each(Waker::wake);
        events
    }

    /// When to move on at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.driver.borrow().resolver.poll_timeout()
    }

    /// The name was reached by that address.
    pub(super) fn remember(&self, name: &str, address: IpAddr) {
        let worked = &mut self.driver.borrow_mut().worked;
        if worked.len() >= NAMES_REMEMBERED {
            worked.clear();
        }
        worked.insert(name.to_owned(), address);
    }

    /// A lookup is over, or nobody wants it any more: another one's task takes the queries up.
    pub(super) fn let_go(&self, id: LookupId) {
        let others: Vec<Waker> = {
            let driver = &mut *self.driver.borrow_mut();
            driver.resolver.cancel(id);
            driver.lookups.remove(&id);
            driver
                .lookups
                .values_mut()
                .filter_map(|asked| asked.waker.take())
                .collect()
        };
        others.into_iter().for_each(Waker::wake);
    }
}

impl Driver {
    /// Reads the files of the system where they have changed.
    fn read_files(&mut self) -> io::Result<()> {
        let now = clock::now();
        if now - self.looked < FILES_EVERY {
            return Ok(());
        }
        self.looked = now;
        if let Some(files) = &mut self.files
            && let Some(config) = files.read_if_changed(files.modified())?
        {
            self.resolver.configure(now, config);
        }
        Ok(())
    }

    /// Does what is due and reads what has come, until there is nothing more. The task of each lookup that has come to something,
    /// that which asks apart, is to be woken.
    fn step(&mut self, net: &Net, cx: &mut Context<'_>, asking: LookupId) -> Vec<Waker> {
        let mut woken = Vec::new();
        self.resolver.handle_timeout(clock::now());
        loop {
            while let Some(action) = self.resolver.poll_action() {
                self.act(net, action);
            }
            let queries: Vec<QueryId> = self.sockets.keys().copied().collect();
            let mut has_come = false;
            for query in queries {
                has_come |= self.read(query, cx);
            }
            while let Some(event) = self.resolver.poll_event() {
                let (Event::Family { lookup, .. } | Event::Done { lookup, .. }) = &event;
                let lookup = *lookup;
                let Some(asked) = self.lookups.get_mut(&lookup) else {
                    continue;
                };
                asked.events.push_back(event);
                if lookup != asking {
                    woken.extend(asked.waker.take());
                }
            }
            if !has_come {
                return woken;
            }
        }
    }

    fn act(&mut self, net: &Net, action: Action) {
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
            } => (query, ask(net, port, server, &message)),
            Action::Stream {
                query,
                server,
                bytes,
            } => {
                let stream = TcpStream::open(net, server, None, &Options::default());
                (query, stream.map(|stream| Socket::Tcp(stream, bytes)))
            }
        };
        let now = clock::now();
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

    /// Reads from a query's socket; true when something has come.
    fn read(&mut self, query: QueryId, cx: &mut Context<'_>) -> bool {
        let resolver = &mut self.resolver;
        let now = clock::now();
        let came = match self.sockets.get_mut(&query) {
            None => return false,
            Some(Socket::Udp(socket)) => socket.poll_receive(cx).map_ok(|answer| {
                resolver.handle_datagram(now, query, answer.from, &answer.payload);
            }),
            Some(Socket::Tcp(stream, question)) => {
                if !question.is_empty() {
                    match stream.poll_write(cx, &[question]) {
                        Poll::Ready(Ok(count)) => drop(question.drain(..count)),
                        Poll::Ready(Err(_)) => resolver.handle_failure(now, query),
                        Poll::Pending => {}
                    }
                }
                stream
                    .poll_read_with(cx, |bytes| (bytes.len(), bytes.to_vec()))
                    .map(|bytes| {
                        let bytes = bytes?;
                        if bytes.is_empty() {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                        resolver.handle_stream(now, query, &bytes);
                        Ok(())
                    })
            }
        };
        if let Poll::Ready(Err(_)) = came {
            // It is closed by the resolver, whatever comes of the lookup.
            self.sockets.remove(&query);
            resolver.handle_failure(now, query);
        }
        came.is_ready()
    }
}

/// A socket that has asked by a datagram.
fn ask(net: &Net, port: u16, server: SocketAddr, message: &[u8]) -> io::Result<Socket> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(net, (any, port))?;
    socket.set_nonblocking(true)?;
    socket.connect(server)?;
    socket.send(message)?;
    Ok(Socket::Udp(socket))
}

/// Why a name has no addresses.
pub(super) fn of_names(error: exos_names::Error) -> io::Error {
    use exos_names::ErrorKind;
    let kind = match error.kind() {
        ErrorKind::BadName => io::ErrorKind::InvalidInput,
        ErrorKind::NoSuchName | ErrorKind::NoAddress | ErrorKind::NoServer => {
            io::ErrorKind::NotFound
        }
        ErrorKind::NoAnswer => io::ErrorKind::TimedOut,
        ErrorKind::ServerFailure | ErrorKind::Busy => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
