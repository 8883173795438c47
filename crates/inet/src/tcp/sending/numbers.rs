//! What the sender tells its parts of itself: the numbers in force, and the path.

use exos_wire::SeqNumber;

use crate::tcp::congestion::algorithm::Congestion;
use crate::tcp::congestion::control::{Cause, Congested};
use crate::tcp::sending::rtt::Rtt;
use crate::tcp::values::agreed::Agreed;
use crate::time::Instant;

/// The numbers in force.
#[derive(Copy, Clone)]
pub(in crate::tcp) struct Numbers {
    /// The first not acknowledged.
    pub una: SeqNumber,
    /// Behind the last that was sent.
    pub max: SeqNumber,
    /// The largest payload of a segment.
    pub mss: u32,
    pub agreed: Agreed,
}

/// What losses are judged by, and what hears of them.
pub(in crate::tcp) struct PathState<'a> {
    pub at: Numbers,
    pub rtt: &'a mut Rtt,
    pub congestion: &'a mut Congestion,
}

impl PathState<'_> {
    /// Tell the congestion control of congestion.
    pub fn slow_down(&mut self, now: Instant, cause: Cause, in_flight: u32) {
        self.congestion.get_mut().on_congestion(&Congested {
            now,
            cause,
            in_flight,
            mss: self.at.mss,
        });
    }
}
