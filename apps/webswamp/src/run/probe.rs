//! A look whether the server is there, before anything is measured: a connection that asks for nothing.

use std::net::SocketAddr;
use std::time::Duration;

use exos::{Error, Exos, clock};
use exos_inet::tcp::{ConnectionId, EventSet, Options, Reason};

use crate::limits::{GOODBYE_TIME, PROBE_TIME};
use crate::sockets::Sockets;
use crate::transport::{NOBODY, Transport as _};

use super::worker::Worker;

/// Connects over a stack of our own, and closes.
///
/// # Errors
///
/// The server does not take it, or a signal asks to stop.
pub(super) fn over_packets(
    exos: &mut Exos,
    to: SocketAddr,
    options: &Options,
    worker: &Worker<'_>,
) -> Result<(), Error> {
    let from = exos.source(to, None)?;
    let opened = exos.stack.tcp.connect(exos.now(), from, to, options);
    let id = opened.map_err(|e| Error::new(format!("{to} is not reached: {e}")))?;
    exos.stack.tcp.set_token(id, NOBODY);
    let became = wait(exos, id, worker);
    match became {
        Ok(()) => exos.stack.tcp.finish(id),
        Err(_) => exos.stack.tcp.abort(id),
    }
    while exos.send()? > 0 {}
    if matches!(became, Err(Why::Stopped)) {
        refuse(exos, GOODBYE_TIME)?;
    }
    became.map_err(|why| why.of(to))
}

/// Until the connection stands.
fn wait(exos: &mut Exos, id: ConnectionId, worker: &Worker<'_>) -> Result<(), Why> {
    let until = exos.now() + PROBE_TIME;
    loop {
        exos.receive();
        while let Some(event) = exos.stack.poll_event() {
            // Of an address that was tried before.
            if event.connection != id {
                continue;
            }
            if event.set.contains(EventSet::CLOSED) {
                return Err(match event.reason {
                    Reason::Refused => Why::Refused,
                    Reason::Unreachable => Why::Unreachable,
                    _ => silence(exos),
                });
            }
            if event.set.contains(EventSet::CONNECTED) {
                return Ok(());
            }
        }
        exos.send().map_err(Why::Error)?;
        worker.heed();
        if worker.stop_requested() {
            return Err(Why::Stopped);
        }
        if exos.now() >= until {
            return Err(silence(exos));
        }
        let waited = exos.wait(Some(until), &worker.fds());
        waited.map_err(Why::Error)?;
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
/// The server does not take it, or a signal asks to stop.
pub(super) fn over_sockets(to: SocketAddr, worker: &Worker<'_>) -> Result<(), Error> {
    let mut sockets = Sockets::new(to)?;
    for fd in worker.fds() {
        sockets.watch(fd)?;
    }
    if let Err(e) = sockets.open(NOBODY) {
        let shortage = sockets.poll_shortage();
        return Err(shortage.unwrap_or_else(|| Error::new(format!("{to} is not reached: {e}"))));
    }
    wait_over_sockets(&mut sockets, worker).map_err(|why| why.of(to))
}

/// Until the connection stands.
fn wait_over_sockets(sockets: &mut Sockets, worker: &Worker<'_>) -> Result<(), Why> {
    let until = clock::now() + PROBE_TIME;
    loop {
        while let Some(event) = sockets.poll_event() {
            // It may have been reset since.
            if event.set.contains(EventSet::CONNECTED) {
                return Ok(());
            }
            if event.set.contains(EventSet::CLOSED) {
                return Err(match event.reason {
                    Reason::Refused => Why::Refused,
                    Reason::Unreachable => Why::Unreachable,
                    _ => Why::Silent,
                });
            }
        }
        worker.heed();
        if worker.stop_requested() {
            return Err(Why::Stopped);
        }
        if clock::now() >= until {
            return Err(Why::Silent);
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
    Error(Error),
}

impl Why {
    fn of(self, to: SocketAddr) -> Error {
        let ip = to.ip();
        let what = match self {
            Self::Refused => format!("{to} refuses connections: nobody listens there"),
            Self::Unreachable => format!("{ip} is unreachable: no host or route answers for it"),
            Self::Silent => format!("{to} does not answer within {} s", PROBE_TIME.as_secs()),
            Self::Stopped => return Error::new(STOPPED),
            Self::Error(error) => return error,
        };
        Error::new(what).mend("start the server, or begin without looking with --no-probe")
    }
}
