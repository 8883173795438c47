//! Virtual hosts: which site a request's host name leads to.
//!
//! A site's names are exact (`example.org`, `192.0.2.7`, `[2001:db8::7]`) or begin with a star in place of one or more
//! labels (`*.example.org`, which is not `example.org`). An exact name decides before one with a star, and of those the
//! longest. Case, the port and a dot at the end do not count. A request without a host name, and where
//! [`Unknown::Default`] is set one with a name that nobody has, belongs to the default site.

use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::entry::Entry;
use super::store::cache::{Figures, Statistics};
use super::table::Site;

/// A name as RFC 1035 bounds it; longer ones are nobody's.
const NAME_LEN_MAX: usize = 253;

/// What becomes of requests for hosts that no site names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// The default site answers.
    #[default]
    Default,
    /// 421 (RFC 9110 §15.5.20).
    Refuse,
}

/// A name of a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostName {
    /// This name.
    Exact(String),
    /// Every name that ends so; with the dot that begins it.
    Below(String),
}

impl HostName {
    /// Reads a name.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn parse(text: &str) -> Result<HostName, String> {
        let fail = |why: &str| Err(format!("{text:?} {why}"));
        let name = text.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        if name.starts_with('[') {
            let inside = name
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            let address = inside.and_then(|inside| inside.parse::<Ipv6Addr>().ok());
            return match address {
                Some(_) => Ok(HostName::Exact(name.to_owned())),
                None => fail(
                    "is no host; write an IPv6 address as \"[2001:db8::7]\", ports are left out",
                ),
            };
        }
        let (starred, plain) = match name.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, name),
        };
        if plain.contains('/') {
            return fail("is an address of a page; write the host alone, as \"example.org\"");
        }
        if plain.contains(':') {
            return fail(
                "has a port or is an address without brackets; write the host alone, ports do not count",
            );
        }
        if !plain.is_ascii() {
            return fail("is not ASCII; write the name as DNS has it (xn--...)");
        }
        let is_label = |label: &str| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        if plain.len() > NAME_LEN_MAX || !plain.split('.').all(is_label) {
            return fail(
                "is no host; write \"example.org\", or \"*.example.org\" for all names that end so",
            );
        }
        Ok(match starred {
            true => HostName::Below(format!(".{plain}")),
            false => HostName::Exact(plain.to_owned()),
        })
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostName::Exact(name) => f.write_str(name),
            HostName::Below(name) => write!(f, "*{name}"),
        }
    }
}

/// The sites of a server, by host name.
#[derive(Debug)]
pub struct Sites {
    sites: Vec<Site>,
    /// What each calls itself: its first name without a star.
    own_names: Vec<Option<Arc<[u8]>>>,
    exact: HashMap<Box<[u8]>, usize>,
    below: HashMap<Box<[u8]>, usize>,
    default: usize,
    unknown: Unknown,
    /// Some site has rules about access.
    has_access_rules: bool,
    /// Some site has requests for applications.
    has_applications: bool,
    /// What says how the cache does, and how others did before it.
    cache: Option<Arc<Statistics>>,
    ended: Figures,
}

impl From<Site> for Sites {
    /// One site for all hosts.
    fn from(site: Site) -> Sites {
        Sites::new(vec![(Vec::new(), site)], 0, Unknown::Default)
    }
}

impl Sites {
    /// Sites with their names; `default` is the number of one of them.
    ///
    /// # Panics
    ///
    /// When there is no such site. A name that two sites have belongs to the first.
    pub fn new(named: Vec<(Vec<HostName>, Site)>, default: usize, unknown: Unknown) -> Sites {
        assert!(default < named.len(), "the default site is one of them");
        let mut sites = Sites {
            sites: Vec::with_capacity(named.len()),
            own_names: Vec::with_capacity(named.len()),
            exact: HashMap::new(),
            below: HashMap::new(),
            default,
            unknown,
            has_access_rules: false,
            has_applications: false,
            cache: None,
            ended: Figures::default(),
        };
        for (at, (names, site)) in named.into_iter().enumerate() {
            let own_name = names.iter().find_map(|name| match name {
                HostName::Exact(name) => Some(name.as_bytes().into()),
                HostName::Below(_) => None,
            });
            sites.own_names.push(own_name);
            for name in names {
                let (table, name) = match name {
                    HostName::Exact(name) => (&mut sites.exact, name),
                    HostName::Below(name) => (&mut sites.below, name),
                };
                table.entry(name.into_bytes().into()).or_insert(at);
            }
            sites.has_access_rules |= !site.settings().access.is_empty();
            sites.has_applications |= !site.settings().applications.is_empty();
            sites.sites.push(site);
        }
        sites
    }

    /// These, whose documents are in a cache that says how it does.
    #[must_use]
    pub fn in_cache(self, statistics: Arc<Statistics>) -> Sites {
        let cache = Some(statistics);
        Sites { cache, ..self }
    }

    /// What is served instead of others from now on: counters go on.
    #[must_use]
    pub fn instead_of(mut self, others: &Sites) -> Sites {
        self.ended = others.cache_figures();
        self
    }

    /// How the cache does; what only grows is since the start.
    pub fn cache_figures(&self) -> Figures {
        let now = self.cache.as_ref().map(|cache| cache.figures());
        now.unwrap_or_default().after(self.ended)
    }

    /// The number of the site that a request for a host belongs to; `None` when it is nobody's. `host` is what the
    /// request says, a port included: its Host field, or the host of its target.
    #[inline]
    pub fn find(&self, host: Option<&[u8]>) -> Option<usize> {
        if self.sites.len() == 1 && self.unknown == Unknown::Default {
            return Some(0);
        }
        let Some(host) = host.map(name_of).filter(|name| !name.is_empty()) else {
            return Some(self.default);
        };
        let fallback = (self.unknown == Unknown::Default).then_some(self.default);
        self.named(host).or(fallback)
    }

