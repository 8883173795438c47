//! `exos serve --sockets`: the set-up of [`crate::sockets`], and its end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::process::ExitCode;

use exos::signals::{Ask, Signals};
use exos::{Error, clock};
use exos_host::limits::raise_descriptors;
use exos_inet::Instant;
use exos_program::Stream;

use super::connections::Cheetah;
use super::lead::{Lead, Reporter};
use super::options::{self, ServeArgs, place_of_addresses};
use super::server_loop::{Carried, ServerLoop};
use super::sites::Fresh;
use super::upkeep::Upkeep;
use super::worker::Worker;
use super::{sites, url};
use crate::config::Config;
use crate::http::Server;
use crate::site::{Change, Tree};
use crate::sockets::SocketServer;

impl Carried for SocketServer {
    fn cheetah(&self) -> &Cheetah {
        SocketServer::cheetah(self)
    }

    fn cheetah_mut(&mut self) -> &mut Cheetah {
        SocketServer::cheetah_mut(self)
    }

    fn now(&self) -> Instant {
        clock::now()
    }

    fn answer(&mut self, unix_secs: u64) {
        self.handle(clock::now(), unix_secs);
    }

    fn wait(&mut self, until: Option<Instant>, _fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let waited = SocketServer::wait(self, until);
        waited.map_err(|e| Error::io("cannot wait for connections", e))
    }

    fn watch(&self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let watched = SocketServer::watch(self, fd);
        watched.map_err(|e| Error::io("cannot wait for connections", e))
    }

    fn change(&mut self, site: usize, change: Change) {
        SocketServer::change(self, clock::now(), site, change);
    }

    fn retry_all(&mut self) {
        SocketServer::retry_all(self, clock::now());
    }

    fn stop(&mut self) {
        SocketServer::stop(self, clock::now());
    }

    fn describe(&self) -> String {
        "the kernel's sockets".to_owned()
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.lives().into_iter();
        counters
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
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
    let (mut upkeep, mut feeds) = Upkeep::start(args, trees, cores.to_vec(), 1, &signals)?;
    let worker = Worker::make(&cores[..1])?.remove(0);
    let mut server = ServerLoop::new(server, worker, feeds.remove(0))?;
    let lead = Lead {
        signals: &signals,
        reporter: &reporter,
    };
    let served = lead.serve(&mut server, &mut upkeep, |_| false);
    let stopped = served.and_then(|()| lead.end(&mut server));
    server.close();
    reporter.print(&server);
    reporter.finish();
    stopped.map(|()| ExitCode::SUCCESS)
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
