//! Every bound of this crate, with its reason.

use std::time::Duration;

/// Memory for frames under way in one direction, in bytes: each counts its length and [`HELD_FRAME_OVERHEAD`].
/// Half a second at 1 Gbit/s of full frames are 62.5 MB, and no path on earth is much longer. More is dropped
/// under its own name (`drop_held_full`).
pub(crate) const HELD_BYTES_MAX: usize = 64 << 20;

/// What a frame under way costs beside its bytes: the allocator's header and rounding, and its place in the
/// queue.
pub(crate) const HELD_FRAME_OVERHEAD: usize = 64;

/// Longest delay, jitter or holding back: an hour is longer than any protocol waits, and far from where
/// nanoseconds in 64 bits overflow.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(3600);

/// Largest rate: above it a short frame takes less than a nanosecond.
pub(crate) const RATE_MAX_BITS_PER_SEC: u64 = 100_000_000_000;

/// The queue before a limited rate, when none is asked for, holds this much time of that rate: the order of a
/// round trip across a continent, which is what routers are commonly given.
pub(crate) const QUEUE_DEFAULT: Duration = Duration::from_millis(50);

/// [`QUEUE_DEFAULT`] holds at least this many bytes: one burst of a slow start.
pub(crate) const QUEUE_DEFAULT_BYTES_MIN: u64 = 64_000;

/// How long a reordered frame is held back at least, when nothing else is asked for: eight full frames' time at
/// 100 Mbit/s, more than the three that TCP takes for a loss (RFC 5681 §3.2).
pub(crate) const REORDER_BY_MIN: Duration = Duration::from_millis(1);

/// The emulator is woken at most this long before a frame is due, and looks at the clock for the rest: twice what
/// falling asleep and waking take on a virtual machine, where an idle core is left to the host.
pub(crate) const LEAD_MAX: Duration = Duration::from_micros(100);

/// And at least this much: a timer's interrupt and two system calls.
pub(crate) const LEAD_MIN: Duration = Duration::from_micros(3);

/// Waking from longer sleeps takes longer: the core may have been left to the host meanwhile. Longer than
/// [`BLIND_MAX`], so that the two kinds are those with and without traffic.
pub(crate) const LONG_SLEEP: Duration = Duration::from_micros(1500);

/// Which priority is right is asked so often: within the second in which the kernel would take the core away.
pub(crate) const URGENCY_INTERVAL: Duration = Duration::from_millis(100);

/// From this share of its core on the forwarding thread is no longer a real-time one: the kernel lets those have
/// 95 %, and a window as long as ours is not exact.
pub(crate) const BUSY_SHARE: f64 = 0.8;

/// On a wire with a short way the emulator looks for the next frame so long after the last before it sleeps: less
/// than falling asleep and waking would take.
pub(crate) const IDLE_SPIN: Duration = Duration::from_micros(30);

/// While frames keep coming the emulator looks at them no less often than this. At 450,000 frames a second, the
/// most that a veth was seen to deliver, the receive ring of 2,048 is then a quarter full.
pub(crate) const BLIND_MAX: Duration = Duration::from_millis(1);

/// Shorter sleeps without looking do not pay, they cost as much as being woken.
pub(crate) const BLIND_MIN: Duration = Duration::from_micros(200);

/// How often the command in the foreground looks for signals: no person waits longer for an answer.
pub(crate) const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a background emulator may take to forward or to say why it cannot: opening waits up to 600 ms for
/// interfaces that are just being given back, on a busy machine several times that.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a running emulator may take to answer: it does so at once unless the machine is choked.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest answer of an emulator, in bytes: two directions of some 30 numbers, with names, are 3 KB.
pub(crate) const ANSWER_LEN_MAX: u64 = 64 << 10;
