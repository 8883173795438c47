//! The links of a forwarder as they are written: one, or several, each with addresses and gateways of its own.
//!
//! On the command line what is said of addresses belongs to the `--link` before it. What is the program's as a whole, such as its
//! core, is the first link's.

use std::net::IpAddr;

use clap::error::{Error as ClapError, ErrorKind};
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use exos::{Error, Prefixed, Route};
use exos_program::{LinkArgs, LinkName};

/// What the options of a link say where there may be several.
const HELP: [(&str, &str); 3] = [
    (
        "link",
        "Interface that packets come from and leave by: xdp:INTERFACE (all its queues) or xdp:INTERFACE:QUEUE (one queue, \
         to which you steer packets). Repeatable, for clients on one interface and servers on another: each --address, \
         --gateway and --route belongs to the --link before it [default: the daemon if it runs]",
    ),
    (
        "address",
        "Address of this program on the link: an unused one of the network, or one that the daemon offers (repeatable, \
         IPv4 and IPv6)",
    ),
    (
        "gateway",
        "Default gateway, on one of the links (repeatable, one for IPv4 and one for IPv6)",
    ),
];

/// Links, one at least.
#[derive(Clone, Debug)]
pub struct Links(Vec<LinkArgs>);

impl Default for Links {
    fn default() -> Self {
        Self::from(vec![LinkArgs::default()])
    }
}

impl From<Vec<LinkArgs>> for Links {
    /// Without any it is the one that is taken where nothing is said.
    fn from(links: Vec<LinkArgs>) -> Self {
        match links.is_empty() {
            true => Self::default(),
            false => Self(links),
        }
    }
}

impl Links {
    /// The first, which also says what is the program's as a whole.
    pub fn first(&self) -> &LinkArgs {
        &self.0[0]
    }

    /// The first, to be changed.
    pub fn first_mut(&mut self) -> &mut LinkArgs {
        &mut self.0[0]
    }

    /// All of them.
    pub fn all(&self) -> &[LinkArgs] {
        &self.0
    }

    /// Our addresses on all of them.
    pub fn addresses(&self) -> impl Iterator<Item = &Prefixed> {
        self.0.iter().flat_map(|link| &link.address)
    }

    /// True for an address of ours.
    pub fn have(&self, ip: IpAddr) -> bool {
        self.addresses().any(|address| address.ip == ip)
    }

    /// Whether a daemon lends the link.
    ///
    /// # Errors
    ///
    /// The options contradict each other.
    pub fn is_lent(&self) -> Result<bool, Error> {
        self.first().is_lent()
    }

    /// Goes to the core that is named.
    ///
    /// # Errors
    ///
    /// It is none that this process may run on, or there are several.
    pub fn pin(&self) -> Result<(), Error> {
        self.first().pin()
    }

    /// These options, and those of a file where they say nothing. Where either has several links, a link or an address of the
    /// command line replaces all links of the file.
    #[must_use]
    pub fn or(mut self, mut file: Self) -> Self {
        if let ([_], [_]) = (&self.0[..], &file.0[..]) {
            return Self(vec![self.0.remove(0).or(file.0.remove(0))]);
        }
        let first = self.first();
        let names_link = first.link.is_some() || first.via.is_some();
        let names_routers = !first.gateway.is_empty() || !first.route.is_empty();
        if names_link || !first.address.is_empty() || names_routers {
            if first.core.is_empty() {
                self.0[0].core = file.0.remove(0).core;
            }
            return self;
        }
        if !first.core.is_empty() {
            file.0[0].core.clone_from(&first.core);
        }
        for link in &mut file.0 {
            link.no_segmentation |= first.no_segmentation;
        }
        file
    }
}

