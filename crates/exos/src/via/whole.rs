//! All ports of an address, for a program that gives ports out by itself: one claim at the start, and none for each
//! connection. Where a program follows that goes on with its connections, nobody answers for them meanwhile.

use std::net::IpAddr;
use std::time::Duration;

use exos_host::error::{Error, ErrorKind};
use exos_xok::Protocol;
use exos_xok::limits::SUCCESSOR_MS_MAX;
use exos_xok::message::{PortWish, Request};

use super::lease::Via;

/// The longest that the daemon awaits a successor.
pub const SUCCESSOR_TIME_MAX: Duration = Duration::from_millis(SUCCESSOR_MS_MAX as u64);

impl Via {
    /// Claims all ports of an address, of one protocol or of all ([`Protocol::Any`]). What is ours already stays so.
    ///
    /// # Errors
    ///
    /// The address is the host's too, whose own connections would come here; another program has a part of it; or policy does
    /// not allow it, and then the rule is named that would.
    pub fn claim_whole(&mut self, protocol: Protocol, ip: IpAddr) -> Result<(), Error> {
        let address = self.interface.addresses.iter().find(|a| a.ip == ip);
        if address.is_some_and(|address| !address.ours_alone) {
            return Err(Error::new(format!(
                "{ip} is an address of the host, whose own connections need its ports"
            ))
            .mend(format!(
                "have an address in the daemon's policy that nobody has (addresses = [\"ADDRESS/PREFIX\"] of {})",
                self.interface.name
            ))
            .of_kind(ErrorKind::AddressInUse));
        }
        if !self.has_port(protocol, ip, 0) {
            self.claim(protocol, ip, PortWish::All, None)?;
        }
        Ok(())
    }

    /// Says that a program of ours follows when we go, however that is: for so long nobody answers for the addresses of which
    /// we have all ports, and nobody else gets them. To be said again when more was claimed. A daemon that comes back
    /// knows it still.
    ///
    /// # Errors
    ///
    /// The daemon refuses, since it is longer than [`SUCCESSOR_TIME_MAX`], or is not there.
    pub fn await_successor(&mut self, time: Duration) -> Result<(), Error> {
        let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let whole = self.grants_kept().filter(|(_, claim)| claim.port == 0);
        let whole = whole.map(|(grant, _)| *grant);
        let unsaid = whole.filter(|grant| !self.promised.contains(&(*grant, ms)));
        for grant in unsaid.collect::<Vec<_>>() {
            self.ask(&Request::AwaitSuccessor { grant, ms })?;
            self.promised.retain(|(other, _)| *other != grant);
            self.promised.push((grant, ms));
        }
        Ok(())
    }
}
