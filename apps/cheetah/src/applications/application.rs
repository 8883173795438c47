//! An application that answers requests, as it is configured.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::encryption::Encryption;
use super::proxy::Proxy;
use crate::limits::{
    APPLICATION_BODY_LEN, APPLICATION_CONNECTIONS, APPLICATION_TIME, UNIX_NAME_LEN_MAX,
};

/// The path of a Unix socket, told apart byte by byte: paths of the library are compared and hashed by their parts, which takes a request as long
/// as all else that is looked up for it.
#[derive(Clone, Debug)]
pub struct SocketPath(Arc<Path>);

impl SocketPath {
    fn bytes(&self) -> &[u8] {
        self.0.as_os_str().as_encoded_bytes()
    }
}

impl PartialEq for SocketPath {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.bytes() == other.bytes()
    }
}

impl Eq for SocketPath {}

impl Hash for SocketPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl Deref for SocketPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl From<&Path> for SocketPath {
    fn from(path: &Path) -> Self {
        Self(path.into())
    }
}

/// Where a socket of the kernel's connects to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A Unix socket.
    Unix(SocketPath),
    /// A port of this host or another.
    Tcp(SocketAddr),
}

/// Where an application listens, and what it speaks there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// FastCGI 1.0.
    Fastcgi(Place),
    /// HTTP/1.1.
    Http(Place),
    /// HTTP/1.1 over TLS, with this one.
    Https(Place, Encryption),
    /// Requests and answers over buffers that both share, agreed on at a Unix socket.
    Shared(SocketPath),
}

impl Place {
    /// Reads the path of a Unix socket, or an address and a port; `localhost` is 127.0.0.1.
    pub fn parse(text: &str) -> Option<Place> {
        if let Some(path) = unix(text) {
            return Some(Place::Unix(path));
        }
        let port = text.strip_prefix("localhost:");
        if let Some(port) = port.and_then(|port| port.parse().ok()) {
            return Some(Place::Tcp((IpAddr::from(Ipv4Addr::LOCALHOST), port).into()));
        }
        text.parse().ok().map(Place::Tcp)
    }

    /// It is on this host.
    pub fn is_here(&self) -> bool {
        match self {
            Place::Unix(_) => true,
            Place::Tcp(address) => address.ip().to_canonical().is_loopback(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Unix(path) => path.display().fmt(f),
            Place::Tcp(address) => address.fmt(f),
        }
    }
}

impl Address {
    /// Reads an address of FastCGI.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Address, String> {
        Place::parse(text).map(Address::Fastcgi).ok_or_else(|| {
            format!(
                "{text:?} is no address of an application; write \"/run/php/php-fpm.sock\", \"127.0.0.1:9000\" or \"[::1]:9000\""
            )
        })
    }

    /// Reads where an application listens that shares its buffers.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn parse_shared(text: &str) -> Result<Address, String> {
        unix(text).map(Address::Shared).ok_or_else(|| {
            format!("{text:?} is no address of an application that shares its buffers; write its Unix socket, as \"/run/pages.sock\"")
        })
    }

    /// The place, where HTTP is spoken there.
    pub fn of_http(&self) -> Option<&Place> {
        match self {
            Address::Http(place) | Address::Https(place, _) => Some(place),
            Address::Fastcgi(_) | Address::Shared(_) => None,
        }
    }

    /// It is a port of a host.
    pub fn is_port(&self) -> bool {
        let place = match self {
            Address::Fastcgi(place) | Address::Http(place) | Address::Https(place, _) => place,
            Address::Shared(_) => return false,
        };
        matches!(place, Place::Tcp(_))
    }

    /// It is on this host.
    pub fn is_here(&self) -> bool {
        match self {
            Address::Fastcgi(place) | Address::Http(place) | Address::Https(place, _) => {
                place.is_here()
            }
            Address::Shared(_) => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Fastcgi(place) => place.fmt(f),
            Address::Http(Place::Unix(path)) => write!(f, "http://unix:{}", path.display()),
            Address::Http(place) => write!(f, "http://{place}"),
            // What it is called tells it apart from others there.
            Address::Https(place, with) => write!(f, "https://{place} ({})", with.name()),
            Address::Shared(path) => path.display().fmt(f),
        }
    }
}

/// The path of a Unix socket.
fn unix(text: &str) -> Option<SocketPath> {
    let path = text.strip_prefix("unix:").unwrap_or(text);
    let is_path = path.starts_with('/') && !path.contains('\0');
    (is_path && path.len() <= UNIX_NAME_LEN_MAX).then(|| Path::new(path).into())
}

/// An application, and what it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Where it listens; of one that is proxied, each of several that are alike. Never empty.
    pub addresses: Vec<Address>,
    /// Where it finds the site's documents; without a slash at the end.
    pub root: Vec<u8>,
    /// Variables of every request, beside those that tell of it: [`pair`](super::record::pair)s, one behind the other.
    pub parameters: Vec<u8>,
    /// How long it may say nothing.
    pub timeout: Duration,
    /// The longest body of a request.
    pub body_max: u64,
    /// Connections to it at once, of a loop.
    pub connections: usize,
    /// Of those, how many are kept open without a request.
    pub keep: usize,
    /// How it is asked over HTTP, where it is.
    pub proxy: Option<Proxy>,
}

impl Application {
    /// Everything by default.
    pub fn at(address: Address) -> Application {
        Application::at_any(vec![address])
    }

    /// Everything by default, at any of several addresses, of which there is one at least.
    pub fn at_any(addresses: Vec<Address>) -> Application {
        Application {
            addresses,
            root: Vec::new(),
            parameters: Vec::new(),
            timeout: APPLICATION_TIME,
            body_max: APPLICATION_BODY_LEN,
            connections: APPLICATION_CONNECTIONS,
            keep: 0,
            proxy: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_names_of_sockets_or_ports() {
        for (text, wanted) in [
            ("/run/php.sock", "/run/php.sock"),
            ("unix:/run/php.sock", "/run/php.sock"),
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("localhost:9000", "127.0.0.1:9000"),
            ("[::1]:9000", "[::1]:9000"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), wanted);
        }
        for (text, is_here) in [("/run/a", true), ("[::1]:1", true), ("192.0.2.1:1", false)] {
            assert_eq!(Address::parse(text).unwrap().is_here(), is_here, "{text}");
        }
        for (text, is_good) in [("unix:/run/a", true), ("/run/a", true), ("[::1]:1", false)] {
            assert_eq!(Address::parse_shared(text).is_ok(), is_good, "{text}");
        }
        let long = format!("/{}", "x".repeat(UNIX_NAME_LEN_MAX));
        for text in [
            "",
            "php.sock",
            "127.0.0.1",
            "localhost",
            "localhost:x",
            "host:9000",
            "::1:9000x",
            &long,
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
