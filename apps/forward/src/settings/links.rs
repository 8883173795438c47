//! The links of a forwarder: one, or several, each with addresses, gateways and routes of its own.
//!
//! They are written as those of other programs that run on several interfaces ([`LinkArgs`]), and forwarding says of the options
//! what it takes.

use std::net::IpAddr;

use clap::error::Error as ClapError;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use exos::Prefixed;
use exos_program::LinkArgs;

/// What the options of a link say where packets are forwarded.
const HELP: [(&str, &str); 3] = [
    (
        "link",
        "Interface that packets come from and leave by: xdp:INTERFACE (all its queues), xdp:INTERFACE:QUEUE (one queue, \
         to which you steer packets), packet:INTERFACE (by packet sockets, which leave super-packets of up to 64 KiB \
         whole) or xokd:INTERFACE (a part of an interface of the daemon's). Repeatable, all of one kind, for clients on one \
         interface and servers on another: each \
         --address, --gateway and --route belongs to the --link before it [default: the daemon if it runs]",
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
pub struct Links {
    written: LinkArgs,
    /// The options of each, by itself.
    each: Vec<LinkArgs>,
}

impl Default for Links {
    /// The one that is taken where nothing is said.
    fn default() -> Self {
        Self::from(LinkArgs::default())
    }
}

impl From<LinkArgs> for Links {
    fn from(written: LinkArgs) -> Self {
        let each = written.divided();
        Self { written, each }
    }
}

impl Links {
    /// The first, which also says what is the program's as a whole.
    pub fn first(&self) -> &LinkArgs {
        &self.each[0]
    }

    /// Says which addresses are ours on the first.
    pub fn set_addresses(&mut self, addresses: Vec<Prefixed>) {
        self.written.address = addresses;
        *self = Self::from(std::mem::take(&mut self.written));
    }

    /// All of them.
    pub fn all(&self) -> &[LinkArgs] {
        &self.each
    }

    /// Our addresses on all of them.
    pub fn addresses(&self) -> impl Iterator<Item = &Prefixed> {
        self.each.iter().flat_map(|link| &link.address)
    }

    /// True for an address of ours.
    pub fn have(&self, ip: IpAddr) -> bool {
        self.addresses().any(|address| address.ip == ip)
    }

    /// These options, and those of a file where they say nothing ([`LinkArgs::or`]).
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        Self::from(self.written.or(file.written))
    }
}

impl Args for Links {
    fn augment_args(command: Command) -> Command {
        let command = LinkArgs::augment_args(command);
        HELP.iter().fold(command, |command, (id, help)| {
            command.mut_arg(id, |option| option.help(*help))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Links {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, ClapError> {
        LinkArgs::from_arg_matches(matches).map(Self::from)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), ClapError> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use exos_program::LinkName;

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
        assert!(said.contains("--gateway 10.0.0.1 stands before"), "{said}");
    }

    #[test]
    fn links_of_the_command_line_replace_several_of_a_file() {
        let file = || {
            let words =
                "--core 3 --link xdp:c --address 10.0.0.7/24 --link xdp:d --address 10.0.1.7/24";
            links(&words.split(' ').collect::<Vec<_>>()).unwrap()
        };
        let said = links(&["--core", "1"]).unwrap().or(file());
        assert_eq!((written(&said).len(), said.first().core[0]), (2, 1));
        assert_eq!(written(&said)[0].0, "c");
        let said = links(&["--link", "xdp:a", "--address", "10.0.2.7/24"]);
        let said = said.unwrap().or(file());
        assert_eq!(
            written(&said),
            [("a".into(), vec!["10.0.2.7/24".into()], 0)]
        );
        assert_eq!(said.first().core, [3]);
    }
}
