//! `exos serve --sockets`: the set-up of [`crate::sockets`], and its end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use exos::signals::{Ask, Signals};
use exos::{Error, clock};
use exos_host::limits::raise_descriptors;
use exos_program::Stream;

use super::announce::{describe, https_url, say, url};
use super::options::{self, ServeArgs, place_of_addresses};
use crate::acme::Acme;
use crate::config::Config;
use crate::connections::Carried as _;
use crate::http::Server;
use crate::secure::Acceptor;
use crate::serve::content::sites::Fresh;
use crate::serve::cores::leader::{Leader, Reporter};
use crate::serve::cores::server_loop::ServerLoop;
use crate::serve::cores::upkeep::Upkeep;
use crate::serve::cores::worker::{Place, Worker};
use crate::site::Tree;
use crate::site::store::cache::FromCache;
use crate::sockets::SocketServer;
use crate::stream::Streams;
use crate::stream::disk::Disk;

pub(super) fn run(
    args: &ServeArgs,
    config: &Config,
    (fresh, trees): (Fresh, Vec<Tree>),
    file_cache: FromCache,
    cores: &[usize],
) -> Result<ExitCode, Error> {
    let trees = (trees, fresh.cache().clone());
    let served = fresh.into_sites();
    for line in describe(config, &served) {
        exos_program::info!("exos serve: {line}");
    }
    let signals = Signals::catch()?;
    let mut server = Server::new(served, clock::unix_secs());
    if let Some(pages) = config.status.pages()? {
        server.set_status_pages(pages);
    }
    // Each connection is a descriptor.
    raise_descriptors()?;
    let acceptor = Acceptor::of(config, Acme::of(config, false)?)?;
    if let Some(acme) = acceptor.as_ref().and_then(|it| it.acme()) {
        server.set_acme(acme.clone());
    }
    let mut server = SocketServer::listen(address(config)?, server, acceptor.clone())?;
    config.user.give_up()?;
    if let Some(logs) = options::open_logs(args, config, cores, 1)? {
        signals.catch_also(Ask::Reopen)?;
        let http = server.cheetah_mut().server_mut();
        logs.into_iter().for_each(|log| http.set_log(log));
    }
    server.speak_http2(config.http2);
    server.set_streams(Streams::new(Disk::here(), config.stream_memory));
    server.set_bounds(config.bounds.bounds(), config.bounds.max_connections);
    server.trust_proxies(&config.proxy_protocol);
    let http3 = config.speaks_http3();
    if let Some(acceptor) = acceptor.as_ref().filter(|_| http3) {
        server.speak_http3(acceptor.clone())?;
    }
    let encrypted = config.tls.as_ref().map(|tls| tls.port);
    announce(&server, encrypted, place_of_addresses(config))?;
    let reporter = Reporter::start(args.json)?;
    if let Some(acceptor) = &acceptor {
        acceptor.follow(cores)?;
    }
    let reader = args.reader(config, acceptor, file_cache);
    let (mut upkeep, mut feeds) = Upkeep::start(reader, trees, cores.to_vec(), 1, &signals)?;
    let core = config.link.core.first().unwrap_or(&cores[0]);
    let place = Place {
        core: *core,
        interface: None,
    };
    let worker = Worker::make([place])?.remove(0);
    let mut server = ServerLoop::new(
        server,
        worker,
        feeds.remove(0),
        config.bounds.shutdown_time(),
    )?;
    let lead = Leader {
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
        _ if !config.link.others.is_empty() => {
            let several = "on sockets there are no links, and several are named";
            return Err(Error::new(several).mend("leave the [[link]] tables out"));
        }
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

fn announce(server: &SocketServer, encrypted: Option<u16>, place: Stream) -> Result<(), Error> {
    let what = |e| Error::io("cannot tell where the server listens", e);
    let address = server.address().map_err(what)?;
    let ip = match address.ip() {
        ip if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    exos_program::info!("exos serve: on the kernel's sockets, listening at {address}");
    say(place, &url(ip, address.port()));
    if let Some(port) = encrypted {
        say(place, &https_url(ip, port));
    }
    Ok(())
}
