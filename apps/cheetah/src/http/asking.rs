//! A request that an application answers: what is asked, of which, and what its answer depends on.
//!
//! Its head is consumed, and kept here beside what is asked.

use std::mem::take;
use std::net::IpAddr;
use std::sync::Arc;

use exos_buf::Slice;
use exos_inet::{Duration, Instant};

use super::exchange::Exchange;
use super::kept::role::Use;
use super::response::opening::{Manner, Persistence};
use crate::applications::head::{Head, is_among};
use crate::applications::heads::Known;
use crate::applications::proxy::answer::{AnswerError, Question};
use crate::applications::proxy::redirects::{Own, may_lead, rewrite};
use crate::applications::proxy::request::{upgrade, upgrades};
use crate::applications::proxy::{self, HostField, websocket};
use crate::applications::reply::Framing;
use crate::applications::trailers;
use crate::applications::upload::Length;
use crate::applications::variables::{self, About};
use crate::applications::{Address, Asked};
use crate::limits::UPSTREAM_FRESH_TIME;
use crate::log::LoggedRequest;
use crate::message::Version;
use crate::message::request::{Body, FieldStore, Method, Request, parse};

/// A request that an application answers.
#[derive(Debug)]
pub struct Asking {
    /// What is asked, and of which.
    pub asked: Asked,
    /// The head as it came.
    pub head: Box<[u8]>,
    /// The variables of one that is about to be asked, but those of its connection; else nothing.
    early: Vec<u8>,
    /// What comes behind it.
    pub body: Body,
    /// The client waits for leave before it sends the body.
    pub expects_continue: bool,
    /// It wants another request on this connection.
    pub persistent: bool,
    /// How it was asked.
    pub version: Version,
    /// What its answer is to those that are kept.
    pub(crate) keeps: Use,
    asks_head: bool,
    /// It asks for nothing to be done (RFC 9110 §9.2.1), so that it may be asked twice.
    is_safe: bool,
    /// Asked twice it does what it does once (§9.2.2).
    is_idempotent: bool,
    /// It wants to change to another protocol.
    wants_upgrade: bool,
    /// The key of a WebSocket whose client says none.
    websocket_key: Option<String>,
    site: usize,
    /// What that calls itself.
    server_name: Option<Arc<[u8]>>,
    /// The fields that rules set, as lines.
    more_fields: Option<Slice>,
    /// Whose password let it in.
    user: Option<Box<[u8]>>,
    peer: IpAddr,
    begun: Instant,
    is_encrypted: bool,
    /// It came before the handshake of TLS was over.
    is_early: bool,
    /// What is known of the session of TLS that it came by.
    tls: Option<Arc<exos_tls::About>>,
}

/// The ends of a connection, as applications are told of them.
#[derive(Debug)]
pub struct ToldEnds {
    /// Our address.
    ours: IpAddr,
    variables: Box<[u8]>,
}

impl ToldEnds {
    /// Ours and the client's.
    pub fn new(ends: variables::Ends) -> ToldEnds {
        let mut variables = Vec::new();
        variables::push_ends(&mut variables, ends);
        ToldEnds {
            ours: ends.0.ip(),
            variables: variables.into_boxed_slice(),
        }
    }
}

/// What has been said of an application's answer.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Its status.
    pub code: u16,
    /// Bytes of the head.
    pub head_len: usize,
    /// Bytes of all.
    pub len: usize,
}

impl Asking {
    /// Asked of one, by a request whose head is still to be put here. `server_name` is what the site calls itself, `more_fields`
    /// what its rules set.
    pub(super) fn new(
        asked: Asked,
        exchange: Exchange<'_, '_, '_>,
        site: usize,
        server_name: Option<Arc<[u8]>>,
        more_fields: Option<Slice>,
    ) -> Asking {
        let (request, attempt) = (exchange.request, exchange.attempt);
        let proxy = asked.application.proxy.as_ref();
        let wants_upgrade = upgrades(request, proxy);
        let is_websocket = |list: Vec<u8>| list.eq_ignore_ascii_case(websocket::PROTOCOL);
        let needs_key =
            wants_upgrade && request.is_tunnel() && upgrade(request).is_some_and(is_websocket);
        let is_safe = request.method.is_safe();
        Asking {
            user: exchange.user,
            head: Box::default(),
            early: Vec::new(),
            body: request.body,
            expects_continue: request.expects_continue,
            // A stream has one request: what comes behind it, as of a tunnel that is refused, is none.
            persistent: request.persistent && !request.version.has_streams(),
            version: request.version,
            keeps: Use::None,
            asks_head: request.method == Method::Head,
            is_safe,
            is_idempotent: is_safe || matches!(request.method_name, "PUT" | "DELETE"),
            wants_upgrade,
            websocket_key: needs_key.then(websocket::new_key),
            site,
            server_name,
            more_fields,
            peer: attempt.peer,
            begun: attempt.begun,
            is_encrypted: attempt.is_encrypted,
            is_early: attempt.is_early,
            tls: attempt.tls.cloned(),
            asked,
        }
    }

