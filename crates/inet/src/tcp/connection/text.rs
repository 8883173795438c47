//! What a segment brings: data and FIN (RFC 9293 §3.10.7.4, seventh and eighth). The receiver takes them in
//! (`receiving::arrival`), here is what follows for the connection.

use exos_wire::tcp::TcpFlags;

use crate::tcp::connection::Connection;
use crate::tcp::receiving::receiver::Taken;
use crate::tcp::shared::context::{Context, Outcome};
use crate::tcp::values::event::EventSet;
use crate::tcp::values::segment::Segment;
use crate::tcp::values::state::{Action, Event, State};

impl Connection {
    /// Seventh: process the segment text.
    pub(in crate::tcp) fn handle_text(&mut self, seg: &Segment<'_>, cx: &mut Context<'_>) {
        if seg.payload.is_empty() || !self.state.can_receive() {
            return;
        }
        let taken = self
            .receiver
            .take(seg, self.sender.agreed(), self.sender.rtt(), cx);
        self.note_taken(taken, cx);
    }

    /// Data has been taken in.
    #[inline]
    pub(in crate::tcp) fn note_taken(&mut self, taken: Taken, cx: &mut Context<'_>) {
        if taken == Taken::Nothing {
            return;
        }
        if self.state == State::FinWait2 && !self.receiver.is_discarding() {
            // The peer of a half-closed connection is at work.
            self.wait_for_fin(cx.now);
        }
        if taken == Taken::Readable {
            self.tell(EventSet::READABLE);
        }
    }

    /// Eighth: check the FIN bit.
    pub(in crate::tcp) fn handle_fin(
        &mut self,
        seg: &Segment<'_>,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let receives = self.state.can_receive();
        if seg.has(TcpFlags::FIN) {
            let sack = self.sender.agreed().sack;
            self.receiver.note_fin(seg, receives, sack);
        }
        if !receives || !self.receiver.fin_is_next() {
            return Outcome::Keep;
        }
        let Some(action) = self.follow(Event::Fin) else {
            return Outcome::Keep;
        };
        self.receiver.take_fin();
        self.tell(EventSet::FINISHED);
        if action == Action::SendAckStartTimeWait {
            cx.counters.tcp_closed += 1;
            return Outcome::TimeWait;
        }
        // Soon: a program that now finishes too answers with one segment.
        self.receiver.acks_mut().owe_now();
        Outcome::Keep
    }
}
