//! An application that answers requests, as it is configured.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{
    APPLICATION_BODY_LEN, APPLICATION_CONNECTIONS, APPLICATION_TIME, UNIX_NAME_LEN_MAX,
};

/// Where an application listens, and what it speaks there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// FastCGI at a Unix socket.
    Unix(PathBuf),
    /// FastCGI at a port of this host or another.
    Tcp(SocketAddr),
    /// Requests and answers over buffers that both share, agreed on at a Unix socket.
    Shared(PathBuf),
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Address, String> {
        if let Some(path) = unix(text) {
            return Ok(Address::Unix(path));
        }
        if let Some(port) = text
            .strip_prefix("localhost:")
            .and_then(|port| port.parse().ok())
        {
            return Ok(Address::Tcp(
                (IpAddr::from(Ipv4Addr::LOCALHOST), port).into(),
            ));
        }
        match text.parse() {
            Ok(address) => Ok(Address::Tcp(address)),
            Err(_) => Err(format!(
                "{text:?} is no address of an application; write \"/run/php/php-fpm.sock\", \"127.0.0.1:9000\" or \"[::1]:9000\""
            )),
        }
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

    /// It is on this host.
    pub fn is_here(&self) -> bool {
        match self {
            Address::Unix(_) | Address::Shared(_) => true,
            Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) | Address::Shared(path) => path.display().fmt(f),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

/// The path of a Unix socket.
fn unix(text: &str) -> Option<PathBuf> {
    let path = text.strip_prefix("unix:").unwrap_or(text);
    let is_path = path.starts_with('/') && !path.contains('\0');
    (is_path && path.len() <= UNIX_NAME_LEN_MAX).then(|| path.into())
}

/// An application, and what it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Where it listens.
    pub address: Address,
    /// Where it finds the site's documents; without a slash at the end.
    pub root: Vec<u8>,
    /// How long it may say nothing.
    pub timeout: Duration,
    /// The longest body of a request.
    pub body_max: u64,
    /// Connections to it at once, of a loop.
    pub connections: usize,
    /// Of those, how many are kept open without a request.
    pub keep: usize,
}

impl Application {
    /// Everything by default.
    pub fn at(address: Address) -> Application {
        Application {
            address,
            root: Vec::new(),
            timeout: APPLICATION_TIME,
            body_max: APPLICATION_BODY_LEN,
            connections: APPLICATION_CONNECTIONS,
            keep: 0,
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
