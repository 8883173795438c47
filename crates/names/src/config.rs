//! What `/etc/resolv.conf` and `/etc/hosts` say.
//!
//! Read as glibc reads them (resolv.conf(5), hosts(5)): a line that cannot be understood is ignored, and so is an option
//! that is not known. Options that are acted upon: `ndots`, `timeout`, `attempts`, `rotate`, `use-vc`. EDNS is
//! always used where the server understands it, so that `edns0` changes nothing; `trust-ad` has no meaning here, for
//! nothing is said about DNSSEC. Other than with glibc, no server stands for "the one on this machine".

use crate::limits::{ATTEMPTS_MAX, NDOTS_MAX, SEARCH_DOMAINS_MAX, SERVERS_MAX, TIMEOUT_S_MAX};
use crate::name::Name;
use exos_inet::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ops::RangeInclusive;

/// How names are looked up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The servers to ask, in this order.
    pub servers: Vec<SocketAddr>,
    /// Domains to put behind names.
    pub search: Vec<Name>,
    /// Names with as many dots are first asked for as they are.
    pub ndots: u8,
    /// How long one server has for its answer.
    pub timeout: Duration,
    /// How often each server is asked.
    pub attempts: u8,
    /// Whether each query begins with another server.
    pub rotate: bool,
    /// Whether all queries go over TCP.
    pub use_tcp: bool,
    /// Names that no server is asked for.
    pub hosts: Hosts,
    /// The local ports of queries. By default those that no service has by agreement or habit; a program that is granted ports
    /// names those. The fewer there are, the less a forger has to guess.
    pub ports: RangeInclusive<u16>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
            rotate: false,
            use_tcp: false,
            hosts: Hosts::default(),
            ports: 32_768..=65_535,
        }
    }
}

impl Config {
    /// What the texts of `/etc/resolv.conf` and `/etc/hosts` say. `interface_index` tells the number of an interface,
    /// for servers such as `fe80::1%eth0`.
    pub fn parse(
        resolv_conf: &str,
        hosts: &str,
        interface_index: &dyn Fn(&str) -> Option<u32>,
    ) -> Self {
        let mut config = Self {
            hosts: Hosts::parse(hosts),
            ..Self::default()
        };
        for line in resolv_conf.lines() {
            // As with glibc, a keyword begins in the first column, so that nothing needs to be known of comments.
            let (keyword, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            let mut words = rest.split_whitespace();
            match keyword {
                "nameserver" if config.servers.len() < SERVERS_MAX => {
                    let server = words.next().and_then(|word| server(word, interface_index));
                    config.servers.extend(server);
                }
                // The last of these lines counts.
                "domain" => config.search = domains(words.take(1)),
                "search" => config.search = domains(words),
                "options" => words.for_each(|word| config.option(word)),
                _ => {}
            }
        }
        config
    }

    fn option(&mut self, word: &str) {
        let (option, value) = word.split_once(':').unwrap_or((word, ""));
        let number = value.parse::<u64>();
        match (option, number) {
            ("ndots", Ok(dots)) => self.ndots = dots.min(NDOTS_MAX.into()) as u8,
            ("timeout", Ok(seconds)) => {
                self.timeout = Duration::from_secs(seconds.clamp(1, TIMEOUT_S_MAX));
            }
            ("attempts", Ok(count)) => {
                self.attempts = count.clamp(1, ATTEMPTS_MAX.into()) as u8;
            }
            ("rotate", _) => self.rotate = true,
            ("use-vc", _) => self.use_tcp = true,
            _ => {}
        }
    }
}

/// `192.0.2.1`, `2001:db8::1`, `fe80::1%eth0`, `fe80::1%2`.
fn server(word: &str, interface_index: &dyn Fn(&str) -> Option<u32>) -> Option<SocketAddr> {
    let Some((address, scope)) = word.split_once('%') else {
        return Some(SocketAddr::new(word.parse().ok()?, 53));
    };
    let address: Ipv6Addr = address.parse().ok()?;
    let scope = scope.parse().ok().or_else(|| interface_index(scope))?;
    Some(SocketAddrV6::new(address, 53, 0, scope).into())
}

/// A single dot is the root, which adds nothing to a name.
fn domains<'a>(words: impl Iterator<Item = &'a str>) -> Vec<Name> {
    let names = words.filter_map(|word| Name::new(word).ok());
    names.take(SEARCH_DOMAINS_MAX).collect()
}

