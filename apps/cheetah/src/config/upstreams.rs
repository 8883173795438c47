//! Addresses of upstreams, as a configuration or a command line writes them.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::applications::encryption::Encryption;
use crate::applications::{Address, Place};

/// Some of them.
pub(super) const EXAMPLE: &str =
    "\"http://10.0.0.5:8080\", \"http://[::1]:8080\", \"http://unix:/run/app.sock\"";

/// An upstream's address, and the path that stands in the place of the rule's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upstream {
    place: Place,
    pub(super) base: Option<String>,
    /// The name and port by which it is written, if it has a name.
    name: Option<String>,
    /// It is asked by HTTPS.
    is_encrypted: bool,
}

/// Gives the addresses of a name.
type LookUp = dyn Fn(&str) -> Result<Vec<IpAddr>, String>;

/// Asks the name servers of this host.
pub(super) fn look_up(name: &str) -> Result<Vec<IpAddr>, String> {
    exos_program::names::look_up("serve", name).map_err(|error| error.to_string())
}

impl Upstream {
    /// Reads `http://HOST[:PORT][/PATH]` or `http://unix:/SOCKET[:/PATH]`. A name is as many upstreams as it has addresses.
    fn parse(text: &str, look_up: &LookUp) -> Result<Vec<Upstream>, String> {
        let fail = |why: &str| Err(format!("{text:?} {why}; write one as {EXAMPLE}"));
        let (rest, is_encrypted) =
            match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
                (Some(rest), _) => (rest, false),
                (None, Some(rest)) if rest.starts_with("unix:") => {
                    return fail("is a socket of this host, which is not asked by HTTPS");
                }
                (None, Some(rest)) => (rest, true),
                (None, None) => return Err(without_scheme(text)),
            };
        let port_by_default = if is_encrypted { 443 } else { 80 };
        let (place, path) = if rest.starts_with("unix:") {
            let end = rest.rfind(":/").filter(|end| *end > "unix".len());
            rest.split_at(end.unwrap_or(rest.len()))
        } else {
            rest.split_at(rest.find('/').unwrap_or(rest.len()))
        };
        let path = path.strip_prefix(':').unwrap_or(path);
        let is_path = path
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"?#%\\".contains(&b));
        if !is_path || path.contains("//") || path.split('/').any(|it| matches!(it, "." | "..")) {
            return fail("has a path that is not plain");
        }
        let base = (!path.is_empty()).then(|| path.trim_end_matches('/').to_owned());
        match Place::parse(place).or_else(|| Place::parse(&format!("{place}:{port_by_default}"))) {
            Some(Place::Tcp(at)) if at.port() == 0 => return fail("has no port"),
            Some(place) => {
                // Its certificate names what it is called by.
                let is_named = is_encrypted && text.starts_with("https://localhost");
                let name = is_named.then(|| text["https://".len()..].to_owned());
                let name = name.map(|name| name.split('/').next().unwrap_or(&name).to_owned());
                return Ok(vec![Upstream {
                    place,
                    base,
                    name,
                    is_encrypted,
                }]);
            }
            None => {}
        }
        let (name, port) = match place.rsplit_once(':') {
            Some((name, port)) => (name, port.parse().ok()),
            None => (place, Some(port_by_default)),
        };
        if place.contains('@') {
            return fail(
                "names a user; leave that out, and write set = { Authorization = \"Basic ...\" } into the rule",
            );
        }
        if place
            .rsplit_once(':')
            .is_some_and(|(_, port)| is_beyond(port))
        {
            return fail("has a port that there is not: they end with 65535");
        }
        let port = port.filter(|port| *port != 0);
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        let has_letter = name.bytes().any(|b| b.is_ascii_alphabetic());
        let (Some(port), true) = (port, has_letter && name.bytes().all(is_name)) else {
            return fail("is no address of an upstream");
        };
        let found = look_up(name).map_err(|why| format!("{text:?}: {why}"))?;
        let found = found.into_iter().map(|ip| Upstream {
            place: Place::Tcp((ip, port).into()),
            base: base.clone(),
            name: Some(place.to_owned()),
            is_encrypted,
        });
        Ok(found.collect())
    }

    /// Reads several.
    pub(super) fn parse_all<'t>(
        texts: impl Iterator<Item = &'t str>,
        look_up: &LookUp,
    ) -> Result<Vec<Upstream>, String> {
        let all: Result<Vec<_>, _> = texts.map(|text| Upstream::parse(text, look_up)).collect();
        Ok(all?.concat())
    }
}

