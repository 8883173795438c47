//! What is given up when the memory of a stack's connections is pressed hard.
//!
//! Data beyond a gap was acknowledged to nobody for good (RFC 2018 §8): its sender keeps it until all
//! before it has arrived. So it goes first, and the connections that hold the most of it pay first: the
//! tallest are cut down to one height, at which enough memory is free again.

use crate::counters::Counters;
use crate::tcp::shared::memory::Memory;
use crate::tcp::table::slab::Slab;
use crate::tcp::values::id::ConnectionId;

/// Before the list of those that may hold something is looked through, it has this many entries.
const TIDY_FROM: usize = 1024;

/// Connections that hold data beyond gaps: all that do, and some that did.
#[derive(Default)]
pub(in crate::tcp) struct Prunable {
    connections: Vec<ConnectionId>,
    tidy_at: usize,
}

impl Prunable {
    /// Those that hold something still, each once.
    fn tidy(&mut self, slab: &Slab) {
        self.connections.sort_unstable_by_key(|id| id.slot());
        self.connections.dedup();
        self.connections.retain(|&id| held_by(slab, id) > 0);
        self.tidy_at = (2 * self.connections.len()).max(TIDY_FROM);
    }

    /// A connection begins to hold data beyond a gap.
    pub fn note(&mut self, id: ConnectionId, slab: &Slab) {
        self.connections.push(id);
        if self.connections.len() > self.tidy_at {
            self.tidy(slab);
        }
    }

    /// Give up data beyond gaps until enough memory is free, or there is no more of it.
    #[cold]
    pub fn prune(&mut self, slab: &mut Slab, memory: &mut Memory, counters: &mut Counters) {
        self.tidy(slab);
        let mut holders: Vec<(usize, ConnectionId)> = self
            .connections
            .iter()
            .map(|&id| (held_by(slab, id), id))
            .collect();
        holders.sort_unstable_by_key(|&(held, id)| (std::cmp::Reverse(held), id.slot()));
        let height = height_for(&holders, memory.excess());
        for (_, id) in holders.into_iter().take_while(|h| h.0 > height) {
            if let Some(c) = slab.get_mut(id) {
                let pruned = c.receiver.queue_mut().prune(height, memory);
                counters.tcp_out_of_order_pruned += 1;
                counters.tcp_out_of_order_pruned_bytes += pruned as u64;
            }
        }
        memory.pruned();
    }
}

fn held_by(slab: &Slab, id: ConnectionId) -> usize {
    slab.get(id).map_or(0, |c| c.receiver.queue().held_beyond())
}

/// The height to which the tallest must be cut so that `excess` bytes go; zero where that is not
/// enough. `holders` are in falling order.
fn height_for(holders: &[(usize, ConnectionId)], excess: usize) -> usize {
    let mut total = 0;
    for (n, &(held, _)) in holders.iter().enumerate() {
        total += held;
        let next = holders.get(n + 1).map_or(0, |h| h.0);
        if let Some(left) = total.checked_sub(excess)
            && left / (n + 1) >= next
        {
            return left / (n + 1);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tallest_are_cut_to_one_height() {
        let id = ConnectionId::default();
        let holders: Vec<_> = [100, 60, 50, 10].map(|held| (held, id)).into();
        for (excess, height) in [
            (0, 100),
            (10, 90),
            (40, 60),
            (50, 55),
            (60, 50),
            (90, 40),
            (220, 0),
            (500, 0),
        ] {
            assert_eq!(height_for(&holders, excess), height, "{excess}");
        }
    }
}
