//! Listeners and servers, and which server a client belongs to: the same one as in the other forwarder, so that both agree.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use exos::Error;
use exos_inet::siphash::SipKey;

use crate::limits::LISTENERS_MAX;
use crate::maglev::{Candidate, Maglev};
use crate::packets::endpoint::Endpoint;
use crate::packets::packet::Transport;
use crate::service::{Listen, Misfit};
use crate::settings::options::ForwardArgs;
use crate::settings::setup::listens;
use crate::settings::wanted;

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
    /// With the servers of a listener.
    ///
    /// # Errors
    ///
    /// They are too many, one is named twice, or none has a weight.
    pub fn new(listen: &Listen) -> Result<Self, Misfit> {
        listen.check_servers()?;
        let Listen { at, to, .. } = listen;
        let candidate = |&(server, weight, _): &(SocketAddr, u16, IpAddr)| Candidate {
            name: hash(server),
            weight,
        };
        let candidates: Vec<Candidate> = to.iter().map(candidate).collect();
        let table = Maglev::build(&candidates, Maglev::len_for(candidates.len()));
        let server = |&(at, ..): &(SocketAddr, u16, IpAddr)| Server {
            at,
            begun: 0,
            open: 0,
            failed: 0,
        };
        Ok(Self {
            at: *at,
            servers: to.iter().map(server).collect(),
            table: table.ok_or(Misfit::NoServer(*at))?,
        })
    }

    /// The place of the server that a client's connection goes to.
    pub fn choose(&self, client: SocketAddr) -> usize {
        self.table.server_of(hash(client))
    }
}

/// What the options say, if it fits together.
pub(super) fn services(args: &ForwardArgs) -> Result<Vec<Service>, Error> {
    let to = args.to.iter().cloned();
    let wanted = wanted::Service::new(args.listen.clone(), args.reach, to);
    let listens = listens(&[wanted], &[])?;
    if listens.len() > LISTENERS_MAX {
        return Err(Misfit::TooManyListeners.into());
    }
    let mut places = HashSet::new();
    for Listen { transport, at, .. } in &listens {
        if *transport != Transport::Tcp {
            return Err(Error::new(format!("udp:{at} cannot be spliced"))
                .mend("splice TCP alone, and forward datagrams without --splice"));
        }
        if !places.insert(*at) {
            return Err(Misfit::Twice(*at).into());
        }
    }
    let mut servers = listens.iter().flat_map(|listen| &listen.to);
    if let Some((server, ..)) = servers.find(|(server, ..)| places.contains(server)) {
        return Err(Error::new(format!("{server} is where we listen"))
            .mend("name a server elsewhere: to ourselves would be a loop"));
    }
    let all: Result<_, Misfit> = listens.iter().map(Service::new).collect();
    Ok(all?)
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
    use crate::service::Services;
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
