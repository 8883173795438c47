//! What the daemon takes back, until it is given back.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;
use exos_xok::Claim;
use exos_xok::message::GrantId;

/// A grant that is to be given back.
#[derive(Debug)]
pub(super) struct Ending {
    pub grant: GrantId,
    pub claim: Claim,
    /// When its connections are reset.
    pub reset_at: Instant,
    /// When it is given back.
    pub release_at: Instant,
    /// Those that are still to be reset; `None` before that time.
    pub connections: Option<Vec<ConnectionId>>,
}

impl Ending {
    pub fn next(&self) -> Instant {
        match &self.connections {
            None => self.reset_at,
            Some(left) if left.is_empty() => self.release_at,
            Some(_) => Instant::START, // At once.
        }
    }
}
