//! What a connection needs memory for once it sends: the places of its send queue and its scoreboard.
//!
//! A connection at rest has none of it, and a short one would ask the allocator four times for some hundred
//! bytes and give them back a moment later. So an ended connection leaves its memory to the next that is accepted.
//! At most [`RECYCLED_KEPT`] are kept; a connection that rests gives its own back to the allocator (`Connection::rest`),
//! so no more than these are ever idle.
//!
//! Invariant: what is kept is empty, and as new but for its memory.

use exos_buf::Aggregate;

use crate::limits::{RECYCLED_KEPT, RECYCLED_PLACES_MAX};
use crate::tcp::connection::Connection;
use crate::tcp::sending::flight::InFlight;

struct Memory {
    send: Aggregate,
    flight: Box<InFlight>,
}

/// What is kept.
#[derive(Default)]
pub(in crate::tcp) struct Recycled(Vec<Memory>);

impl Recycled {
    /// Give a connection that has just been made what an ended one left.
    #[inline]
    pub fn reuse(&mut self, c: &mut Connection) {
        if let Some(memory) = self.0.pop() {
            c.sender.furnish(memory.send, memory.flight);
        }
    }

    /// A connection has ended, and will be dropped: keep what is of use.
    #[inline]
    pub fn recycle(&mut self, c: &mut Connection) {
        if self.0.len() >= RECYCLED_KEPT {
            return;
        }
        if let Some((send, flight)) = c.sender.strip()
            && send.capacity() <= RECYCLED_PLACES_MAX
        {
            self.0.push(Memory { send, flight });
        }
    }
}
