//! The interface of an algorithm, and what it is told.

use core::fmt;

use crate::time::{Duration, Instant};

/// What an acknowledgement tells an algorithm.
#[derive(Copy, Clone, Debug)]
pub struct Ack {
    /// The time.
    pub now: Instant,
    /// Bytes that it newly says have arrived, cumulatively or selectively.
    pub bytes: u32,
    /// Bytes in flight after it: sent, not acknowledged, not believed lost.
    pub in_flight: u32,
    /// Bytes that were in flight before it.
    pub in_flight_before: u32,
    /// The maximum segment size.
    pub mss: u32,
    /// What it acknowledges was sent while the window was full: only then may the window grow
    /// (RFC 7661's concern).
    pub limited: bool,
    /// All that was in flight when the round began is acknowledged: a round trip is over.
    pub round_ended: bool,
    /// A round trip measured with it, in microseconds.
    pub rtt_us: Option<u32>,
    /// The smoothed round trip in microseconds, zero before the first.
    pub srtt_us: u32,
    /// The least round trip in microseconds, zero before the first.
    pub least_rtt_us: u32,
    /// How fast data arrived over the flight that it ends.
    pub rate: Option<DeliveryRate>,
    /// A loss is being repaired. Only those that own recovery hear of such acknowledgements.
    pub in_recovery: bool,
}

/// A sample of the delivery rate.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct DeliveryRate {
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// The program had too little to send: the path may be faster.
    pub app_limited: bool,
}

/// Why an algorithm must slow down.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Cause {
    /// A segment is believed lost (RFC 8985, RFC 5681 §3.2).
    Loss,
    /// A router marked a packet (RFC 3168 §6.1.2).
    Mark,
    /// The retransmission timer ran out; `again` for what has been sent again already.
    Timeout {
        /// It is not the first time for this data: the threshold stays (RFC 5681 §3.1).
        again: bool,
    },
}

/// A congestion event.
#[derive(Copy, Clone, Debug)]
pub struct Congested {
    /// The time.
    pub now: Instant,
    /// Why.
    pub cause: Cause,
    /// Bytes in flight just before, those believed lost included.
    pub in_flight: u32,
    /// The maximum segment size.
    pub mss: u32,
}

/// The interface of an algorithm.
pub trait CongestionControl: Send + Sync + fmt::Debug {
    /// Its name, as programs and people write it.
    fn name(&self) -> &'static str;

    /// How many bytes may be in flight.
    fn window(&self) -> u32;

    /// The slow-start threshold, where it has one.
    fn threshold(&self) -> u32 {
        u32::MAX
    }

    /// Bytes a second at which data leaves; `None` leaves it to the window (`pacing`).
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// True when the window holds while losses are repaired too. Others are led through recovery by
    /// proportional rate reduction (RFC 6937) towards their threshold.
    fn owns_recovery(&self) -> bool {
        false
    }

    /// New data was acknowledged.
    fn on_ack(&mut self, ack: &Ack);

    /// Congestion: take note, reduce the window.
    fn on_congestion(&mut self, event: &Congested);

    /// The last congestion event was none: everything had arrived (RFC 4015).
    fn undo(&mut self);

    /// Nothing was in flight for `idle`, several of the retransmission timeouts `rto`.
    fn on_idle(&mut self, idle: Duration, rto: Duration, mss: u32) {
        let _ = (idle, rto, mss);
    }

    /// The connection goes on in another stack, whose clock shows `now`: earlier times mean nothing.
    fn taken_over(&mut self, now: Instant) {
        let _ = now;
    }

    /// What is worth remembering when the connection goes on in another process: four numbers that mean
    /// something to the same algorithm there ([`Self::restore`]).
    fn save(&self) -> [u64; 4] {
        [self.window().into(), 0, 0, 0]
    }

    /// Go on from what [`Self::save`] gave, where another program's word is all that is known of the numbers:
    /// any must do no harm. Does nothing: the connection begins with the initial window again.
    fn restore(&mut self, saved: [u64; 4], mss: u32) {
        let _ = (saved, mss);
    }

    /// The handshake has shown the maximum segment size; nothing was sent yet.
    fn set_mss(&mut self, mss: u32) {
        let _ = mss;
    }

    /// The first SYN or SYN-ACK was lost: begin with one segment (RFC 6298 §5.7, RFC 5681 §3.1).
    fn handshake_lost(&mut self, mss: u32) {
        let _ = mss;
    }
}
