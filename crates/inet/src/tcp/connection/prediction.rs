//! Header prediction (Van Jacobson's): the segment that is expected next, of a connection on which nothing is wrong.
//!
//! Nearly all segments of a transfer bring the data expected next, or an acknowledgement, in order and without a gap. The steps
//! of the RFC (`input`) would let them pass one after the other; a few comparisons show that, and what remains to be done is
//! done at once. Whatever differs in anything takes all the steps.
//!
//! Rule: a segment that is predicted leaves the connection as the steps would have. `tests/all/fast_paths` plays random
//! games with and without prediction and compares the frames.

use exos_wire::tcp::TcpFlags;

use crate::tcp::connection::Connection;
use crate::tcp::shared::context::Context;
use crate::tcp::values::ecn::Ecn;
use crate::tcp::values::event::EventSet;
use crate::tcp::values::segment::Segment;
use crate::tcp::values::state::State;

impl Connection {
    /// No step of `input` would object to it, and those that are left out would change nothing.
    #[inline]
    pub(in crate::tcp) fn predicts(&self, seg: &Segment<'_>) -> bool {
        let Some(stamp) = seg.options.timestamps else {
            return false;
        };
        self.state == State::Established
            && self.receiver.predicts(seg, stamp.value)
            && self.sender.predicts(seg)
            && seg.flags.0 & !TcpFlags::PSH.0 == TcpFlags::ACK.0
            && seg.ecn == Ecn::NotEct
            && seg.options.sack.is_empty()
    }

    /// Take it in.
    #[inline]
    pub(in crate::tcp) fn take_predicted(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) {
        self.liveness.heard(cx.now);
        if let Some(stamp) = seg.options.timestamps {
            self.receiver.stamped(seg.seq, stamp.value);
        }
        if self.sender.take_predicted(seg, cx).data {
            self.tell(EventSet::ACKNOWLEDGED);
        }
        if !seg.payload.is_empty() {
            let taken =
                self.receiver
                    .take_predicted(seg, self.sender.agreed(), self.sender.rtt(), cx);
            self.note_taken(taken, cx);
        }
    }
}
