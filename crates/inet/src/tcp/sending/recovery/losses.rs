//! What was sent, and what of it is lost: the parts of this folder together. `judgement` says what becomes of it.

mod judgement;

use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

use crate::tcp::congestion::algorithm::Congestion;
use crate::tcp::sending::numbers::Numbers;
use crate::tcp::sending::recovery::duplicates::Duplicates;
use crate::tcp::sending::recovery::episode::{Episode, Phase};
use crate::tcp::sending::recovery::rack::Rack;
use crate::tcp::sending::recovery::repair::Repair;
use crate::tcp::sending::recovery::scoreboard::board::Scoreboard;
use crate::tcp::sending::recovery::scoreboard::record::{Delivered, Departure, Sent};
use crate::tcp::sending::recovery::tail_probe::TailProbe;
use crate::time::Instant;

/// What the timer is set for.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(in crate::tcp) enum Timer {
    /// The retransmission timeout, or probing a closed window.
    Retransmit,
    /// A tail loss probe (RFC 8985 §7).
    Tail,
    /// Reordering has had its time (RFC 8985 §6.2).
    Reorder,
}

/// What an acknowledgement says of the data in flight.
pub(in crate::tcp) struct Reported {
    pub delivered: Delivered,
    /// What the peer had received before (RFC 2883).
    pub twice: Option<(SeqNumber, SeqNumber)>,
    /// SND.UNA has moved.
    pub advanced: bool,
}

/// What follows from it.
pub(in crate::tcp) struct Followed {
    /// When to look for losses again, if nothing more arrives.
    pub look_again: Option<Instant>,
    /// The left edge advanced, and nothing more was lost.
    pub safe: bool,
}

/// What is in flight, and what of it is lost.
#[derive(Debug)]
pub(in crate::tcp) struct Losses {
    board: Scoreboard,
    rack: Rack,
    episode: Episode,
    duplicates: Duplicates,
    tail: TailProbe,
    /// The first lost segment leaves whatever the windows say: the timer ran out.
    forced: bool,
    timer: Timer,
}

impl Losses {
    /// Nothing is in flight; the next number is `una`.
    pub const fn new(una: SeqNumber) -> Self {
        Self {
            board: Scoreboard::new(una),
            rack: Rack::new(),
            episode: Episode::new(una),
            duplicates: Duplicates::new(),
            tail: TailProbe::new(),
            forced: false,
            timer: Timer::Retransmit,
        }
    }

    /// As [`Self::new`], but with the memory of the scoreboard; false when that is more than is worth keeping.
    pub fn renew(&mut self) -> bool {
        let una = SeqNumber(0);
        let board = std::mem::replace(&mut self.board, Scoreboard::new(una));
        *self = Self {
            board,
            ..Self::new(una)
        };
        self.board.renew(una)
    }

    /// What [`Self::new`] makes of this number, of one that is as new.
    pub fn begin(&mut self, una: SeqNumber) {
        self.board.renew(una);
        self.episode = Episode::new(una);
    }

    /// Give back the memory for more than a few segments.
    pub fn slim(&mut self) {
        self.board.slim();
    }

    // What leaves.

    /// New numbers from `seq` up to `end` leave.
    #[inline]
    pub fn sent(&mut self, seq: SeqNumber, end: SeqNumber, departure: Departure) {
        self.board.sent(end, departure);
        self.episode.left((end - seq) as u32, None);
    }

    /// These numbers leave again.
    pub fn sent_again(&mut self, seq: SeqNumber, end: SeqNumber, departure: Departure) {
        self.board.sent_again(seq, end, departure);
        self.episode.left((end - seq) as u32, Some(departure.at));
    }

    /// The first number leaves again, into a closed window, which may have thrown it away; perhaps with a FIN, asked for since it
    /// left first, which reaches beyond `max`.
    pub fn probed(&mut self, at: Numbers, end: SeqNumber, departure: Departure) {
        self.first_is_ambiguous();
        if end.gt(at.max) {
            self.board.sent(end, departure);
        }
        self.episode.left((end - at.una) as u32, Some(departure.at));
    }

    /// What acknowledges the first segment measures nothing.
    pub fn first_is_ambiguous(&mut self) {
        self.board.first_is_ambiguous();
    }

    /// What the timer asked for has left.
    pub fn forced_left(&mut self) {
        self.forced = false;
    }

