//! Names that have a meaning of their own, and the names that a short one stands for.

use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::name::Name;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a program's text stands for.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Meaning {
    /// These addresses, without a question to anybody.
    Addresses(Vec<IpAddr>),
    /// The first of these names that has addresses.
    Names(VecDeque<Name>),
}

/// What the text stands for: an address, a name that is answered here, one of the hosts file, or names to ask for.
pub(crate) fn meaning(text: &str, config: &Config) -> Result<Meaning, Error> {
    if let Ok(address) = text.parse() {
        return Ok(Meaning::Addresses(vec![address]));
    }
    let name = Name::new(text)?;
    // RFC 6761 §6.3: the loopback addresses, always.
    if name.is_or_ends_in("localhost") {
        let loopback = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
        return Ok(Meaning::Addresses(loopback.into()));
    }
    if let Some(addresses) = config.hosts.get(&name) {
        return Ok(Meaning::Addresses(addresses.to_vec()));
    }
    // RFC 6761 §6.4, RFC 7686 §2: no server is to be asked for these.
    if name.is_or_ends_in("invalid") || name.is_or_ends_in("onion") {
        return Err(Error::new(ErrorKind::NoSuchName, text));
    }
    Ok(Meaning::Names(candidates(
        name,
        text.ends_with('.'),
        config,
    )))
}

/// resolv.conf(5): a name with `ndots` dots is first asked for as it is, one with fewer last; between, with each domain of
/// the search list behind it. A dot at its end says that it is whole.
fn candidates(name: Name, whole: bool, config: &Config) -> VecDeque<Name> {
    if whole {
        return [name].into();
    }
    let dots = name.as_str().bytes().filter(|&byte| byte == b'.').count();
    let searched = config
        .search
        .iter()
        .filter_map(|domain| name.within(domain));
    let mut names: VecDeque<Name> = searched.collect();
    if dots >= usize::from(config.ndots) {
        names.push_front(name);
    } else {
        names.push_back(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, config: &Config) -> Vec<String> {
        match meaning(text, config).unwrap() {
            Meaning::Names(names) => names.into_iter().map(|name| name.to_string()).collect(),
            Meaning::Addresses(addresses) => panic!("{text} is {addresses:?}"),
        }
    }

    #[test]
    fn short_names_are_searched() {
        let parse = |text: &str| Config::parse(text, "", &|_| None);
        let config = parse("search one.example two.example");
        assert_eq!(
            names("www", &config),
            ["www.one.example", "www.two.example", "www"]
        );
        assert_eq!(names("www.", &config), ["www"]);
        assert_eq!(
            names("a.b", &config),
            ["a.b", "a.b.one.example", "a.b.two.example"]
        );
        let config = parse("search one.example\noptions ndots:2");
        assert_eq!(names("a.b", &config), ["a.b.one.example", "a.b"]);
        assert_eq!(names("a.b.c", &config), ["a.b.c", "a.b.c.one.example"]);
        let config = parse("search one.example\noptions ndots:0");
        assert_eq!(names("www", &config), ["www", "www.one.example"]);
        // What would be too long is left out.
        let config = parse("search one.example");
        let long = format!("{0}.{0}.{0}.{0}", "a".repeat(62));
        assert_eq!(names(&long, &config).join(" "), long);
    }

    #[test]
    fn some_names_are_answered_here() {
        let config = Config::parse("", "192.0.2.1 host alias\n10.0.0.1 localhost", &|_| None);
        let addresses = |text: &str| match meaning(text, &config).unwrap() {
            Meaning::Addresses(addresses) => {
                addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>()
            }
            Meaning::Names(names) => panic!("{text} is {names:?}"),
        };
        assert_eq!(addresses("192.0.2.9"), ["192.0.2.9"]);
        assert_eq!(addresses("2001:db8::1"), ["2001:db8::1"]);
        assert_eq!(addresses("localhost"), ["::1", "127.0.0.1"]);
        assert_eq!(addresses("a.LocalHost."), ["::1", "127.0.0.1"]);
        assert_eq!(addresses("HOST"), ["192.0.2.1"]);
        assert_eq!(addresses("alias."), ["192.0.2.1"]);
        for none in ["a.invalid", "x.onion"] {
            assert_eq!(
                meaning(none, &config).unwrap_err().kind(),
                ErrorKind::NoSuchName
            );
        }
        assert_eq!(names("notlocalhost", &config), ["notlocalhost"]);
    }
}