/// What to write in place of an address that does not begin as one.
fn without_scheme(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let scheme = scheme.to_ascii_lowercase();
    let (why, instead) = match &*scheme {
        // A scheme that is not written right is no host.
        "" if rest.starts_with("http") => ("is no address of an upstream", String::new()),
        "" if rest.starts_with("//") => ("does not say how it is asked", format!("http:{rest}")),
        "" if rest.starts_with('/') => (
            "does not say how it is asked",
            format!("http://unix:{rest}"),
        ),
        "" => ("does not say how it is asked", format!("http://{rest}")),
        "ws" => (
            "is asked by HTTP, for WebSockets too",
            format!("http://{rest}"),
        ),
        "wss" => (
            "is asked by HTTP, for WebSockets too",
            format!("https://{rest}"),
        ),
        _ => ("is no address of an upstream", format!("{scheme}://{rest}")),
    };
    let some = |_: &str| Ok(vec![Ipv4Addr::LOCALHOST.into()]);
    // What begins with "http" in small letters did not come here.
    let is_better = instead != text && Upstream::parse(&instead, &some).is_ok();
    match is_better {
        true => format!("{text:?} {why}; write {instead:?}"),
        false => format!("{text:?} is no address of an upstream; write one as {EXAMPLE}"),
    }
}

/// Whether it is a number, and none of a port.
fn is_beyond(port: &str) -> bool {
    let is_number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    is_number && port.parse::<u16>().is_err()
}

/// The name of these, where all have one and the same.
pub(super) fn name_of(upstreams: &[Upstream]) -> Option<String> {
    let name = upstreams.first()?.name.as_ref()?;
    let is_alone = upstreams.iter().all(|it| it.name.as_ref() == Some(name));
    is_alone.then(|| name.clone())
}

/// How upstreams are asked by HTTPS, as it is configured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Secrecy<'a> {
    /// What their certificate names, if it is not what they are called by.
    pub(super) name: Option<&'a str>,
    /// The file of the authorities that are trusted, if it is not the system's.
    pub(super) authorities: Option<&'a Path>,
}

impl Upstream {
    /// Where it is asked; `known` are the names of those before.
    pub(super) fn address(
        self,
        secrecy: Secrecy<'_>,
        known: &mut Vec<Encryption>,
    ) -> Result<Address, String> {
        if !self.is_encrypted {
            return Ok(Address::Http(self.place));
        }
        let called = match (&self.name, &self.place) {
            (Some(name), _) => name
                .rsplit_once(':')
                .map_or(&**name, |(name, _)| name)
                .to_owned(),
            (None, Place::Tcp(at)) => at.ip().to_string(),
            (None, Place::Unix(_)) => String::new(),
        };
        let name = secrecy.name.unwrap_or(&called);
        // Reading the system's authorities takes long, and a name may have many addresses.
        let with = match known.iter().find(|known| known.name() == name) {
            Some(with) => with.clone(),
            None => {
                known.push(Encryption::with(name, secrecy.authorities)?);
                known[known.len() - 1].clone()
            }
        };
        Ok(Address::Https(self.place, with))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody(name: &str) -> Result<Vec<IpAddr>, String> {
        Err(format!("nobody is {name}"))
    }

    /// A name is all of its addresses, and what it is called there.
    #[test]
    fn a_name_is_looked_up() {
        let two = |name: &str| match name {
            "app.test" => Ok(vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()]),
            other => nobody(other),
        };
        let found = Upstream::parse("http://app.test:81/v2", &two).unwrap();
        let places: Vec<String> = found.iter().map(|it| it.place.to_string()).collect();
        assert_eq!(places, ["10.0.0.1:81", "10.0.0.2:81"]);
        assert_eq!(found[1].base.as_deref(), Some("/v2"));
        assert_eq!(name_of(&found).as_deref(), Some("app.test:81"));
        let texts = ["http://app.test", "http://10.0.0.3"];
        let all = Upstream::parse_all(texts.into_iter(), &two).unwrap();
        assert_eq!((all.len(), name_of(&all)), (3, None));
        let error = Upstream::parse("http://other.test", &two).unwrap_err();
        assert!(error.contains("nobody is other.test"), "{error}");
    }

