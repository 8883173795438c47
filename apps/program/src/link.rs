//! The options that every program on a stack of its own has: the link, the addresses, the core.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use exos::via::{self, Mode};
use exos::{Attachment, Error, LinkName, Prefixed};

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

impl LinkArgs {
    /// What is asked of the library, for a program with this TCP port, 0 for one that only connects.
    ///
    /// # Errors
    ///
    /// The options contradict each other.
    pub fn attachment(&self, port: u16) -> Result<Attachment, Error> {
        Ok(Attachment {
            addresses: self.address.clone(),
            gateways: self.gateway.clone(),
            share_address: self.share_address,
            segmentation: !self.no_segmentation,
            ..Attachment::new(self.link_name()?, port)
        })
    }

    fn link_name(&self) -> Result<LinkName, Error> {
        let socket = self.xokd.clone().unwrap_or_else(via::socket_path);
        let daemon = |interface: Option<String>| LinkName::Daemon {
            interface,
            socket: socket.clone(),
            mode: self.mode.unwrap_or(Mode::Auto),
        };
        let lent = matches!(self.via, Some(ViaName::Xokd(_)))
            || self.link.is_none()
                && self.via.is_none()
                && (self.xokd.is_some() || via::is_there(&socket));
        if self.mode.is_some() && !lent {
            return Err(Error::new("--mode is for a link that the daemon lends")
                .mend("leave it out, or give --via xokd"));
        }
        match (&self.link, &self.via) {
            (Some(_), Some(ViaName::Xokd(_))) => {
                Err(Error::new("--link and --via xokd are two links")
                    .mend("give one of them; an interface of the daemon's is --via xokd:INTERFACE"))
            }
            (Some(link), _) => Ok(link.clone()),
            (None, Some(ViaName::Xokd(interface))) => Ok(daemon(interface.clone())),
            (None, None) if self.xokd.is_some() || via::is_there(&socket) => Ok(daemon(None)),
            (None, _) => {
                let named =
                    self.share_address || !self.address.is_empty() || !self.gateway.is_empty();
                // With these a link must be named; the check of the pair says so.
                Ok(if named {
                    LinkName::OwnPair
                } else {
                    LinkName::default_here()
                })
            }
        }
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

    #[test]
    fn who_lends_the_link() {
        let link = |args: LinkArgs| args.attachment(80).unwrap().link;
        let daemon = |interface: Option<&str>| LinkName::Daemon {
            interface: interface.map(str::to_owned),
            socket: "/nowhere".into(),
            mode: Mode::Auto,
        };
        let there = Some("/nowhere");
        assert_eq!(link(args(None, Some("xokd"), there)), daemon(None));
        assert_eq!(
            link(args(None, Some("xokd:eth1"), there)),
            daemon(Some("eth1"))
        );
        assert_eq!(link(args(None, None, there)), daemon(None));
        assert_eq!(
            link(args(Some("tap:t0"), None, there)),
            LinkName::Tap("t0".into())
        );
        assert_eq!(
            link(args(Some("tap:t0"), Some("none"), there)),
            LinkName::Tap("t0".into())
        );
        assert_eq!(
            link(args(None, Some("none"), there)),
            LinkName::default_here()
        );
        let both = args(Some("tap:t0"), Some("xokd"), there).attachment(80);
        assert!(both.unwrap_err().to_string().contains("give one of them"));
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
            lent.attachment(80).unwrap().link,
            LinkName::Daemon {
                mode: Mode::Shared,
                ..
            }
        ));
        for own in [
            args(Some("tap:t0"), None, None),
            args(None, Some("none"), None),
        ] {
            let own = LinkArgs {
                mode: Some(Mode::Shared),
                ..own
            };
            let error = own.attachment(80).unwrap_err().to_string();
            assert!(error.contains("--mode"), "{error}");
        }
    }
}
