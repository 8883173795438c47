//! How many connections there may be on all cores together.
//!
//! A stack knows how many it may have. What all may have is divided among them and lent again as it is needed: a core
//! has its connections and some room for more, and gives back what it does not need. So there are never more than the
//! limit, and no core looks at what others have when a connection comes. What idle cores keep ready is not to be had
//! by a busy one: with several cores, SYNs may go unanswered from three quarters of the limit on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use exos_inet::tcp::Tcp;

/// What no core has.
struct Room {
    free: AtomicUsize,
    /// The room that a core wants to have ready.
    ready: usize,
}

/// One core's part.
pub(in crate::serve) struct Lease {
    room: Arc<Room>,
    held: usize,
}

impl Lease {
    /// This many connections for this many cores, which are not more; each has room for some from the beginning, for ever.
    pub(in crate::serve) fn make(connections: usize, cores: usize) -> Vec<Lease> {
        let ready = match cores {
            1 => connections,
            _ => (connections / (8 * cores)).max(1), // Twice that may lie idle on a core.
        };
        let room = Arc::new(Room {
            free: AtomicUsize::new(connections - cores * ready),
            ready,
        });
        let lease = || Lease {
            room: room.clone(),
            held: ready,
        };
        (0..cores).map(|_| lease()).collect()
    }

    /// The stack may have what is lent so far.
    pub(in crate::serve) fn begin(&self, tcp: &mut Tcp) {
        tcp.set_connections_max(self.held);
    }

    /// Borrows what the stack is going to need, or gives back what it does not; two comparisons when it has neither too
    /// little nor too much.
    #[inline]
    pub(in crate::serve) fn renew(&mut self, tcp: &mut Tcp) {
        let held = self.settle(tcp.connections());
        if let Some(held) = held {
            tcp.set_connections_max(held);
        }
    }

    /// How many this core may have from now on with `open` of them, if that is another number than before.
    fn settle(&mut self, open: usize) -> Option<usize> {
        let (idle, ready) = (self.held.saturating_sub(open), self.room.ready);
        if idle > 2 * ready {
            let back = idle - ready;
            self.held -= back;
            self.room.free.fetch_add(back, Ordering::Relaxed);
        } else if idle <= ready / 2 && self.room.free.load(Ordering::Relaxed) > 0 {
            let wanted = ready - idle;
            let take = |free: usize| Some(free - free.min(wanted));
            let before = self
                .room
                .free
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            self.held += before.map_or(0, |before| before.min(wanted));
        } else {
            return None;
        }
        Some(self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(lease: &mut Lease, open: usize) -> usize {
        lease.settle(open);
        lease.held
    }

    #[test]
    fn one_core_has_all() {
        for count in [1, 7, 1 << 20] {
            let mut leases = Lease::make(count, 1);
            assert_eq!((leases[0].held, leases[0].settle(0)), (count, None));
            assert_eq!(leases[0].settle(count), None);
        }
    }

    /// Connections come and go anyhow: together the cores never may have more than the limit, and a busy one among idle
    /// ones gets three quarters of it.
    #[test]
    fn all_together_never_exceed_the_limit() {
        for (count, cores) in [(2, 2), (10, 2), (1000, 2), (1000, 7), (100_000, 64)] {
            let mut leases = Lease::make(count, cores);
            let mut open = vec![0_usize; cores];
            let mut state = 1_u64;
            for _ in 0..100_000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let (core, comes) = ((state >> 33) as usize % cores, state >> 62 != 0);
                let most = settled(&mut leases[core], open[core]);
                open[core] = if comes {
                    most.min(open[core] + 1)
                } else {
                    open[core] / 2
                };
                let held: usize = leases.iter().map(|lease| lease.held).sum();
                let free = leases[0].room.free.load(Ordering::Relaxed);
                assert_eq!(held + free, count, "nothing is lost");
            }
            for _ in 0..2 {
                open.fill(0);
                leases
                    .iter_mut()
                    .for_each(|lease| lease.held = settled(lease, 0));
            }
            let mut busy = 0;
            while settled(&mut leases[0], busy) > busy {
                busy = leases[0].held;
            }
            assert!(
                busy >= count * 3 / 4 || count < 8 * cores,
                "{busy} of {count}"
            );
        }
    }
}
