//! Which sockets there are, for those that look at a stack from outside. In pieces: each call goes on from a place.

use core::net::IpAddr;

use super::tcp::Tcp;
use crate::tcp::connection::Connection;
use crate::tcp::values::flow::Flow;

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    /// `None` listens on every address of the stack.
    pub address: Option<IpAddr>,
    /// Its port.
    pub port: u16,
    /// Connections that were begun and do not stand yet.
    pub half_open: usize,
    /// How many these may be.
    pub backlog: usize,
}

impl Tcp {
    /// All listeners.
    pub fn listening(&self) -> impl Iterator<Item = Listening> {
        self.listeners.all().map(|listener| Listening {
            address: listener.address(),
            port: listener.port,
            half_open: listener.half_open,
            backlog: listener.options.backlog,
        })
    }

    /// Connections that are not over, those in TIME-WAIT apart, from a place on, each with its place. A connection keeps its place.
    pub fn standing_from(&self, place: u32) -> impl Iterator<Item = (u32, &Connection)> {
        self.slab.standing_from(place).map(|(id, c)| (id.slot, c))
    }

    /// Connections in TIME-WAIT, the oldest first, from a place on, each with its place. Places move up as the oldest end.
    pub fn waiting_from(&self, place: usize) -> impl Iterator<Item = (usize, &Flow)> {
        self.time_wait.from(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::ListenOptions;
    use crate::time::Instant;

    #[test]
    fn listeners_are_listed() {
        let mut tcp = Tcp::new(Instant::START, 1, 10);
        let address = Some("192.0.2.1".parse().expect("an address"));
        let options = || ListenOptions {
            backlog: 7,
            ..ListenOptions::default()
        };
        tcp.listen(None, 80, options()).expect("free");
        tcp.listen(address, 80, options()).expect("free");
        let mut all: Vec<_> = tcp.listening().collect();
        all.sort_by_key(|l| l.address);
        let listening = |address| Listening {
            address,
            port: 80,
            half_open: 0,
            backlog: 7,
        };
        assert_eq!(all, [listening(None), listening(address)]);
        assert_eq!(
            (tcp.standing_from(0).count(), tcp.waiting_from(0).count()),
            (0, 0)
        );
    }
}
