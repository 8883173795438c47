//! A look whether the server is there, before anything is measured: a connection that asks for nothing, with a handshake of TLS
//! where that is spoken, so that a certificate that is not good is told of first.

use std::net::SocketAddr;
use std::time::Duration;

use exos::{Error, Exos, clock};
use exos_inet::tcp::{ConnectionId, Event, EventSet, Options, Reason};
use exos_tls::TlsError;
use exos_tls::client::{Client, told};

use crate::limits::{GOODBYE_TIME, PROBE_TIME};
use crate::packets::Packets;
use crate::secured::Knock;
use crate::sockets::Sockets;
use crate::transport::{NOBODY, Transport};

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
    client: Option<&Client>,
    worker: &Worker<'_>,
) -> Result<Duration, Error> {
    let from = exos.source(to, None)?;
    let opened = exos.stack.tcp.connect(exos.now(), from, to, options);
    let id = opened.map_err(|e| Error::new(format!("{to} is not reached: {e}")))?;
    exos.stack.tcp.set_token(id, NOBODY);
    let look = Look::new(id, client);
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

/// What has become of the connection.
struct Look<'a> {
    id: ConnectionId,
    /// Speaks TLS.
    client: Option<&'a Client>,
    /// The handshake, once the connection stands.
    knock: Option<Knock>,
}

impl<'a> Look<'a> {
    fn new(id: ConnectionId, client: Option<&'a Client>) -> Self {
        Self {
            id,
            client,
            knock: None,
        }
    }

    /// True when all is well.
    fn handle_event(&mut self, event: &Event, by: &mut impl Transport) -> Result<bool, Why> {
        if event.set.contains(EventSet::CONNECTED) {
            let Some(client) = self.client else {
                return Ok(true);
            };
            let knock = Knock::begin(client, self.id, by).map_err(Why::Tls)?;
            self.knock = Some(knock);
        }
        let Some(knock) = &mut self.knock else {
            return Ok(false);
        };
        if event.set.contains(EventSet::READABLE) && knock.receive(by).map_err(Why::Tls)? {
            return Ok(true);
        }
        if event.set.contains(EventSet::FINISHED) {
            return Err(Why::Unsecured("closes"));
        }
        Ok(false)
    }

    fn why_closed(&self, reason: Reason, silence: Why) -> Why {
        match reason {
            _ if self.knock.is_some() => Why::Unsecured("closes"),
            Reason::Refused => Why::Refused,
            Reason::Unreachable => Why::Unreachable,
            _ => silence,
        }
    }

    fn why_silent(&self, silence: Why) -> Why {
        match self.knock {
            Some(_) => Why::Unsecured("does not answer on"),
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
    client: Option<&Client>,
    worker: &Worker<'_>,
) -> Result<(), Error> {
    let mut sockets = Sockets::new(to)?;
    for fd in worker.fds() {
        sockets.watch(fd)?;
    }
    match sockets.open(NOBODY) {
        Ok(id) => {
            let look = Look::new(id, client);
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
enum Why {
    Refused,
    Unreachable,
    Silent,
    Stopped,
    /// It does this to the connection before TLS is agreed upon.
    Unsecured(&'static str),
    Tls(TlsError),
    Error(Error),
}

impl Why {
    fn of(self, to: SocketAddr) -> Error {
        let ip = to.ip();
        let what = match self {
            Self::Refused => format!("{to} refuses connections: nobody listens there"),
            Self::Unreachable => format!("{ip} is unreachable: no host or route answers for it"),
            Self::Silent => format!("{to} does not answer within {} s", PROBE_TIME.as_secs()),
            Self::Unsecured(does) => {
                let what = format!("{to} {does} the connection before TLS is agreed upon");
                return Error::new(what).mend("give a port at which TLS is spoken");
            }
            Self::Tls(error) => return told(&error, &to.to_string()),
            Self::Stopped => return Error::new(STOPPED),
            Self::Error(error) => return error,
        };
        Error::new(what).mend("start the server, or begin without looking with --no-probe")
    }
}
