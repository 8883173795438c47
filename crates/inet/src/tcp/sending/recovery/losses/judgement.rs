//! What acknowledgements and time say of what was sent: what arrived, what is lost, which repair was a mistake.

use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

use crate::tcp::congestion::control::Cause;
use crate::tcp::sending::acknowledgement::Acknowledgement;
use crate::tcp::sending::numbers::{Numbers, PathState};
use crate::tcp::sending::recovery::episode::Phase;
use crate::tcp::sending::recovery::losses::{Followed, Losses, Reported};
use crate::tcp::sending::recovery::rack::Conditions;
use crate::tcp::sending::recovery::repair::Repair;
use crate::tcp::shared::context::Context;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

impl Losses {
    // Acknowledgements.

    /// Take in what an acknowledgement says of the data in flight.
    pub fn deliver(&mut self, seg: &Segment<'_>, before: Acknowledgement, at: Numbers) -> Reported {
        let advanced = at.una.gt(before.una);
        let mut delivered = self.board.delivery();
        if advanced {
            self.board.acknowledge(at.una, &mut delivered);
        }
        let blocks = seg.options.sack.as_slice();
        let twice = match blocks.is_empty() {
            true => None,
            false => duplicate_block(seg, at.agreed.sack),
        };
        if at.agreed.sack {
            for &(left, right) in &blocks[usize::from(twice.is_some())..] {
                self.board.sack(left, right, &mut delivered);
            }
        } else if advanced {
            let repairing = self.is_repairing();
            self.duplicates
                .advanced(&self.board, repairing, at.mss, &mut delivered);
        } else if before.duplicate {
            self.duplicates.came(&self.board, at.mss, &mut delivered);
        }
        Reported {
            delivered,
            twice,
            advanced,
        }
    }

    /// It says nothing, and nothing is wrong.
    pub fn is_nothing(&self, reported: &Reported) -> bool {
        reported.delivered.bytes == 0
            && reported.twice.is_none()
            && !reported.advanced
            && self.episode.phase() == Phase::Open
    }

    /// See to what follows: probes and episodes that end, mistakes, losses, marks.
    pub fn follow(
        &mut self,
        seg: &Segment<'_>,
        reported: &Reported,
        path: &mut PathState<'_>,
        cx: &mut Context<'_>,
    ) -> Followed {
        let Reported {
            twice, advanced, ..
        } = *reported;
        if self.tail.acknowledged(seg, twice.is_some(), advanced)
            && self.episode.phase() == Phase::Open
        {
            self.begin_episode(Phase::Marked, Cause::Loss, path, cx.now);
        }
        if twice.is_some() || self.episode.repair().is_some() {
            self.look_for_mistakes(seg, twice, advanced, path, cx);
        }
        let lost_before = self.board.lost_bytes();
        self.end_episode(path, cx);
        let look_again = self.notice_losses(reported, path, cx);
        if advanced && self.hears_of_congestion(seg, path.at) {
            cx.counters.tcp_congestion_heeded += 1;
            self.begin_episode(Phase::Marked, Cause::Mark, path, cx.now);
        }
        Followed {
            look_again,
            safe: advanced && self.board.lost_bytes() <= lost_before,
        }
    }

    /// Nothing is in flight, and the peer reports a duplicate: what was sent again last was sent in vain.
    pub fn take_late_report(
        &mut self,
        seg: &Segment<'_>,
        path: &mut PathState<'_>,
        cx: &mut Context<'_>,
    ) {
        let twice = duplicate_block(seg, path.at.agreed.sack);
        if twice.is_some() {
            self.look_for_mistakes(seg, twice, false, path, cx);
        }
    }

    /// What was sent again in vain is taken back: the peer had it (RFC 2883), or the first sending is
    /// what it answers (RFC 3522).
    fn look_for_mistakes(
        &mut self,
        seg: &Segment<'_>,
        twice: Option<(SeqNumber, SeqNumber)>,
        advanced: bool,
        path: &mut PathState<'_>,
        cx: &mut Context<'_>,
    ) {
        if let Some((_, right)) = twice {
            cx.counters.tcp_duplicates_reported += 1;
            let repair = self.episode.repair_mut();
            if repair.is_some_and(|repair| repair.was_in_vain(right)) {
                self.rack.was_too_quick(path.at.una, path.at.max);
            }
        }
        let echo = seg.options.timestamps.map_or(0, |stamp| stamp.echo);
        let older = |left: Instant| advanced && path.at.agreed.is_older(echo, left);
        let mistaken = |repair: &Repair| repair.is_mistaken(older);
        if self.episode.repair().is_some_and(mistaken) {
            // RFC 8985 §6.2, step 3: the records, sent twice by now, do not tell that it was reordering.
            self.rack.saw_reordering();
            self.take_back(path, cx);
            self.episode.end();
            path.rtt.progressed();
        }
    }

    /// Nothing was lost in this episode. The window grows back to what it was, unless a mark reduced it.
    fn take_back(&mut self, path: &mut PathState<'_>, cx: &mut Context<'_>) {
        cx.counters.tcp_recoveries_undone += 1;
        self.board.forget_losses();
        if self.episode.repair_mut().is_some_and(Repair::undo) {
            path.congestion.get_mut().undo();
        }
    }

    /// All that was out when the episode began may be acknowledged.
    fn end_episode(&mut self, path: &mut PathState<'_>, cx: &mut Context<'_>) {
        let una = path.at.una;
        if self.episode.phase() == Phase::Open {
            self.episode.keep_up(una);
            return;
        }
        // RFC 6582 §3.2, step 3 (a full acknowledgement); RFC 8985 §6.2.
        if !self.episode.is_over(una) {
            return;
        }
        if self.episode.phase() == Phase::Recovery {
            if self.episode.repair().is_some_and(Repair::is_untouched) {
                // What was taken for lost arrived before it could be sent again: it was late, and no
                // D-SACK will ever say so (the idea of RFC 3522; Linux takes this back too).
                self.take_back(path, cx);
            } else {
                cx.counters.tcp_recoveries += 1;
                self.rack.recovered();
            }
        }
        self.episode.end();
    }

