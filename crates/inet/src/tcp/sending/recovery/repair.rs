//! One episode of repairing: how much may leave while it lasts (proportional rate reduction,
//! RFC 6937 with the safe bound of its revision), and what is needed to take it back (RFC 4015).

use exos_wire::SeqNumber;

use crate::time::Instant;

/// An episode from the first loss, mark or timeout until all that was out then is acknowledged.
#[derive(Debug)]
pub struct Repair {
    /// What was out when it began: `RecoverFS`.
    flight: u32,
    /// Delivered, and sent, since.
    delivered: u32,
    sent: u32,
    /// The first number not acknowledged when it began.
    from: SeqNumber,
    /// When something was first sent again.
    first_again_at: Option<Instant>,
    /// Segments sent again, less those that the peer had already.
    again: u32,
    /// None of them was counted back yet.
    untouched: bool,
    /// A router's mark began it: whatever becomes of losses, the window stays reduced.
    marked: bool,
    /// It was taken back already. What is still reported as a duplicate says how long to wait next time.
    undone: bool,
}

impl Repair {
    /// An episode that begins with `flight` bytes out.
    pub const fn new(from: SeqNumber, flight: u32) -> Self {
        Self {
            flight,
            delivered: 0,
            sent: 0,
            from,
            first_again_at: None,
            again: 0,
            untouched: true,
            marked: false,
            undone: false,
        }
    }

    /// Whether a router's mark began it.
    pub const fn after_mark(mut self, marked: bool) -> Self {
        self.marked = marked;
        self
    }

    /// `bytes` have left.
    pub const fn left(&mut self, bytes: u32) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Something has been sent again.
    pub fn left_again(&mut self, now: Instant) {
        self.first_again_at.get_or_insert(now);
        self.again += 1;
        self.untouched = false;
    }

    /// The peer had what was sent again up to `right`. True when this is of the episode.
    pub fn was_in_vain(&mut self, right: SeqNumber) -> bool {
        let ours = right.gt(self.from);
        if ours && !self.undone {
            self.again = self.again.saturating_sub(1);
        }
        ours
    }

    /// Take it back. True when the window is to grow back, too: it was not done before, and no mark reduced it.
    pub fn undo(&mut self) -> bool {
        !std::mem::replace(&mut self.undone, true) && !self.marked
    }

    /// It was taken back.
    pub const fn is_undone(&self) -> bool {
        self.undone
    }

    /// Nothing has been sent again yet.
    pub const fn is_untouched(&self) -> bool {
        self.untouched
    }

    /// All that was sent again was there, or what was sent first has arrived (RFC 3522).
    #[inline]
    pub fn is_mistaken(&self, echo_is_older: impl Fn(Instant) -> bool) -> bool {
        let original = self.first_again_at.is_some_and(echo_is_older);
        !self.undone && (original || (self.again == 0 && !self.untouched))
    }

    /// The window after an acknowledgement that delivered `bytes`, with `pipe` still in flight.
    /// `safe` says that the left edge advanced and nothing more was lost.
    pub fn window(&mut self, bytes: u32, pipe: u32, threshold: u32, mss: u32, safe: bool) -> u32 {
        self.delivered = self.delivered.saturating_add(bytes);
        let mut may_send = if pipe > threshold {
            // Proportional: as delivered is to flight, so is sent to the threshold.
            let share = u64::from(self.delivered) * u64::from(threshold);
            let share = share.div_ceil(u64::from(self.flight.max(1)));
            u32::try_from(share)
                .unwrap_or(u32::MAX)
                .saturating_sub(self.sent)
        } else {
            // Slow start back to the threshold where that is safe, else packet conservation.
            let bound = self.delivered.saturating_sub(self.sent).max(bytes);
            let bound = bound + if safe { mss } else { 0 };
            bound.min(threshold - pipe)
        };
        if self.sent == 0 {
            // The first lost segment leaves in any case.
            may_send = may_send.max(mss);
        }
        pipe + may_send
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937 §4's first example in its gist: 20 segments, one lost, the window goes to 14: of the
    /// segments that arrive, 14 in 20 let one out.
    #[test]
    fn what_leaves_is_in_proportion_to_what_arrives() {
        let mss = 1000;
        let mut repair = Repair::new(SeqNumber(0), 20 * mss);
        let (mut pipe, mut sent) = (16 * mss, 0);
        for _ in 0..13 {
            pipe -= mss;
            let window = repair.window(mss, pipe, 14 * mss, mss, false);
            while pipe + mss <= window {
                repair.left(mss);
                (pipe, sent) = (pipe + mss, sent + 1);
            }
        }
        assert!((9..=12).contains(&sent), "{sent}");
        assert!(pipe <= 14 * mss);
    }

    #[test]
    fn after_many_losses_it_grows_back_to_the_threshold_only_when_that_is_safe() {
        let mss = 1000;
        let mut repair = Repair::new(SeqNumber(0), 20 * mss);
        repair.left(mss);
        assert_eq!(repair.window(mss, 4 * mss, 14 * mss, mss, false), 5 * mss);
        assert_eq!(repair.window(mss, 4 * mss, 14 * mss, mss, true), 6 * mss);
    }
}
