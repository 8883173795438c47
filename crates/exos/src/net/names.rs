//! Names: a caching resolver ([`exos_names`]) over sockets of a stack.
//!
//! All lookups of a [`Names`] share its cache and its queries. Whoever is polled moves all of them on, and wakes the tasks of
//! those that have come to an end.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use exos_inet::Instant;
use exos_inet::tcp::Options;
use exos_names::{Config, Counters, Event, Families, LookupId};

use super::datagrams::UdpSocket;
use super::stack::Net;
use super::stream::TcpStream;
use crate::limits::NAMES_REMEMBERED;
use crate::names::driver::{self, Driver, Received};

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
    inner: Rc<RefCell<Inner>>,
}

/// A resolver, and what is kept of lookups.
struct Inner {
    driver: Driver<Socket>,
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
        Ok(Self::with(net, Driver::of_system()?))
    }

    /// As the program says.
    pub fn new(net: &Net, config: Config) -> Self {
        Self::with(net, Driver::new(config))
    }

    fn with(net: &Net, driver: Driver<Socket>) -> Self {
        let inner = Inner {
            driver,
            lookups: HashMap::new(),
            worked: HashMap::new(),
        };
        Self {
            net: net.clone(),
            inner: Rc::new(RefCell::new(inner)),
        }
    }

    /// The stack whose sockets ask.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// How names are looked up now.
    pub fn config(&self) -> Config {
        self.inner.borrow().driver.resolver().config().clone()
    }

    /// How many queries, answers and forgeries there were, by name.
    pub fn counters(&self) -> Counters {
        self.inner.borrow().driver.resolver().counters().clone()
    }

    /// Begins a lookup, which goes on with [`poll_events`](Self::poll_events) until it is [let go](Self::let_go).
    pub(super) fn begin(&self, name: &str, families: Families) -> io::Result<LookupId> {
        let mut inner = self.inner.borrow_mut();
        let id = inner.driver.begin(name, families)?;
        inner.lookups.insert(id, PendingLookup::default());
        Ok(id)
    }

    /// By which address the name was reached the last time.
    pub(super) fn remembered(&self, name: &str) -> Option<IpAddr> {
        self.inner.borrow().worked.get(name).copied()
    }

    /// Moves all lookups on, and takes what one has come to.
    pub(super) fn poll_events(&self, cx: &mut Context<'_>, id: LookupId) -> VecDeque<Event> {
        let (events, woken) = {
            let inner = &mut *self.inner.borrow_mut();
            let woken = inner.step(&self.net, cx, id);
            let asked = inner
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
        self.inner.borrow().driver.deadline()
    }

    /// The name was reached by that address.
    pub(super) fn remember(&self, name: &str, address: IpAddr) {
        let worked = &mut self.inner.borrow_mut().worked;
        if worked.len() >= NAMES_REMEMBERED {
            worked.clear();
        }
        worked.insert(name.to_owned(), address);
    }

    /// A lookup is over, or nobody wants it any more: another one's task takes the queries up.
    pub(super) fn let_go(&self, id: LookupId) {
        let others: Vec<Waker> = {
            let inner = &mut *self.inner.borrow_mut();
            inner.driver.cancel(id);
            inner.lookups.remove(&id);
            inner
                .lookups
                .values_mut()
                .filter_map(|asked| asked.waker.take())
                .collect()
        };
        others.into_iter().for_each(Waker::wake);
    }
}

impl Inner {
    /// Moves all lookups on. The task of each that has come to something, that which asks apart, is to be woken.
    fn step(&mut self, net: &Net, cx: &mut Context<'_>, asking: LookupId) -> Vec<Waker> {
        let mut woken = Vec::new();
        for event in self.driver.step(net, cx) {
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
        woken
    }
}

impl driver::Socket for Socket {
    type On = Net;

    fn ask(net: &Net, port: u16, server: SocketAddr, message: &[u8]) -> io::Result<Self> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind(net, (any, port))?;
        socket.set_nonblocking(true)?;
        socket.connect(server)?;
        socket.send(message)?;
        Ok(Self::Udp(socket))
    }

    fn connect(net: &Net, server: SocketAddr, bytes: Vec<u8>) -> io::Result<Self> {
        let stream = TcpStream::open(net, server, None, &Options::default())?;
        Ok(Self::Tcp(stream, bytes))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        let (stream, question) = match self {
            Self::Udp(socket) => {
                let came = socket.poll_receive(cx);
                return came
                    .map_ok(|answer| Received::Datagram(answer.from, answer.payload.to_vec()));
            }
            Self::Tcp(stream, question) => (stream, question),
        };
        if !question.is_empty()
            && let Poll::Ready(count) = stream.poll_write(cx, &[question])?
        {
            question.drain(..count);
        }
        let came = stream.poll_read_with(cx, |bytes| (bytes.len(), bytes.to_vec()));
        came.map_ok(Received::Bytes)
    }
}
