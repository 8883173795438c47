//! The options that every program on a stack of its own has: the link, the addresses, the core; and what is asked of the
//! library by them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use exos::via::{self, Mode};
use exos::{
    Addresses, Attachment, Daemon, Error, Interface, LinkKind, OwnPair, OwnTap, Prefixed, Queues,
    Role, Route, SharedInterface, Tap,
};

/// A link as `--link` names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LinkName {
    /// An interface, by AF_XDP.
    Xdp {
        /// The interface.
        interface: String,
        /// One of its queues; all that are in use when left out.
        queue: Option<u32>,
    },
    /// A TAP device.
    Tap(String),
}

impl FromStr for LinkName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write xdp:INTERFACE, xdp:INTERFACE:QUEUE or tap:NAME";
        let (kind, rest) = text
            .split_once(':')
            .ok_or(format!("{text:?} names no kind of link; {help}"))?;
        match (kind, rest) {
            (_, "") => Err(format!("{text:?} names no interface; {help}")),
            ("tap", name) => Ok(Self::Tap(name.to_owned())),
            ("xdp", rest) => {
                let Some((interface, queue)) = rest.rsplit_once(':') else {
                    return Ok(Self::Xdp {
                        interface: rest.to_owned(),
                        queue: None,
                    });
                };
                let queue = queue
                    .parse()
                    .map(Some)
                    .map_err(|_| format!("{queue:?} is no queue number; {help}"))?;
                Ok(Self::Xdp {
                    interface: interface.to_owned(),
                    queue,
                })
            }
            _ => Err(format!("{kind:?} is no kind of link; {help}")),
        }
    }
}

/// What a program wants of its link, whichever that is.
#[derive(Clone, Debug)]
pub struct Needs {
    /// What is taken where others use the addresses too.
    pub role: Role,
    /// The UDP port of the number that is served too.
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
#[derive(clap::Args, Clone, Debug, Default)]
pub struct LinkArgs {
    /// Where packets come from: xdp:INTERFACE (all its queues), xdp:INTERFACE:QUEUE (one queue, to which you steer
    /// packets) or tap:NAME [default: the daemon if it runs, else an interface pair made for this program]
    #[arg(long, help_heading = "Link", value_name = "LINK")]
    pub link: Option<LinkName>,
    /// Get a link from the daemon (xokd, or xokd:INTERFACE if it has several), or do not ask it (none) [default: xokd
    /// if its socket exists and there is no --link]
    #[arg(long, help_heading = "Link", value_name = "WHO")]
    pub via: Option<ViaName>,
    /// Kind of link to get from the daemon: shared (a virtual interface, whose traffic is checked), direct or
    /// direct:QUEUE (a queue of the real interface, if the policy allows it) [default: what the policy prefers]
    #[arg(long, help_heading = "Link", value_name = "MODE", value_parser = mode)]
    pub mode: Option<Mode>,
    /// The daemon's socket [default: $EXOS_XOKD, else /run/exos/xokd.sock]
    #[arg(long, help_heading = "Link", value_name = "SOCKET")]
    pub xokd: Option<PathBuf>,
    /// Address of this program: an unused one of the network, or one that the daemon offers (repeatable, IPv4 and IPv6)
    #[arg(long, help_heading = "Link", value_name = "ADDRESS/PREFIX")]
    pub address: Vec<Prefixed>,
    /// Default gateway (repeatable, one for IPv4 and one for IPv6)
    #[arg(long, help_heading = "Link", value_name = "ADDRESS")]
    pub gateway: Vec<IpAddr>,
    /// Network behind another router, such as 10.8.0.0/16,10.0.0.1 (repeatable)
    #[arg(long, help_heading = "Link", value_name = "NETWORK/PREFIX,GATEWAY")]
    pub route: Vec<Route>,
    /// Use the interface's own addresses together with the host: only packets to this program's TCP port come here
    #[arg(long, help_heading = "Link")]
    pub share_address: bool,
    /// Send every TCP segment by itself, instead of several in one piece that the kernel cuts (GSO)
    #[arg(long, help_heading = "Link")]
    pub no_segmentation: bool,
    /// CPU core to run on, counted from 0; with --cores the first core, or a list of all, such as 0,2,3
    #[arg(
        long,
        help_heading = "Link",
        value_name = "CORE",
        value_delimiter = ','
    )]
    pub core: Vec<usize>,
}

