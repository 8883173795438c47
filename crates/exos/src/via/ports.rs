//! Ports for sockets, which are bound while the program runs and not at its start.

use std::net::IpAddr;

use exos_host::error::{Error, ErrorKind};
use exos_xok::Protocol;
use exos_xok::message::{GrantId, PortWish, Refusal};

use super::control::AskError;
use super::lease::Via;

/// Which port is wanted.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Lend {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// An address, all IPv4 addresses (0.0.0.0), or all addresses (::).
    pub address: IpAddr,
    /// 0: one that is free.
    pub port: u16,
}

impl Via {
    /// Claims a port of one address or of many; what is ours already stays so. Gives the port, and what was claimed for it.
    /// Addresses whose port policy refuses are left out where no address is named, as long as something remains.
    ///
    /// # Errors
    ///
    /// The daemon refuses, or is not there; nothing was claimed then.
    pub(crate) fn lend(&mut self, wanted: Lend) -> Result<(u16, Vec<GrantId>), Error> {
        let (mut port, mut grants, mut ours_already) = (wanted.port, Vec::new(), false);
        let mut refusal = None;
        for ip in self.meant_by(wanted.address) {
            if port != 0 && self.has_port(wanted.protocol, ip, port) {
                ours_already = true;
                continue;
            }
            let wish = match port {
                0 => PortWish::Ephemeral,
                number => PortWish::Number(number),
            };
            match self.claim(wanted.protocol, ip, wish, None) {
                Ok((grant, claim)) => {
                    port = claim.port;
                    grants.push(grant);
                }
                Err(AskError::Refused(Refusal::NotAllowed, text))
                    if wanted.address.is_unspecified() =>
                {
                    refusal.get_or_insert(AskError::Refused(Refusal::NotAllowed, text));
                }
                Err(error) => {
                    for grant in grants {
                        let _ = self.release(grant);
                    }
                    return Err(error.into());
                }
            }
        }
        if ours_already || !grants.is_empty() {
            return Ok((port, grants));
        }
        Err(refusal.map_or_else(
            || {
                let (address, name) = (wanted.address, &self.interface.name);
                Error::new(format!("the daemon has no address {address} on {name}"))
                    .mend("bind to one of its addresses, or to all (0.0.0.0, ::)")
                    .of_kind(ErrorKind::NoAddress)
            },
            Error::from,
        ))
    }

    /// Those of our addresses that are meant.
    fn meant_by(&self, address: IpAddr) -> Vec<IpAddr> {
        let ours = self.addresses.iter().map(|a| a.ip);
        let is_meant = |ip: &IpAddr| match address {
            IpAddr::V4(any) if any.is_unspecified() => ip.is_ipv4(),
            IpAddr::V6(any) if any.is_unspecified() => true,
            one => *ip == one,
        };
        ours.filter(is_meant).collect()
    }

    pub(super) fn has_port(&self, protocol: Protocol, ip: IpAddr, port: u16) -> bool {
        let mut kept = self.grants_kept();
        kept.any(|(_, claim)| claim.has_port(protocol, ip, port))
    }
}
