//! A link of limited rate with a queue before it: when a frame's last bit has left, or that there is no room.
//!
//! A frame of n bytes (Ethernet header included; preamble, check sequence and gap are not counted) occupies the
//! link for n * 8 / rate. It waits behind those before it; when the bytes that wait, those being sent among them,
//! would be more than the queue holds, it is dropped at the tail. Time is in nanoseconds; what a division leaves
//! over is carried on, so that the rate is exact over any number of frames.

/// Bits times nanoseconds per second, for a byte.
const BIT_NANOS_PER_BYTE: u128 = 8 * 1_000_000_000;

/// A rate and the queue before it.
#[derive(Clone, Debug)]
pub(super) struct Bottleneck {
    rate_bits_per_sec: u64,
    queue_bytes_max: u64,
    /// When all that was admitted has been sent.
    busy_until_ns: u64,
    /// What the last division left over, in 1 / rate nanoseconds.
    remainder: u128,
}

/// A frame that there was room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    /// When its last bit has been sent.
    pub(super) sent_ns: u64,
    /// Bytes that waited when it came.
    pub(super) waiting_bytes: u64,
}

impl Bottleneck {
    pub(super) fn new(rate_bits_per_sec: u64, queue_bytes_max: u64) -> Self {
        assert!(rate_bits_per_sec > 0, "checked with the settings");
        Self {
            rate_bits_per_sec,
            queue_bytes_max,
            busy_until_ns: 0,
            remainder: 0,
        }
    }

    /// Bytes that wait to be sent, rounded up.
    pub(super) fn waiting_bytes(&self, now_ns: u64) -> u64 {
        let wait_ns = u128::from(self.busy_until_ns.saturating_sub(now_ns));
        let waiting = wait_ns * u128::from(self.rate_bits_per_sec);
        waiting.div_ceil(BIT_NANOS_PER_BYTE) as u64
    }

    /// Takes a frame of this length; `None` when it is dropped.
    pub(super) fn admit(&mut self, now_ns: u64, len: usize) -> Option<Admitted> {
        let waiting_bytes = self.waiting_bytes(now_ns);
        // The link itself takes a frame when nothing waits, however short the queue is.
        if waiting_bytes > 0 && waiting_bytes + len as u64 > self.queue_bytes_max {
            return None;
        }
        if self.busy_until_ns < now_ns {
            self.busy_until_ns = now_ns;
            self.remainder = 0;
        }
        let work = len as u128 * BIT_NANOS_PER_BYTE + self.remainder;
        let rate = u128::from(self.rate_bits_per_sec);
        self.busy_until_ns += (work / rate) as u64;
        self.remainder = work % rate;
        Some(Admitted {
            sent_ns: self.busy_until_ns,
            waiting_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_wait_for_each_other_and_leave_at_the_rate() {
        // 1000 bytes at 8 Mbit/s: a millisecond.
        let mut link = Bottleneck::new(8_000_000, 3_000);
        let sent = |admitted: Option<Admitted>| admitted.map(|a| (a.sent_ns, a.waiting_bytes));
        assert_eq!(sent(link.admit(0, 1000)), Some((1_000_000, 0)));
        assert_eq!(sent(link.admit(0, 1000)), Some((2_000_000, 1000)));
        assert_eq!(sent(link.admit(0, 1000)), Some((3_000_000, 2000)));
        assert_eq!(link.admit(0, 1000), None, "3000 bytes wait");
        assert_eq!(link.admit(0, 1), None);
        assert_eq!(link.admit(999_999, 1000), None, "the first is almost sent");
        assert_eq!(sent(link.admit(1_000_000, 1000)), Some((4_000_000, 2000)));
        assert_eq!(sent(link.admit(9_000_000, 500)), Some((9_500_000, 0)));
    }

    #[test]
    fn a_queue_shorter_than_a_frame_still_lets_single_frames_through() {
        let mut link = Bottleneck::new(8_000_000, 100);
        assert!(link.admit(0, 1000).is_some());
        assert!(link.admit(500_000, 1000).is_none());
        assert!(link.admit(1_000_000, 1000).is_some());
    }

    /// 64 bytes at 3 Gbit/s are 170 2/3 ns: a million frames take exactly as long as their bits.
    #[test]
    fn divisions_lose_nothing() {
        let mut link = Bottleneck::new(3_000_000_000, u64::MAX);
        let mut sent_ns = 0;
        for _ in 0..1_000_000 {
            sent_ns = link.admit(0, 64).expect("there is room").sent_ns;
        }
        assert_eq!(sent_ns, 64 * 8 * 1_000_000 / 3);
    }
}
