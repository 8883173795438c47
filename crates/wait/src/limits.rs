//! The limits of this crate, each with its reason.

use std::time::Duration;

/// Terms of a predicate, at most: with their operands they fill a cache line.
pub const TERMS_MAX: usize = 3;

/// The longest spin that adapts: about what a wake-up costs on a virtual machine. Spinning longer than sleeping and waking would take cannot
/// pay.
pub const SPIN_MAX: Duration = Duration::from_micros(50);

/// The shortest: one or two messages' time between busy processes. It never reaches zero, so that returning traffic is noticed.
pub const SPIN_MIN: Duration = Duration::from_micros(2);

/// How often it is looked before the rest of the world is: about every millisecond.
pub(crate) const SPINS_PER_CHECK: u32 = 1 << 14;

/// Spins between two looks at the clock, which costs as much as some looks.
pub(crate) const SPINS_PER_CLOCK: u32 = 64;