    /// Asked for nobody, as a request of a client's asks: it may be asked twice, and its answer is for who asks next.
    pub(super) fn for_nobody(
        asked: Asked,
        exchange: &Exchange<'_, '_, '_>,
        site: usize,
        more_fields: Option<Slice>,
    ) -> Asking {
        let attempt = exchange.attempt;
        Asking {
            user: None,
            head: Box::default(),
            early: Vec::new(),
            body: Body::Length(0),
            expects_continue: false,
            persistent: false,
            version: exchange.request.version,
            keeps: Use::None,
            asks_head: false,
            is_safe: true,
            is_idempotent: true,
            wants_upgrade: false,
            websocket_key: None,
            site,
            server_name: None,
            more_fields,
            peer: attempt.peer,
            begun: attempt.begun,
            is_encrypted: attempt.is_encrypted,
            is_early: false,
            tls: None,
            asked,
        }
    }

    /// Who asks.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// How the client knows where the answer ends.
    pub fn framing(&self, known: &Known) -> Framing {
        Framing::of(known.head.code, known.length, self.asks_head, self.version)
    }

    /// Whether a rule sets a field.
    pub fn is_set(&self, name: &str) -> bool {
        let lines = self.more_fields.as_ref();
        lines.is_some_and(|lines| is_among(lines.as_bytes(), name))
    }

    /// The request has a body.
    pub fn has_body(&self) -> bool {
        self.body != Body::Length(0)
    }

    /// It may be asked once more if the application closes a connection without an answer (RFC 9110 §9.2.2). What FastCGI makes of
    /// a method is the script's.
    pub fn may_be_repeated(&self) -> bool {
        let is_proxied = self.asked.application.proxy.is_some();
        (self.is_safe || self.is_idempotent && is_proxied) && !self.has_body()
    }

    /// A connection that was kept will do, if it was used within this time.
    pub fn kept_within(&self) -> Option<Duration> {
        match &self.asked.application.proxy {
            _ if self.may_be_repeated() => Some(Duration::MAX),
            Some(_) => Some(UPSTREAM_FRESH_TIME),
            None => None,
        }
    }

    /// What the answer depends on.
    pub fn question(&self) -> Question {
        Question {
            asks_head: self.asks_head,
            wants_upgrade: self.wants_upgrade,
            may_be_kept: matches!(self.keeps, Use::Fetch(_)),
        }
    }

    /// What an upstream is sent before the body: a head of HTTP. `keeps` has the connection stay open.
    /// Nothing where the head is none that is understood: then nothing is to be sent at all, for the body would be taken for a request.
    pub fn head_for(&self, to: &Address, length: Length, keeps: bool) -> Option<Vec<u8>> {
        let proxy = self.asked.application.proxy.as_ref()?;
        let about = proxy::request::About {
            asked: &self.asked,
            proxy,
            to,
            peer: self.peer,
            length: length.known,
            is_chunked: length.is_chunked,
            is_encrypted: self.is_encrypted,
            is_early: self.is_early,
            tls: self.tls.as_deref(),
            websocket_key: self.websocket_key.as_deref(),
            keeps,
            validators: match &self.keeps {
                Use::Fetch(fetch) => fetch.validators(),
                Use::None | Use::Forgets(..) => None,
            },
        };
        let mut out = Vec::with_capacity(self.head.len() + 256);
        self.read(|request| proxy::request::push(&mut out, request, &about))?;
        Some(out)
    }

    /// What an application is told: the request's variables, in FastCGI's form, on a connection with these ends. Nothing where the head is none that is
    /// understood.
    pub fn variables(&mut self, ends: &ToldEnds, length: Option<u64>) -> Option<Vec<u8>> {
        let mut out = match take(&mut self.early) {
            early if early.is_empty() => {
                let mut out = Vec::with_capacity(2 * self.head.len() + 512);
                let mut is_named = false;
                self.read(|it| is_named = self.push_variables(&mut out, it, length))?;
                if !is_named {
                    variables::push_address_as_name(&mut out, ends.ours);
                }
                out
            }
            early => early,
        };
        out.extend_from_slice(&ends.variables);
        Some(out)
    }

    fn push_variables(
        &self,
        out: &mut Vec<u8>,
        request: &Request<'_, '_>,
        length: Option<u64>,
    ) -> bool {
        let about = About {
            asked: &self.asked,
            length,
            server_name: self.server_name.as_deref(),
            user: self.user.as_deref(),
            is_encrypted: self.is_encrypted,
            is_early: self.is_early,
            tls: self.tls.as_deref(),
        };
        variables::push(out, request, &about)
    }

