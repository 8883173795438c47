//! Which processes have a program's sockets, where that has them for others (`exos run`).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::sockets::{Protocol, Socket};

/// Holders of a socket that are told. Of a server with more workers these have the listener, and each its own connections.
pub(super) const HOLDERS: usize = 4;

/// What has a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A process, in the program's own PID namespace.
    Process(u32),
    /// All processes that have the Unix socket of this inode.
    UnixSocket(u64),
}

/// An inode, and not a process.
const INODE: u64 = 1 << 63;

impl Holder {
    /// For a word; zero is nobody.
    pub(super) fn word(self) -> u64 {
        match self {
            Self::Process(pid) => pid.into(),
            Self::UnixSocket(inode) => inode | INODE,
        }
    }

    pub(super) fn of_word(word: u64) -> Option<Self> {
        match word {
            0 => None,
            word if word & INODE != 0 => Some(Self::UnixSocket(word & !INODE)),
            word => u32::try_from(word).ok().map(Self::Process),
        }
    }
}

/// Where a socket is found: by its protocol, its own port and its peer.
type Key = (Protocol, u16, Option<SocketAddr>);

/// Who has which sockets, by their addresses.
#[derive(Debug, Default)]
pub struct Holders(HashMap<Key, Vec<(IpAddr, Holder)>>);

impl Holders {
    /// A socket with this address, which may be all of a family's, and this peer has a holder.
    pub fn add(
        &mut self,
        protocol: Protocol,
        local: SocketAddr,
        peer: Option<SocketAddr>,
        holder: Holder,
    ) {
        let of_port = self.0.entry((protocol, local.port(), peer)).or_default();
        of_port.push((local.ip(), holder));
    }

    /// Those of a socket of the stack's.
    pub(super) fn of(&self, socket: &Socket) -> Vec<Holder> {
        let of_port = self.0.get(&(socket.protocol, socket.port, socket.peer));
        let is_it =
            |ip: &IpAddr| ip.is_unspecified() || socket.address.is_none_or(|own| own == *ip);
        let all = of_port.into_iter().flatten();
        let mut all: Vec<_> = all
            .filter_map(|(ip, holder)| is_it(ip).then_some(*holder))
            .collect();
        all.sort_unstable();
        all.dedup();
        all.truncate(HOLDERS);
        all
    }
}

#[cfg(test)]
mod tests {
    use exos_inet::tcp::State;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn holders_are_those_of_the_socket_alone() {
        let (all, own, other) = ("0.0.0.0:80", "192.0.2.7:80", "192.0.2.8:80");
        let peer = Some(address("192.0.2.9:40000"));
        let mut holders = Holders::default();
        for (local, peer, pid) in [
            (all, None, 7),
            (all, None, 7),
            (own, None, 5),
            (other, None, 6),
            (own, peer, 8),
            (other, peer, 9),
        ] {
            holders.add(Protocol::Tcp, address(local), peer, Holder::Process(pid));
        }
        let of = |peer: Option<SocketAddr>, protocol| {
            let socket = Socket {
                protocol,
                state: State::Listen,
                address: Some(address(own).ip()),
                port: 80,
                peer,
                receive_queue: 0,
                send_queue: 0,
                tcp: None,
                holders: Vec::new(),
            };
            holders.of(&socket)
        };
        let pids = |pids: &[u32]| {
            pids.iter()
                .copied()
                .map(Holder::Process)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(None, Protocol::Tcp), pids(&[5, 7]));
        assert_eq!(of(peer, Protocol::Tcp), pids(&[8]));
        assert_eq!(of(None, Protocol::Udp), []);
    }
}