impl Args for Links {
    fn augment_args(command: Command) -> Command {
        let command = LinkArgs::augment_args(command);
        let told = HELP.iter().fold(command, |command, (id, help)| {
            command.mut_arg(id, |option| option.help(*help))
        });
        told.mut_arg("link", |link| link.action(ArgAction::Append))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Links {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, ClapError> {
        let names = placed::<LinkName>(matches, "link");
        let whole = LinkArgs::from_arg_matches(matches)?;
        if names.len() < 2 {
            return Ok(Self(vec![whole]));
        }
        let mut links: Vec<LinkArgs> = names.iter().map(|(_, name)| of(&whole, name)).collect();
        let behind = |at: usize, option: &str| {
            let link = names.iter().rposition(|(place, _)| *place < at);
            link.ok_or_else(|| {
                let what = format!(
                    "{option} stands before the first --link, and there are several: write it behind that of its network\n"
                );
                ClapError::raw(ErrorKind::ArgumentConflict, what)
            })
        };
        for (at, address) in placed::<Prefixed>(matches, "address") {
            links[behind(at, "an --address")?].address.push(address);
        }
        for (at, gateway) in placed::<IpAddr>(matches, "gateway") {
            links[behind(at, "a --gateway")?].gateway.push(gateway);
        }
        for (at, route) in placed::<Route>(matches, "route") {
            links[behind(at, "a --route")?].route.push(route);
        }
        Ok(Self(links))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), ClapError> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A link of this name, with what is said of all.
fn of(whole: &LinkArgs, name: &LinkName) -> LinkArgs {
    LinkArgs {
        link: Some(name.clone()),
        address: Vec::new(),
        gateway: Vec::new(),
        route: Vec::new(),
        ..whole.clone()
    }
}

/// The values of an option, each with its place on the command line.
fn placed<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Vec<(usize, T)> {
    let places = matches.indices_of(id).into_iter().flatten();
    let values = matches.get_many::<T>(id).into_iter().flatten().cloned();
    places.zip(values).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        links: Links,
    }

    fn links(words: &[&str]) -> Result<Links, String> {
        let line = Line::try_parse_from(["forward"].iter().chain(words));
        line.map(|line| line.links).map_err(|e| e.to_string())
    }

    fn written(links: &Links) -> Vec<(String, Vec<String>, usize)> {
        let of = |link: &LinkArgs| {
            let Some(LinkName::Xdp { interface, .. }) = &link.link else {
                panic!("{link:?}");
            };
            let addresses = link.address.iter().map(Prefixed::to_string).collect();
            (interface.clone(), addresses, link.gateway.len())
        };
        links.all().iter().map(of).collect()
    }

    /// With one link the order of options means nothing, as with every program; with several an address is that of the link
    /// before it.
    #[test]
    fn addresses_belong_to_the_link_before_them() {
        let one = links(&["--address", "10.0.0.7/24", "--link", "xdp:a"]).unwrap();
        assert_eq!(written(&one), [("a".into(), vec!["10.0.0.7/24".into()], 0)]);
        let two = links(&[
            "--core",
            "1",
            "--link",
            "xdp:a",
            "--address",
            "10.0.0.7/24",
            "--gateway",
            "10.0.0.1",
            "--address",
            "fd00::7/64",
            "--link",
            "xdp:b",
            "--address",
            "10.0.1.7/24",
            "--route",
            "10.8.0.0/16,10.0.1.1",
        ]);
        let two = two.unwrap();
        assert_eq!(
            written(&two),
            [
                (
                    "a".into(),
                    vec!["10.0.0.7/24".into(), "fd00::7/64".into()],
                    1
                ),
                ("b".into(), vec!["10.0.1.7/24".into()], 0)
            ]
        );
        assert_eq!(two.first().core, [1]);
        let routes: Vec<usize> = two.all().iter().map(|link| link.route.len()).collect();
        assert_eq!(routes, [0, 1]);
        assert!(two.have("10.0.1.7".parse().unwrap()) && !two.have("10.0.1.8".parse().unwrap()));
        let before = [
            "--gateway",
            "10.0.0.1",
            "--link",
            "xdp:a",
            "--link",
            "xdp:b",
        ];
        let said = links(&before).unwrap_err();
        assert!(said.contains("a --gateway stands before"), "{said}");
    }

    #[test]
    fn links_of_the_command_line_replace_several_of_a_file() {
        let file = || {
            let link = |name: &str, core: Vec<usize>| LinkArgs {
                link: Some(name.parse().unwrap()),
                address: vec!["10.0.0.7/24".parse().unwrap()],
                core,
                ..LinkArgs::default()
            };
            Links::from(vec![link("xdp:c", vec![3]), link("xdp:d", vec![])])
        };
        let said = links(&["--core", "1"]).unwrap().or(file());
        assert_eq!((written(&said).len(), said.first().core[0]), (2, 1));
        assert_eq!(written(&said)[0].0, "c");
        let said = links(&["--link", "xdp:a"]).unwrap().or(file());
        assert_eq!(written(&said), [("a".into(), vec![], 0)]);
        assert_eq!(said.first().core, [3]);
    }
}