    /// The peer says that a router marked a packet of ours (RFC 3168 §6.1.2): true when that is news, once for
    /// each window.
    fn hears_of_congestion(&self, seg: &Segment<'_>, at: Numbers) -> bool {
        at.agreed.ecn
            && seg.has(TcpFlags::ECE)
            && self.episode.phase() == Phase::Open
            && self.episode.is_behind(at.una)
    }

    /// What is lost now? Begins an episode if need be. Gives when to look again.
    fn notice_losses(
        &mut self,
        reported: &Reported,
        path: &mut PathState<'_>,
        cx: &mut Context<'_>,
    ) -> Option<Instant> {
        if self.board.outstanding() == 0 {
            return None;
        }
        let again = match path.at.agreed.sack {
            true => self.detect(path, cx),
            false => {
                self.notice_by_duplicates(reported, path.at);
                None
            }
        };
        self.begin_recovery(path, cx);
        again
    }

    /// RFC 8985 §6.2, step 5. Gives when reordering will have had its time.
    fn detect(&mut self, path: &PathState<'_>, cx: &mut Context<'_>) -> Option<Instant> {
        let conditions = self.conditions(path);
        let newest = self.rack.newest()?;
        let allowed = self.rack.allowed(conditions);
        let found = self.board.detect_lost(newest, allowed, cx.now);
        cx.counters.tcp_bytes_lost += u64::from(found.lost);
        found.next
    }

    /// RFC 5681 §3.2 with RFC 6582's guard against repairing the same loss twice; a partial
    /// acknowledgement tells of the next hole.
    fn notice_by_duplicates(&mut self, reported: &Reported, at: Numbers) {
        let third = self.duplicates.are_enough() && self.episode.is_behind(at.una);
        let partial = self.episode.phase() == Phase::Recovery
            && reported.advanced
            && reported.delivered.bytes > 0;
        if (self.episode.may_begin() && third) || partial {
            self.board.mark_first_lost(at.mss);
        }
    }

    /// What RACK's patience depends on.
    fn conditions(&self, path: &PathState<'_>) -> Conditions {
        Conditions {
            in_recovery: self.is_repairing(),
            sacked: self.board.sacked_bytes(),
            mss: path.at.mss,
            least_rtt_us: path.rtt.least_us(),
            srtt_us: path.rtt.smoothed_us(),
        }
    }

    /// Repair, if something is lost and is not being repaired. True when that begins.
    fn begin_recovery(&mut self, path: &mut PathState<'_>, cx: &mut Context<'_>) -> bool {
        let begins = self.board.lost_bytes() > 0 && self.episode.may_begin();
        if begins {
            cx.counters.tcp_fast_retransmits += 1;
            self.begin_episode(Phase::Recovery, Cause::Loss, path, cx.now);
        }
        begins
    }

    fn begin_episode(
        &mut self,
        phase: Phase,
        cause: Cause,
        path: &mut PathState<'_>,
        now: Instant,
    ) {
        let outstanding = self.board.outstanding();
        self.episode.begin(phase, cause, outstanding, path, now);
        self.tail.forget();
    }

    // Time.

    /// Reordering has had its time: what has not arrived is lost. Gives when to look again.
    pub fn reordering_timed_out(
        &mut self,
        path: &mut PathState<'_>,
        cx: &mut Context<'_>,
    ) -> Option<Instant> {
        let again = self.detect(path, cx);
        if self.begin_recovery(path, cx) {
            // Without an acknowledgement one segment may leave at once.
            self.pace_repair(0, path.at.mss, false, path.congestion);
        }
        again
    }

    /// The retransmission timer ran out for data in flight, the `first` time or again (RFC 6298 §5.4 to §5.6).
    pub fn timed_out(&mut self, first: bool, path: &mut PathState<'_>, cx: &mut Context<'_>) {
        let again = !first || self.episode.phase() == Phase::Timeout;
        let conditions = self.conditions(path);
        if self.board.was_reneged() {
            cx.counters.tcp_sacks_reneged += 1;
            self.board.forget_sacks();
        }
        let cause = Cause::Timeout { again };
        if !again || self.episode.repair().is_none_or(Repair::is_undone) {
            self.begin_episode(Phase::Timeout, cause, path, cx.now);
        } else {
            path.slow_down(cx.now, cause, self.board.outstanding());
        }
        let allowed = self.rack.allowed(conditions);
        let lost = if path.at.agreed.sack {
            self.board.mark_lost_at_timeout(allowed, cx.now)
        } else {
            let before = self.board.lost_bytes();
            self.board.mark_all_lost();
            self.board.lost_bytes().saturating_sub(before)
        };
        cx.counters.tcp_bytes_lost += u64::from(lost);
        self.forced = true;
        self.episode.timed_out(path.at.max);
        self.duplicates.forget();
        self.tail.forget();
        self.tail.withdraw();
    }
}

/// The first of the blocks, if it repeats what has arrived before (RFC 2883 §4).
fn duplicate_block(seg: &Segment<'_>, sack: bool) -> Option<(SeqNumber, SeqNumber)> {
    let blocks = seg.options.sack.as_slice();
    let &(left, right) = blocks.first()?;
    let below = left.lt(seg.ack);
    let inside = blocks
        .get(1)
        .is_some_and(|second| left.ge(second.0) && right.le(second.1));
    (sack && left.lt(right) && (below || inside)).then_some((left, right))
}
