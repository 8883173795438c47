//! Every bound of the measurements, each with its reason.

use std::time::Duration;

/// How long a server may take until it answers: both load a few small documents and answer within 100 ms; on a
/// machine with much else to do one has taken more than 10 s.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a program may take to end when asked to. Ours waits for responses under way for 10 s, which a client that has gone
/// may leave behind where its resets were lost, and says goodbye for one; a loaded machine takes its time besides.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(40);

/// How long a control group may take until it can be removed: its processes have ended, and the kernel has noticed.
pub(crate) const GROUP_TIMEOUT: Duration = Duration::from_secs(5);

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

/// How long one exchange may take under callgrind: some seconds on a quiet machine, fifty times as long as without.
pub(crate) const CALLGRIND_TIMEOUT: Duration = Duration::from_secs(300);

/// Most operations of one exchange: with more, a recording would take gigabytes and tell nothing new.
pub(crate) const OPERATIONS_MAX: u64 = 100_000;

/// How long a million connections may take: some ten seconds on a quiet machine.
pub(crate) const CAPACITY_TIMEOUT: Duration = Duration::from_secs(600);

/// Connections that the caches hold, to compare many with.
pub(crate) const FEW_CONNECTIONS: u32 = 1000;

/// Most idle connections: clients have addresses and ports for more, but memory should not run out (4 GiB at a
/// kilobyte each).
pub(crate) const IDLE_CONNECTIONS_MAX: i64 = 4_000_000;

/// Connections in TIME-WAIT: as many as the stack keeps.
pub(crate) const TIME_WAIT_ENTRIES: u32 = exos_inet::limits::TIME_WAIT_ENTRIES_MAX as u32;

/// How long the two sides of a measurement may take until their connections stand: a SYN that is lost is sent again
/// after a second, then after 2, 4, 8 and 16. Where losses come in bursts these are counted in frames: a burst may take
/// several in a row.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(40);
