//! A server's loops: how they stop, take up, reload and say how they are.

use std::time::Duration;

/// How long a stop lets in who has begun to connect, when others share the port and have what is new: some round trips.
pub const LAST_CONNECTS_TIME: Duration = Duration::from_millis(200);

/// How long a stop waits for clients to answer our FIN, after the last response, before they are reset: a few round trips.
pub const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// Connections reset in one go: a quarter of the answers that a stack queues.
pub const ABORTS_AT_ONCE: usize = exos_inet::limits::REPLIES_MAX / 4;

/// How long a loop waits before it tries again an interface that has failed, where others are served meanwhile: clients do not
/// notice so short a wait, and it costs ten attempts a second.
pub const OUTAGE_PAUSE: Duration = Duration::from_millis(100);

/// The shortest such sleep, where something is due: what it cannot send meanwhile keeps no core busy.
pub const OUTAGE_PAUSE_MIN: Duration = Duration::from_millis(1);

/// How long a stop waits for responses under way, unless the operator says how long.
pub const SHUTDOWN_TIME: Duration = Duration::from_secs(10);

/// The longest that an operator can have it wait: a day.
pub const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long no connection is accepted on sockets after the kernel had no descriptor for one: nginx's default is 500 ms, and
/// connections may end before.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The longest configuration file: some ten thousand redirects fit.
pub const CONFIG_LEN_MAX: u64 = 4 << 20;

/// How old what the status pages say may be.
pub const STATUS_TIME: Duration = Duration::from_secs(1);

/// Rates on the status page are taken over this many seconds.
pub const RATE_TIME: Duration = Duration::from_secs(10);

/// How long a turn of the event loop may spend on a reload: what some hundred requests take.
pub const SLICE_TIME: Duration = Duration::from_micros(200);

/// Documents that come into a table, or go, before the clock is looked at again: some microseconds.
pub const CHANGES_AT_ONCE: usize = 16;