/// Who lends the link.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ViaName {
    /// The daemon, a part of this interface or of its only one.
    Xokd(Option<String>),
    /// Nobody: the program makes it.
    Nobody,
}

impl FromStr for ViaName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "xokd" => Ok(Self::Xokd(None)),
            None if text == "none" => Ok(Self::Nobody),
            Some(("xokd", interface)) if !interface.is_empty() => {
                Ok(Self::Xokd(Some(interface.to_owned())))
            }
            _ => Err(format!(
                "{text:?} lends nothing; write xokd, xokd:INTERFACE or none"
            )),
        }
    }
}

/// A mode as a person names it: shared, direct or direct:QUEUE.
///
/// # Errors
///
/// What to write instead.
pub fn mode(text: &str) -> Result<Mode, String> {
    let queue = |text: &str| text.parse().ok().map(|queue| Mode::Direct(Some(queue)));
    let known = match text.split_once(':') {
        None if text == "shared" => Some(Mode::Shared),
        None if text == "direct" => Some(Mode::Direct(None)),
        Some(("direct", number)) => queue(number),
        _ => None,
    };
    known.ok_or_else(|| format!("{text:?} is no mode; write shared, direct or direct:QUEUE"))
}

/// Which link the options choose.
enum Chosen<'a> {
    Named(&'a LinkName),
    /// A part of the daemon's interface of this name, or of its only one.
    Daemon(Option<String>),
    /// One of the program's own.
    Own,
}

