//! `exos serve`: the web server as a program on a stack of its own.
//!
//! [`options`] is its command line, [`sites`] loads what the configuration names, [`upkeep`] keeps it up to date
//! ([`reload`] on SIGHUP), [`program`] is what it does with connections, [`statistics`] what it says about itself,
//! [`announce`] where it is found. This file sets up, runs the loop, and stops in order.

mod announce;
mod bounds;
mod fetching;
mod files;
mod on_sockets;
mod options;
mod program;
pub mod reload;
pub mod sites;
mod statistics;
mod upkeep;
mod wait;
mod without;

use std::process::ExitCode;

use exos::signals::{Ask, Signals};
use exos::{Error, Exos, clock};
use exos_inet::tcp::{ListenOptions, ListenerId};
use exos_program::{Printer, Stream, taken_back, tell_news};

use crate::config::Config;
use crate::http::Server;
use crate::limits::{GOODBYE_TIME, RECEIVE_BUFFER_LEN, STOP_TIME};
use crate::site::Sites;

use announce::{announce, url};
use upkeep::{OnStack, Upkeep};

pub use bounds::{Bounds, BoundsArgs};
pub(crate) use bounds::{Pace, Peers};
pub(crate) use fetching::{Fetching, Wanted};
pub use options::ServeArgs;
pub use program::Cheetah;
pub use sites::load;
pub(crate) use wait::{Ends, Wait};
pub use without::Specialisation;

/// Prints the statistics: JSON on standard output, text on standard error.
struct Reporter {
    printer: Printer,
    as_json: bool,
}

impl Reporter {
    fn start(as_json: bool) -> Result<Self, Error> {
        let stream = if as_json {
            Stream::Output
        } else {
            Stream::Error
        };
        let printer = Printer::start(stream)?;
        Ok(Self { printer, as_json })
    }

    fn print(&self, exos: &Exos, cheetah: &Cheetah) {
        self.print_text(statistics::report(exos, cheetah, self.as_json));
    }

    fn print_text(&self, report: String) {
        self.printer.print(report);
    }

    fn finish(self) {
        self.printer.finish();
    }
}

/// Serve until a signal asks to stop.
pub fn run(args: &ServeArgs) -> Result<ExitCode, Error> {
    // First what can be wrong without anything having been made.
    let config = args.configuration()?;
    if args.check {
        return sites::check(&config);
    }
    let (served, trees) = sites::load_or_tell(&config)?;
    let cores = exos_host::affinity::allowed()?;
    config.link.pin()?;
    if args.sockets {
        return on_sockets::run(args, &config, (served, trees), cores);
    }
    let mut attachment = config.link.attachment(config.port)?;
    attachment.segmentation &= !args.without.contains(&Specialisation::SuperPackets);
    let mut exos = Exos::attach(&attachment)?;
    let signals = Signals::catch()?;
    let listener = listen(&mut exos, &config)?;
    let place = options::place_of_addresses(&config);
    announce(&exos, &config, &attachment, &served, place)?;
    let reporter = Reporter::start(args.json)?;
    // Not earlier: a program of several threads may enter no user namespace.
    let server = watched(args, &config, served, &signals, &cores)?;
    let streams = options::streams(&config, &cores)?;
    let mut upkeep = Upkeep::start(args, trees, cores, &signals)?;
    let mut cheetah = Cheetah::new(server, clock::now());
    cheetah.set_streams(streams);
    for &specialisation in &args.without {
        cheetah.do_without(specialisation, &mut exos.stack);
    }
    cheetah.set_bounds(config.bounds.bounds());
    if let Some(count) = config.bounds.max_connections {
        exos.stack.tcp.set_connections_max(count as usize);
    }
    if config.syn_handler {
        exos.answer_syns_in_kernel(listener)?;
    }
    let mut revoked = false;
    while !signals.stop_requested() && !revoked {
        upkeep.turn(&mut OnStack {
            exos: &mut exos,
            cheetah: &mut cheetah,
        });
        turn(&mut exos, &mut cheetah, &signals, &mut upkeep, &reporter)?;
        revoked = tell_news("serve", &mut exos);
        if let Some(why) = exos.see_to_handlers() {
            eprintln!("exos serve: {why}");
        }
    }
    exos.answer_syns_here(listener);
    exos.stack.tcp.close_listener(listener);
    upkeep.end_reloads();
    let stopped = stop(&mut exos, &mut cheetah, &signals, &mut upkeep, &reporter);
    upkeep.end();
    exos.leave();
    if let Some(log) = cheetah.server_mut().log_mut() {
        log.finish();
    }
    reporter.print(&exos, &cheetah);
    reporter.finish();
    if revoked {
        // That the link has gone meanwhile is no other reason.
        return Err(taken_back());
    }
    stopped.map(|()| ExitCode::SUCCESS)
}

