//! What the server calls those whom it hears: connections, and the users that they are of.

use crate::pool::Standing;

/// Names a connection as long as the daemon runs.
pub type ConnectionId = u64;

/// A user as the policy knows them: one whose connections are of different groups may be two.
pub type User = (Standing, u32);
