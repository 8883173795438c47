//! What is known of the name servers: whether they answered lately, understand EDNS, and keep the case of letters.

use crate::limits::SILENT_SERVER;
use crate::message::Form;
use exos_inet::Instant;
use std::net::SocketAddr;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// How it is to be asked.
    pub(crate) form: Form,
    /// Until when it is asked last.
    silent_until: Option<Instant>,
}

impl Server {
    pub(crate) fn mark_silent(&mut self, now: Instant) {
        self.silent_until = Some(now + SILENT_SERVER);
    }

    pub(crate) fn mark_answered(&mut self) {
        self.silent_until = None;
    }
}

#[derive(Default)]
pub(crate) struct Servers {
    all: Vec<Server>,
    /// With which the next query begins, if they take turns.
    next: usize,
}

impl Servers {
    pub(crate) fn new(addresses: &[SocketAddr]) -> Self {
        let form = Form {
            edns: true,
            random_case: true,
        };
        let all = addresses.iter().map(|&address| Server {
            address,
            form,
            silent_until: None,
        });
        Self {
            all: all.collect(),
            next: 0,
        }
    }

    /// Which servers a query asks one after the other: each as often as is configured, those that were silent after the others.
    pub(crate) fn plan(&mut self, now: Instant, attempts: u8, rotate: bool) -> Vec<usize> {
        let count = self.all.len();
        let first = if rotate { self.next } else { 0 };
        self.next = (self.next + 1) % count.max(1);
        let mut order: Vec<usize> = (0..count).map(|at| (first + at) % count).collect();
        // The sort is stable.
        order.sort_by_key(|&at| self.all[at].silent_until.is_some_and(|until| until > now));
        order.repeat(attempts.into())
    }

    pub(crate) fn get(&mut self, at: usize) -> &mut Server {
        &mut self.all[at]
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.all.iter().map(|server| server.address).collect()
    }
}

/// Whether two addresses are of one server. What a system says of a datagram's flow is its own, and not all tell the
/// interface of an address that is valid on each by itself.
pub(crate) fn is_same(from: SocketAddr, asked: SocketAddr) -> bool {
    let scopes = match (from, asked) {
        (SocketAddr::V6(from), SocketAddr::V6(asked)) => [from.scope_id(), asked.scope_id()],
        _ => [0, 0],
    };
    let same_scope = scopes[0] == scopes[1] || scopes.contains(&0);
    (from.ip(), from.port()) == (asked.ip(), asked.port()) && same_scope
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_turns_and_silent_ones_come_last() {
        let addresses =
            ["192.0.2.1:53", "192.0.2.2:53", "192.0.2.3:53"].map(|text| text.parse().unwrap());
        let mut servers = Servers::new(&addresses);
        let now = Instant::from_millis(1);
        assert_eq!(servers.plan(now, 2, false), [0, 1, 2, 0, 1, 2]);
        assert_eq!(servers.plan(now, 1, true), [1, 2, 0]);
        assert_eq!(servers.plan(now, 1, true), [2, 0, 1]);
        servers.get(0).mark_silent(now);
        assert_eq!(servers.plan(now, 2, false), [1, 2, 0, 1, 2, 0]);
        assert_eq!(servers.plan(now + SILENT_SERVER, 1, false), [0, 1, 2]);
        servers.get(0).mark_answered();
        assert_eq!(servers.plan(now, 1, false), [0, 1, 2]);
        assert_eq!(Servers::new(&[]).plan(now, 2, true), [0; 0]);
    }
}