    /// CWR, where `new_data` is the first to leave since the window was reduced for a mark (RFC 3168 §6.1.2).
    #[inline]
    pub fn say_slowed_down(&mut self, new_data: bool) -> u8 {
        if new_data && self.episode.has_slowed_down() {
            self.episode.said_slowed_down();
            return TcpFlags::CWR.0;
        }
        0
    }

    /// The timer is set for this.
    #[inline]
    pub fn set_timer(&mut self, timer: Timer) {
        self.timer = timer;
    }

    // What is acknowledged.

    /// A predicted acknowledgement: what was sent once has arrived in order, and nothing is wrong. It may bring an `echo`. Gives the
    /// last segment of it, and when the first had left; `None`, and nothing is changed, when more must be asked.
    #[inline]
    pub fn take_predicted(
        &mut self,
        ack: SeqNumber,
        echo: u32,
        at: Numbers,
    ) -> Option<(Sent, Instant)> {
        let calm = self.episode.phase() == Phase::Open && !self.tail.is_out();
        let older = |left: Instant| at.agreed.is_older(echo, left);
        let mistaken = |repair: &Repair| repair.is_mistaken(older);
        if !calm || self.episode.repair().is_some_and(mistaken) {
            return None;
        }
        self.board.acknowledge_in_order(ack, self.rack.newest())
    }

    /// Such a segment has arrived, so long after it left; all before `una` has.
    #[inline]
    pub fn predicted_arrived(&mut self, last: &Sent, rtt_us: u32, una: SeqNumber) {
        self.rack.arrived(last, rtt_us);
        self.episode.keep_up(una);
    }

    /// What RACK goes by. `echo_is_older` tells of something that left at a time whether the timestamp echoed is older.
    pub fn note_arrivals(
        &mut self,
        delivered: &Delivered,
        now: Instant,
        least_rtt_us: u32,
        echo_is_older: impl Fn(Instant) -> bool,
    ) {
        self.rack
            .update(delivered, now, least_rtt_us, echo_is_older);
    }

    /// An acknowledgement delivered `bytes`, or repairing begins without one: what may leave follows.
    pub fn pace_repair(&mut self, bytes: u32, mss: u32, safe: bool, congestion: &Congestion) {
        let (pipe, threshold) = (self.in_flight(), congestion.window());
        self.episode.pace(bytes, pipe, threshold, mss, safe);
    }

    /// The probe of the tail.
    pub fn tail_probe(&mut self) -> &mut TailProbe {
        &mut self.tail
    }

    /// All that the peer does not have is lost: the window was shut, or the segments were too long.
    pub fn all_lost(&mut self) {
        self.board.mark_all_lost();
    }

    // What is known.

    /// Bytes in the network, as far as can be told (RFC 6675 §4).
    #[inline]
    pub fn in_flight(&self) -> u32 {
        let left_network = self.duplicates.left_network();
        self.board.in_flight().saturating_sub(left_network)
    }

    /// What was sent.
    #[inline]
    pub fn board(&self) -> &Scoreboard {
        &self.board
    }

    /// Something has to leave before new data.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.board.lost_bytes() > 0 || self.tail.is_due()
    }

    /// What is lost waits for nothing: the retransmission timer asks for it.
    pub fn is_forced(&self) -> bool {
        self.forced
    }

    /// A tail loss probe is to leave.
    pub fn tail_probe_is_due(&self) -> bool {
        self.tail.is_due()
    }

    /// RFC 8985 §7.2: nothing but an acknowledgement is waited for, so that a tail loss probe may be of use.
    #[inline]
    pub fn may_probe_tail(&self) -> bool {
        self.episode.phase() == Phase::Open && !self.tail.is_out() && self.board.sacked_bytes() == 0
    }

    /// Losses are being repaired.
    #[inline]
    pub fn is_repairing(&self) -> bool {
        self.episode.is_repairing()
    }

    /// Nothing was lost lately.
    #[inline]
    pub fn is_calm(&self) -> bool {
        self.episode.repair().is_none() && self.board.lost_bytes() == 0
    }

    /// What may be in flight follows from the repair, not from the algorithm.
    #[inline]
    pub fn leads(&self, congestion: &Congestion) -> bool {
        self.episode.leads(congestion)
    }

    /// The congestion window as it is in force.
    #[inline]
    pub fn window(&self, congestion: &Congestion) -> u32 {
        self.episode.window(congestion)
    }

    /// Reordering was seen on this path.
    #[inline]
    pub fn reordering_seen(&self) -> bool {
        self.rack.reordering_seen()
    }

    /// What the timer is set for.
    #[inline]
    pub fn timer(&self) -> Timer {
        self.timer
    }
}
