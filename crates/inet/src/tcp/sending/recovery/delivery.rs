//! What acknowledgements deliver, and what they say is lost.

use exos_wire::SeqNumber;

use crate::limits::DUPLICATE_ACKS;
use crate::tcp::congestion::control::Cause;
use crate::tcp::sending::acknowledgement::Acknowledgement;
use crate::tcp::sending::loss::flight::Phase;
use crate::tcp::sending::loss::rack::Conditions;
use crate::tcp::sending::loss::scoreboard::record::Delivered;
use crate::tcp::sending::sender::Sender;
use crate::tcp::shared::context::Context;
use crate::tcp::values::segment::Segment;
use crate::time::Instant;

impl Sender {
    /// The congestion window as it is in force.
    #[inline]
    pub(in crate::tcp) fn congestion_window(&self) -> u32 {
        match self.loss.phase {
            Phase::Recovery | Phase::Marked if !self.congestion.owns_recovery() => self.loss.window,
            _ => self.congestion.window(),
        }
    }

    /// The first of the blocks repeats what has arrived before (RFC 2883 §4).
    fn duplicate_block(&self, seg: &Segment<'_>) -> Option<(SeqNumber, SeqNumber)> {
        let blocks = seg.options.sack.as_slice();
        let &(left, right) = blocks.first()?;
        let below = left.lt(seg.ack);
        let inside = blocks
            .get(1)
            .is_some_and(|second| left.ge(second.0) && right.le(second.1));
        (self.agreed.sack && left.lt(right) && (below || inside)).then_some((left, right))
    }

    /// Take in what an acknowledgement says of the data in flight; `snd_una` has been moved already.
    pub(in crate::tcp) fn take_acknowledgement(
        &mut self,
        seg: &Segment<'_>,
        before: Acknowledgement,
        cx: &mut Context<'_>,
    ) {
        let advanced = self.snd_una.gt(before.una);
        let mut d = self.loss.board.delivery();
        if advanced {
            self.loss.board.acknowledge(self.snd_una, &mut d);
        }
        let blocks = seg.options.sack.as_slice();
        let twice = if blocks.is_empty() {
            None
        } else {
            self.duplicate_block(seg)
        };
        if self.agreed.sack {
            for &(left, right) in &blocks[usize::from(twice.is_some())..] {
                self.loss.board.sack(left, right, &mut d);
            }
        } else {
            self.count_duplicates(before.duplicate, advanced, &mut d);
        }
        if d.bytes == 0 && twice.is_none() && !advanced && self.loss.phase == Phase::Open {
            return;
        }
        let rtt_us = self.measure(seg, advanced, &d, cx.now);
        self.end_tail_probe(seg, twice.is_some(), advanced, cx);
        if twice.is_some() || self.loss.repair.is_some() {
            self.look_for_mistakes(seg, twice, advanced, cx);
        }
        let lost_before = self.loss.board.lost_bytes();
        self.end_episode(cx);
        let again = self.notice_losses(advanced, &d, cx);
        if advanced && self.hears_of_congestion(seg) {
            cx.counters.tcp_congestion_heeded += 1;
            self.begin_episode(Phase::Marked, Cause::Mark, cx);
        }
        let safe = advanced && self.loss.board.lost_bytes() <= lost_before;
        self.tell_congestion(d.bytes, before, rtt_us, safe, cx.now);
        self.set_timer_after_ack(advanced, again, cx.now);
    }

    /// Nothing is in flight, and the peer reports a duplicate: what was sent again last was sent in vain.
    pub(in crate::tcp) fn take_late_report(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) {
        let twice = self.duplicate_block(seg);
        if twice.is_none() || !self.loss.is_at_work() {
            return;
        }
        self.look_for_mistakes(seg, twice, false, cx);
    }

