//! What carries requests to applications: a connection that speaks FastCGI, or a link of shared buffers. To those who ask both are alike.

use exos_application::asking::Part;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Reason};
use rustix::io::Errno;

use super::links::{Links, RequestId};
use super::upstreams::Upstreams;
use crate::applications::application::{Address, Application};
use crate::applications::record::{self, Stream};
use crate::limits::BODY_QUEUE_LEN;

/// What carries a request to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// A connection, which speaks FastCGI.
    Connection(ConnectionId),
    /// A link, where it has a number.
    Request(RequestId),
}

/// All that carries requests of a loop.
#[derive(Default)]
pub struct Carriers {
    pub(super) upstreams: Upstreams,
    pub(super) links: Links,
}

impl Carriers {
    /// Begins a request with these variables; `keeps` has a connection stay open behind it.
    pub fn begin(&mut self, upstream: Upstream, variables: &[u8], has_body: bool, keeps: bool) {
        match upstream {
            Upstream::Connection(connection) => {
                let mut records = Vec::with_capacity(variables.len() + 64);
                record::begin(&mut records, keeps);
                record::part(&mut records, Stream::Params, variables);
                record::end(&mut records, Stream::Params);
                if !has_body {
                    record::end(&mut records, Stream::Stdin);
                }
                self.upstreams.send(connection, records);
            }
            Upstream::Request(request) => self.links.ask(request, variables, has_body),
        }
    }

    /// Sends a part of its body.
    pub fn send_body(&mut self, upstream: Upstream, bytes: &[u8], is_last: bool) {
        match upstream {
            Upstream::Connection(connection) => {
                let mut records = Vec::with_capacity(bytes.len() + 32);
                record::part(&mut records, Stream::Stdin, bytes);
                if is_last {
                    record::end(&mut records, Stream::Stdin);
                }
                self.upstreams.send(connection, records);
            }
            Upstream::Request(request) => self.links.send_body(request, bytes, is_last),
        }
    }

    /// How much of its body is taken now.
    pub fn body_room(&self, upstream: Upstream) -> usize {
        match upstream {
            Upstream::Connection(connection) => {
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

    /// Takes the next part of the answer to a request on a link.
    pub fn take_part(&mut self, request: RequestId) -> Option<Part> {
        self.links.take(request)
    }

    /// Of the answer to a request on a link there is nothing left but its end, which has come.
    pub fn is_at_end(&self, request: RequestId) -> bool {
        self.links.is_at_end(request)
    }

    /// Why nothing more comes than what is there, if so.
    pub fn end_of(&self, upstream: Upstream) -> Option<Reason> {
        match upstream {
            Upstream::Connection(connection) => self.upstreams.end_of(connection),
            Upstream::Request(request) => self.links.end_of(request),
        }
    }

    /// Nobody wants the answer: says so, before [`close`](Self::close).
    pub fn abort(&mut self, upstream: Upstream) {
        if let Upstream::Connection(connection) = upstream {
            let mut abort = Vec::new();
            record::abort(&mut abort);
            self.upstreams.send(connection, abort);
        }
    }

    // The pool.

    /// Has a client's request be carried there, and says whether a connection or a link was made for that.
    pub(super) fn connect(
        &mut self,
        application: &Application,
        client: ConnectionId,
        now: Instant,
    ) -> Result<(Upstream, bool), Errno> {
        let address = &application.address;
        if let Address::Shared(path) = address {
            let timeout = application.timeout;
            let (begun, is_new) = self.links.begin(path, client, timeout, now)?;
            return Ok((Upstream::Request(begun), is_new));
        }
        let connection = self.upstreams.connect(address, client)?;
        Ok((Upstream::Connection(connection), true))
    }

    /// Closes a connection, or leaves a request, and gives its application's address.
    pub(super) fn leave(&mut self, upstream: Upstream) -> Option<Address> {
        match upstream {
            Upstream::Connection(connection) => self.upstreams.leave(connection),
            Upstream::Request(request) => self.links.leave(request),
        }
    }

    /// Whether there is something to do at once.
    pub(super) fn is_pressing(&self) -> bool {
        self.upstreams.is_pressing() || self.links.is_pressing()
    }
}
