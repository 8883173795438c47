//! A look whether the server is there, before anything is measured: a connection that asks for nothing, with a handshake of TLS
//! where that is spoken, so that a certificate that is not good is told of first, and the first frame of the server's where that is to
//! be HTTP/2's.

use std::net::SocketAddr;
use std::time::Duration;

use exos::{Error, Exos, clock};
use exos_inet::tcp::{ConnectionId, Event, EventSet, Options, Reason};
use exos_tls::TlsError;
use exos_tls::client::{Client, reason, told};

use crate::http2::{ALPN as HTTP2, Connection};
use crate::limits::{GOODBYE_TIME, PROBE_TIME};
use crate::packets::Packets;
use crate::request::Version;
use crate::secured::Knock;
use crate::sockets::Sockets;
use crate::transport::{NOBODY, Transport};

use super::probe_http3;
use super::worker::Worker;

/// Connects over a stack of our own, and closes. Gives how long the server took to take the connection.
///
/// # Errors
///
/// The server does not take it, TLS is not agreed upon, or a signal asks to stop.
pub(super) fn over_packets(
    exos: &mut Exos,
    to: SocketAddr,
    options: &Options,
    speaking: Speaking<'_>,
    worker: &Worker<'_>,
) -> Result<Duration, Error> {
    if speaking.version == Version::Http3 {
        return probe_http3::over_packets(exos, to, speaking, worker);
    }
    let from = exos.source(to, None)?;
    let opened = exos.stack.tcp.connect(exos.now(), from, to, options);
    let id = opened.map_err(|e| Error::new(format!("{to} is not reached: {e}")))?;
    exos.stack.tcp.set_token(id, NOBODY);
    let look = Look::new(id, speaking);
    let became = wait(exos, look, (to, options), worker);
    match became {
        Ok(_) => exos.stack.tcp.finish(id),
        Err(_) => exos.stack.tcp.abort(id),
    }
    while exos.send()? > 0 {}
    if matches!(became, Err(Why::Stopped)) {
        refuse(exos, GOODBYE_TIME)?;
    }
    became.map_err(|why| why.of(to))
}

/// Until the connection stands, and TLS on it. Gives how long the first of both took.
fn wait(
    exos: &mut Exos,
    mut look: Look<'_>,
    (to, options): (SocketAddr, &Options),
    worker: &Worker<'_>,
) -> Result<Duration, Why> {
    let begun = exos.now();
    let until = begun + PROBE_TIME;
    let mut took = Duration::MAX;
    loop {
        exos.receive();
        while let Some(event) = exos.stack.poll_event() {
            // Of an address that was tried before.
            if event.connection != look.id {
                continue;
            }
            let mut packets = Packets {
                now: exos.now(),
                stack: &mut exos.stack,
                options,
                to,
                lent: None,
            };
            if event.set.contains(EventSet::CONNECTED) {
                took = packets.now - begun;
            }
            if look.handle_event(&event, &mut packets)? {
                return Ok(took);
            }
            if event.set.contains(EventSet::CLOSED) {
                return Err(look.why_closed(event.reason, silence(exos)));
            }
        }
        exos.send().map_err(Why::Error)?;
        worker.clear_doorbell();
        if worker.stop_requested() {
            return Err(Why::Stopped);
        }
        if exos.now() >= until {
            return Err(look.why_silent(silence(exos)));
        }
        let waited = exos.wait(Some(until), &worker.fds());
        waited.map_err(Why::Error)?;
    }
}

/// What is to be spoken with the server.
#[derive(Clone, Copy)]
pub(super) struct Speaking<'a> {
    /// Speaks TLS, where that is.
    pub(super) client: Option<&'a Client>,
    /// This version of HTTP is.
    pub(super) version: Version,
}

impl Speaking<'_> {
    fn is_http2(&self) -> bool {
        self.version == Version::Http2
    }
}

/// What has become of the connection.
struct Look<'a> {
    id: ConnectionId,
    speaking: Speaking<'a>,
    /// The handshake, once the connection stands.
    knock: Option<Knock>,
    /// HTTP/2 in plain text, once the connection stands.
    greeting: Option<Connection>,
}

impl<'a> Look<'a> {
    fn new(id: ConnectionId, speaking: Speaking<'a>) -> Self {
        Self {
            id,
            speaking,
            knock: None,
            greeting: None,
        }
    }

    /// True when all is well.
    fn handle_event(&mut self, event: &Event, by: &mut impl Transport) -> Result<bool, Why> {
        if event.set.contains(EventSet::CONNECTED) {
            match self.speaking.client {
                Some(client) => {
                    let knock = Knock::begin(client, self.id, by).map_err(Why::Tls)?;
                    self.knock = Some(knock);
                }
                None if self.speaking.is_http2() => self.greet(by),
                None => return Ok(true),
            }
        }
        if let Some(greeting) = &mut self.greeting {
            return match greeting.take(by.readable(self.id)) {
                Ok(None) if event.set.contains(EventSet::FINISHED) => Err(Why::NotHttp2),
                Ok(first) => Ok(first.is_some()),
                Err(_) => Err(Why::NotHttp2),
            };
        }
        let Some(knock) = &mut self.knock else {
            return Ok(false);
        };
        if event.set.contains(EventSet::READABLE) && knock.receive(by).map_err(Why::Tls)? {
            let has_agreed = !self.speaking.is_http2() || knock.has_agreed(HTTP2);
            return has_agreed.then_some(true).ok_or(Why::NotHttp2);
        }
        if event.set.contains(EventSet::FINISHED) {
            return Err(Why::Unsecured("closes"));
        }
        Ok(false)
    }

