//! What a load cost us, on each core.

use std::time::Duration;

use exos::clock;
use exos_inet::Instant;

/// Time and processor time of a loop, which is in one thread.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    began: Instant,
    processor_before: Duration,
    /// Time in turns of the loop that moved packets.
    pub busy: Duration,
    /// Time in all.
    pub time: Duration,
    /// Processor time, in the kernel and outside.
    pub processor: Duration,
}

impl Effort {
    /// From a moment on.
    pub fn start(at: Instant) -> Self {
        Self {
            began: at,
            processor_before: clock::thread_time(),
            busy: Duration::ZERO,
            time: Duration::ZERO,
            processor: Duration::ZERO,
        }
    }

    /// Until now.
    pub fn stop(&mut self, now: Instant) {
        self.time = now - self.began;
        self.processor = clock::thread_time() - self.processor_before;
    }

    /// The part of the time in which there was something to do.
    pub fn busy_share(&self) -> f64 {
        if self.time.is_zero() {
            return 0.0;
        }
        (self.busy.as_secs_f64() / self.time.as_secs_f64()).min(1.0)
    }
}
