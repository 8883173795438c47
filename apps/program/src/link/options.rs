//! The options as the command line has them: those that every program takes, and those of programs that share what is theirs. With several links, an address, a gateway or a route belongs to the link before it.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command};
use exos::via::Mode;
use exos::{Prefixed, Route};

use super::args::{LinkArgs, NamedLink};
use super::name::{LinkName, ViaName, mode};

/// Where packets come from, and which addresses are ours.
#[derive(clap::Args)]
#[group(id = "LinkArgs")]
struct Options {
    /// Where packets come from: xdp:INTERFACE (all its queues), xdp:INTERFACE:QUEUE (one queue, to which you steer
    /// packets), packet:INTERFACE (by packet sockets, which leave super-packets of up to 64 KiB whole), tap:NAME or
    /// xokd:INTERFACE (a part of an interface of the daemon's); repeatable where a program runs on several interfaces, each followed by its --address, --gateway and --route
    /// [default: the daemon if it runs, else an interface pair made for this program]
    #[arg(long, help_heading = "Link", value_name = "LINK")]
    link: Vec<LinkName>,
    /// Get a link from the daemon (xokd, or xokd:INTERFACE if it has several), or do not ask it (none) [default: xokd
    /// if its socket exists and there is no --link]
    #[arg(long, help_heading = "Link", value_name = "WHO")]
    via: Vec<ViaName>,
    /// Kind of link to get from the daemon: shared (a virtual interface, whose traffic is checked), direct or
    /// direct:QUEUE (a queue of the real interface, if the policy allows it) [default: what the policy prefers]
    #[arg(long, help_heading = "Link", value_name = "MODE", value_parser = mode)]
    mode: Option<Mode>,
    /// The daemon's socket [default: $EXOS_XOKD, else /run/exos/xokd.sock]
    #[arg(long, help_heading = "Link", value_name = "SOCKET")]
    xokd: Option<PathBuf>,
    /// Address of this program: an unused one of the network, or one that the daemon offers (repeatable, IPv4 and IPv6)
    #[arg(long, help_heading = "Link", value_name = "ADDRESS/PREFIX")]
    address: Vec<Prefixed>,
    /// Default gateway (repeatable, one for IPv4 and one for IPv6)
    #[arg(long, help_heading = "Link", value_name = "ADDRESS")]
    gateway: Vec<IpAddr>,
    /// Network behind another router, such as 10.8.0.0/16,10.0.0.1 (repeatable)
    #[arg(long, help_heading = "Link", value_name = "NETWORK/PREFIX,GATEWAY")]
    route: Vec<Route>,
    /// Send every TCP segment by itself, instead of several in one piece that the kernel cuts (GSO)
    #[arg(long, help_heading = "Link")]
    no_segmentation: bool,
    /// CPU core to run on, counted from 0; with --cores the first core, or a list of all, such as 0,2,3
    #[arg(
        long,
        help_heading = "Link",
        value_name = "CORE",
        value_delimiter = ','
    )]
    core: Vec<usize>,
}

impl clap::Args for LinkArgs {
    fn augment_args(command: Command) -> Command {
        Options::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Options::augment_args_for_update(command)
    }

    fn group_id() -> Option<clap::Id> {
        Options::group_id()
    }
}

impl clap::FromArgMatches for LinkArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        let places = |id| matches.indices_of(id).map_or(Vec::new(), Iterator::collect);
        let places = ["link", "address", "gateway", "route"].map(places);
        let options = Options::from_arg_matches_mut(matches)?;
        options.sort(&places).map_err(|what| {
            let kind = ErrorKind::ArgumentConflict;
            clap::Error::raw(kind, what + "\n")
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What a program takes that may use the interface's own addresses.
#[derive(clap::Args)]
struct ShareAddress {
    /// Use the interface's own addresses together with the host: only packets to this program's TCP port come here. With
    /// several links, those without an --address do so
    #[arg(long, help_heading = "Link")]
    share_address: bool,
}

/// What a program takes that serves a port.
#[derive(clap::Args)]
struct ReusePort {
    /// Share the port that is served with other programs of this user on the daemon that do so too: each connection is one
    /// program's
    #[arg(long, help_heading = "Link")]
    reuse_port: bool,
}

/// [`LinkArgs`] with `--share-address`, and where the program `SERVES` a port with `--reuse-port`.
#[derive(Clone, Debug, Default)]
pub struct SharingLinkArgs<const SERVES: bool>(pub LinkArgs);

impl<const SERVES: bool> std::ops::Deref for SharingLinkArgs<SERVES> {
    type Target = LinkArgs;

    fn deref(&self) -> &LinkArgs {
        &self.0
    }
}

impl<const SERVES: bool> clap::Args for SharingLinkArgs<SERVES> {
    fn augment_args(command: Command) -> Command {
        let command = ShareAddress::augment_args(LinkArgs::augment_args(command));
        match SERVES {
            true => ReusePort::augment_args(command),
            false => command,
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const SERVES: bool> clap::FromArgMatches for SharingLinkArgs<SERVES> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        let reuse_port = SERVES && ReusePort::from_arg_matches(matches)?.reuse_port;
        let share_address = ShareAddress::from_arg_matches(matches)?.share_address;
        Ok(Self(LinkArgs {
            share_address,
            reuse_port,
            ..LinkArgs::from_arg_matches_mut(matches)?
        }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Options {
    /// Gives each link its addresses, gateways and routes, by where all these stand.
    fn sort(
        self,
        [links, addresses, gateways, routes]: &[Vec<usize>; 4],
    ) -> Result<LinkArgs, String> {
        let via = match <[ViaName; 1]>::try_from(self.via) {
            Ok([one]) => Some(one),
            Err(none) if none.is_empty() => None,
            Err(_) => {
                let what = "the daemon lends this program one part of one interface: give --via once, start a program for \
                            each, or open the interfaces without it, by several --link (exos forward takes several \
                            --link xokd:INTERFACE)";
                return Err(what.to_owned());
            }
        };
        let addresses = of_links("--address", self.address, addresses, links)?;
        let gateways = of_links("--gateway", self.gateway, gateways, links)?;
        let routes = of_links("--route", self.route, routes, links)?;
        let mut each = addresses.into_iter().zip(gateways).zip(routes);
        let ((address, gateway), route) = each.next().unwrap_or_default();
        let mut names = self.link.into_iter();
        let link = names.next();
        let other = |(name, ((address, gateway), route))| NamedLink {
            name,
            address,
            gateway,
            route,
        };
        let others = names.zip(each).map(other);
        Ok(LinkArgs {
            link,
            others: others.collect(),
            via,
            mode: self.mode,
            xokd: self.xokd,
            address,
            gateway,
            route,
            share_address: false,
            reuse_port: false,
            no_segmentation: self.no_segmentation,
            core: self.core,
        })
    }
}

/// The values of each link: those behind it, or all where there is one or none.
fn of_links<T: std::fmt::Display>(
    option: &str,
    values: Vec<T>,
    places: &[usize],
    links: &[usize],
) -> Result<Vec<Vec<T>>, String> {
    if links.len() < 2 {
        return Ok(vec![values]);
    }
    let mut of: Vec<Vec<T>> = links.iter().map(|_| Vec::new()).collect();
    for (value, place) in values.into_iter().zip(places) {
        let before = links.iter().filter(|link| *link < place).count();
        match before {
            0 => {
                return Err(format!(
                    "{option} {value} stands before the first of several --link; write it behind the link that it is for"
                ));
            }
            _ => of[before - 1].push(value),
        }
    }
    Ok(of)
}