impl LinkArgs {
    /// What is asked of the library.
    ///
    /// # Errors
    ///
    /// The options contradict each other.
    pub fn attachment(&self, needs: &Needs) -> Result<Attachment, Error> {
        let link = match self.chosen()? {
            Chosen::Own => self.own(needs)?,
            Chosen::Daemon(interface) => self.daemon(interface, needs)?.into(),
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
        Ok(matches!(self.chosen()?, Chosen::Daemon(_)))
    }

    fn chosen(&self) -> Result<Chosen<'_>, Error> {
        let is_there = || self.xokd.is_some() || via::is_there(&via::socket_path());
        let chosen = match (&self.link, &self.via) {
            (Some(_), Some(ViaName::Xokd(_))) => {
                return Err(Error::new("--link and --via xokd are two links").mend(
                    "give one of them; an interface of the daemon's is --via xokd:INTERFACE",
                ));
            }
            (Some(link), _) => Chosen::Named(link),
            (None, Some(ViaName::Xokd(interface))) => Chosen::Daemon(interface.clone()),
            (None, None) if is_there() => Chosen::Daemon(None),
            (None, _) => Chosen::Own,
        };
        if self.mode.is_some() && !matches!(chosen, Chosen::Daemon(_)) {
            return Err(Error::new("--mode is for a link that the daemon lends")
                .mend("leave it out, or give --via xokd"));
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
                one_queue(needs.cores)?;
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
        if needs.cores > 1 {
            return Err(Error::new("the daemon lends one queue to a program")
                .mend("start a program for each core, or leave --cores out; or do without the daemon (--via none)"));
        }
        let usual = Daemon::new(needs.role.clone());
        Ok(Daemon {
            interface,
            socket: self.xokd.clone().unwrap_or(usual.socket),
            mode: self.mode.unwrap_or(usual.mode),
            addresses: self.address.clone(),
            role: usual.role,
            datagrams: needs.datagrams,
        })
    }

    fn tap(&self, name: &str, needs: &Needs) -> Result<Tap, Error> {
        if self.share_address {
            return Err(
                Error::new("--share-address needs an interface").mend("give --link xdp:INTERFACE")
            );
        }
        one_queue(needs.cores)?;
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
            ..SharedInterface::new(interface, needs.role.clone())
        })
    }

    fn addresses(&self, needs: &Needs) -> Result<Addresses, Error> {
        let ours = Addresses::new(&self.address[..]).map_err(|e| {
            e.mend("give --address ADDRESS/PREFIX (one that nobody has), or --share-address for the interface's own")
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

fn one_queue(cores: u32) -> Result<(), Error> {
    match cores {
        1 => Ok(()),
        _ => Err(Error::new("a TAP device has one queue here")
            .mend("give --link xdp:INTERFACE (as root), or leave --cores out")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(link: Option<&str>, via: Option<&str>, xokd: Option<&str>) -> LinkArgs {
        LinkArgs {
            link: link.map(|name| name.parse().unwrap()),
            via: via.map(|name| name.parse().unwrap()),
            xokd: xokd.map(PathBuf::from),
            ..LinkArgs::default()
        }
    }

    /// What is wrong with these options for a program on this many cores, with these pools.
    fn refusal(args: &LinkArgs, cores: u32, pools: &[&str]) -> String {
        let needs = Needs {
            cores,
            pools: pools.iter().map(|pool| pool.parse().unwrap()).collect(),
            ..Needs::new(Role::Serve(80))
        };
        args.attachment(&needs).unwrap_err().to_string()
    }

    fn link(args: &LinkArgs) -> LinkKind {
        let needs = Needs::new(Role::Serve(80));
        args.attachment(&needs).unwrap().link
    }

    #[test]
    fn link_names() {
        let xdp = |interface: &str, queue| LinkName::Xdp {
            interface: interface.into(),
            queue,
        };
        assert_eq!("xdp:eth0".parse(), Ok(xdp("eth0", None)));
        assert_eq!("xdp:eth0:0".parse(), Ok(xdp("eth0", Some(0))));
        assert_eq!("xdp:eth0:3".parse(), Ok(xdp("eth0", Some(3))));
        assert_eq!("tap:t0".parse(), Ok(LinkName::Tap("t0".into())));
        for bad in ["", "eth0", "xdp:", "tap:", "foo:eth0", "xdp:eth0:x"] {
            let error = bad.parse::<LinkName>().unwrap_err();
            assert!(error.contains("write xdp:INTERFACE"), "{bad}: {error}");
        }
    }

    #[test]
    fn contradictions_are_refused_in_the_words_of_the_options() {
        let none = || args(Some("xdp:eth0"), None, None);
        let address = || LinkArgs {
            address: vec!["10.0.0.1/24".parse().unwrap()],
            ..none()
        };
        let refused = |args: LinkArgs, says: &str| {
            let error = refusal(&args, 1, &[]);
            assert!(error.contains(says), "{error}");
        };
        refused(none(), "give --address ADDRESS/PREFIX");
        let mut both = address();
        both.share_address = true;
        refused(both, "leave --address");
        let mut family = address();
        family.gateway.push("fd00::1".parse().unwrap());
        refused(family, "give an --address of that family");
        let mut tap = args(Some("tap:t0"), None, None);
        tap.share_address = true;
        refused(tap, "--share-address needs an interface");
        let mut own = args(None, Some("none"), None);
        assert_eq!(link(&own), LinkKind::own());
        own.address = address().address;
        refused(own, "brings its addresses with it");
        let mut lent = args(None, Some("xokd"), Some("/nowhere"));
        lent.gateway.push("10.0.0.2".parse().unwrap());
        refused(lent, "--via none");
        let shared = LinkArgs {
            share_address: true,
            ..none()
        };
        let connects = Needs::new(Role::Connect(Vec::new()));
        let error = shared.attachment(&connects).unwrap_err().to_string();
        assert!(error.contains("must be known who"), "{error}");
        assert!(refusal(&shared, 1, &["10.9.0.0/16"]).contains("instead of --share-address"));
        let lent = args(None, Some("xokd"), Some("/nowhere"));
        assert!(refusal(&lent, 1, &["10.9.0.0/16"]).contains("--via none"));
        let pools = Needs {
            pools: vec!["10.9.0.0/16".parse().unwrap(), "fd01::/64".parse().unwrap()],
            ..Needs::new(Role::Connect(Vec::new()))
        };
        let own = args(None, Some("none"), None);
        assert!(own.attachment(&pools).is_ok());
    }

    #[test]
    fn several_cores_need_a_queue_each() {
        let with = |link: &str| LinkArgs {
            address: vec!["192.0.2.7/24".parse().unwrap()],
            ..args(Some(link), None, None)
        };
        assert!(refusal(&with("tap:exos0"), 2, &[]).contains("one queue here"));
        assert!(refusal(&with("xdp:lo:1"), 2, &[]).contains("without the queue"));
        let lent = args(None, Some("xokd"), Some("/nowhere"));
        assert!(refusal(&lent, 2, &[]).contains("one queue to a program"));
    }

    #[test]
    fn who_lends_the_link() {
        let daemon = |interface: Option<&str>| {
            LinkKind::from(Daemon {
                interface: interface.map(str::to_owned),
                socket: "/nowhere".into(),
                ..Daemon::new(Role::Serve(80))
            })
        };
        let tap = |via: Option<&str>| {
            let mut tap = args(Some("tap:t0"), via, Some("/nowhere"));
            tap.address.push("192.0.2.7/24".parse().unwrap());
            tap
        };
        let is_tap = |link: LinkKind| matches!(link, LinkKind::Tap(tap) if tap.name == "t0");
        let there = Some("/nowhere");
        assert_eq!(link(&args(None, Some("xokd"), there)), daemon(None));
        assert_eq!(
            link(&args(None, Some("xokd:eth1"), there)),
            daemon(Some("eth1"))
        );
        assert_eq!(link(&args(None, None, there)), daemon(None));
        assert!(is_tap(link(&tap(None))) && is_tap(link(&tap(Some("none")))));
        assert_eq!(link(&args(None, Some("none"), there)), LinkKind::own());
        assert!(refusal(&tap(Some("xokd")), 1, &[]).contains("give one of them"));
        for bad in ["", "xok", "xokd:", "none:eth0"] {
            assert!(bad.parse::<ViaName>().is_err(), "{bad}");
        }
    }

    /// What the command line says comes before what a file says, and a link is taken from one of them whole.
    #[test]
    fn the_command_line_comes_before_a_file() {
        let file = || LinkArgs {
            link: Some("tap:t1".parse().unwrap()),
            address: vec!["192.0.2.1/24".parse().unwrap()],
            core: vec![1],
            ..LinkArgs::default()
        };
        let said = LinkArgs::default().or(file());
        assert_eq!(said.link, Some(LinkName::Tap("t1".into())));
        assert_eq!((said.address.len(), said.core), (1, vec![1]));
        let lent = args(None, Some("xokd"), None).or(file());
        assert_eq!((lent.link, lent.via), (None, Some(ViaName::Xokd(None))));
        assert_eq!(lent.address, file().address);
        let mine = LinkArgs {
            address: vec!["192.0.2.2/24".parse().unwrap()],
            core: vec![0],
            ..args(Some("tap:t0"), None, None)
        };
        let both = mine.clone().or(file());
        assert_eq!((both.link, both.core), (mine.link, vec![0]));
        assert_eq!(both.address, mine.address);
    }

    #[test]
    fn modes_are_of_a_link_that_is_lent() {
        assert_eq!(mode("shared"), Ok(Mode::Shared));
        assert_eq!(mode("direct"), Ok(Mode::Direct(None)));
        assert_eq!(mode("direct:3"), Ok(Mode::Direct(Some(3))));
        for bad in ["", "auto", "direct:", "direct:x", "shared:1", "direct:-1"] {
            assert!(mode(bad).is_err(), "{bad}");
        }
        let lent = LinkArgs {
            mode: Some(Mode::Shared),
            ..args(None, Some("xokd"), Some("/nowhere"))
        };
        assert!(matches!(
            link(&lent),
            LinkKind::Daemon(Daemon {
                mode: Mode::Shared,
                ..
            })
        ));
        for own in [
            args(Some("tap:t0"), None, None),
            args(None, Some("none"), None),
        ] {
            let own = LinkArgs {
                mode: Some(Mode::Shared),
                ..own
            };
            let error = refusal(&own, 1, &[]);
            assert!(error.contains("--mode"), "{error}");
        }
    }
}
