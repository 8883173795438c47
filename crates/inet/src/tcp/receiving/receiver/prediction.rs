//! Header prediction, as far as the receiver is concerned (`connection::prediction`): the data that is expected next, where nothing
//! waits beyond a gap.

use crate::tcp::receiving::receiver::{Receiver, Taken};
use crate::tcp::sending::rtt::Rtt;
use crate::tcp::shared::context::Context;
use crate::tcp::values::agreed::Agreed;
use crate::tcp::values::segment::Segment;

impl Receiver {
    /// It is expected next, not from the past, fits the window, and nothing waits beyond a gap.
    #[inline]
    pub fn predicts(&self, seg: &Segment<'_>, stamp: u32) -> bool {
        let room = self.window_left() as usize;
        seg.seq == self.rcv_nxt
            && seg.payload.len() <= room
            && stamp.wrapping_sub(self.ts_recent) as i32 >= 0
            && !self.discarding
            && self.peer_fin.is_none()
            && !self.window.is_under_pressure()
            && self.is_in_order()
    }

    /// Take in the data of a segment that is predicted.
    #[inline]
    pub fn take_predicted(
        &mut self,
        seg: &Segment<'_>,
        agreed: Agreed,
        rtt: &Rtt,
        cx: &mut Context<'_>,
    ) -> Taken {
        let len = self.note_arrival(seg, seg.payload.len(), rtt, cx.now);
        let skipping = self.queue.skipping();
        self.queue.append(seg.payload, cx.memory);
        let advanced = seg.payload.len() as u32;
        self.advance(seg, (advanced, len), (false, skipping), agreed, cx)
    }
}