    /// Makes the variables of a request as it is parsed, for one that is likely to be asked at once, in memory that was used for others.
    pub(super) fn tell_early(&mut self, request: &Request<'_, '_>, memory: &mut Vec<u8>) {
        if self.asked.application.proxy.is_some() || self.has_body() {
            return;
        }
        let mut out = take(memory);
        out.clear();
        match self.push_variables(&mut out, request, None) {
            true => self.early = out,
            // Our address is not known here.
            false => *memory = out,
        }
    }

    /// It is not asked at once: what waits is its head alone.
    pub fn waits(&mut self) {
        self.early = Vec::new();
    }

    /// An upstream at this address has answered so: what of it leads to the upstream itself leads here.
    pub fn lead_here(&self, head: &mut Head, at: &Address) {
        let Some(proxy) = &self.asked.application.proxy else {
            return;
        };
        if !may_lead(&head.fields) {
            return;
        }
        let (Some(place), path) = (at.of_http(), &self.asked.script) else {
            return;
        };
        let place = place.to_string();
        let scheme = match at {
            Address::Https(..) => "https",
            _ => "http",
        };
        let mut hosts = vec![place.as_bytes()];
        match (&proxy.host, at) {
            (HostField::Named(name), _) => hosts.push(name.as_bytes()),
            (_, Address::Https(_, with)) => hosts.push(with.name().as_bytes()),
            _ => {}
        }
        let own = Own {
            scheme,
            hosts,
            base: proxy.base.as_ref().map_or(path, |base| base.as_bytes()),
            path,
        };
        rewrite(&mut head.fields, &own);
    }

    /// A tunnel on a stream (RFC 8441, RFC 9220).
    fn is_tunnel(&self) -> bool {
        self.wants_upgrade && self.version.has_streams()
    }

    /// The status that the client is told where the upstream says this one: that of CONNECT, whose success is 200.
    pub fn told(&self, code: u16) -> u16 {
        match code {
            101 if self.version.has_streams() => 200,
            code => code,
        }
    }

    /// Looks whether the upstream has changed to what it was asked for, and takes out what a client on a stream has not asked.
    ///
    /// # Errors
    ///
    /// It is another protocol, or none where any success would begin one.
    pub fn judge_upgrade(&self, head: &mut Head) -> Result<(), AnswerError> {
        match head.code {
            101 if !self.has_offered(head) => return Err(AnswerError::Protocol),
            101 if self.is_tunnel() => {}
            200..300 if self.is_tunnel() => return Err(AnswerError::Unchanged),
            _ => return Ok(()),
        }
        let key = self.websocket_key.as_deref();
        match websocket::take_change(&mut head.fields, key) {
            true => Ok(()),
            false => Err(AnswerError::Protocol),
        }
    }

    /// Whether what an upstream changes to is among the protocols that the request has offered (RFC 9110 §7.8).
    fn has_offered(&self, head: &Head) -> bool {
        let mut store = FieldStore::new();
        let Ok(Some(request)) = parse(&self.head, &mut store) else {
            return false;
        };
        proxy::request::offers(&request.asked_by(self.version), &head.fields)
    }

    /// The client takes fields behind the answer: on a stream each does (RFC 9113 §8.1), and else one that says so.
    pub fn takes_trailers(&self) -> bool {
        let mut says = self.version.has_streams();
        self.read(|request| says |= trailers::are_wanted(request));
        says
    }

    /// Reads the head again, if it is one that is understood.
    fn read(&self, with: impl FnOnce(&Request<'_, '_>)) -> Option<()> {
        let mut store = FieldStore::new();
        let request = parse(&self.head, &mut store).ok()??;
        with(&request.asked_by(self.version));
        Some(())
    }

    // For what is said to the client.

    /// The fields that rules set, as lines.
    pub(crate) fn more_fields(&self) -> Option<&Slice> {
        self.more_fields.as_ref()
    }

    /// The site that it is of.
    pub(super) fn site(&self) -> usize {
        self.site
    }

    /// When it began.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// What is known of the session of TLS that it came by.
    pub(super) fn tls(&self) -> Option<&Arc<exos_tls::About>> {
        self.tls.as_ref()
    }

    /// It came before the handshake of that was over.
    pub(super) fn is_early(&self) -> bool {
        self.is_early
    }

    /// It wants the head of an answer alone.
    pub(super) fn asks_head(&self) -> bool {
        self.asks_head
    }

    /// How it is answered: `persistent` where another request may follow.
    pub(super) fn manner(&self, persistent: bool) -> Manner {
        Manner {
            persistence: Persistence::of(self.version, persistent),
            is_encrypted: self.is_encrypted,
        }
    }

    /// Has it logged as it came.
    pub(super) fn with_logged(&self, mut log: impl FnMut(LoggedRequest<'_>)) {
        if self.read(|it| log(LoggedRequest::of(it))).is_none() {
            log(LoggedRequest::Bytes(&self.head));
        }
    }
}
