//! How long calls wait: `SO_RCVTIMEO` and `SO_SNDTIMEO`, with the numbers of either width of time (socket(7)).

use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::Found;
use crate::system::*;

impl Found {
    /// Seconds and microseconds.
    pub(super) fn timeout(self, option: i32) -> [i64; 2] {
        let ms = i64::from(self.timeout_ms(option).load(Ordering::Relaxed));
        [ms / 1000, ms % 1000 * 1000]
    }

    pub(super) fn set_timeout(self, option: i32, value: &[u8]) -> Result<(), i32> {
        let word = |at: usize| {
            let bytes = value.get(at..at + 8).ok_or(EINVAL)?;
            Ok::<_, i32>(i64::from_ne_bytes(bytes.try_into().expect("eight")))
        };
        let (seconds, micros) = (word(0)?, word(8)?);
        if !(0..1_000_000).contains(&micros) {
            return Err(EDOM);
        }
        let ms = seconds
            .saturating_mul(1000)
            .saturating_add((micros + 999) / 1000);
        let ms = ms.clamp(0, u32::MAX.into()) as u32;
        self.timeout_ms(option).store(ms, Ordering::Relaxed);
        Ok(())
    }

    fn timeout_ms(self, option: i32) -> &'static AtomicU32 {
        match option {
            SO_RCVTIMEO | SO_RCVTIMEO_NEW => &self.socket().receive_timeout,
            _ => &self.socket().send_timeout,
        }
    }
}
