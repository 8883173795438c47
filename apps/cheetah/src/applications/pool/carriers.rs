//! What carries requests to applications: a connection that speaks FastCGI or HTTP, or a link of shared buffers. To those who ask all are alike.

use exos_application::asking::Part;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Reason};
use rustix::io::Errno;

use super::group::{Left, Waiting};
use super::groups::GroupId;
use super::links::{Links, RequestId};
use super::upstreams::Upstreams;
use crate::applications::application::{Address, Application};
use crate::applications::record::{self, Stream};
use crate::limits::BODY_QUEUE_LEN;

/// What carries a request to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// A connection, which speaks FastCGI.
    Fastcgi(ConnectionId),
    /// A connection, which speaks HTTP.
    Http(ConnectionId),
    /// A link, where it has a number.
    Request(RequestId),
}

impl Upstream {
    /// A connection to there.
    pub(super) fn of(address: &Address, connection: ConnectionId) -> Upstream {
        match address {
            Address::Http(_) | Address::Https(..) => Upstream::Http(connection),
            Address::Fastcgi(_) | Address::Shared(_) => Upstream::Fastcgi(connection),
        }
    }

    /// The connection, if it is one.
    pub(super) fn connection(self) -> Option<ConnectionId> {
        match self {
            Upstream::Fastcgi(connection) | Upstream::Http(connection) => Some(connection),
            Upstream::Request(_) => None,
        }
    }
}

/// All that carries requests of a loop.
#[derive(Default)]
pub struct Carriers {
    pub(super) upstreams: Upstreams,
    pub(super) links: Links,
}

impl Carriers {
    /// Begins a request with these variables, or over HTTP with this head; `keeps` has a connection stay open behind it. Gives the memory of what was
    /// said back, where it is not needed.
    pub fn begin(
        &mut self,
        upstream: Upstream,
        words: Vec<u8>,
        has_body: bool,
        keeps: bool,
    ) -> Vec<u8> {
        let mut words = words;
        match upstream {
            Upstream::Fastcgi(connection) => {
                let mut records = Vec::with_capacity(words.len() + 64);
                record::begin(&mut records, keeps);
                record::part(&mut records, Stream::Params, &words);
                record::end(&mut records, Stream::Params);
                if !has_body {
                    record::end(&mut records, Stream::Stdin);
                }
                self.upstreams.send(connection, records);
            }
            Upstream::Http(connection) => {
                debug_assert!(words.ends_with(b"\r\n\r\n"), "a head comes first");
                self.upstreams.send(connection, std::mem::take(&mut words));
            }
            Upstream::Request(request) => self.links.ask(request, &words, has_body),
        }
        if let Some(connection) = upstream.connection().filter(|_| !has_body) {
            self.upstreams.write_now(connection);
        }
        words
    }

    /// Sends a part of its body.
    pub fn send_body(&mut self, upstream: Upstream, bytes: &[u8], is_last: bool) {
        match upstream {
            Upstream::Fastcgi(connection) => {
                let mut records = Vec::with_capacity(bytes.len() + 32);
                record::part(&mut records, Stream::Stdin, bytes);
                if is_last {
                    record::end(&mut records, Stream::Stdin);
                }
                self.upstreams.send_body(connection, records);
            }
            Upstream::Http(connection) => self.upstreams.send_body(connection, bytes.to_vec()),
            Upstream::Request(request) => self.links.send_body(request, bytes, is_last),
        }
        if let Some(connection) = upstream.connection().filter(|_| is_last) {
            self.upstreams.write_now(connection);
        }
    }

    /// The client ends its side of what was begun.
    pub fn finish(&mut self, upstream: Upstream) {
        if let Some(connection) = upstream.connection() {
            self.upstreams.finish(connection);
        }
    }

    /// Whether what carries it came to stand.
    pub fn has_stood(&self, upstream: Upstream) -> bool {
        let connection = upstream.connection();
        connection.is_none_or(|connection| self.upstreams.has_stood(connection))
    }

    /// How much of its body is taken now. Over HTTP none is before the connection stands: until then another may be asked instead.
    pub fn body_room(&self, upstream: Upstream) -> usize {
        match upstream {
            Upstream::Http(connection) if !self.upstreams.has_stood(connection) => 0,
            Upstream::Fastcgi(connection) | Upstream::Http(connection) => {
                BODY_QUEUE_LEN.saturating_sub(self.upstreams.unsent(connection))
            }
            Upstream::Request(request) => self.links.body_room(request),
        }
    }

    /// What has come on a connection and was not taken.
    pub fn readable(&self, connection: ConnectionId) -> &[u8] {
        self.upstreams.readable(connection)
    }

    /// Takes this many bytes of that.
    pub fn consume(&mut self, connection: ConnectionId, count: usize) {
        self.upstreams.consume(connection, count);
    }

    /// Takes what has come of the answer to a request on a link, up to the first piece of its content.
    pub fn take_part(&mut self, request: RequestId) -> Option<Part> {
        self.links.take(request)
    }

    /// Why nothing more comes than what is there, if so.
    pub fn end_of(&self, upstream: Upstream) -> Option<Reason> {
        match upstream {
            Upstream::Fastcgi(connection) | Upstream::Http(connection) => {
                self.upstreams.end_of(connection)
            }
            Upstream::Request(request) => self.links.end_of(request),
        }
    }

    /// Why there is no session of TLS, where that is so.
    pub fn session_failure(&self, upstream: Upstream) -> Option<String> {
        self.upstreams.session_failure(upstream.connection()?)
    }

    /// Nobody wants the answer: says so, before [`close`](super::Applications::close). Where the request `is_cut` an upstream is reset,
    /// that it does not take a part of a body for all of it.
    pub fn abort(&mut self, upstream: Upstream, is_cut: bool) {
        match upstream {
            Upstream::Fastcgi(connection) => {
                let mut abort = Vec::new();
                record::abort(&mut abort);
                self.upstreams.send(connection, abort);
            }
            Upstream::Http(connection) if is_cut => self.upstreams.reset(connection),
            Upstream::Http(_) | Upstream::Request(_) => {}
        }
    }

    // The pool.

    /// Has a client's request be carried there, and says whether a connection or a link was made for that.
    pub(super) fn connect(
        &mut self,
        application: &Application,
        address: &Address,
        group: GroupId,
        asks: &Waiting,
        now: Instant,
    ) -> Result<(Upstream, bool), Errno> {
        if let Address::Shared(path) = address {
            let timeout = application.timeout;
            let (begun, is_new) = self.links.begin(path, group, asks, timeout, now)?;
            return Ok((Upstream::Request(begun), is_new));
        }
        let connection = self.upstreams.connect(address, group, asks)?;
        Ok((Upstream::of(address, connection), true))
    }

    /// Closes a connection, or leaves a request, and gives what it had of its group.
    pub(super) fn leave(&mut self, upstream: Upstream) -> Option<Left> {
        match upstream {
            Upstream::Fastcgi(connection) | Upstream::Http(connection) => {
                self.upstreams.leave(connection)
            }
            Upstream::Request(request) => self.links.leave(request),
        }
    }

    /// Whether there is something to do at once.
    pub(super) fn is_pressing(&self) -> bool {
        self.upstreams.is_pressing() || self.links.is_pressing()
    }
}