    /// Whether a host, as a request says it, is a name of the site with this number.
    pub fn is_name_of(&self, host: &[u8], number: usize) -> bool {
        self.named(name_of(host)) == Some(number)
    }

    fn named(&self, name: &[u8]) -> Option<usize> {
        let mut lower = [0; NAME_LEN_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        if let Some(&site) = self.exact.get(&*lower) {
            return Some(site);
        }
        if self.below.is_empty() {
            return None;
        }
        // From the left: the longest first. What the star stands for is not empty.
        let dots = (1..lower.len()).filter(|&at| lower[at] == b'.');
        dots.filter_map(|at| self.below.get(&lower[at..]))
            .next()
            .copied()
    }

    /// Whether some site wants to know who asks.
    #[inline]
    pub fn has_access_rules(&self) -> bool {
        self.has_access_rules
    }

    /// Whether some site has requests for applications.
    #[inline]
    pub fn has_applications(&self) -> bool {
        self.has_applications
    }

    /// The site with a number, or the one that answers when no other does: there may be fewer than when the number was told.
    pub fn get_or_default(&self, number: usize) -> &Site {
        self.sites.get(number).unwrap_or(&self.sites[self.default])
    }

    /// The site with a number.
    #[inline]
    pub fn get(&self, number: usize) -> &Site {
        &self.sites[number]
    }

    /// What the site with a number calls itself: its first name without a star, if it has one.
    pub fn own_name(&self, number: usize) -> Option<&Arc<[u8]>> {
        self.own_names[number].as_ref()
    }

    /// The site with a number, to be changed.
    #[inline]
    pub fn get_mut(&mut self, number: usize) -> &mut Site {
        &mut self.sites[number]
    }

    /// The number of the site that answers when no other does.
    #[inline]
    pub fn default_number(&self) -> usize {
        self.default
    }

    /// What is left of sites that are no longer served, see [`Site::take_apart`].
    pub fn take_apart(self) -> impl Iterator<Item = Entry> {
        self.sites.into_iter().flat_map(Site::take_apart)
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter()
    }
}

/// Whether a request's host is an address, a port included, and no name.
pub fn is_address(host: &[u8]) -> bool {
    let name = str::from_utf8(name_of(host)).unwrap_or_default();
    let inside = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match inside {
        Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv4Addr>().is_ok(),
    }
}

/// The name of a host without port and final dot.
pub(crate) fn name_of(host: &[u8]) -> &[u8] {
    let name = match host.first() {
        Some(b'[') => match host.iter().position(|&b| b == b']') {
            Some(end) => &host[..=end],
            None => host,
        },
        _ => match host.iter().position(|&b| b == b':') {
            Some(colon) => &host[..colon],
            None => host,
        },
    };
    name.strip_suffix(b".").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(unknown: Unknown) -> Sites {
        let names = [
            vec!["example.org", "www.example.org"],
            vec!["*.example.org", "192.0.2.7"],
            vec!["*.deep.example.org", "[2001:DB8::7]"],
            vec!["other.test."],
        ];
        let site = |names: Vec<&str>| {
            let names = names.into_iter().map(|name| HostName::parse(name).unwrap());
            (names.collect(), Site::new())
        };
        Sites::new(names.into_iter().map(site).collect(), 3, unknown)
    }

    #[test]
    fn the_longest_name_decides_and_ports_do_not_count() {
        let (open, strict) = (sites(Unknown::Default), sites(Unknown::Refuse));
        for (host, want) in [
            ("example.org", Some(0)),
            ("EXAMPLE.org:8080", Some(0)),
            ("www.example.org.", Some(0)),
            ("a.example.org", Some(1)),
            ("a.b.example.org.:80", Some(1)),
            ("deep.example.org", Some(1)),
            ("a.deep.example.org", Some(2)),
            ("a.b.deep.example.org", Some(2)),
            ("192.0.2.7:80", Some(1)),
            ("[2001:db8::7]:80", Some(2)),
            ("[2001:db8::8]", None),
            (".example.org", None),
            ("notexample.org", None),
            ("org", None),
            ("other.test", Some(3)),
            ("", Some(3)),
            (":80", Some(3)),
        ] {
            assert_eq!(strict.find(Some(host.as_bytes())), want, "{host}");
            let or_default = want.or(Some(3));
            assert_eq!(open.find(Some(host.as_bytes())), or_default, "{host}");
        }
        assert_eq!(strict.find(None), Some(3));
        let long = "a.".repeat(200) + "example.org";
        assert_eq!(strict.find(Some(long.as_bytes())), None);
    }

    #[test]
    fn one_site_alone_may_still_refuse_other_hosts() {
        let alone = |unknown| {
            let names = vec![HostName::parse("example.org").unwrap()];
            Sites::new(vec![(names, Site::new())], 0, unknown)
        };
        assert_eq!(alone(Unknown::Default).find(Some(b"other")), Some(0));
        assert_eq!(alone(Unknown::Refuse).find(Some(b"other")), None);
        assert_eq!(alone(Unknown::Refuse).find(Some(b"example.org")), Some(0));
    }

    #[test]
    fn names_are_names() {
        for bad in [
            "", "*", "*.", "a..b", "a:80", "::1", "[::1", "[x]", "a b", "http://a", "*.*.a", "a.*",
            "é.org", ".a", "[::1]:80",
        ] {
            assert!(HostName::parse(bad).is_err(), "{bad:?}");
        }
        let below = HostName::parse("*.A.b.").unwrap();
        assert_eq!(
            (below.to_string(), below),
            ("*.a.b".into(), HostName::Below(".a.b".into()))
        );
    }
}