    fn greet(&mut self, by: &mut impl Transport) {
        let mut greeting = Connection::new();
        for slice in greeting.poll_out() {
            by.send(self.id, &slice);
        }
        self.greeting = Some(greeting);
    }

    fn why_closed(&self, reason: Reason, silence: Why) -> Why {
        match reason {
            _ if self.knock.is_some() => Why::Unsecured("closes"),
            _ if self.greeting.is_some() => Why::NotHttp2,
            Reason::Refused => Why::Refused,
            Reason::Unreachable => Why::Unreachable,
            _ => silence,
        }
    }

    fn why_silent(&self, silence: Why) -> Why {
        match self.knock {
            Some(_) => Why::Unsecured("does not answer on"),
            None if self.greeting.is_some() => Why::NotHttp2,
            None => silence,
        }
    }
}

/// Nothing came. The stack has spoken to nobody before, so who has answered it is the server or its gateway.
fn silence(exos: &Exos) -> Why {
    let mut neighbors = exos.stack.neighbors().iter();
    if neighbors.any(|(_, _, mac)| mac.is_some()) {
        Why::Silent
    } else {
        Why::Unreachable
    }
}

/// Takes in what comes for so long, and refuses it: a server that has yet to answer the SYN would keep a connection otherwise.
fn refuse(exos: &mut Exos, time: Duration) -> Result<(), Error> {
    let until = exos.now() + time;
    while exos.now() < until {
        exos.wait(Some(until), &[])?;
        exos.receive();
        while exos.stack.poll_event().is_some() {}
        while exos.send()? > 0 {}
    }
    Ok(())
}

/// Connects over the kernel's sockets, and closes.
///
/// # Errors
///
/// The server does not take it, TLS is not agreed upon, or a signal asks to stop.
pub(super) fn over_sockets(
    to: SocketAddr,
    speaking: Speaking<'_>,
    worker: &Worker<'_>,
) -> Result<(), Error> {
    if speaking.version == Version::Http3 {
        return probe_http3::over_sockets(to, speaking, worker);
    }
    let mut sockets = Sockets::new(to)?;
    for fd in worker.fds() {
        sockets.watch(fd)?;
    }
    match sockets.open(NOBODY) {
        Ok(id) => {
            let look = Look::new(id, speaking);
            wait_over_sockets(&mut sockets, look, worker).map_err(|why| why.of(to))
        }
        Err(e) => {
            let shortage = sockets.poll_shortage();
            Err(shortage.unwrap_or_else(|| Error::new(format!("{to} is not reached: {e}"))))
        }
    }
}

/// Until the connection stands, and TLS on it.
fn wait_over_sockets(
    sockets: &mut Sockets,
    mut look: Look<'_>,
    worker: &Worker<'_>,
) -> Result<(), Why> {
    let until = clock::now() + PROBE_TIME;
    loop {
        while let Some(event) = sockets.poll_event() {
            // One that stands may have been reset since.
            if look.handle_event(&event, sockets)? {
                return Ok(());
            }
            if event.set.contains(EventSet::CLOSED) {
                return Err(look.why_closed(event.reason, Why::Silent));
            }
        }
        worker.clear_doorbell();
        if worker.stop_requested() {
            return Err(Why::Stopped);
        }
        if clock::now() >= until {
            return Err(look.why_silent(Why::Silent));
        }
        sockets.wait(Some(until)).map_err(Why::Error)?;
    }
}

/// What a load says that a signal ended before it began.
pub(super) const STOPPED: &str = "stopped before the load began";

/// Why there was no connection.
pub(super) enum Why {
    Refused,
    Unreachable,
    Silent,
    Stopped,
    /// It does this to the connection before TLS is agreed upon.
    Unsecured(&'static str),
    NotHttp2,
    NotHttp3,
    Tls(TlsError),
    Error(Error),
}

impl Why {
    pub(super) fn of(self, to: SocketAddr) -> Error {
        let ip = to.ip();
        let what = match self {
            Self::Refused => format!("{to} refuses connections: nobody listens there"),
            Self::Unreachable => format!("{ip} is unreachable: no host or route answers for it"),
            Self::Silent => format!("{to} does not answer within {} s", PROBE_TIME.as_secs()),
            Self::Unsecured(does) => {
                let what = format!("{to} {does} the connection before TLS is agreed upon");
                return Error::new(what).mend("give a port at which TLS is spoken");
            }
            Self::NotHttp2 => {
                return Error::new(format!("{to} does not speak HTTP/2")).mend(
                    "leave --http 2 out; many servers speak it over TLS alone, to https URLs",
                );
            }
            Self::NotHttp3 => {
                return Error::new(format!("{to} does not speak HTTP/3"))
                    .mend("leave --http 3 out, or give the port of UDP at which it is spoken");
            }
            Self::Tls(error) if reason(&error).ends_with("no_application_protocol") => {
                return Self::NotHttp2.of(to);
            }
            Self::Tls(error) => return told(&error, &to.to_string()),
            Self::Stopped => return Error::new(STOPPED),
            Self::Error(error) => return error,
        };
        Error::new(what).mend("start the server, or begin without looking with --no-probe")
    }
}