    #[test]
    fn upstreams_are_addresses_with_a_path_or_without() {
        for (text, place, base) in [
            ("http://10.0.0.5:8080", "10.0.0.5:8080", None),
            ("http://10.0.0.5", "10.0.0.5:80", None),
            ("https://10.0.0.5", "10.0.0.5:443", None),
            ("https://10.0.0.5:8443/a", "10.0.0.5:8443", Some("/a")),
            ("http://localhost", "127.0.0.1:80", None),
            ("http://localhost:81/", "127.0.0.1:81", Some("")),
            ("http://[::1]/a/b/", "[::1]:80", Some("/a/b")),
            ("http://unix:/run/a.sock", "/run/a.sock", None),
            ("http://unix:/run/a.sock:/", "/run/a.sock", Some("")),
            ("http://unix:/run/a.sock:/b", "/run/a.sock", Some("/b")),
        ] {
            let upstreams = Upstream::parse(text, &nobody).expect(text);
            assert_eq!(upstreams.len(), 1, "{text}");
            let is = (upstreams[0].place.to_string(), upstreams[0].base.clone());
            assert_eq!(is, (place.to_owned(), base.map(str::to_owned)), "{text}");
        }
        for text in [
            "",
            "10.0.0.5:80",
            "http://",
            "http://host:80",
            "http://host:x",
            "http://1.2.3:80",
            "http://a b",
            "http://10.0.0.5:0",
            "http://10.0.0.5:x",
            "https://unix:/run/a.sock",
            "http://10.0.0.5/a?b",
            "http://10.0.0.5/../a",
            "http://10.0.0.5//",
            "http://unix:run",
            "http://user@10.0.0.5",
        ] {
            assert!(Upstream::parse(text, &nobody).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_address_says_what_to_write() {
        for (text, wanted) in [
            (
                "localhost:8080",
                "does not say how it is asked; write \"http://localhost:8080\"",
            ),
            (
                "/run/a.sock",
                "does not say how it is asked; write \"http://unix:/run/a.sock\"",
            ),
            (
                "ws://10.0.0.5",
                "is asked by HTTP, for WebSockets too; write \"http://10.0.0.5\"",
            ),
            (
                "wss://10.0.0.5",
                "is asked by HTTP, for WebSockets too; write \"https://10.0.0.5\"",
            ),
            (
                "//10.0.0.5",
                "does not say how it is asked; write \"http://10.0.0.5\"",
            ),
            (
                "HTTP://10.0.0.5",
                "is no address of an upstream; write \"http://10.0.0.5\"",
            ),
            (
                "http/10.0.0.5",
                "is no address of an upstream; write one as",
            ),
            (
                "https:/10.0.0.5",
                "is no address of an upstream; write one as",
            ),
            (
                "ftp://10.0.0.5",
                "is no address of an upstream; write one as",
            ),
            (
                "http://10.0.0.5:65536",
                "has a port that there is not: they end with 65535",
            ),
            ("http://me:secret@10.0.0.5", "names a user; leave that out"),
        ] {
            let said = Upstream::parse(text, &nobody).unwrap_err();
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}
