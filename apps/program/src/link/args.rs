//! The link that the options choose, and what is asked of the library by them.

use std::net::IpAddr;
use std::path::PathBuf;

use exos::via::{self, Mode};
use exos::{
    Addresses, Attachment, By, Daemon, Error, Interface, LinkKind, OwnPair, OwnTap, Prefixed,
    Queues, Role, Route, SharedInterface, Tap,
};

use super::name::{LinkName, ViaName};

/// What a program wants of its link, whichever that is.
#[derive(Clone, Debug)]
pub struct Needs {
    /// What is taken where others use the addresses too.
    pub role: Role,
    /// The UDP port of the number that is served too; of peers, their datagrams.
    pub datagrams: bool,
    /// How many cores the program runs on.
    pub cores: u32,
    /// Prefixes from which connections are opened.
    pub pools: Vec<Prefixed>,
}

impl Needs {
    /// This on one core.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            datagrams: false,
            cores: 1,
            pools: Vec::new(),
        }
    }
}

/// Where packets come from, and which addresses are ours.
#[derive(Clone, Debug, Default)]
pub struct LinkArgs {
    /// `--link`: where packets come from, or the first place of several.
    pub link: Option<LinkName>,
    /// The other links, for programs that run on several.
    pub others: Vec<NamedLink>,
    /// `--via`.
    pub via: Option<ViaName>,
    /// `--mode`.
    pub mode: Option<Mode>,
    /// `--xokd`.
    pub xokd: Option<PathBuf>,
    /// `--address`, those of the first link.
    pub address: Vec<Prefixed>,
    /// `--gateway`, those of the first link.
    pub gateway: Vec<IpAddr>,
    /// `--route`, those of the first link.
    pub route: Vec<Route>,
    /// `--share-address`: of the link, or of those of several that have no address of their own.
    pub share_address: bool,
    /// `--reuse-port`.
    pub reuse_port: bool,
    /// `--no-segmentation`.
    pub no_segmentation: bool,
    /// `--core`.
    pub core: Vec<usize>,
}

/// A link beside the first, and what is ours on it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamedLink {
    /// The link.
    pub name: LinkName,
    /// Our addresses.
    pub address: Vec<Prefixed>,
    /// The default gateways.
    pub gateway: Vec<IpAddr>,
    /// Networks behind other routers.
    pub route: Vec<Route>,
}

/// Which link the options choose.
enum Chosen<'a> {
    Named(&'a LinkName),
    /// A part of the daemon's interface of this name, or of its only one.
    Daemon(Option<String>),
    /// One of the program's own.
    Own,
}

impl Chosen<'_> {
    /// The daemon lends it.
    fn is_lent(&self) -> bool {
        matches!(self, Self::Daemon(_) | Self::Named(LinkName::Xokd(_)))
    }
}

impl LinkArgs {
    /// What is asked of the library.
    ///
    /// # Errors
    ///
    /// The options contradict each other, or name several links.
    pub fn attachment(&self, needs: &Needs) -> Result<Attachment, Error> {
        if !self.others.is_empty() {
            return Err(Error::new("this program runs on one interface")
                .mend("name one link, or start a program for each"));
        }
        let link = match self.chosen()? {
            Chosen::Own => self.own(needs)?,
            Chosen::Daemon(interface) => self.daemon(interface, needs)?.into(),
            Chosen::Named(LinkName::Xokd(name)) => self.daemon(Some(name.clone()), needs)?.into(),
            Chosen::Named(LinkName::Packet(name)) => self.packet(name, needs)?.into(),
            Chosen::Named(LinkName::Tap(name)) => self.tap(name, needs)?.into(),
            Chosen::Named(LinkName::Xdp { interface, queue }) => {
                let queues = queues(interface, *queue, needs.cores)?;
                if self.share_address {
                    self.shared(interface, queues, needs)?.into()
                } else {
                    let name = interface.clone();
                    let addresses = self.addresses(needs)?;
                    Interface {
                        queues,
                        ..Interface::new(name, addresses)
                    }
                    .into()
                }
            }
        };
        Ok(Attachment {
            segmentation: !self.no_segmentation,
            ..link.into()
        })
    }

    /// Whether a daemon lends the link.
    ///
    /// # Errors
    ///
    /// The options contradict each other.
    pub fn is_lent(&self) -> Result<bool, Error> {
        Ok(self.chosen()?.is_lent())
    }

