//! Time as the protocols see it: a number of microseconds since a start that the caller chose.
//!
//! The protocols never read a clock. Every method to which time matters takes `now: Instant`,
//! which must not run backwards between calls on the same object; the simulator passes virtual
//! time, the runtime a monotonic clock.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
pub use core::time::Duration;

/// A moment, in microseconds since the caller's chosen start.
#[derive(Copy, Clone, Eq, PartialEq, Ord, PartialOrd, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The caller's start of time.
    pub const START: Self = Self(0);

    /// A deadline that never comes.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// The moment `micros` microseconds after the start.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The moment `millis` milliseconds after the start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1000)
    }

    /// Microseconds since the start.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Microseconds from `earlier` to `self`, zero when `earlier` is later, at most 71 minutes.
    #[inline]
    pub const fn micros_since(self, earlier: Self) -> u32 {
        let micros = self.0.saturating_sub(earlier.0);
        if micros > u32::MAX as u64 {
            u32::MAX
        } else {
            micros as u32
        }
    }

    /// Milliseconds since the start.
    pub const fn millis(self) -> u64 {
        self.0 / 1000
    }

    /// The time from `earlier` to `self`, zero when `earlier` is later.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, d: Duration) -> Self {
        // Not `as_micros`, whose 128 bits cost more than all the rest; half a million years fit.
        let micros = d.as_secs().saturating_mul(1_000_000);
        let micros = micros.saturating_add(u64::from(d.subsec_micros()));
        Self(self.0.saturating_add(micros))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    /// The time from `earlier` to `self`, zero when `earlier` is later.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// Seconds with six decimals, as in a packet trace.
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_saturate() {
        let (early, late) = (Instant::from_millis(1), Instant::from_millis(3));
        assert_eq!(late - early, Duration::from_millis(2));
        assert_eq!(early - late, Duration::ZERO);
        assert_eq!(late.to_string(), "0.003000");
    }
}
