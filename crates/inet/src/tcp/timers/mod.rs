//! When something is due: the wheel, alarms in it, and how long a connection lives without a sign of its peer.

pub mod alarms;
pub mod liveness;
pub mod wheel;
