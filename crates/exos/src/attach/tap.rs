//! A TAP device of the host's.

use exos_host::Error;
use exos_link::{Link, TapConfig, TapLink};

use super::addresses::Addresses;
use crate::cores::join;
use crate::node::Exos;
use crate::share::StackSettings;

/// A TAP device, which is made if it is not there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tap {
    /// Its name.
    pub name: String,
    /// What the program answers for.
    pub addresses: Addresses,
}

impl Tap {
    pub(super) fn attach(&self, wanted: &StackSettings) -> Result<Exos, Error> {
        let link = TapLink::open(&TapConfig::named(&self.name))?;
        let config = self.addresses.config(&link.end().mac(), link.end().mtu());
        join(Link::Tap(link), config, wanted)
    }
}
