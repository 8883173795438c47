//! The path's MTU: what routers report, black holes that nobody reports, and trying larger again
//! (RFC 1191, RFC 8201, RFC 4821).
//!
//! A connection begins with what the handshake allows, and keeps state here only once that was too
//! much. Then `mss` is what is believed to pass, and there are three ways on:
//!
//! - **A report** ([`shrink_segments`](Sender::shrink_segments)) is believed as far as it may be:
//!   never below a floor, and only for numbers in flight. After [`PATH_MTU_LIFETIME`] it is doubted.
//! - **A black hole**: full segments are sent again and again without an answer, and nobody says why.
//!   After [`BLACK_HOLE_RETRIES`] timeouts they become as short as every path carries. What looked like
//!   one may have been an outage, so larger ones are tried soon.
//! - **A probe** is a segment of new data, longer than `mss`. Acknowledged, its size is what passes; sent
//!   again, in pieces, it does not. First the full size is tried, then the middle between what passes
//!   and what does not, until they are close together.
//!
//! A lost probe counts as a loss like any other and costs the congestion window its share; with probes
//! seconds and minutes apart this is not worth an exception (RFC 4821 §7.6.1 allows one).

use exos_wire::SeqNumber;

use crate::limits::{
    BLACK_HOLE_MSS_V4, BLACK_HOLE_RETRIES, BLACK_HOLE_RETRIES_MORE, MSS_DEFAULT_V6,
    MSS_PATH_MIN_V4, PATH_MTU_LIFETIME, PATH_MTU_PROBE_INTERVAL,
};
use crate::tcp::sending::path_mtu::PathMtu;
use crate::tcp::sending::piece::Piece;
use crate::tcp::sending::sender::{Sender, Syn, TIMESTAMPS_BYTES};
use crate::tcp::shared::context::Context;
use crate::time::Instant;

impl Sender {
    /// A router says that segments of more than `mss` bytes, options included, do not pass: what is
    /// in flight is cut again and sent again. False when that is no news.
    pub(in crate::tcp) fn shrink_segments(&mut self, now: Instant, mss: u16, ipv6: bool) -> bool {
        if self.syn != Syn::Acknowledged {
            // A SYN again is as short as can be, and the peer's own limit is not known yet.
            return false;
        }
        let least = if ipv6 {
            MSS_DEFAULT_V6
        } else {
            MSS_PATH_MIN_V4
        };
        let mss = self.payload_of(mss.max(least));
        if mss >= self.mss {
            return self.probe_was_reported(now, mss);
        }
        self.use_smaller(mss, now + PATH_MTU_LIFETIME);
        // No congestion: the window stays as it is.
        if self.flight() > 0 {
            self.loss.board.mark_all_lost();
        }
        true
    }

    /// A segment's payload within `mss`.
    fn payload_of(&self, mss: u16) -> u16 {
        let options = if self.agreed.timestamps {
            TIMESTAMPS_BYTES
        } else {
            0
        };
        mss.saturating_sub(options)
    }

    /// A report about a probe: what it says is larger than what is used already.
    fn probe_was_reported(&mut self, now: Instant, mss: u16) -> bool {
        let Some(path) = self.mtu.as_mut().filter(|p| p.probe.is_some()) else {
            return false;
        };
        // Whatever passes of the rest will be found in time; the probe itself is repeated as lost.
        path.too_big = path.too_big.min(mss.saturating_add(1)).max(self.mss + 1);
        path.probe_at = now + PATH_MTU_PROBE_INTERVAL;
        false
    }

    fn use_smaller(&mut self, mss: u16, probe_at: Instant) {
        let full = self.mss;
        let path = self.mtu.get_or_insert_with(|| {
            Box::new(PathMtu {
                full,
                too_big: full + 1,
                probe_at,
                probe: None,
            })
        });
        path.search_from(probe_at);
        self.mss = mss;
    }

    /// The retransmission timer ran out for data, for the `retries`th time in a row: perhaps the
    /// segments are too long for somebody who does not say so.
    pub(in crate::tcp) fn suspect_black_hole(&mut self, ipv6: bool, cx: &mut Context<'_>) {
        if self.retries < BLACK_HOLE_RETRIES || self.flight() < u32::from(self.mss) {
            return;
        }
        let least = self.retries >= BLACK_HOLE_RETRIES + BLACK_HOLE_RETRIES_MORE;
        let mss = self.payload_of(match (ipv6, least) {
            (true, _) => MSS_DEFAULT_V6,
            (false, false) => BLACK_HOLE_MSS_V4,
            (false, true) => MSS_PATH_MIN_V4,
        });
        if mss >= self.mss {
            return;
        }
        cx.counters.tcp_black_holes += 1;
        self.use_smaller(mss, cx.now + PATH_MTU_PROBE_INTERVAL);
    }

    /// New data in a segment longer than what is known to pass, if it is time for one and the windows
    /// have room for it and for enough behind it to tell a loss by.
    #[cold]
    pub(super) fn poll_mtu_probe(
        &mut self,
        now: Instant,
        (usable, available): (u32, u32),
        mss_now: u16,
    ) -> Option<Piece> {
        // With blocks that wait to leave it would be longer than it says.
        let reports = mss_now < self.mss;
        let path = self.mtu.as_mut()?;
        if reports || path.probe.is_some() || now < path.probe_at || self.loss.is_repairing() {
            return None;
        }
        let Some(size) = path.next_size(self.mss) else {
            path.search_from(now + PATH_MTU_LIFETIME);
            return None;
        };
        let room = u32::from(size) + 3 * u32::from(self.mss);
        if usable < room || available < room {
            return None;
        }
        let seq = self.snd_max;
        path.probe = Some((seq, seq + u32::from(size)));
        let start = (seq - self.data_start()) as usize;
        let mut piece = self.piece(now, seq, start..start + usize::from(size), false);
        piece.mss = Some(size);
        Some(piece)
    }

    /// Something from `start` to `end` is sent again: a probe among it did not pass.
    #[cold]
    pub(in crate::tcp) fn note_probe_lost(
        &mut self,
        now: Instant,
        start: SeqNumber,
        end: SeqNumber,
    ) {
        let Some(path) = &mut self.mtu else { return };
        if let Some((first, behind)) = path.probe
            && start.lt(behind)
            && end.gt(first)
        {
            path.probe = None;
            path.too_big = path.too_big.min((behind - first) as u16);
            path.probe_at = now + PATH_MTU_PROBE_INTERVAL;
        }
    }

    /// Everything before `snd_una` has arrived: a probe among it has passed.
    #[cold]
    pub(in crate::tcp) fn note_probe_passed(&mut self, now: Instant) {
        let una = self.snd_una;
        let Some(path) = &mut self.mtu else { return };
        let Some((first, behind)) = path.probe.filter(|p| p.1.le(una)) else {
            return;
        };
        path.probe = None;
        path.probe_at = now;
        self.mss = self.mss.max((behind - first) as u16);
        if self.mss >= path.full {
            self.mtu = None;
        }
    }

    /// The longest payload that the handshake allows; `mss` is what the path is believed to carry of it.
    pub fn full_mss(&self) -> u16 {
        self.mtu.as_ref().map_or(self.mss, |path| path.full)
    }
}