/// The addresses of `/etc/hosts` by name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hosts(BTreeMap<Name, Vec<IpAddr>>);

impl Hosts {
    /// What the text says. A name on several lines has the addresses of all.
    pub fn parse(text: &str) -> Self {
        let mut hosts = Self::default();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or(line);
            let mut words = line.split_whitespace();
            // Addresses with a scope are passed over: an address by itself cannot say its interface.
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else {
                continue;
            };
            for name in words.filter_map(|word| Name::new(word).ok()) {
                let addresses = hosts.0.entry(name).or_default();
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        hosts
    }

    /// The addresses of a name, in the order of the file.
    pub fn get(&self, name: &Name) -> Option<&[IpAddr]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(text, "", &|name| (name == "eth0").then_some(3))
    }

    #[test]
    fn servers_are_three_at_most_and_may_have_scopes() {
        let config = parse(
            "# a comment\n; another\nnameserver 192.0.2.1 # trailing\nnameserver\tfe80::1%eth0\n nameserver 192.0.2.9\n\
             nameserver fe80::2%7\nnameserver fe80::3%none\nnameserver none\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n",
        );
        let shown: Vec<_> = config.servers.iter().map(SocketAddr::to_string).collect();
        assert_eq!(shown, ["192.0.2.1:53", "[fe80::1%3]:53", "[fe80::2%7]:53"]);
    }

    #[test]
    fn the_last_of_domain_and_search_counts() {
        let search = |text: &str| {
            let names = parse(text).search;
            names
                .iter()
                .map(Name::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            search("domain a.example\nsearch b.example c.example"),
            "b.example c.example"
        );
        assert_eq!(search("search b.example\ndomain A.example. x"), "a.example");
        assert_eq!(search("search b.example\nsearch ."), "");
        assert_eq!(
            search(&format!("search {}", "x ".repeat(99))).len(),
            32 * 2 - 1
        );
    }

    #[test]
    fn options_are_capped_and_unknown_ones_ignored() {
        let config = parse(
            "options ndots:3 timeout:2 attempts:4 rotate edns0 trust-ad use-vc what:7 timeout:x",
        );
        assert_eq!(
            (config.ndots, config.timeout.as_secs(), config.attempts),
            (3, 2, 4)
        );
        assert!(config.rotate && config.use_tcp);
        let config = parse("options ndots:99 timeout:999 attempts:99");
        assert_eq!(
            (config.ndots, config.timeout.as_secs(), config.attempts),
            (15, 30, 5)
        );
        let config = parse("options timeout:0\noptions attempts:0\noptions ndots:0");
        assert_eq!(
            (config.ndots, config.timeout.as_secs(), config.attempts),
            (0, 1, 1)
        );
        assert_eq!(parse("options\nwhat is this\n\n"), Config::default());
    }

    #[test]
    fn hosts_have_all_their_addresses() {
        let hosts = Hosts::parse(
            "192.0.2.1\thost.example Host # not this\n2001:db8::1 host\n192.0.2.1 host\nfe80::1%lo scoped\nwhat host\n#192.0.2.9 host\n\n192.0.2.3",
        );
        let get = |name: &str| {
            hosts
                .get(&Name::new(name).unwrap())
                .map(|all| format!("{all:?}"))
        };
        assert_eq!(get("host").unwrap(), "[192.0.2.1, 2001:db8::1]");
        assert_eq!(get("host.example").unwrap(), "[192.0.2.1]");
        assert_eq!(get("scoped"), None);
        assert_eq!(get("not"), None);
    }
}
