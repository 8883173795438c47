//! Listeners and servers, and which server a client belongs to: the same one as in the other forwarder, so that both agree.

use std::net::SocketAddr;

use exos_host::Error;
use exos_inet::siphash::SipKey;

use crate::limits::{LISTENERS_MAX, SERVERS_PER_LISTENER_MAX};
use crate::maglev::{Candidate, Maglev};
use crate::packets::endpoint::Endpoint;
use crate::packets::packet::Transport;
use crate::settings::options::ForwardArgs;
use crate::settings::written::{To, Weighted};

/// A server, behind one listener.
pub(super) struct Server {
    pub at: SocketAddr,
    /// Connections that were begun to it, that are open, and that could not be made.
    pub begun: u64,
    pub open: u64,
    pub failed: u64,
}

/// A listener with its servers.
pub(super) struct Service {
    pub at: SocketAddr,
    pub servers: Vec<Server>,
    table: Maglev,
}

impl Service {
    /// With servers of these weights; `None` when none has any.
    pub fn new(at: SocketAddr, servers: Vec<Server>, weights: &[u16]) -> Option<Self> {
        let candidate = |(server, weight): (&Server, &u16)| Candidate {
            name: hash(server.at),
            weight: *weight,
        };
        let candidates: Vec<Candidate> = servers.iter().zip(weights).map(candidate).collect();
        let table = Maglev::build(&candidates, Maglev::len_for(candidates.len()))?;
        Some(Self { at, servers, table })
    }

    /// The place of the server that a client's connection goes to.
    pub fn choose(&self, client: SocketAddr) -> usize {
        self.table.server_of(hash(client))
    }
}

/// What the options say, if it fits together.
pub(super) fn services(args: &ForwardArgs) -> Result<Vec<Service>, Error> {
    if args.listen.len() > LISTENERS_MAX {
        return Err(Error::new(format!("more than {LISTENERS_MAX} listeners"))
            .mend("start another forwarder for the rest"));
    }
    let mut services: Vec<Service> = Vec::new();
    for listen in &args.listen {
        if listen.transport != Transport::Tcp {
            return Err(Error::new(format!("udp:{} cannot be spliced", listen.at))
                .mend("splice TCP alone, and forward datagrams without --splice"));
        }
        if services.iter().any(|service| service.at == listen.at) {
            let twice = Error::new(format!("{} is listened at twice", listen.at));
            return Err(twice.mend("leave one out"));
        }
        services.push(service(args, listen.at)?);
    }
    check(args, &services)?;
    Ok(services)
}

/// Servers that nobody is sent to, and loops.
fn check(args: &ForwardArgs, services: &[Service]) -> Result<(), Error> {
    for server in by_address(args) {
        let is_used = |service: &Service| service.at.is_ipv6() == server.ip.is_ipv6();
        if !services.iter().any(is_used) {
            return Err(Error::new(format!("nothing is forwarded to {}", server.ip))
                .mend("listen at an address of its family too, or leave it out"));
        }
    }
    let listens = |at: SocketAddr| args.listen.iter().any(|listen| listen.at == at);
    let mut servers = services.iter().flat_map(|service| &service.servers);
    match servers.find(|server| listens(server.at)) {
        Some(server) => Err(Error::new(format!("{} is where we listen", server.at))
            .mend("name a server elsewhere: to ourselves would be a loop")),
        None => Ok(()),
    }
}

/// The servers; there are none by name here.
fn by_address(args: &ForwardArgs) -> impl Iterator<Item = &Weighted> {
    args.to.iter().filter_map(|to| match to {
        To::At(server) => Some(server),
        To::Named(_) => None,
    })
}

fn service(args: &ForwardArgs, at: SocketAddr) -> Result<Service, Error> {
    let (mut servers, mut weights) = (Vec::<Server>::new(), Vec::new());
    for server in by_address(args).filter(|s| s.ip.is_ipv6() == at.is_ipv6()) {
        let end = SocketAddr::new(server.ip, server.port.unwrap_or(at.port()));
        if servers.iter().any(|other| other.at == end) {
            return Err(Error::new(format!("the server {end} is named twice"))
                .mend("give it a weight instead"));
        }
        servers.push(Server {
            at: end,
            begun: 0,
            open: 0,
            failed: 0,
        });
        weights.push(server.weight);
    }
    let most = SERVERS_PER_LISTENER_MAX[1];
    if servers.len() > most {
        return Err(Error::new(format!("more than {most} servers behind {at}"))
            .mend("forward to other forwarders"));
    }
    Service::new(at, servers, &weights).ok_or_else(|| {
        Error::new(format!("no server is behind {at}"))
            .mend("name one of its family with a weight above zero")
    })
}

/// Of a client's or a server's end: no secret, as others are to choose the same.
fn hash(at: SocketAddr) -> u64 {
    let Endpoint { address, port } = at.into();
    SipKey::from_seed(0).hash_and_half(address.words(), port.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::reach::Reach;
    use crate::service::{Listen, Services};
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ForwardArgs,
    }

    fn args(line: &str) -> ForwardArgs {
        Line::parse_from(format!("forward --splice {line}").split(' ')).args
    }

    /// Any number of forwarders of either kind agree where a client belongs.
    #[test]
    fn the_same_servers_as_packet_by_packet() {
        let line = "--listen 10.0.0.1:80 --to 10.0.0.2 10.0.0.3:81,3 10.0.0.4,2 10.0.0.5,0";
        let spliced = services(&args(line)).unwrap();
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let to = [
            ("10.0.0.2:80", 1),
            ("10.0.0.3:81", 3),
            ("10.0.0.4:80", 2),
            ("10.0.0.5:80", 0),
        ];
        let listen = Listen {
            transport: Transport::Tcp,
            at: at("10.0.0.1:80"),
            reach: Reach::Nat,
            to: to
                .map(|(to, weight)| (at(to), weight, at("10.0.0.1:80").ip()))
                .to_vec(),
        };
        let mut packets = Services::new(&[listen]).unwrap();
        let mut seen = [0; 4];
        for n in 0..2000u32 {
            let client =
                SocketAddr::from(((0x0a01_0000 + n / 7).to_be_bytes(), (n * 31 + 1024) as u16));
            let place = spliced[0].choose(client);
            assert_eq!(packets.choose(0, hash(client)), Some(place));
            seen[place] += 1;
        }
        assert!(
            seen[..3].iter().all(|&count| count > 0) && seen[3] == 0,
            "{seen:?}"
        );
    }

    #[test]
    fn what_does_not_fit_together_is_refused_and_named() {
        for (line, wanted) in [
            (
                "--listen 10.0.0.1:80 10.0.0.1:80 --to 10.0.0.2",
                "listened at twice",
            ),
            ("--listen udp:10.0.0.1:80 --to 10.0.0.2", "splice TCP alone"),
            ("--listen 10.0.0.1:80 --to 10.0.0.1", "would be a loop"),
            (
                "--listen 10.0.0.1:80 --to 10.0.0.2 10.0.0.2,3",
                "named twice",
            ),
            ("--listen 10.0.0.1:80 --to 10.0.0.2,0", "weight above zero"),
            (
                "--listen 10.0.0.1:80 --to 10.0.0.2 fd00::2",
                "nothing is forwarded to",
            ),
        ] {
            let error = services(&args(line)).err().expect(line).to_string();
            assert!(error.contains(wanted), "{line}: {error}");
        }
        // The same host at another port is no loop.
        assert!(services(&args("--listen 10.0.0.1:80 --to 10.0.0.1:81")).is_ok());
    }
}