    /// A peer without SACK: each duplicate tells of one segment that has left the network.
    fn count_duplicates(&mut self, duplicate: bool, advanced: bool, d: &mut Delivered) {
        let mss = u32::from(self.mss);
        let loss = &mut self.loss;
        if advanced {
            // What the duplicates told of is part of what is now acknowledged, a segment each; the one
            // that filled the gap apart.
            let known = d.bytes.saturating_sub(mss).min(loss.left_network);
            loss.left_network -= known;
            d.bytes -= known;
            loss.duplicates = 0;
            if !loss.is_repairing() || loss.board.outstanding() == 0 {
                loss.left_network = 0;
            }
        } else if duplicate {
            loss.duplicates = loss.duplicates.saturating_add(1);
            let most = loss.board.in_flight().saturating_sub(mss);
            let more = mss.min(most.saturating_sub(loss.left_network));
            loss.left_network += more;
            d.bytes += more;
        }
    }

    /// RFC 8985 §7.4: was the loss of the tail repaired by the probe, so that nobody was told of it?
    fn end_tail_probe(
        &mut self,
        seg: &Segment<'_>,
        twice: bool,
        advanced: bool,
        cx: &mut Context<'_>,
    ) {
        let Some((end, again)) = self.loss.tail else {
            return;
        };
        if seg.ack.lt(end) {
            return;
        }
        if !again || twice {
            // New data needs no judgement; a D-SACK says that both arrived.
            self.loss.tail = None;
        } else if seg.ack.gt(end) {
            self.loss.tail = None;
            if self.loss.phase == Phase::Open {
                self.begin_episode(Phase::Marked, Cause::Loss, cx);
            }
        } else if !advanced && seg.is_empty() {
            // The second acknowledgement of the same number: that of the other copy.
            self.loss.tail = None;
        }
    }

    /// What is lost now? Begins an episode if need be. Gives when to look again.
    pub(super) fn notice_losses(
        &mut self,
        advanced: bool,
        d: &Delivered,
        cx: &mut Context<'_>,
    ) -> Option<Instant> {
        if self.loss.board.outstanding() == 0 {
            return None;
        }
        let again = if self.agreed.sack {
            self.detect(cx)
        } else {
            self.notice_by_duplicates(advanced, d);
            None
        };
        if self.loss.board.lost_bytes() > 0
            && matches!(self.loss.phase, Phase::Open | Phase::Marked)
        {
            cx.counters.tcp_fast_retransmits += 1;
            self.begin_episode(Phase::Recovery, Cause::Loss, cx);
        }
        again
    }

    /// What RACK's patience depends on.
    pub(super) fn conditions(&self) -> Conditions {
        Conditions {
            in_recovery: self.loss.is_repairing(),
            sacked: self.loss.board.sacked_bytes(),
            mss: u32::from(self.mss),
            least_rtt_us: self.rtt.least_us(),
            srtt_us: self.rtt.smoothed_us(),
        }
    }

    /// RFC 8985 §6.2, step 5. Gives when reordering will have had its time.
    pub(super) fn detect(&mut self, cx: &mut Context<'_>) -> Option<Instant> {
        let conditions = self.conditions();
        let loss = &mut *self.loss;
        let newest = loss.rack.newest()?;
        let allowed = loss.rack.allowed(conditions);
        let found = loss.board.detect_lost(newest, allowed, cx.now);
        cx.counters.tcp_bytes_lost += u64::from(found.lost);
        found.next
    }

    /// RFC 5681 §3.2 with RFC 6582's guard against repairing the same loss twice; a partial
    /// acknowledgement tells of the next hole.
    fn notice_by_duplicates(&mut self, advanced: bool, d: &Delivered) {
        let mss = u32::from(self.mss);
        let loss = &mut self.loss;
        let third = loss.duplicates >= DUPLICATE_ACKS && self.snd_una.gt(loss.recover);
        let partial = loss.phase == Phase::Recovery && advanced && d.bytes > 0;
        let begins = matches!(loss.phase, Phase::Open | Phase::Marked) && third;
        if begins || partial {
            loss.board.mark_first_lost(mss);
        }
    }
}
