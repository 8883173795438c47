//! All ports of an address, for a program that gives ports out by itself: one claim at the start, and none for each
//! connection.

use std::net::IpAddr;

use exos_host::Error;
use exos_xok::Protocol;
use exos_xok::message::PortWish;

use super::Via;

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
            )));
        }
        let has_all = |p| p == Protocol::Any || p == protocol;
        let is_whole = self.grants_kept().any(|(_, claim)| {
            let all_ports = claim.port == 0 && claim.remote.is_none();
            claim.local == ip && all_ports && has_all(claim.protocol)
        });
        if !is_whole {
            self.claim(protocol, ip, PortWish::All, None)?;
        }
        Ok(())
    }
}
