//! Whether the loop looks for packets again at once, or waits as every program does.
//!
//! Waking takes ten times as long as forwarding a packet does. So while traffic comes, a forwarder that may
//! ([`Idle::Poll`]) does not sleep between packets; without traffic for [`LOOK_ON_TIME`] it sleeps like any other, and costs
//! nothing.

use exos_inet::Instant;
use exos_program::Idle;

use crate::limits::LOOK_ON_TIME;

/// What decides it.
#[derive(Debug)]
pub struct BusyPoll {
    idle: Idle,
    /// When packets last came.
    last: Option<Instant>,
}

impl BusyPoll {
    /// For a program that does this while it has nothing to do.
    pub fn new(idle: Idle) -> Self {
        Self { idle, last: None }
    }

    /// A turn took this many packets in.
    pub fn note(&mut self, now: Instant, packets: usize) {
        if packets > 0 {
            self.last = Some(now);
        }
    }

    /// True when the next turn is to come at once.
    pub fn goes_on(&self, now: Instant) -> bool {
        let is_near = |last: Instant| now - last < LOOK_ON_TIME;
        self.idle == Idle::Poll && self.last.is_some_and(is_near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_millis(5000);

    #[test]
    fn it_looks_on_while_packets_come_and_some_time_longer() {
        let mut busy_poll = BusyPoll::new(Idle::Poll);
        assert!(!busy_poll.goes_on(NOW), "nothing came yet");
        busy_poll.note(NOW, 0);
        assert!(!busy_poll.goes_on(NOW));
        busy_poll.note(NOW, 1);
        let end = NOW + LOOK_ON_TIME;
        busy_poll.note(end, 0);
        assert!(busy_poll.goes_on(NOW) && !busy_poll.goes_on(end));
        busy_poll.note(end, 64);
        assert!(busy_poll.goes_on(end));
    }

    #[test]
    fn one_that_sleeps_never_does() {
        let mut busy_poll = BusyPoll::new(Idle::Sleep);
        busy_poll.note(NOW, 64);
        assert!(!busy_poll.goes_on(NOW));
    }
}
