//! `exos cat`: standard input to a connection, the connection to standard output.
//!
//! As `nc -N` does: at the end of standard input the sending half is closed, and what the peer still
//! sends is taken until it finishes too. A connection that the program opened ends when both have
//! finished; one that it took (`--listen`) when the peer has, as with netcat.
//!
//! [`program`] is what is done with the connection, [`dial`] how it is opened, [`carrier`] its bytes, with TLS or without,
//! [`streams`] the standard streams, this file the set-up and the loop.

mod carrier;
mod dial;
mod options;
mod program;
mod streams;

use std::net::SocketAddr;
use std::process::ExitCode;

use exos::signals::Signals;
use exos::{Error, Exos, clock};
use exos_inet::tcp::ListenOptions;
use exos_program::names::look_up_over;
use exos_program::{Needs, Printer, Stream, reachable_addresses, taken_back, tell_news};
use exos_tls::client::{Client, Way, told};

use crate::limits::GOODBYE_TIME;
use crate::run::{failed, local_port, role};
use dial::Dial;

pub use options::CatArgs;
pub use program::{Cat, Report, Side, Verdict};
pub use streams::Streams;

/// Run until the connection has ended. Success when it ended in order in both directions.
pub fn run(args: &CatArgs) -> Result<ExitCode, Error> {
    let side = args.side();
    let client = args.client()?;
    let port = match (args.port, &side) {
        (None, Side::Connect(_)) => local_port(args.link.share_address)?,
        (port, _) => port,
    };
    args.link.pin()?;
    let exos = Exos::attach(args.link.attachment(&Needs::new(role(port)))?)?;
    let (mut exos, beginning) = look_up(args, side, port, exos)?;
    let signals = Signals::catch()?;
    // Standard output carries the peer's bytes, so all else goes to standard error.
    let printer = Printer::start(Stream::Error)?;
    let mut streams = Streams::start(std::io::stdin(), std::io::stdout())
        .map_err(|e| Error::io("cannot start the threads of the standard streams", e))?;
    let mut cat = match begin(args, beginning, &mut exos, &mut streams, &signals) {
        Ok(Some(cat)) => secured(cat, client.as_ref())?,
        begun => {
            exos.send()?;
            exos.leave();
            return Err(begun.err().unwrap_or_else(stopped));
        }
    };
    let verdict = turns(args, &mut exos, &mut cat, &mut streams, &signals, &printer)?;
    let said = end(&mut exos, &mut cat, verdict, &mut streams, &signals);
    if args.json || args.statistics {
        printer.print(program::report(&cat, args.json));
    }
    printer.finish();
    said.map(|()| ExitCode::SUCCESS)
}

/// How the connection begins.
enum Beginning {
    Dial(Box<Dial>),
    Listen(u16),
}

/// Finds the addresses of the host that is to be connected to.
fn look_up(
    args: &CatArgs,
    side: Side,
    port: Option<u16>,
    exos: Exos,
) -> Result<(Exos, Beginning), Error> {
    let to = match side {
        Side::Listen(port) => return Ok((exos, Beginning::Listen(port))),
        Side::Connect(to) => to,
    };
    let shared = args.link.share_address;
    let (exos, addresses) = look_up_over(exos, shared, "cat", &to.host)?;
    let options = args.tcp.options();
    let dial = Dial::new(clock::now(), &addresses, to.port, port, options);
    Ok((exos, Beginning::Dial(Box::new(dial))))
}

/// The connection, once one that we open stands; `None` when a signal asked to stop.
fn begin(
    args: &CatArgs,
    beginning: Beginning,
    exos: &mut Exos,
    streams: &mut Streams,
    signals: &Signals,
) -> Result<Option<Cat>, Error> {
    let port = match beginning {
        Beginning::Listen(port) => port,
        Beginning::Dial(dial) => {
            let dialed = dial.run(exos, signals)?;
            let (now, stack) = (exos.now(), &mut exos.stack);
            let cat = dialed.map(|(event, to)| Cat::connected(&event, to, now, stack, streams));
            return Ok(cat);
        }
    };
    let options = ListenOptions {
        connection: args.tcp.options(),
        ..ListenOptions::default()
    };
    let listener = exos.stack.tcp.listen(None, port, options);
    let listener =
        listener.map_err(|e| Error::new(format!("cannot listen on port {port}: {e}")))?;
    for ip in reachable_addresses(exos) {
        exos_program::info!("exos cat: listening on {}", SocketAddr::new(ip, port));
    }
    Ok(Some(Cat::listening(listener, clock::now())))
}

/// With TLS on the connection, where that is spoken.
fn secured(cat: Cat, client: Option<&Client>) -> Result<Cat, Error> {
    let Some(client) = client else {
        return Ok(cat);
    };
    let session = client.begin(Way::Full);
    let session = session.map_err(|e| Error::new(format!("TLS cannot be spoken: {e}")))?;
    Ok(cat.secured(session))
}

fn stopped() -> Error {
    Error::new("stopped by a signal before the connection had ended")
}

/// The loop, until the connection is over; `None` when a signal asked to stop.
fn turns(
    args: &CatArgs,
    exos: &mut Exos,
    cat: &mut Cat,
    streams: &mut Streams,
    signals: &Signals,
    printer: &Printer,
) -> Result<Option<Verdict>, Error> {
    while !signals.stop_requested() {
        exos.receive();
        cat.handle(exos.now(), &mut exos.stack, streams);
        exos.send()?;
        if let Some(verdict) = cat.verdict() {
            return Ok(Some(verdict));
        }
        if signals.take_report_request() {
            printer.print(program::report(cat, args.json));
        }
        if tell_news("cat", exos) {
            return Err(taken_back());
        }
        exos.wait(None, &[signals.fd(), streams.fd()])?;
    }
    Ok(None)
}

/// Let the last bytes out, tell the peer what it must know, and say how it went.
fn end(
    exos: &mut Exos,
    cat: &mut Cat,
    verdict: Option<Verdict>,
    streams: &mut Streams,
    signals: &Signals,
) -> Result<(), Error> {
    cat.abort(&mut exos.stack);
    // What is owed leaves: the acknowledgement of the last FIN, or a reset.
    while exos.send()? > 0 {}
    exos.leave();
    let Some(verdict) = verdict else {
        return Err(stopped());
    };
    // The reader of standard output may take its time, but a signal ends the wait.
    while !streams.is_written() && !signals.stop_requested() {
        std::thread::sleep(GOODBYE_TIME / 1000);
    }
    match (verdict, streams.take_error()) {
        (_, Some(e)) => Err(Error::io("cannot write to standard output", e)),
        (Verdict::Done, None) => Ok(()),
        (Verdict::Failed(peer, reason), None) => Err(failed(peer, reason)),
        (Verdict::Unsecured(peer, error), None) => Err(told(&error, &peer.to_string())),
        (Verdict::Cut(peer), None) => Err(Error::new(format!(
            "{peer} has closed the connection without ending TLS: what it sent may be cut off"
        ))),
        (Verdict::Input(kind), None) => {
            let source = std::io::Error::from(kind);
            Err(Error::io("cannot read standard input", source))
        }
    }
}
