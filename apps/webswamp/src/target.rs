//! Whom the load goes to: a URL, its address, and whether that is one of our own.

use std::net::{IpAddr, SocketAddr};

use exos::{Exos, Prefixed};
use exos_host::netlink::Netlink;
use exos_host::{Error, Result};
use exos_inet::route::Prefix;
use exos_program::names;
use http::Uri;

/// A web server.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL, of scheme http or https.
    pub url: Uri,
    /// Where that is: all addresses of its host, those first that this host has a way to. They decide which link is opened, so they
    /// are looked up before there is one.
    addresses: Vec<SocketAddr>,
}

const PORT: u16 = 80;
const TLS_PORT: u16 = 443;

impl Target {
    /// The server of a URL.
    ///
    /// # Errors
    ///
    /// It is no URL of HTTP's, or its host has no address.
    pub fn find(text: &str) -> Result<Self> {
        let url = url(text)?;
        let own = if is_secured(&url) { TLS_PORT } else { PORT };
        let port = url.port_u16().unwrap_or(own);
        let found = names::look_up("load", host(&url))?.into_iter();
        Ok(Self {
            addresses: found.map(|ip| SocketAddr::new(ip, port)).collect(),
            url,
        })
    }

    /// Its host's name or address, where TLS is spoken with it.
    pub(crate) fn secured_host(&self) -> Option<&str> {
        is_secured(&self.url).then(|| host(&self.url))
    }

