//! The clocks of packets: the kernel has the monotonic one, and people have another on the wall.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds that the wall clock is ahead of the monotonic one.
pub(super) fn wall_ahead_ns() -> u64 {
    clock_ns(ClockId::Realtime).saturating_sub(monotonic_ns())
}

pub(super) fn monotonic_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// Neither clock is before its zero.
fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
