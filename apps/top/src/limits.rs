//! Every bound of this crate, with its reason.

use std::time::Duration;

/// How long a key may wait until it is looked at: what feels immediate.
pub const KEY_PAUSE: Duration = Duration::from_millis(50);

/// How long a forwarder's answer is waited for: keys wait as long.
pub const ANSWER_TIME: Duration = Duration::from_secs(1);

/// The shortest time between two reports. Each costs the daemon a fraction of a millisecond, and nobody
/// reads numbers that change faster.
pub const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The longest.
pub const INTERVAL_MAX: Duration = Duration::from_secs(3600);
