//! A look whether the server speaks HTTP/3, before anything is measured: a handshake of QUIC, by which nothing is asked.

use std::net::SocketAddr;
use std::time::Duration;

use exos::{Error, Exos, clock};
use exos_inet::Instant;
use exos_inet::tcp::Reason;
use exos_tls::client::reason;

use crate::http3::{OnPackets, OnSockets, Outcome, Quic};
use crate::limits::PROBE_TIME;
use crate::secured::Shares;
use crate::sockets::Sockets;
use crate::transport::{NOBODY, Transport as _};

use super::probe::{Speaking, Why};
use super::worker::Worker;

fn begin(to: SocketAddr, speaking: Speaking<'_>, now: Instant) -> Result<Quic, Error> {
    let client = speaking.client.expect("HTTP/3 is spoken over TLS");
    let mut quic = Quic::new(client, (to, 1, None), (Shares::default(), 0), now)?;
    let opened = quic.open(NOBODY);
    opened.map_err(|e| Error::new(format!("{to} is not reached: {e}")))?;
    Ok(quic)
}

/// Opens a connection over a stack of our own, and closes it. Gives how long the handshake took.
///
/// # Errors
///
/// The server does not take it, TLS is not agreed upon, or a signal asks to stop.
pub(super) fn over_packets(
    exos: &mut Exos,
    to: SocketAddr,
    speaking: Speaking<'_>,
    worker: &Worker<'_>,
) -> Result<Duration, Error> {
    let mut carrier = OnPackets::open(exos, to, 1)?;
    let begun = clock::now();
    let mut quic = begin(to, speaking, begun)?;
    let became = loop {
        exos.receive();
        while exos.stack.poll_event().is_some() {}
        let now = exos.now();
        quic.begin_turn(now);
        carrier.receive(&mut quic, &mut exos.stack);
        let is_refused = carrier.is_refused(&mut exos.stack);
        let became = look(&mut quic, (begun, now), is_refused, worker);
        carrier.send(&mut quic, &mut exos.stack, now);
        exos.send()?;
        if let Some(became) = became {
            break became;
        }
        let until = carrier.poll_timeout(&quic, now, &exos.stack);
        let until = until.into_iter().chain([begun + PROBE_TIME]);
        exos.wait(until.min(), &worker.fds())?;
    };
    quic.close_all();
    let now = exos.now();
    carrier.send(&mut quic, &mut exos.stack, now);
    while exos.send()? > 0 {}
    carrier.close(&mut exos.stack);
    became
        .map(|()| clock::now() - begun)
        .map_err(|why| why.of(to))
}

/// Opens a connection over the kernel's sockets, and closes it.
///
/// # Errors
///
/// As above.
pub(super) fn over_sockets(
    to: SocketAddr,
    speaking: Speaking<'_>,
    worker: &Worker<'_>,
) -> Result<(), Error> {
    let mut carrier = OnSockets::new(to, 1)?;
    let mut waiting = Sockets::new(to)?;
    for fd in worker.fds().into_iter().chain(carrier.fds()) {
        waiting.watch(fd)?;
    }
    let begun = clock::now();
    let mut quic = begin(to, speaking, begun)?;
    let became = loop {
        let now = clock::now();
        quic.begin_turn(now);
        let is_refused = !carrier.receive(&mut quic).is_empty();
        let became = look(&mut quic, (begun, now), is_refused, worker);
        carrier.send(&mut quic);
        if let Some(became) = became {
            break became;
        }
        let until = carrier.poll_timeout(&quic, now);
        let until = until.into_iter().chain([begun + PROBE_TIME]);
        waiting.wait(until.min())?;
    };
    quic.close_all();
    carrier.send(&mut quic);
    became.map_err(|why| why.of(to))
}

/// What has become of the look, once something has.
fn look(
    quic: &mut Quic,
    (begun, now): (Instant, Instant),
    is_refused: bool,
    worker: &Worker<'_>,
) -> Option<Result<(), Why>> {
    worker.clear_doorbell();
    match quic.poll_outcome() {
        Some(Outcome::Stands) => return Some(Ok(())),
        Some(Outcome::Unsecured(error)) if reason(&error).ends_with("no_application_protocol") => {
            return Some(Err(Why::NotHttp3));
        }
        Some(Outcome::Unsecured(error)) => return Some(Err(Why::Tls(error))),
        Some(Outcome::Over(Reason::Refused)) => return Some(Err(Why::Refused)),
        Some(Outcome::Over(_)) => return Some(Err(Why::NotHttp3)),
        None if is_refused => return Some(Err(Why::Refused)),
        None => {}
    }
    if worker.stop_requested() {
        return Some(Err(Why::Stopped));
    }
    (now >= begun + PROBE_TIME).then_some(Err(Why::Silent))
}
