//! The time that the kernel's programs see too, and that everything in the daemon is told.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since some fixed moment.
pub type Now = Duration;

/// Time since the machine started.
pub(crate) fn now() -> Now {
    let t = clock_gettime(ClockId::Monotonic);
    Duration::new(t.tv_sec.max(0) as u64, t.tv_nsec as u32)
}
