//! What somebody wants forwarded, and why that cannot be.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use exos::Error;

use crate::limits::{LISTENERS_MAX, SERVERS_MAX, SERVERS_PER_LISTENER_MAX};
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;

/// What somebody wants forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Of which protocol.
    pub transport: Transport,
    /// The address of ours, and its port, that clients speak to.
    pub at: SocketAddr,
    /// What is done with packets that come there.
    pub reach: Reach,
    /// The servers, each with its weight and the address of ours that it sees.
    pub to: Vec<(SocketAddr, u16, IpAddr)>,
}

impl Listen {
    /// There are as many servers as there may be, and one of a weight above zero; none is named twice.
    ///
    /// # Errors
    ///
    /// What is not so.
    pub(crate) fn check_servers(&self) -> Result<(), Misfit> {
        if self.to.len() > SERVERS_PER_LISTENER_MAX[1] {
            return Err(Misfit::TooManyServers(self.at));
        }
        let mut seen = HashSet::new();
        if let Some((twice, ..)) = self.to.iter().find(|(server, ..)| !seen.insert(server)) {
            return Err(Misfit::SameServer(*twice));
        }
        if self.to.iter().all(|(_, weight, _)| *weight == 0) {
            return Err(Misfit::NoServer(self.at));
        }
        Ok(())
    }
}

/// Why something cannot be forwarded as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Two listeners are at one place.
    Twice(SocketAddr),
    /// There are more listeners than there may be.
    TooManyListeners,
    /// There are more servers behind a listener than there may be.
    TooManyServers(SocketAddr),
    /// There are more servers than there may be behind all listeners.
    TooManyServersInAll,
    /// A server is named twice.
    SameServer(SocketAddr),
    /// What would come to the server comes to us again.
    Loop(SocketAddr),
    /// There is no server to forward to.
    NoServer(SocketAddr),
    /// Client and server would be of two families.
    Family(SocketAddr, SocketAddr),
    /// A server is not behind this listener.
    NotBehind(SocketAddr, SocketAddr),
    /// A server sees a flow come from where a listener is to be.
    PortInUse(SocketAddr),
    /// A server is to have another port than its listener where packets stay as they are.
    OtherPort(SocketAddr, SocketAddr),
    /// A server that has the listener's address would be spoken to from that address.
    OwnAddress(SocketAddr, IpAddr),
    /// A listener is there, or has flows, by another reach.
    OtherReach(SocketAddr, Reach),
}

impl fmt::Display for Misfit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(at) => write!(out, "{at} is listened at twice; leave one out"),
            Self::TooManyListeners => write!(
                out,
                "more than {LISTENERS_MAX} listeners; start another forwarder for the rest"
            ),
            Self::TooManyServers(at) => write!(
                out,
                "more than {} servers behind {at}; forward to other forwarders",
                SERVERS_PER_LISTENER_MAX[1]
            ),
            Self::TooManyServersInAll => write!(
                out,
                "more than {SERVERS_MAX} servers; start another forwarder for the rest, or wait until those that were removed have no flows"
            ),
            Self::SameServer(at) => {
                write!(
                    out,
                    "the server {at} is named twice; give it a weight instead"
                )
            }
            Self::Loop(at) => write!(
                out,
                "{at} is an address of the forwarder's own, and so would be a loop; name a server elsewhere"
            ),
            Self::NoServer(at) => write!(
                out,
                "no server for {at}; name one of its family with a weight above zero"
            ),
            Self::Family(at, server) => write!(
                out,
                "{at} and {server} are of two families, and packets are not translated from one to the other"
            ),
            Self::NotBehind(at, server) => write!(
                out,
                "{server} is no server of {at}; ask for the status to see which there are"
            ),
            Self::OwnAddress(server, ours) => write!(
                out,
                "{server} has the address {ours} too, and hears nothing from there; give another --address before it, in the server's network"
            ),
            Self::OtherPort(at, server) => write!(
                out,
                "{server} has another port than {at}, and its packets keep theirs; name {} there, or choose another --reach",
                SocketAddr::new(server.ip(), at.port())
            ),
            Self::OtherReach(at, reach) => write!(
                out,
                "{at} is there by --reach {}; take it away, and listen there again when its connections are over",
                <&str>::from(reach)
            ),
            Self::PortInUse(at) => write!(
                out,
                "a server sees a connection come from {at}; listen there when that is over, or at another port"
            ),
        }
    }
}

impl From<Misfit> for Error {
    fn from(misfit: Misfit) -> Self {
        Self::new(misfit.to_string())
    }
}
