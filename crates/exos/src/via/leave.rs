//! What a program leaves behind: its connections in TIME-WAIT, for which the daemon answers from then on.
//!
//! Without it a peer whose last segment was lost is told that there never was a connection.

use exos_inet::tcp::{Flow, TIME_WAIT_RECORD_LEN};
use exos_inet::{Instant, Stack};
use exos_xok::limits::TIME_WAIT_BYTES_MAX;
use exos_xok::message::{GrantId, Request};
use exos_xok::{Claim, Endpoint, Protocol};

use super::lease::Via;
use crate::limits::TIME_WAIT_MESSAGES_MAX;

/// Records of one message.
const RECORDS_MAX: usize = TIME_WAIT_BYTES_MAX / TIME_WAIT_RECORD_LEN;

impl Via {
    /// Leaves with the daemon what waits under our grants. What it does not take is gone with us.
    pub(crate) fn leave(&mut self, now: Instant, stack: &mut Stack) {
        let grants = self.grants.clone();
        for (grant, claim) in grants {
            self.leave_under(now, stack, grant, &claim);
        }
    }

    /// Leaves what waits under one grant.
    pub(super) fn leave_under(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        grant: GrantId,
        claim: &Claim,
    ) {
        for _ in 0..TIME_WAIT_MESSAGES_MAX {
            let entries = stack
                .tcp
                .take_time_wait(now, RECORDS_MAX, |flow| covers(claim, flow));
            if entries.is_empty() || self.ask(&Request::TimeWait { grant, entries }).is_err() {
                return;
            }
        }
    }
}

/// True when a connection is one of the claim's.
pub(super) fn covers(claim: &Claim, flow: &Flow) -> bool {
    let (local, far) = (flow.local(), Endpoint::from(flow.remote()));
    matches!(claim.protocol, Protocol::Tcp | Protocol::Any)
        && claim.local == local.ip()
        && (claim.port == 0 || claim.port == local.port())
        && claim.remote.is_none_or(|remote| remote == far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_cover_their_connections_and_no_others() {
        let flow = Flow::new(
            "192.0.2.7:80".parse().unwrap(),
            "198.51.100.1:4000".parse().unwrap(),
        );
        let claim = |protocol, local: &str, port, remote: Option<(&str, u16)>| Claim {
            interface: 1,
            protocol,
            local: local.parse().unwrap(),
            port,
            remote: remote.map(|(ip, port)| Endpoint {
                ip: ip.parse().unwrap(),
                port,
            }),
        };
        let ours = "192.0.2.7";
        for (protocol, port, remote) in [
            (Protocol::Tcp, 80, None),
            (Protocol::Tcp, 0, None),
            (Protocol::Any, 0, None),
            (Protocol::Tcp, 80, Some(("198.51.100.1", 4000))),
        ] {
            assert!(covers(&claim(protocol, ours, port, remote), &flow));
        }
        assert!(!covers(&claim(Protocol::Udp, ours, 80, None), &flow));
        assert!(!covers(&claim(Protocol::Tcp, "192.0.2.8", 80, None), &flow));
        assert!(!covers(&claim(Protocol::Tcp, ours, 81, None), &flow));
        let other = claim(Protocol::Tcp, ours, 80, Some(("198.51.100.1", 4001)));
        assert!(!covers(&other, &flow));
    }
}