    /// All addresses of its host, those first that this host has a way to.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The first of its addresses that will do, as it is reached; where none will, what is wrong with the first.
    ///
    /// # Errors
    ///
    /// None will do.
    pub(crate) fn settle(
        &self,
        mut check: impl FnMut(SocketAddr) -> Result<SocketAddr>,
    ) -> Result<SocketAddr> {
        let mut first = None;
        for address in &self.addresses {
            match check(*address) {
                Ok(address) => return Ok(address),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.expect("a host has an address"))
    }
}

/// Where a stack finds a server that listens on this host's loopback address. Over a pair of our own that is there for IPv4.
/// Where it is not it is at the host's end of the pair, at which servers are that listen on all addresses.
pub(crate) fn by_way_of(exos: &mut Exos, address: SocketAddr) -> SocketAddr {
    if !address.ip().is_loopback() || (address.is_ipv4() && exos.reach_loopback().is_ok()) {
        return address;
    }
    let Some(pair) = exos.pair() else {
        return address;
    };
    let same_family = |ip: &IpAddr| ip.is_ipv4() == address.is_ipv4();
    let host = pair.host_addresses.iter().map(|address| address.ip);
    let ip = host.into_iter().find(same_family);
    SocketAddr::new(ip.expect("a pair has one of each family"), address.port())
}

/// Refuses a target that may be somebody else's: one that is neither this host nor on one of these networks, which are
/// those of our stack's interface.
///
/// # Errors
///
/// It is such a one.
pub(crate) fn refuse_strangers(networks: &[Prefix], to: IpAddr) -> Result<()> {
    let is_near = networks.iter().any(|network| network.contains(to));
    if to.is_loopback() || is_near || is_ours(to)? {
        return Ok(());
    }
    Err(stranger(&format!(
        "{to} is neither this host nor on a network of this interface"
    )))
}

/// Refuses strangers where the kernel's sockets are used: what is on a network of any of this host's interfaces is near.
///
/// # Errors
///
/// It is not.
pub(crate) fn refuse_strangers_of_host(to: IpAddr) -> Result<()> {
    let addresses = Netlink::new()?.all_addresses()?;
    let mut networks = addresses.iter().map(|a| Prefix::new(a.ip, a.prefix));
    if to.is_loopback() || networks.any(|network| network.is_ok_and(|n| n.contains(to))) {
        return Ok(());
    }
    Err(stranger(&format!(
        "{to} is neither this host nor on a network of its interfaces"
    )))
}

/// Refuses a target that is an address of our own pools: what is sent there would not leave us.
///
/// # Errors
///
/// It is such a one.
pub(crate) fn refuse_in_pools(pools: &[Prefixed], to: IpAddr) -> Result<()> {
    let holds = |pool: &&Prefixed| Prefix::new(pool.ip, pool.prefix).is_ok_and(|p| p.contains(to));
    match pools.iter().find(holds) {
        None => Ok(()),
        Some(pool) => Err(Error::new(format!("the server {to} is in the pool {pool}"))
            .mend("choose a pool of addresses that nobody has")),
    }
}

fn stranger(what: &str) -> Error {
    Error::new(what).mend("load only what is yours; if it is, say so with --yes-i-own-this-target")
}

pub(crate) fn is_ours(ip: IpAddr) -> Result<bool> {
    let addresses = Netlink::new()?.all_addresses()?;
    Ok(addresses.iter().any(|address| address.ip == ip))
}

/// TLS is spoken with the server of a URL.
fn is_secured(url: &Uri) -> bool {
    url.scheme_str() == Some("https")
}

/// The host of a URL that was checked.
fn host(url: &Uri) -> &str {
    let host = url.host().expect("it was checked");
    host.trim_start_matches('[').trim_end_matches(']')
}

pub(crate) fn url(text: &str) -> Result<Uri> {
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let help = "write http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH";
    let url: Uri = whole
        .parse()
        .map_err(|e| Error::new(format!("{text:?} is no URL: {e}")).mend(help))?;
    if !matches!(url.scheme_str(), Some("http" | "https")) {
        return Err(Error::new(format!("{text:?} is of no known scheme")).mend(help));
    }
    let authority = url.authority().map_or("", |a| a.as_str());
    if authority.contains('@') {
        return Err(Error::new("a URL of a load has no user name")
            .mend("give what the server wants as a field: --header 'Authorization: ...'"));
    }
    let host = url.host().unwrap_or("");
    let has_port = authority.len() > host.len();
    if host.is_empty() || (has_port && url.port_u16().is_none_or(|port| port == 0)) {
        return Err(Error::new(format!("{text:?} names no server")).mend(help));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let address = |text: &str| Target::find(text).unwrap().addresses[0].to_string();
        assert_eq!(address("http://10.1.2.3"), "10.1.2.3:80");
        assert_eq!(address("10.1.2.3:8080/x"), "10.1.2.3:8080");
        assert_eq!(address("http://[fd00::1]:81/a?b"), "[fd00::1]:81");
        assert_eq!(address("https://10.1.2.3/"), "10.1.2.3:443");
        assert_eq!(address("https://[fd00::1]:8443/"), "[fd00::1]:8443");
        let url = Target::find("10.0.0.1").unwrap().url;
        assert_eq!(url.path(), "/");
    }

    #[test]
    fn the_first_address_that_will_do() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut target = Target::find("10.1.2.3").unwrap();
        target.addresses = ["[fd00::1]:80", "10.1.2.3:80", "10.1.2.4:80"]
            .map(address)
            .into();
        let of_ipv4 = |address: SocketAddr| {
            if address.is_ipv4() {
                Ok(address)
            } else {
                Err(Error::new(format!("{address} will not do")))
            }
        };
        let settled = target.settle(of_ipv4).unwrap();
        assert_eq!(settled, address("10.1.2.3:80"));
        let none = target.settle(|address| Err(Error::new(format!("not {address}"))));
        assert_eq!(none.unwrap_err().to_string(), "not [fd00::1]:80");
    }

    #[test]
    fn who_is_a_stranger() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let near = [Prefix::new(ip("192.0.2.1"), 24).unwrap()];
        for to in ["127.0.0.1", "::1", "192.0.2.200"] {
            assert!(refuse_strangers(&near, ip(to)).is_ok(), "{to}");
        }
        // Documentation's addresses (RFC 5737, RFC 3849), which no host has.
        for to in ["203.0.113.1", "2001:db8::1"] {
            let error = refuse_strangers(&near, ip(to)).unwrap_err().to_string();
            assert!(error.contains("--yes-i-own"), "{error}");
            assert!(refuse_strangers_of_host(ip(to)).is_err(), "{to}");
        }
        assert!(refuse_strangers_of_host(ip("127.1.2.3")).is_ok());
    }

    #[test]
    fn what_is_none() {
        for (text, part) in [
            ("ftp://10.0.0.1/", "scheme"),
            ("http://10.0.0.1:0/", "no server"),
            ("http://a:b@10.0.0.1/", "user name"),
            ("http:///x", "URL"),
            ("", "URL"),
            ("http://10.0.0.1:99999/", "no server"),
            ("a b", "URL"),
        ] {
            let error = Target::find(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
