//! `exos serve`: the web server as a program on a stack of its own.
//!
//! [`options`] is its command line, [`sites`] loads what the configuration names, [`upkeep`] keeps it up to date
//! ([`reload`] on SIGHUP), [`program`] is what it does with connections, [`statistics`] what it says about itself. This
//! file sets up, runs the loop, and stops in order.

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

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use exos::signals::{Ask, Signals};
use exos::{Attachment, Error, Exos, LinkName, clock};
use exos_inet::tcp::{ListenOptions, ListenerId};
use exos_program::{Printer, Stream, inside_hint, reachable_addresses, taken_back, tell_news};

use crate::config::Config;
use crate::http::Server;
use crate::limits::{GOODBYE_TIME, RECEIVE_BUFFER_LEN, STOP_TIME};
use crate::site::Sites;

use upkeep::Upkeep;

pub use bounds::{Bounds, BoundsArgs};
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
        return on_sockets::run(args, &config, served, &cores);
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
    let mut upkeep = Upkeep::start(args, trees, cores, &signals)?;
    let mut cheetah = Cheetah::new(server, clock::now());
    for &specialisation in &args.without {
        cheetah.do_without(specialisation, &mut exos.stack);
    }
    cheetah.set_bounds(config.bounds.bounds());
    if let Some(count) = config.bounds.max_connections {
        exos.stack.tcp.set_connections_max(count as usize);
    }
    let mut revoked = false;
    while !signals.stop_requested() && !revoked {
        upkeep.turn(&mut exos, &mut cheetah);
        turn(&mut exos, &mut cheetah, &signals, &mut upkeep, &reporter)?;
        revoked = tell_news("serve", &mut exos);
    }
    exos.stack.tcp.close_listener(listener);
    upkeep.end();
    let stopped = stop(&mut exos, &mut cheetah, &signals, &mut upkeep, &reporter);
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
    let mut fds = vec![signals.fd()];
    fds.extend(upkeep.fds());
    let now = upkeep.is_busy().then(|| exos.now());
    let until = [cheetah.poll_timeout(), now].into_iter().flatten().min();
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

/// Tell a person where the site is.
fn announce(
    exos: &Exos,
    config: &Config,
    attachment: &Attachment,
    served: &Sites,
    place: Stream,
) -> Result<(), Error> {
    for line in sites::describe(config, served) {
        eprintln!("exos serve: {line}");
    }
    eprintln!("exos serve: {}", exos.describe_link());
    for address in reachable_addresses(exos) {
        let url = url(address, config.port);
        // Nobody may be reading; the site is served all the same.
        let _ = match place {
            Stream::Output => writeln!(std::io::stdout(), "{url}"),
            Stream::Error => writeln!(std::io::stderr(), "exos serve: {url}"),
        };
    }
    if attachment.link == LinkName::OwnTap {
        show_from_inside(exos, config.port)?;
    }
    Ok(())
}

fn url(ip: std::net::IpAddr, port: u16) -> String {
    let host = if ip.is_ipv6() {
        format!("[{ip}]")
    } else {
        ip.to_string()
    };
    if port == 80 {
        format!("http://{host}/")
    } else {
        format!("http://{host}:{port}/")
    }
}

/// Without privilege the site is inside a user namespace: say how to get there, and show from a
/// thread inside that it answers the kernel's own TCP.
fn show_from_inside(exos: &Exos, port: u16) -> Result<(), Error> {
    let Some(ip) = exos
        .stack
        .addresses()
        .iter()
        .map(|a| a.addr)
        .find(std::net::IpAddr::is_ipv4)
    else {
        return Ok(());
    };
    eprintln!(
        "exos serve: without root this runs over a TAP device in a user namespace; AF_XDP needs root (sudo)"
    );
    eprintln!("exos serve: from another terminal of yours:");
    let fetch = format!("curl -i {}", url(ip, port));
    eprintln!("    {}", inside_hint(&fetch));
    let address = std::net::SocketAddr::new(ip, port);
    std::thread::Builder::new()
        .name("first-request".into())
        .spawn(move || match first_request(address) {
            Ok(answer) => eprintln!("exos serve: a kernel socket inside was answered:\n{answer}"),
            Err(e) => eprintln!("exos serve: a kernel socket inside was not answered: {e}"),
        })
        .map_err(|e| Error::io("cannot start a thread", e))?;
    Ok(())
}

/// Fetch the first page with the kernel's TCP; gives the head and the page's title.
fn first_request(address: std::net::SocketAddr) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut socket = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(30))?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        socket,
        "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let title = body
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"))
        .map_or("", |t| t.0);
    let head: Vec<String> = head.lines().map(|line| format!("    {line}")).collect();
    Ok(format!(
        "{}\n    ({} bytes, titled {title:?})",
        head.join("\n"),
        body.len()
    ))
}
