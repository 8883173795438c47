//! Ports that several programs of one user hold together: each flow is one program's.

use std::net::IpAddr;

use exos_xok::message::{GrantId, Request};
use exos_xok::{Claim, Protocol};

use super::control::AskError;
use super::lease::Via;

impl Via {
    /// Claims a port of an address together with other programs of this user that claim it so: each flow is one program's.
    ///
    /// # Errors
    ///
    /// The daemon refuses, or is not there.
    pub fn claim_divided(
        &mut self,
        protocol: Protocol,
        local: IpAddr,
        port: u16,
    ) -> Result<(GrantId, Claim), AskError> {
        let granted = self.ask_for_grant(&Request::ClaimDivided {
            protocol,
            local: Some(local),
            port,
        })?;
        self.divided.push(granted.0);
        Ok(granted)
    }

    /// Leaves new flows of what is held together with other programs to these. What we have of it goes on. True when there is
    /// something of that kind; a daemon that is not there knows nothing of it.
    pub fn retire(&mut self) -> bool {
        for grant in std::mem::take(&mut self.divided) {
            if self.ask(&Request::Retire { grant }).is_err() {
                return false;
            }
            self.divided.push(grant);
        }
        !self.divided.is_empty()
    }
}
