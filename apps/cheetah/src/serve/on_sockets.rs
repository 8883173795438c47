//! `exos serve --sockets`: the set-up of [`crate::sockets`].

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use exos::Error;
use exos::signals::Signals;
use exos_program::Stream;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::options::{ServeArgs, place_of_addresses};
use super::{Reporter, sites, statistics, url, watched};
use crate::config::Config;
use crate::site::Sites;
use crate::sockets::{self, SocketServer};

pub(super) fn run(
    args: &ServeArgs,
    config: &Config,
    served: Sites,
    cores: &[usize],
) -> Result<ExitCode, Error> {
    for line in sites::describe(config, &served) {
        eprintln!("exos serve: {line}");
    }
    let signals = Signals::catch()?;
    let server = watched(args, config, served, &signals, cores)?;
    allow_many_descriptors();
    let server = SocketServer::listen(address(config)?, server)?;
    announce(&server, place_of_addresses(config))?;
    let reporter = Reporter::start(args.json)?;
    let print = |server: &SocketServer| {
        reporter.print_text(statistics::report_sockets(server, args.json));
    };
    let code = sockets::run(server, &signals, print, statistics::show_sockets)?;
    reporter.finish();
    Ok(code)
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

/// Each connection is a descriptor: as many as the user may have.
fn allow_many_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    // Without them, it serves fewer.
    let _ = setrlimit(Resource::Nofile, all);
}

fn announce(server: &SocketServer, place: Stream) -> Result<(), Error> {
    let what = |e| Error::io("cannot tell where the server listens", e);
    let address = server.address().map_err(what)?;
    let ip = match address.ip() {
        ip if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    eprintln!("exos serve: on the kernel's sockets, listening at {address}");
    let url = url(ip, address.port());
    // Nobody may be reading; the site is served all the same.
    let _ = match place {
        Stream::Output => writeln!(std::io::stdout(), "{url}"),
        Stream::Error => writeln!(std::io::stderr(), "exos serve: {url}"),
    };
    Ok(())
}
