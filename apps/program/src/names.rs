//! Host names where a program takes addresses: looked up over its stack, or over the kernel's sockets, with a word to a person who
//! waits.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use exos::names::{Config, Families, HostNames};
use exos::net::{Names, Net};
use exos::{Error, Exos};

/// The addresses of a host, or what a text says that is one: those first that this host has a way to (as RFC 6724 has it in its
/// first rule), IPv6 before IPv4. Who waits for long is told, as a user of `program`.
///
/// # Errors
///
/// There is no such host, it has no address, or no name server says so; which were asked.
pub fn look_up(program: &str, name: &str) -> Result<Vec<IpAddr>, Error> {
    let mut names = of_system()?;
    let found = names.lookup_all(&[name], Families::Both, |config| tell_slow(program, config));
    let found = found.into_iter().next().expect("one for each name");
    let mut addresses = found.addresses.map_err(|error| no_address(&error))?;
    addresses.sort_by_key(|ip| !has_way_to(*ip));
    Ok(addresses)
}

/// The addresses of a host, IPv6 before IPv4, asked for over the program's stack. The kernel's sockets are for where that reaches no
/// name server that the host would reach: a pair of our own ends at this host, the host's own address is `shared` with the host but
/// for a port, and name servers on loopback are the host's. Who waits for long is told.
///
/// # Errors
///
/// As those of [`look_up`].
pub fn look_up_over(
    exos: Exos,
    shared: bool,
    program: &str,
    name: &str,
) -> Result<(Exos, Vec<IpAddr>), Error> {
    if shared || exos.pair().is_some() {
        return Ok((exos, look_up(program, name)?));
    }
    let net = Net::new(exos);
    let names = Names::of_system(&net).map_err(no_files)?;
    let servers = names.config().servers;
    let is_ours = !servers.is_empty() && servers.iter().all(|at| at.ip().is_loopback());
    let found = match is_ours {
        true => look_up(program, name),
        false => names
            .lookup_telling(name, Families::Both, |config| tell_slow(program, config))
            .map_err(|error| no_address(&error)),
    };
    drop(names);
    let exos = net.into_exos().ok().expect("its sockets are closed");
    Ok((exos, found?))
}

/// A host and a port of its.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name, or an address.
    pub host: String,
    /// Not 0.
    pub port: u16,
}

/// `www.example:80`, `192.0.2.1:80`, `[2001:db8::1]:80`.
impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write HOST:PORT, or [ADDRESS]:PORT with an IPv6 address";
        let (host, port) = text.rsplit_once(':').ok_or(help)?;
        let inside = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let is_good = match inside {
            Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains(':'),
        };
        match port.parse() {
            Ok(0) => Err("port 0 cannot be connected to; give the server's port".to_owned()),
            Ok(port) if is_good => Ok(Self {
                host: inside.unwrap_or(host).to_owned(),
                port,
            }),
            _ => Err(help.to_owned()),
        }
    }
}

/// This host's resolver.
///
/// # Errors
///
/// A file that it goes by cannot be read.
pub fn of_system() -> Result<HostNames, Error> {
    HostNames::of_system().map_err(no_files)
}

fn no_files(error: io::Error) -> Error {
    Error::io("cannot read how this host looks names up", error)
}

/// Says who is waited for.
pub fn tell_slow(program: &str, config: &Config) {
    let servers = config.servers.iter().map(|server| server.ip().to_string());
    let servers = servers.collect::<Vec<_>>().join(", ");
    exos_host::info!("exos {program}: waits for what name servers say ({servers})");
}

/// Why a name has no address, with what is to be done.
pub fn no_address(error: &io::Error) -> Error {
    let said = error.to_string();
    match said.split_once("; ") {
        Some((what, mend)) => Error::new(what).mend(mend),
        None => Error::new(said),
    }
}

/// Whether the kernel would know how to send something there. Nothing is sent.
fn has_way_to(ip: IpAddr) -> bool {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => [0; 4].into(),
        IpAddr::V6(_) => [0; 16].into(),
    };
    let to = SocketAddr::new(ip, 9);
    UdpSocket::bind((any, 0)).is_ok_and(|socket| socket.connect(to).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_ports() {
        let parse = |text: &str| text.parse::<HostPort>().map(|at| (at.host, at.port));
        for (text, host) in [
            ("www.example:80", "www.example"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
        ] {
            assert_eq!(parse(text), Ok((host.to_owned(), 80)), "{text}");
        }
        for text in ["www", ":80", "fd00::1:80", "[www]:80", "www:99999", "www:"] {
            assert!(
                parse(text).unwrap_err().starts_with("write HOST:PORT"),
                "{text}"
            );
        }
        assert!(parse("www:0").unwrap_err().contains("server's port"));
    }

    #[test]
    fn addresses_and_hosts_are_found_and_others_told() {
        let address = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(look_up("test", "192.0.2.1").unwrap(), [address]);
        let all = look_up("test", "localhost").unwrap();
        assert!(
            has_way_to(all[0]) && all.iter().all(IpAddr::is_loopback),
            "{all:?}"
        );
        let error = look_up("test", "no-such.invalid").unwrap_err();
        assert_eq!(error.what, "there is no host no-such.invalid");
        assert!(error.to_string().contains("check how it is written"));
        let error = look_up("test", "a b").unwrap_err().to_string();
        assert!(error.contains("is no host name"), "{error}");
    }
}
