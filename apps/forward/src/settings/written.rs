//! Listeners and servers as they are written, by address or by name, and the interval at which names are resolved.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use exos_program::units::parse_duration;

use crate::limits::{HOST_NAME_LEN_MAX, RESOLVE_EVERY_MIN, WEIGHT_MAX};
use crate::packets::packet::Transport;

/// Where something is listened to.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct ListenAddress {
    pub(crate) transport: Transport,
    pub(crate) at: SocketAddr,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (transport, at) = match text.split_once(':') {
            Some(("tcp", at)) => (Transport::Tcp, at),
            Some(("udp", at)) => (Transport::Udp, at),
            _ => (Transport::Tcp, text),
        };
        let help = "write for example 192.0.2.7:80, udp:192.0.2.7:53 or [2001:db8::7]:80";
        Ok(Self {
            transport,
            at: end(at).ok_or_else(|| format!("{text:?} is no place to listen at; {help}"))?,
        })
    }
}

/// A server with its weight.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Weighted {
    pub(crate) ip: IpAddr,
    /// The listener's where it says none.
    pub(crate) port: Option<u16>,
    pub(crate) weight: u16,
}

impl FromStr for Weighted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help =
            "write for example 192.0.2.8, 192.0.2.8:8080, or [2001:db8::8]:80,3 for a weight of 3";
        let (at, weight) = match text.split_once(',') {
            Some((at, weight)) => (at, weight.parse().ok().filter(|w| *w <= WEIGHT_MAX)),
            None => (text, Some(1)),
        };
        let (ip, port) = match at.parse::<IpAddr>() {
            Ok(ip) => (Some(ip).filter(is_host), None),
            Err(_) => (end(at).map(|e| e.ip()), end(at).map(|e| e.port())),
        };
        Ok(Self {
            ip: ip.ok_or_else(|| format!("{at:?} is no server; {help}"))?,
            port,
            weight: weight.ok_or_else(|| {
                format!("the weight of {text:?} is not from 0 to {WEIGHT_MAX}; {help}")
            })?,
        })
    }
}

fn end(text: &str) -> Option<SocketAddr> {
    let end: SocketAddr = text.parse().ok()?;
    (end.port() != 0 && is_host(&end.ip())).then_some(end)
}

pub(crate) fn is_host(ip: &IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_multicast()
}

/// A server as it is written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum To {
    /// By its address.
    At(Weighted),
    /// By a name, which stands for all addresses that it has.
    Named(Named),
}

/// Servers that have a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Named {
    /// The name, in small letters.
    pub name: String,
    /// The listener's where it says none.
    pub port: Option<u16>,
    /// Of each server.
    pub weight: u16,
    /// The line of the file that names it; 0 on the command line.
    pub line: usize,
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (at, weight) = text.split_once(',').unwrap_or((text, "1"));
        let (name, port) = match at.split_once(':') {
            Some((name, port)) => (name, port.parse().ok().filter(|port| *port > 0)),
            None => (at, None),
        };
        if !is_name(name) || at.contains(':') && port.is_none() {
            return text.parse().map(Self::At);
        }
        let weight = weight.parse().ok().filter(|w| *w <= WEIGHT_MAX);
        Ok(Self::Named(Named {
            name: name.to_ascii_lowercase(),
            port,
            weight: weight.ok_or_else(|| {
                format!(
                    "the weight of {text:?} is not from 0 to {WEIGHT_MAX}; write for example {at},3"
                )
            })?,
            line: 0,
        }))
    }
}

/// Labels of letters, digits, hyphens and underscores, the last not all of digits, as that of an address is.
fn is_name(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.chars().all(is_inner) && !label.starts_with('-')
    };
    let labels = text.strip_suffix('.').unwrap_or(text);
    let last = labels.rsplit('.').next().unwrap_or_default();
    text.len() <= HOST_NAME_LEN_MAX
        && labels.split('.').all(is_label)
        && last.contains(|c: char| !c.is_ascii_digit())
}

/// How often names are resolved: a time, or 0 for at the start alone.
///
/// # Errors
///
/// What to write instead.
pub fn interval(text: &str) -> Result<Duration, String> {
    let every = match text {
        "0" => Duration::ZERO,
        text => parse_duration(text).map_err(|error| format!("{error}, or 0 for never"))?,
    };
    let is_good = every.is_zero() || every >= RESOLVE_EVERY_MIN;
    is_good.then_some(every).ok_or_else(|| {
        format!("{text:?} is too often; write 1s or more, or 0 for at the start alone")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_servers() {
        let place = |text: &str| text.parse::<ListenAddress>().unwrap();
        assert_eq!(place("10.0.0.1:80"), place("tcp:10.0.0.1:80"));
        assert_eq!(place("udp:[fd00::1]:53").transport, Transport::Udp);
        let server = |text: &str| text.parse::<Weighted>().unwrap();
        assert_eq!(
            (server("10.0.0.1:80").weight, server("10.0.0.1:80").port),
            (1, Some(80))
        );
        assert_eq!(
            (server("fd00::1,5").weight, server("fd00::1,5").port),
            (5, None)
        );
        assert_eq!(server("[fd00::1]:80,7").weight, 7);
        for bad in [
            "",
            "80",
            "10.0.0.1",
            "10.0.0.1:0",
            "0.0.0.0:80",
            "sctp:10.0.0.1:80",
            "224.0.0.1:80",
        ] {
            let error = bad.parse::<ListenAddress>().unwrap_err();
            assert!(error.contains("192.0.2.7:80"), "{bad}: {error}");
        }
        for bad in [
            "10.0.0.1:80,",
            "10.0.0.1:80,x",
            "10.0.0.1:80,1001",
            "10.0.0.1:0",
            "0.0.0.0",
            ",1",
        ] {
            let error = bad.parse::<Weighted>().unwrap_err();
            assert!(error.contains("192.0.2.8:8080"), "{bad}: {error}");
        }
    }

    #[test]
    fn servers_by_address_and_by_name() {
        let named = |text: &str| match text.parse().unwrap() {
            To::Named(named) => (named.name, named.port, named.weight),
            To::At(at) => panic!("{at:?}"),
        };
        let is = |name: &str, port, weight| (name.to_owned(), port, weight);
        assert_eq!(
            named("Backend.Example:8080"),
            is("backend.example", Some(8080), 1)
        );
        assert_eq!(named("web"), is("web", None, 1));
        assert_eq!(named("web-1.example.,7"), is("web-1.example.", None, 7));
        assert_eq!(named("2.web:80,0"), is("2.web", Some(80), 0));
        for text in ["10.0.0.1", "10.0.0.1:80,3", "fd00::1", "[fd00::1]:80"] {
            assert_eq!(text.parse(), Ok(To::At(text.parse().unwrap())));
        }
        for bad in [
            "",
            ",1",
            "web:0",
            "web:x",
            "web:70000",
            "web,1001",
            "web,x",
            "a..b",
            "-a",
            "a b",
            "10.0.0.300",
            "a:b:1",
        ] {
            let error = bad.parse::<To>().unwrap_err();
            assert!(error.contains("write for example"), "{bad}: {error}");
        }
    }

    #[test]
    fn intervals() {
        assert_eq!(interval("0"), Ok(Duration::ZERO));
        assert_eq!(interval("0s"), Ok(Duration::ZERO));
        assert_eq!(interval("1.5m"), Ok(Duration::from_secs(90)));
        for bad in ["", "5", "1ms", "-1s", "often"] {
            assert!(interval(bad).unwrap_err().contains("0 for"), "{bad}");
        }
    }
}
