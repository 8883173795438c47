//! How urgent the forwarding thread is: before which others it runs.
//!
//! Mostly idle, it has real-time priority: it wakes within microseconds however busy the machine is. The kernel
//! takes the core from a real-time thread that leaves others nothing, for 50 ms in each second, which would be a
//! hole in the wire. So when it uses most of its core it becomes an ordinary thread of the largest weight for a
//! while, which loses the core more often, for at most some milliseconds.

use crate::limits::{BUSY_SHARE, URGENCY_INTERVAL};
use exos_host::priority;
use rustix::time::{ClockId, clock_gettime};

/// The calling thread's priority, as it has to be now.
#[derive(Debug)]
pub(super) struct Urgency {
    next_ns: u64,
    /// The thread's processor time, and when it was read.
    used_ns: u64,
    read_ns: u64,
    real_time: Option<bool>,
}

impl Urgency {
    pub(super) fn new() -> Self {
        Self {
            next_ns: 0,
            used_ns: 0,
            read_ns: 0,
            real_time: None,
        }
    }

    /// To be called in each turn. Without the privilege the thread stays one among others.
    pub(super) fn adapt(&mut self, now_ns: u64) {
        if now_ns < self.next_ns {
            return;
        }
        let used_ns = thread_time_ns();
        let elapsed_ns = now_ns - self.read_ns;
        let share = (used_ns - self.used_ns) as f64 / elapsed_ns.max(1) as f64;
        let real_time = self.read_ns == 0 || share < BUSY_SHARE;
        if self.real_time != Some(real_time) {
            self.real_time = Some(real_time);
            let _ = if real_time {
                priority::real_time()
            } else {
                priority::favoured()
            };
        }
        (self.used_ns, self.read_ns) = (used_ns, now_ns);
        self.next_ns = now_ns + URGENCY_INTERVAL.as_nanos() as u64;
    }
}

fn thread_time_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_takes_its_whole_core_is_no_longer_urgent() {
        // On a thread of its own: it may change its priority.
        let work = || {
            let mut urgency = Urgency::new();
            urgency.adapt(1);
            assert_eq!(urgency.real_time, Some(true));
            // Pretended times: what this thread used since is next to nothing of a second, but all of 1 ns.
            urgency.adapt(1_000_000_001);
            assert_eq!(urgency.real_time, Some(true));
            urgency.next_ns = 0;
            urgency.adapt(1_000_000_002);
            assert_eq!(urgency.real_time, Some(false));
            urgency.adapt(2_000_000_000);
            assert_eq!(urgency.real_time, Some(true));
        };
        std::thread::spawn(work).join().expect("no panic");
    }
}
