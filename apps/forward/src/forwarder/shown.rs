//! Frames that were shown before they are handled, and what each was found to be.

use crate::flow::Key;
use crate::packets::endpoint::Endpoint;
use crate::packets::packet::Packet;

/// Whom a packet with ports is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A listener's: the flow is found by client and listener, and their hash.
    Listener(Key, u32),
    /// A flow's with this server, found by the end that the server sends to: a port of ours, or the client.
    Server(usize, Endpoint),
    /// The stack's.
    Nobody,
}

/// A frame that was shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// Where it lies, and how long it is.
    pub(super) at: (usize, usize),
    pub(super) packet: Packet,
    pub(super) whose: Whose,
}

/// Frames that were shown, in order.
#[derive(Debug, Default)]
pub(super) struct Prefetch {
    pub(super) shown: Vec<Shown>,
    /// The first that was not handled.
    next: usize,
    /// All have been read: the next one that is shown begins another batch.
    is_read: bool,
}

impl Prefetch {
    pub(super) fn show(&mut self, shown: Shown) {
        if std::mem::take(&mut self.is_read) {
            self.shown.clear();
        }
        self.shown.push(shown);
    }

    /// All that are to be shown have been: forgets those of the batch before, where none were.
    pub(super) fn begin(&mut self) {
        if std::mem::replace(&mut self.is_read, true) {
            self.shown.clear();
        }
        self.next = 0;
    }

    /// What a frame was found to be, if it was shown.
    #[inline]
    pub(super) fn take(&mut self, frame: &[u8]) -> Option<(Packet, Whose)> {
        let shown = self.shown.get(self.next)?;
        if shown.at != place_of(frame) {
            return None;
        }
        self.next += 1;
        Some((shown.packet, shown.whose))
    }
}

#[inline]
pub(super) fn place_of(frame: &[u8]) -> (usize, usize) {
    (frame.as_ptr().addr(), frame.len())
}
