//! A lookup and a connection by name, while they are under way: to be polled by a task, or by a call that waits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use exos_inet::Instant;
use exos_inet::tcp::Options;
use exos_names::{Connector, Event, LookupId};

use super::names::of_names;
use super::{Names, TcpStream};
use crate::clock;

/// What takes several turns of the stack.
pub(super) trait Job {
    type Output;

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Output>>;

    /// When to poll it at the latest, although nothing has come.
    fn deadline(&self) -> Option<Instant>;
}

/// A lookup ([`Names::begin_lookup`]). Dropped, it is given up.
pub struct Lookup {
    pub(super) names: Names,
    pub(super) id: LookupId,
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
                return Poll::Ready(result.map_err(of_names));
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
    pub(super) fn new(
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
                self.failed = Some(of_names(error));
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
