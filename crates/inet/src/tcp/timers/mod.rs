//! When something is due: the wheel, alarms in it, how long a connection lives without a sign of its peer, and what it does
//! when time has passed.

pub mod alarms;
pub mod liveness;
mod timeouts;
pub mod wheel;
