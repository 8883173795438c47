//! Servers that have names: how they change when these stand for other addresses, and what they are called.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::end::Standing;
use super::listener::Listener;
use super::services::Services;
use super::wanted::Listen;
use crate::packets::endpoint::{Address, Endpoint};

impl Services {
    /// Servers at these addresses are called so from now on; what is leaving keeps its name.
    pub fn set_names<'a>(&mut self, names: impl Iterator<Item = (IpAddr, &'a str)>) {
        let mut called = HashMap::new();
        for (_, server) in self.present() {
            if let Some(name) = self.called.get(&server.at.address) {
                called.insert(server.at.address, name.clone());
            }
        }
        called.extend(names.map(|(ip, name)| (ip.into(), name.to_owned())));
        self.called = called;
    }

    /// The name by which a server at this address is known.
    pub fn name_of(&self, address: Address) -> Option<&str> {
        self.called.get(&address).map(String::as_str)
    }

    /// A server as people are told of it: its end, and its name.
    pub fn in_words(&self, at: Endpoint) -> String {
        let end = SocketAddr::from(at);
        match self.name_of(at.address) {
            Some(name) => format!("{end} ({name})"),
            None => end.to_string(),
        }
    }

    /// What there is now, as somebody would want it, with the difference between two wishes: what was changed otherwise stays.
    pub fn with_difference(&self, before: &[Listen], after: &[Listen]) -> Vec<Listen> {
        let open = self.open_listeners().map(|(_, listener)| listener);
        let open = open.filter(|listener| listener.standing == Standing::InUse);
        open.map(|l| self.changed(l, before, after)).collect()
    }

    fn changed(&self, listener: &Listener, before: &[Listen], after: &[Listen]) -> Listen {
        let of = |all: &[Listen]| {
            let is_it = |l: &&Listen| {
                l.transport == listener.transport && Endpoint::from(l.at) == listener.at
            };
            all.iter()
                .find(is_it)
                .map_or_else(Vec::new, |l| l.to.clone())
        };
        let has = |all: &[(SocketAddr, u16, IpAddr)], end| all.iter().any(|(at, ..)| *at == end);
        let (before, after) = (of(before), of(after));
        let members = listener.members().iter().map(|member| {
            let server = &self.servers[usize::from(member.server)];
            (server.at.into(), member.weight, server.ours.into())
        });
        let mut to: Vec<_> = members.collect();
        to.retain(|(end, ..)| !has(&before, *end) || has(&after, *end));
        let come = after.into_iter().filter(|(end, ..)| !has(&before, *end));
        let come: Vec<_> = come.filter(|(end, ..)| !has(&to, *end)).collect();
        to.extend(come);
        Listen {
            transport: listener.transport,
            at: listener.at.into(),
            reach: listener.reach,
            to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::packet::Transport;
    use crate::packets::reach::Reach;

    fn end(n: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, n], 80))
    }

    fn listen(servers: &[u8]) -> Listen {
        Listen {
            transport: Transport::Tcp,
            at: end(1),
            reach: Reach::Nat,
            to: servers.iter().map(|n| (end(*n), 1, end(1).ip())).collect(),
        }
    }

    /// A name's change brings and takes its own addresses alone.
    #[test]
    fn what_was_changed_otherwise_stays() {
        let mut services = Services::new(&[listen(&[2, 3, 4])]).unwrap();
        services.set_names([(end(3).ip(), "web")].into_iter());
        services.add_server(0, end(9), 7, end(1).ip()).unwrap();
        services.set_weight(0, end(2), 5).unwrap();
        services.remove_server(0, end(4)).unwrap();
        let after = services.with_difference(&[listen(&[2, 3, 4])], &[listen(&[2, 4, 5])]);
        let to: Vec<_> = after[0]
            .to
            .iter()
            .map(|(at, weight, _)| (*at, *weight))
            .collect();
        assert_eq!(to, [(end(2), 5), (end(9), 7), (end(5), 1)]);
        let changes = services.become_these(&after).unwrap();
        assert_eq!((changes.added, changes.removed, changes.weighed), (1, 1, 0));
        services.set_names([(end(5).ip(), "web")].into_iter());
        assert_eq!(services.in_words(end(5).into()), "10.0.0.5:80 (web)");
        assert_eq!(services.name_of(end(3).ip().into()), None, "it has gone");
    }
}
