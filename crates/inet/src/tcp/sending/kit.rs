//! What a connection needs memory for once it sends: the places of its send queue and its scoreboard.
//!
//! A connection at rest has none of it, and a short one would ask the allocator four times for some hundred
//! bytes and give them back a moment later. So an ended connection leaves its kit to the next that is accepted.
//! At most [`KITS_KEPT`] are kept; a connection that rests gives its own back to the allocator (`Connection::rest`),
//! so no more than these are ever idle.
//!
//! Invariant: what is in a kit is empty, and as new but for its memory.

use exos_buf::Aggregate;

use crate::limits::{KIT_PLACES_MAX, KITS_KEPT};
use crate::tcp::connection::Connection;
use crate::tcp::loss::Loss;

struct Kit {
    send: Aggregate,
    loss: Box<Loss>,
}

/// The kits that are kept.
#[derive(Default)]
pub(in crate::tcp) struct Kits(Vec<Kit>);

impl Kits {
    /// Give a connection that has just been made what an ended one left.
    #[inline]
    pub fn furnish(&mut self, c: &mut Connection) {
        if let Some(kit) = self.0.pop() {
            debug_assert!(c.send.is_empty());
            c.send = kit.send;
            c.loss.furnish(kit.loss);
        }
    }

    /// A connection has ended, and will be dropped: keep what is of use.
    #[inline]
    pub fn retire(&mut self, c: &mut Connection) {
        if self.0.len() >= KITS_KEPT {
            return;
        }
        let Some(loss) = c.loss.retire() else { return };
        let mut send = std::mem::take(&mut c.send);
        send.clear();
        if send.capacity() <= KIT_PLACES_MAX {
            self.0.push(Kit { send, loss });
        }
    }
}
