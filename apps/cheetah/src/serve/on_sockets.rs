//! `exos serve --sockets`: the set-up of [`crate::sockets`], its loop, and its end.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use exos::signals::{Ask, Signals};
use exos::{Error, clock};
use exos_host::limits::raise_descriptors;
use exos_inet::Instant;
use exos_program::Stream;

use super::documents::{Changing, Documents};
use super::lead::Reporter;
use super::options::{self, ServeArgs, place_of_addresses};
use super::sites::Fresh;
use super::upkeep::Upkeep;
use super::worker::{Asks, Worker};
use super::{sites, statistics, url};
use crate::config::Config;
use crate::http::Server;
use crate::limits::{GOODBYE_TIME, STOP_TIME};
use crate::site::{Change, SitePath, Tree};
use crate::sockets::SocketServer;

impl Changing for SocketServer {
    fn http(&mut self) -> &mut Server {
        self.server_mut()
    }

    fn change(&mut self, site: usize, change: Change) {
        SocketServer::change(self, clock::now(), site, change);
    }

    fn poll_wanted(&mut self) -> Option<(usize, SitePath)> {
        SocketServer::poll_wanted(self)
    }

    fn retry_all(&mut self) {
        SocketServer::retry_all(self, clock::now());
    }
}

pub(super) fn run(
    args: &ServeArgs,
    config: &Config,
    (fresh, trees): (Fresh, Vec<Tree>),
    cores: &[usize],
) -> Result<ExitCode, Error> {
    let served = fresh.into_sites();
    for line in sites::describe(config, &served) {
        exos_program::info!("exos serve: {line}");
    }
    let signals = Signals::catch()?;
    let mut server = Server::new(served, clock::unix_secs());
    if let Some(pages) = config.status.pages()? {
        server.set_status_pages(pages);
    }
    // Each connection is a descriptor.
    raise_descriptors()?;
    let mut server = SocketServer::listen(address(config)?, server)?;
    config.user.give_up()?;
    if let Some(logs) = options::open_logs(args, config, cores, 1)? {
        signals.catch_also(Ask::Reopen)?;
        let http = server.server_mut();
        logs.into_iter().for_each(|log| http.set_log(log));
    }
    server.set_bounds(config.bounds.bounds(), config.bounds.max_connections);
    announce(&server, place_of_addresses(config))?;
    let reporter = Reporter::start(args.json)?;
    let (upkeep, mut feeds) = Upkeep::start(args, trees, cores.to_vec(), 1, &signals)?;
    let mut serving = Serving {
        worker: Worker::make(&cores[..1])?.remove(0),
        documents: Documents::new(feeds.remove(0)),
        feeds: 0,
        server,
        upkeep,
        signals,
        reporter,
    };
    serving
        .run()
        .map_err(|e| Error::io("cannot wait for connections", e))?;
    serving.reporter.finish();
    Ok(ExitCode::SUCCESS)
}

/// The server, with what it has to be told.
struct Serving {
    server: SocketServer,
    worker: Worker,
    documents: Documents,
    upkeep: Upkeep,
    /// How often the documents' descriptor had become another when it was looked at last.
    feeds: u64,
    signals: Signals,
    reporter: Reporter,
}

impl Serving {
    /// Serves until a signal asks to stop, then lets responses under way end.
    fn run(&mut self) -> io::Result<()> {
        self.server.watch(self.signals.fd())?;
        self.server.watch(self.worker.fd())?;
        self.server.watch(self.upkeep.fd())?;
        self.watch_documents()?;
        while !self.signals.stop_requested() {
            self.turn(None)?;
        }
        self.documents.end_exchanges();
        self.server.stop(clock::now());
        let (busy_until, until) = (clock::now() + STOP_TIME, clock::now() + GOODBYE_TIME);
        while (self.server.cheetah().is_busy() && clock::now() < busy_until)
            || (self.server.cheetah().connections() > 0 && clock::now() < until)
        {
            self.turn(Some(clock::now() + GOODBYE_TIME))?;
            // Another signal changes nothing, but must not keep the loop awake.
            self.signals.stop_requested();
        }
        if let Some(log) = self.server.server_mut().log_mut() {
            log.finish();
        }
        self.print();
        Ok(())
    }

    /// Waits, makes the changes that have come, and answers.
    fn turn(&mut self, until: Option<Instant>) -> io::Result<()> {
        let is_busy = self.upkeep.is_busy() || self.documents.is_busy();
        let now = is_busy.then(clock::now);
        self.server.wait([until, now].into_iter().flatten().min())?;
        let asks: Asks = self.worker.take_asks();
        self.documents.turn(asks, &self.worker, &mut self.server);
        self.upkeep.turn(asks, &self.worker);
        self.watch_documents()?;
        statistics::show_sockets(&mut self.server);
        self.server.handle(clock::now(), clock::unix_secs());
        self.documents.ask(&mut self.server);
        self.do_what_is_asked();
        Ok(())
    }

    /// Waits for changes too, by a descriptor that becomes another now and then.
    fn watch_documents(&mut self) -> io::Result<()> {
        if self.documents.feeds() == self.feeds {
            return Ok(());
        }
        self.feeds = self.documents.feeds();
        match self.documents.fd() {
            Some(fd) => self.server.watch(fd),
            None => Ok(()),
        }
    }

    fn do_what_is_asked(&mut self) {
        if self.signals.take_report_request() {
            self.print();
        }
        if self.signals.take_asked(Ask::Reopen)
            && let Some(log) = self.server.server_mut().log_mut()
        {
            log.reopen();
        }
        if self.signals.take_asked(Ask::Reload) {
            self.upkeep.request_reload();
        }
    }

    fn print(&self) {
        let report = statistics::report_sockets(&self.server, self.reporter.as_json());
        self.reporter.print_text(report);
    }
}

/// Where to listen: at the one address that is given, or at all.
fn address(config: &Config) -> Result<SocketAddr, Error> {
    let ip = match config.link.address[..] {
        [] if has_ipv6() => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        [] => Ipv4Addr::UNSPECIFIED.into(),
        [one] => one.ip,
        _ => {
            let several = "on sockets the server listens at one address or at all";
            return Err(Error::new(several).mend("give --address once, or not at all"));
        }
    };
    Ok(SocketAddr::new(ip, config.port))
}

fn has_ipv6() -> bool {
    std::path::Path::new("/proc/net/if_inet6").exists()
}

fn announce(server: &SocketServer, place: Stream) -> Result<(), Error> {
    let what = |e| Error::io("cannot tell where the server listens", e);
    let address = server.address().map_err(what)?;
    let ip = match address.ip() {
        ip if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    exos_program::info!("exos serve: on the kernel's sockets, listening at {address}");
    let url = url(ip, address.port());
    match place {
        Stream::Output => exos_program::say!("{url}"),
        Stream::Error => exos_program::info!("exos serve: {url}"),
    }
    Ok(())
}