/// The HTTP server, with its log and status pages. The log's thread runs on these cores.
fn watched(
    args: &ServeArgs,
    config: &Config,
    served: Sites,
    signals: &Signals,
    cores: &[usize],
) -> Result<Server, Error> {
    let mut server = Server::new(served, clock::unix_secs());
    if let Some(log) = options::open_log(args, config, cores)? {
        signals.catch_also(Ask::Reopen)?;
        server.set_log(log);
    }
    if let Some(pages) = config.status.pages()? {
        server.set_status_pages(pages);
    }
    Ok(server)
}

/// One turn: take in, answer, send, wait.
fn turn(
    exos: &mut Exos,
    cheetah: &mut Cheetah,
    signals: &Signals,
    upkeep: &mut Upkeep,
    reporter: &Reporter,
) -> Result<(), Error> {
    exos.receive();
    statistics::show(exos, cheetah, exos.now());
    cheetah.handle(exos.now(), clock::unix_secs(), &mut exos.stack);
    upkeep.ask_for_documents(&mut OnStack { exos, cheetah });
    exos.send()?;
    if signals.take_report_request() {
        reporter.print(exos, cheetah);
    }
    if signals.take_asked(Ask::Reopen)
        && let Some(log) = cheetah.server_mut().log_mut()
    {
        log.reopen();
    }
    if signals.take_asked(Ask::Reload) {
        upkeep.request_reload();
    }
    let now = upkeep.is_busy().then(|| exos.now());
    let until = [cheetah.poll_timeout(), now].into_iter().flatten().min();
    let mut fds = vec![signals.fd()];
    fds.extend(upkeep.fds());
    fds.extend(cheetah.streams().fd());
    exos.wait(until, &fds)
}

/// Let responses under way end, say goodbye to idle clients, and reset who is left.
fn stop(
    exos: &mut Exos,
    cheetah: &mut Cheetah,
    signals: &Signals,
    upkeep: &mut Upkeep,
    reporter: &Reporter,
) -> Result<(), Error> {
    cheetah.stop(exos.now(), &mut exos.stack);
    let (busy_until, until) = (clock::now() + STOP_TIME, clock::now() + GOODBYE_TIME);
    while (cheetah.is_busy() && clock::now() < busy_until)
        || (cheetah.connections() > 0 && clock::now() < until)
    {
        // Documents that requests wait for still come.
        upkeep.turn(&mut OnStack { exos, cheetah });
        turn(exos, cheetah, signals, upkeep, reporter)?;
        // Another signal changes nothing, but must not keep the loop awake.
        signals.stop_requested();
    }
    while cheetah.abort_some(&mut exos.stack) {
        while exos.send()? > 0 {}
    }
    Ok(())
}

fn listen(exos: &mut Exos, config: &Config) -> Result<ListenerId, Error> {
    let (port, mut connection) = (config.port, config.tcp.options());
    if config.tcp.receive_buffer.is_none() {
        // Requests need no more, and nobody can have us keep more.
        connection.receive_buffer_bytes = RECEIVE_BUFFER_LEN;
        connection.receive_buffer_max_bytes = RECEIVE_BUFFER_LEN;
    }
    let options = ListenOptions {
        connection,
        ..ListenOptions::default()
    };
    exos.stack
        .tcp
        .listen(None, port, options)
        .map_err(|e| Error::new(format!("cannot listen on port {port}: {e}")))
}