    fn chosen(&self) -> Result<Chosen<'_>, Error> {
        let is_there = || self.xokd.is_some() || via::is_there(&via::socket_path());
        let chosen = match (&self.link, &self.via) {
            (Some(_), Some(ViaName::Xokd(_))) => {
                return Err(Error::new("--link and --via xokd are two links").mend(
                    "give one of them; an interface of the daemon's is --via xokd:INTERFACE",
                ));
            }
            (Some(LinkName::Xokd(_)), Some(ViaName::Nobody)) => {
                return Err(
                    Error::new("--via none asks no daemon, which is to lend the link")
                        .mend("leave --via out, or give --link xdp:INTERFACE"),
                );
            }
            (Some(link), _) => Chosen::Named(link),
            (None, Some(ViaName::Xokd(interface))) => Chosen::Daemon(interface.clone()),
            (None, None) if is_there() => Chosen::Daemon(None),
            (None, _) => Chosen::Own,
        };
        if chosen.is_lent() {
            return Ok(chosen);
        }
        if self.mode.is_some() {
            return Err(Error::new("--mode is for a link that the daemon lends")
                .mend("leave it out, or give --via xokd"));
        }
        if self.reuse_port {
            return Err(Error::new("programs share a port through the daemon")
                .mend("give --via xokd, or leave --reuse-port out; one program runs on several cores by --cores"));
        }
        Ok(chosen)
    }

    /// True where others are said to be reached through routers.
    fn names_routers(&self) -> bool {
        !self.gateway.is_empty() || !self.route.is_empty()
    }

    fn own(&self, needs: &Needs) -> Result<LinkKind, Error> {
        if self.share_address || !self.address.is_empty() || self.names_routers() {
            return Err(Error::new("an interface of its own brings its addresses with it")
                .mend("name the interface with --link xdp:INTERFACE, or leave --address, --gateway, --route and --share-address out"));
        }
        let pools = &needs.pools[..];
        match LinkKind::own() {
            LinkKind::OwnTap(_) => {
                one_queue(needs.cores, "a TAP device has one queue here")?;
                OwnTap::new().with_pools(pools).map(Into::into)
            }
            _ => {
                let pair = OwnPair::new().with_cores(needs.cores);
                pair.with_pools(pools).map(Into::into)
            }
        }
    }

    fn daemon(&self, interface: Option<String>, needs: &Needs) -> Result<Daemon, Error> {
        if self.share_address || self.names_routers() {
            return Err(
                Error::new("the daemon knows routes and addresses by itself")
                    .mend("leave --gateway, --route and --share-address out, or do without it (--via none)"),
            );
        }
        if !needs.pools.is_empty() {
            return Err(Error::new("the daemon lends single addresses, and no pool")
                .mend("leave --pool out, or do without the daemon (--via none)"));
        }
        let serves = matches!(needs.role, Role::Serve(_));
        if needs.cores > 1 && !serves {
            return Err(Error::new(
                "the daemon divides what comes for a port that is served, and nothing else",
            )
            .mend("start a program for each core, or leave --cores out; or do without the daemon (--via none)"));
        }
        if self.reuse_port && !serves {
            return Err(
                Error::new("--reuse-port is for a port that is served").mend("leave it out")
            );
        }
        let usual = Daemon::new(needs.role.clone());
        Ok(Daemon {
            interface,
            socket: self.xokd.clone().unwrap_or(usual.socket),
            mode: self.mode.unwrap_or(usual.mode),
            addresses: self.address.clone(),
            role: usual.role,
            datagrams: needs.datagrams,
            reuse_port: self.reuse_port,
            cores: needs.cores,
        })
    }

    fn packet(&self, name: &str, needs: &Needs) -> Result<Interface, Error> {
        if self.share_address {
            return Err(Error::new("packet sockets are for addresses of our own")
                .mend("give --address instead of --share-address, or --link xdp:INTERFACE"));
        }
        one_queue(needs.cores, "packet sockets are one core's")?;
        Ok(Interface {
            by: By::PacketSockets,
            ..Interface::new(name, self.addresses(needs)?)
        })
    }

    fn tap(&self, name: &str, needs: &Needs) -> Result<Tap, Error> {
        if self.share_address {
            return Err(
                Error::new("--share-address needs an interface").mend("give --link xdp:INTERFACE")
            );
        }
        one_queue(needs.cores, "a TAP device has one queue here")?;
        Ok(Tap {
            name: name.to_owned(),
            addresses: self.addresses(needs)?,
        })
    }

    fn shared(
        &self,
        interface: &str,
        queues: Queues,
        needs: &Needs,
    ) -> Result<SharedInterface, Error> {
        if !self.address.is_empty() || self.names_routers() {
            return Err(Error::new(
                "with --share-address the addresses and routes are the interface's own",
            )
            .mend("leave --address, --gateway and --route out, or leave --share-address out"));
        }
        if !needs.pools.is_empty() {
            return Err(Error::new("a pool is nothing that a host has to share")
                .mend("give an --address of our own beside --pool, instead of --share-address"));
        }
        if matches!(&needs.role, Role::Connect(peers) if peers.is_empty()) {
            return Err(
                Error::new("with --share-address it must be known who is connected to")
                    .mend("give an --address of our own instead"),
            );
        }
        Ok(SharedInterface {
            queues,
            datagrams: needs.datagrams,
            ..SharedInterface::new(interface, needs.role.clone())
        })
    }

    fn addresses(&self, needs: &Needs) -> Result<Addresses, Error> {
        // Who it is that packets are taken from is not known there.
        let is_anyone = matches!(&needs.role, Role::Connect(peers) if peers.is_empty());
        let ours = Addresses::new(&self.address[..]).map_err(|e| match is_anyone {
            true => e.mend("give --address ADDRESS/PREFIX (one that nobody has)"),
            false => e.mend("give --address ADDRESS/PREFIX (one that nobody has), or --share-address for the interface's own"),
        })?;
        let ours = ours
            .with_gateways(&self.gateway[..])
            .map_err(|e| e.mend("give an --address of that family too"))?;
        let ours = ours
            .with_routes(&self.route[..])
            .map_err(|e| e.mend("name a gateway in the network of an --address"))?;
        ours.with_pools(&needs.pools[..])
    }

    /// These options, and those of a file where they say nothing. A link that is named here replaces the file's.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        let named = self.link.is_some() || self.via.is_some();
        let file = if named {
            let (link, via, mode, xokd) = (None, None, None, None);
            Self {
                link,
                others: Vec::new(),
                via,
                mode,
                xokd,
                ..file
            }
        } else {
            file
        };
        let first = |mine: Vec<_>, its| if mine.is_empty() { its } else { mine };
        Self {
            link: self.link.or(file.link),
            others: if named { self.others } else { file.others },
            via: self.via.or(file.via),
            mode: self.mode.or(file.mode),
            xokd: self.xokd.or(file.xokd),
            address: first(self.address, file.address),
            gateway: if self.gateway.is_empty() {
                file.gateway
            } else {
                self.gateway
            },
            route: if self.route.is_empty() {
                file.route
            } else {
                self.route
            },
            share_address: self.share_address || file.share_address,
            reuse_port: self.reuse_port || file.reuse_port,
            no_segmentation: self.no_segmentation || file.no_segmentation,
            core: if self.core.is_empty() {
                file.core
            } else {
                self.core
            },
        }
    }

    /// Go to the core that was asked for.
    ///
    /// # Errors
    ///
    /// It is none that this process may run on, or there are several.
    pub fn pin(&self) -> Result<(), Error> {
        match self.core[..] {
            [] => Ok(()),
            [core] => exos_host::affinity::pin(core),
            _ => Err(Error::new("this program runs on one core").mend("give one --core")),
        }
    }
}

fn queues(interface: &str, queue: Option<u32>, cores: u32) -> Result<Queues, Error> {
    match queue {
        None => Ok(Queues::All { cores }),
        Some(queue) if cores == 1 => Ok(Queues::One(queue)),
        Some(_) => Err(Error::new("one queue is one core's").mend(format!(
            "write --link xdp:{interface}, without the queue, or leave --cores out"
        ))),
    }
}

fn one_queue(cores: u32, why: &str) -> Result<(), Error> {
    match cores {
        1 => Ok(()),
        _ => Err(Error::new(why).mend("give --link xdp:INTERFACE (as root), or leave --cores out")),
    }
}
