//! Looking up a name and connecting by it: to be polled by a task, or in a call that waits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use exos_inet::Instant;
use exos_inet::tcp::Options;
use exos_names::{Config, Connector, Event, Families, LookupId};

use super::inner::Wait;
use super::names::Names;
use super::stream::TcpStream;
use crate::clock;
use crate::limits::NAMES_SLOW;
use crate::names::driver::as_io_error;

/// What takes several turns of the stack.
trait Job {
    type Output;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Output>>;

    /// When to poll it at the latest, although nothing has come.
    fn deadline(&self) -> Option<Instant>;
}

impl Names {
    /// The addresses of a name; IPv6 first.
    ///
    /// # Errors
    ///
    /// `NotFound`: there is no such name, or it has no address; `TimedOut`: no server has answered; `InvalidInput`: it is no name.
    pub fn lookup(&self, name: &str, families: Families) -> io::Result<Vec<IpAddr>> {
        self.lookup_telling(name, families, |_| ())
    }

    /// As [`lookup`](Self::lookup); `slow` is called where that takes longer than [`NAMES_SLOW`].
    ///
    /// # Errors
    ///
    /// Those of [`lookup`](Self::lookup).
    pub fn lookup_telling(
        &self,
        name: &str,
        families: Families,
        slow: impl FnOnce(&Config),
    ) -> io::Result<Vec<IpAddr>> {
        let mut lookup = self.begin_lookup(name, families)?;
        let at = clock::now() + NAMES_SLOW;
        if let Some(found) = self.wait(Some(at), &mut lookup)? {
            return Ok(found);
        }
        slow(&self.config());
        let found = self.wait(None, &mut lookup)?;
        Ok(found.expect("it waits until the end"))
    }

    /// Opens a connection to a name's address that answers first (RFC 8305), within the time.
    ///
    /// # Errors
    ///
    /// Those of [`lookup`](Self::lookup); `TimedOut`; the last address's error, where none can be reached.
    pub fn connect(
        &self,
        name: &str,
        port: u16,
        timeout: Option<Duration>,
    ) -> io::Result<TcpStream> {
        let until = timeout.map(|time| clock::now() + time);
        let mut connect = self.begin_connect(name, port, Options::default())?;
        let stream = self.wait(until, &mut connect)?;
        let stream = stream.ok_or(io::ErrorKind::TimedOut)?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// Begins a lookup, which a task polls.
    ///
    /// # Errors
    ///
    /// It is no name, or too many are looked up; a file of the system cannot be read.
    pub fn begin_lookup(&self, name: &str, families: Families) -> io::Result<Lookup> {
        Ok(Lookup {
            id: self.begin(name, families)?,
            names: self.clone(),
        })
    }

    /// Begins to connect, which a task polls.
    ///
    /// # Errors
    ///
    /// As those of [`begin_lookup`](Self::begin_lookup).
    pub fn begin_connect(&self, name: &str, port: u16, options: Options) -> io::Result<Connect> {
        let lookup = self.begin_lookup(name, Families::Both)?;
        let worked = self.remembered(name);
        Ok(Connect::new(lookup, name, port, options, worked))
    }

    /// Runs the stack until the job is done; `None` when it is not at that time.
    fn wait<J: Job>(&self, until: Option<Instant>, job: &mut J) -> io::Result<Option<J::Output>> {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(done) = job.poll(&mut cx) {
                return done.map(Some);
            }
            if until.is_some_and(|at| at <= clock::now()) {
                return Ok(None);
            }
            let wake = until.into_iter().chain(job.deadline()).min();
            self.net().turn_and_wait(Wait::Until(wake, &[]))?;
        }
    }
}

/// A lookup ([`Names::begin_lookup`]). Dropped, it is given up.
pub struct Lookup {
    names: Names,
    id: LookupId,
}

