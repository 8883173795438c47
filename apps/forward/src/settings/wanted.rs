//! What a forwarder is to do, whether the command line says it or a file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use exos_program::UserArgs;

use crate::forwarder::NoServer;
use crate::health::HealthArgs;
use crate::packets::reach::Reach;
use crate::service::{Affinity, Balance};
use crate::settings::links::Links;
use crate::settings::written::{ListenAddress, Named, To, Weighted};

/// Where clients come to, and the servers there: those of each listener's family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub listen: Vec<ListenAddress>,
    pub reach: Reach,
    /// Servers by their addresses.
    pub to: Vec<Weighted>,
    /// Servers by their names.
    pub named: Vec<Named>,
}

impl Service {
    /// A service with servers as they are written.
    pub fn new(
        listen: Vec<ListenAddress>,
        reach: Reach,
        written: impl Iterator<Item = To>,
    ) -> Self {
        let (mut to, mut named) = (Vec::new(), Vec::new());
        for server in written {
            match server {
                To::At(server) => to.push(server),
                To::Named(server) => named.push(server),
            }
        }
        Self {
            listen,
            reach,
            to,
            named,
        }
    }
}

/// All that a forwarder is told.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub user: UserArgs,
    pub links: Links,
    pub flows: u32,
    pub keep: Option<PathBuf>,
    pub control: Option<PathBuf>,
    pub in_kernel: bool,
    pub balance: Balance,
    pub affinity: Affinity,
    pub metrics: Option<SocketAddr>,
    pub no_server: NoServer,
    pub health: HealthArgs,
    /// How often names are resolved; zero for at the start alone.
    pub resolve: Duration,
    pub services: Vec<Service>,
}

impl Wanted {
    /// The names of servers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let named = self.services.iter().flat_map(|service| &service.named);
        named.map(|named| named.name.as_str())
    }
}
