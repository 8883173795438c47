//! Every bound of the measurements, each with its reason.

use std::time::Duration;

/// How long a server may take until it answers: both load a few small documents and answer within 100 ms; a
/// machine that is busy otherwise may need seconds.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may take to end after SIGTERM before it is killed.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How often something that is waited for is looked at.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long one answer may take when a server's answers are checked before measuring.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How much longer than asked for the client may take: it starts and ends within this.
pub(crate) const CLIENT_GRACE: Duration = Duration::from_secs(15);

/// Largest document. Servers of ours keep documents in memory, so larger ones measure memory only.
pub(crate) const SIZE_MAX: u64 = 64 * 1024 * 1024;

/// Most connections of the client: each takes a descriptor of 1024, the usual limit.
pub(crate) const CONNECTIONS_MAX: u32 = 1000;

/// How long other programs' load is watched before measuring: some tens of clock ticks.
pub(crate) const OTHER_LOAD_WINDOW: Duration = Duration::from_millis(500);

/// Load of other programs on a core that is not worth mentioning: below the differences between runs.
pub(crate) const OTHER_LOAD_MAX: f64 = 0.10;