impl Lookup {
    /// The addresses, or the task is woken when to ask again; also at [`deadline`](Self::deadline), for which the caller sees to it.
    ///
    /// # Errors
    ///
    /// Those of [`Names::lookup`].
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<IpAddr>>> {
        for event in self.names.poll_events(cx, self.id) {
            if let Event::Done { result, .. } = event {
                return Poll::Ready(result.map_err(as_io_error));
            }
        }
        Poll::Pending
    }

    /// When to poll it at the latest, although nothing has come.
    pub fn deadline(&self) -> Option<Instant> {
        self.names.deadline()
    }
}

impl Job for Lookup {
    type Output = Vec<IpAddr>;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<IpAddr>>> {
        self.poll(cx)
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline()
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.names.let_go(self.id);
    }
}

/// A connection to a name ([`Names::begin_connect`]). Dropped, it is given up.
pub struct Connect {
    lookup: Lookup,
    name: String,
    port: u16,
    options: Options,
    connector: Connector,
    attempts: Vec<(IpAddr, TcpStream)>,
    /// Why the last attempt, or the lookup, has failed.
    failed: Option<io::Error>,
}

impl Connect {
    fn new(
        lookup: Lookup,
        name: &str,
        port: u16,
        options: Options,
        worked: Option<IpAddr>,
    ) -> Self {
        Self {
            lookup,
            name: name.to_owned(),
            port,
            options,
            connector: Connector::new(worked),
            attempts: Vec::new(),
            failed: None,
        }
    }

    /// The connection, non-blocking, or the task is woken when to ask again; also at [`deadline`](Self::deadline), for which the
    /// caller sees to it.
    ///
    /// # Errors
    ///
    /// Those of [`Names::connect`], `TimedOut` apart.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let now = clock::now();
        for event in self.lookup.names.poll_events(cx, self.lookup.id) {
            self.connector.handle_event(now, &event);
            if let Event::Done {
                result: Err(error), ..
            } = event
            {
                self.failed = Some(as_io_error(error));
            }
        }
        loop {
            if let Some(address) = self.first_to_stand(now, cx) {
                let at = self.attempts.iter().position(|(of, _)| *of == address);
                let (_, stream) = self.attempts.swap_remove(at.expect("it is one of them"));
                self.connector.handle_connected(address);
                self.lookup.names.remember(&self.name, address);
                self.attempts.clear();
                return Poll::Ready(Ok(stream));
            }
            let Some(address) = self.connector.poll_attempt(now) else {
                break;
            };
            let to = SocketAddr::new(address, self.port);
            match TcpStream::open(self.lookup.names.net(), to, None, &self.options) {
                Ok(stream) => self.attempts.push((address, stream)),
                Err(error) => self.failed(now, address, error),
            }
        }
        match self.connector.has_failed() {
            true => {
                let why = self.failed.take();
                Poll::Ready(Err(why.unwrap_or_else(|| io::ErrorKind::NotFound.into())))
            }
            false => Poll::Pending,
        }
    }

    /// When to poll it at the latest, although nothing has come.
    pub fn deadline(&self) -> Option<Instant> {
        self.lookup
            .deadline()
            .into_iter()
            .chain(self.connector.poll_timeout())
            .min()
    }

    /// The address whose connection stands; those that cannot be reached are left.
    fn first_to_stand(&mut self, now: Instant, cx: &mut Context<'_>) -> Option<IpAddr> {
        for (address, stream) in std::mem::take(&mut self.attempts) {
            match stream.poll_opened(cx) {
                Poll::Ready(Err(error)) => self.failed(now, address, error),
                Poll::Ready(Ok(())) => {
                    self.attempts.push((address, stream));
                    return Some(address);
                }
                Poll::Pending => self.attempts.push((address, stream)),
            }
        }
        None
    }

    fn failed(&mut self, now: Instant, address: IpAddr, error: io::Error) {
        self.failed = Some(error);
        self.connector.handle_failed(now, address);
    }
}

impl Job for Connect {
    type Output = TcpStream;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        self.poll(cx)
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline()
    }
}
