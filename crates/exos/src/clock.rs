//! The clocks: monotonic time for the protocols, the time of day for people, and processor time.

use std::time::Duration;

use exos_inet::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Microseconds since the system started, never running backwards.
pub fn now() -> Instant {
    let t = clock_gettime(ClockId::Monotonic);
    Instant::from_micros(t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000)
}

/// Seconds since 1970 (UTC).
pub fn unix_secs() -> u64 {
    unix_time().as_secs()
}

/// The time since 1970 (UTC), to some milliseconds.
pub fn unix_time() -> Duration {
    time_of(ClockId::RealtimeCoarse)
}

/// Processor time that the calling thread has used, in the kernel and outside.
pub fn thread_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

/// Processor time that this process has used, in the kernel and outside.
pub fn process_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let t = clock_gettime(clock);
    Duration::new(t.tv_sec.max(0) as u64, t.tv_nsec as u32)
}
