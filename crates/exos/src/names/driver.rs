//! What is around a resolver: a socket for each query, opened, read and closed as the resolver says, and the files of the system,
//! read again when they have changed.
//!
//! [`Driver::begin`] a lookup, then [`Driver::step`] whenever a socket has something and at the [deadline](Driver::deadline);
//! each step gives what has become of lookups. The kind of sockets is a parameter: a stack's, or the kernel's.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use exos_host::random::random_number;
use exos_inet::Instant;
use exos_names::{
    Action, Config, Error, ErrorKind, Event, Families, Files, LookupId, QueryId, Resolver,
};

use crate::clock;
use crate::limits::FILES_EVERY;

/// A socket of one query, which never waits.
pub(crate) trait Socket: Sized {
    /// What it is opened on.
    type On;

    /// One of UDP, from this port, that has sent the message.
    fn ask(on: &Self::On, port: u16, server: SocketAddr, message: &[u8]) -> io::Result<Self>;

    /// One of TCP, that is being connected and will write the bytes.
    fn connect(on: &Self::On, server: SocketAddr, bytes: Vec<u8>) -> io::Result<Self>;

    /// Goes on with what is to be written, and takes what has come.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Received>>;
}

/// What has come to a query's socket.
pub(crate) enum Received {
    Datagram(SocketAddr, Vec<u8>),
    /// Some bytes of a connection; none at its end.
    Bytes(Vec<u8>),
}

/// A resolver with its sockets.
pub(crate) struct Driver<S> {
    resolver: Resolver,
    /// Where its configuration comes from, unless the program has given it.
    files: Option<Files>,
    /// When they were looked at last; `None` for the next lookup to do so.
    looked: Option<Instant>,
    sockets: BTreeMap<QueryId, S>,
}

impl<S: Socket> Driver<S> {
    /// As this host is configured.
    pub fn of_system() -> io::Result<Self> {
        let mut files = Files::of_system();
        let config = files.read_if_changed(files.modified())?;
        Ok(Self {
            files: Some(files),
            ..Self::new(config.unwrap_or_default())
        })
    }

    /// As the program says.
    pub fn new(config: Config) -> Self {
        Self {
            resolver: Resolver::new(config, random_number()),
            files: None,
            looked: Some(clock::now()),
            sockets: BTreeMap::new(),
        }
    }

    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Forgets what is known, of the files too.
    pub fn forget(&mut self) {
        self.resolver.clear_cache();
        self.looked = None;
    }

    /// Begins a lookup.
    pub fn begin(&mut self, name: &str, families: Families) -> io::Result<LookupId> {
        let now = clock::now();
        if self.looked.is_none_or(|looked| now - looked >= FILES_EVERY) {
            self.looked = Some(now);
            self.read_files(now)?;
        }
        self.resolver
            .lookup(now, name, families)
            .map_err(as_io_error)
    }

    fn read_files(&mut self, now: Instant) -> io::Result<()> {
        if let Some(files) = &mut self.files
            && let Some(config) = files.read_if_changed(files.modified())?
        {
            self.resolver.configure(now, config);
        }
        Ok(())
    }

    /// Ends a lookup.
    pub fn cancel(&mut self, id: LookupId) {
        self.resolver.cancel(id);
    }

    /// When to step at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.resolver.poll_timeout()
    }

    pub fn sockets(&self) -> impl Iterator<Item = &S> {
        self.sockets.values()
    }

    /// Does what is due and reads what has come, until there is nothing more.
    pub fn step(&mut self, on: &S::On, cx: &mut Context<'_>) -> Vec<Event> {
        self.resolver.handle_timeout(clock::now());
        loop {
            while let Some(action) = self.resolver.poll_action() {
                self.act(on, action);
            }
            let queries: Vec<QueryId> = self.sockets.keys().copied().collect();
            let mut has_come = false;
            for query in queries {
                has_come |= self.read(query, cx);
            }
            if !has_come {
                return std::iter::from_fn(|| self.resolver.poll_event()).collect();
            }
        }
    }

    fn act(&mut self, on: &S::On, action: Action) {
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
            } => (query, S::ask(on, port, server, &message)),
            Action::Stream {
                query,
                server,
                bytes,
            } => (query, S::connect(on, server, bytes)),
        };
        match socket {
            Ok(socket) => {
                self.sockets.insert(query, socket);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                self.resolver.handle_port_in_use(clock::now(), query);
            }
            Err(_) => self.resolver.handle_failure(clock::now(), query),
        }
    }

    /// Reads from a query's socket; true when something has come.
    fn read(&mut self, query: QueryId, cx: &mut Context<'_>) -> bool {
        let Some(socket) = self.sockets.get_mut(&query) else {
            return false;
        };
        let Poll::Ready(came) = socket.poll(cx) else {
            return false;
        };
        let (resolver, now) = (&mut self.resolver, clock::now());
        match came {
            Ok(Received::Datagram(from, bytes)) => {
                resolver.handle_datagram(now, query, from, &bytes);
            }
            Ok(Received::Bytes(bytes)) if !bytes.is_empty() => {
                resolver.handle_stream(now, query, &bytes);
            }
            Ok(Received::Bytes(_)) | Err(_) => {
                // It is closed by the resolver, whatever comes of the lookup.
                self.sockets.remove(&query);
                resolver.handle_failure(now, query);
            }
        }
        true
    }
}

/// Why a name has no addresses.
pub(crate) fn as_io_error(error: Error) -> io::Error {
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
