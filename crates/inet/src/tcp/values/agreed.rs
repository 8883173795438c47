//! What both sides of a connection have agreed on.

use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::time::Instant;

/// What both sides have agreed on with their SYNs; until the peer's has come, what we wish.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Agreed {
    /// Timestamps (RFC 7323 §3).
    pub timestamps: bool,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Window scaling (RFC 7323 §2).
    pub scaling: bool,
    /// What the clock of our timestamps is ahead of time by.
    pub ts_offset: u32,
}

impl Agreed {
    /// What the clock of our timestamps shows: milliseconds from a start of its own for each connection.
    #[inline]
    pub fn clock(self, now: Instant) -> u32 {
        (now.millis() as u32).wrapping_add(self.ts_offset)
    }

    /// A timestamp that is echoed, if one is, was older than what left at this time.
    #[inline]
    pub fn is_older(self, echo: u32, left: Instant) -> bool {
        self.timestamps && echo != 0 && (echo.wrapping_sub(self.clock(left)) as i32) < 0
    }

    /// To or from another stack.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Agreed {
            scaling: flag,
            timestamps: flag,
            sack: flag,
            ecn: flag,
            ts_offset: clock,
        } by_hand {} stay {});
        Ok(())
    }
}
