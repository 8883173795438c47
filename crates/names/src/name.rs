//! Host names: their syntax, those that have a meaning of their own, and the names that a short one stands for.
//!
//! A [`Name`] is absolute, in lower case, without a dot at its end, and not empty. Its letters are ASCII letters, digits,
//! `-` and `_`. Names in other scripts are to be given in their ASCII form (`xn--…`); this crate does not translate
//! them (IDNA, RFC 5890).

use crate::error::{Error, ErrorKind};
use crate::limits::{LABEL_BYTES_MAX, NAME_BYTES_MAX};
use crate::{Config, Family};
use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host name; see the [module](self).
#[derive(Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub struct Name(String);

impl Name {
    /// The name that the text means, which may end in a dot.
    pub fn new(text: &str) -> Result<Self, Error> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        let wrong = if !text.is_ascii() {
            "write it in its ASCII form, which begins with xn--"
        } else if bare.is_empty() {
            "it is empty"
        } else if bare.len() > NAME_BYTES_MAX {
            "it is longer than 253 characters"
        } else if bare.split('.').any(str::is_empty) {
            "there is nothing between two dots"
        } else if bare.split('.').any(|label| label.len() > LABEL_BYTES_MAX) {
            "there are more than 63 characters between two dots"
        } else if !bare.bytes().all(is_letter) {
            "it has other characters than letters, digits, hyphens and dots"
        } else if ends_in_number(bare) {
            "it looks like an IPv4 address, and is none"
        } else {
            return Ok(Self(bare.to_ascii_lowercase()));
        };
        Err(Error::bad_name(text, wrong))
    }

    /// The name, in lower case, without a dot at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name with a domain of the search list behind it, unless that is too long.
    fn within(&self, domain: &Self) -> Option<Self> {
        let whole = format!("{}.{}", self.0, domain.0);
        (whole.len() <= NAME_BYTES_MAX).then_some(Self(whole))
    }

    fn is_or_ends_in(&self, domain: &str) -> bool {
        let rest = self.0.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// No top-level domain is a number (RFC 3696 §2), so this is an address in a form that is not taken: `127.1`.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.bytes().all(|byte| byte.is_ascii_digit())
}

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
    let dots = name.0.bytes().filter(|&byte| byte == b'.').count();
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

/// Of these addresses, those of one family.
pub(crate) fn of_family(addresses: &[IpAddr], family: Family) -> Vec<IpAddr> {
    let wanted = |address: &&IpAddr| Family::of(**address) == family;
    addresses.iter().filter(wanted).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
        for good in [
            "a",
            "Example.COM",
            "x.",
            "_dmarc.a",
            "3com.com",
            "1.2.3.4a",
            "xn--bcher-kva.example",
            &longest,
        ] {
            let name = Name::new(good).unwrap();
            let bare = good.trim_end_matches('.').to_lowercase();
            assert_eq!(name.as_str(), bare);
        }
        let too_long = format!("{longest}b");
        let label_too_long = format!("{label}a.example");
        for (bad, why) in [
            ("", "empty"),
            (".", "empty"),
            ("a..b", "between two dots"),
            (".a", "between two dots"),
            ("a b", "other characters"),
            ("a\\.b", "other characters"),
            ("bücher.example", "xn--"),
            ("127.1", "IPv4"),
            ("1.2.3.256", "IPv4"),
            (&too_long, "253"),
            (&label_too_long, "63"),
        ] {
            let error = Name::new(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadName);
            assert!(error.to_string().contains(why), "{bad}: {error}");
        }
    }

    fn names(text: &str, config: &Config) -> Vec<String> {
        match meaning(text, config).unwrap() {
            Meaning::Names(names) => names.into_iter().map(|name| name.0).collect(),
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
