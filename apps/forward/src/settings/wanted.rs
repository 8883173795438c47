//! What a forwarder is to do, whether the command line says it or a file.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use exos::Error;
use exos::names::Family;
use exos_program::UserArgs;
use exos_program::cores::choose;

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

    /// Whether it listens for this family.
    pub fn hears(&self, family: Family) -> bool {
        let mut places = self.listen.iter();
        places.any(|place| Family::of(place.at.ip()) == family)
    }

    /// Whether servers of it have this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.named.iter().any(|named| named.name == name)
    }
}

/// All that a forwarder is told.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub user: UserArgs,
    pub links: Links,
    /// On how many cores it runs; on those that are named, or on one, when left out.
    pub cores: Option<u32>,
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
    /// How many cores forward.
    pub fn core_count(&self) -> usize {
        let named = self.links.first().core.len().max(1);
        self.cores.map_or(named, |cores| cores as usize)
    }

    /// The cores that forward, of those that this process may use; none for one loop that runs anywhere.
    ///
    /// # Errors
    ///
    /// There are not as many, or others are named.
    pub fn places(&self, allowed: &[usize]) -> Result<Vec<usize>, Error> {
        choose(self.core_count(), &self.links.first().core, allowed)
    }

    /// The families that are listened for.
    pub fn families(&self) -> Vec<Family> {
        let places = self.services.iter().flat_map(|service| &service.listen);
        let families: BTreeSet<Family> = places.map(|place| Family::of(place.at.ip())).collect();
        families.into_iter().collect()
    }

    /// The names of servers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let named = self.services.iter().flat_map(|service| &service.named);
        named.map(|named| named.name.as_str())
    }
}
