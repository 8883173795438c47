//! How many bytes a reader waits for: `SO_RCVLOWAT` (socket(7)).
//!
//! A call that waits returns with that many, or with as many as it has room for; poll(2) and its like tell of no fewer. The end and an
//! error are told at once. Of datagrams it is kept and changes nothing, as by the kernel.

use std::sync::atomic::Ordering;

use super::value::number_at;
use crate::memory::LOW_WATER_MAX;
use crate::process::Found;

impl Found {
    /// As many bytes as are worth being told of.
    pub fn low_water(self) -> u32 {
        self.socket().low_water.load(Ordering::Relaxed).max(1)
    }

    /// Sets it. What could never be there at once is cut to half of what waits for the program at most (`tcp_set_rcvlowat`).
    pub fn set_low_water(self, value: &[u8]) -> Result<(), i32> {
        let socket = self.socket();
        let number = number_at(value, 0)?;
        let wanted = u32::try_from(number).unwrap_or(i32::MAX as u32);
        let most = match socket.receive_buffer.load(Ordering::Relaxed) {
            _ if self.is_datagrams() => u32::MAX,
            0 => LOW_WATER_MAX,
            buffer => LOW_WATER_MAX.min(buffer / 2),
        };
        socket.low_water.store(wanted.min(most), Ordering::Relaxed);
        Ok(())
    }
}
