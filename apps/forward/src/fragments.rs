//! Packets that come in fragments: only the first has ports, and the others follow it.
//!
//! The first fragment is forwarded like any packet. What was done with it is remembered by what all fragments of the
//! packet have in common, and done with the others too; nothing is put together, since the checksum is in the first
//! fragment and follows without the rest. The identification is made anew for each packet, because those of two clients
//! may be the same, and come from one address now. A fragment that comes before its first waits for it, as a copy.
//!
//! Both are bounded, and in the order of age: under pressure the oldest goes. Overlaps are left as they are to who puts the packet
//! together.

use std::collections::VecDeque;

use exos_inet::Instant;

use crate::endpoint::Address;
use crate::limits::{FRAGMENTED_MAX, FRAGMENTED_TIME, FRAGMENTS_HELD_MAX, FRAGMENTS_HELD_TIME};
use crate::packet::{Packet, Transport, Upper};
use crate::reach::Reach;
use crate::rewrite::Rewrite;
use crate::traffic::Course;

/// What all fragments of a packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Whole {
    src: Address,
    dst: Address,
    transport: Transport,
    ident: u32,
}

struct Known {
    whole: Whole,
    since: Instant,
    /// Of which the ports are not used again.
    onward: Onward,
}

/// How a packet goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onward {
    /// Its new ends.
    pub rewrite: Rewrite,
    /// Whose it is.
    pub course: Course,
    /// What is done with it: it may keep its ends, whatever the rewrite says of them.
    pub reach: Reach,
}

/// A fragment that waits for its first one.
struct Held {
    whole: Whole,
    since: Instant,
    frame: Vec<u8>,
}

/// The packets of which the first fragment was forwarded, and the fragments that wait for theirs.
#[derive(Default)]
pub struct Fragments {
    known: VecDeque<Known>,
    held: VecDeque<Held>,
    idents: u32,
}

impl Fragments {
    /// The first fragment of a packet goes on so. Gives the same with a new identification.
    pub fn begin(&mut self, now: Instant, packet: &Packet, mut onward: Onward) -> Onward {
        let Some(whole) = whole(packet) else {
            return onward;
        };
        self.idents = self.idents.wrapping_add(1);
        onward.rewrite.ident = self.idents;
        // The same first fragment again: what follows belongs to this one.
        self.known.retain(|known| known.whole != whole);
        if self.known.len() == FRAGMENTED_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Known {
            whole,
            since: now,
            onward,
        });
        onward
    }

    /// How a later fragment goes on.
    pub fn follow(&self, now: Instant, packet: &Packet) -> Option<Onward> {
        let whole = whole(packet)?;
        let known = self.known.iter().rev().find(|known| known.whole == whole)?;
        (now - known.since <= FRAGMENTED_TIME).then_some(known.onward)
    }

    /// Keeps a later fragment until its first one comes. Gives how many were given up: the oldest, where there are too many, and
    /// those that have waited for too long.
    pub fn hold(&mut self, now: Instant, packet: &Packet, frame: &[u8]) -> u64 {
        let Some(whole) = whole(packet) else {
            return 1;
        };
        let mut given_up = self.give_up(now);
        if self.held.len() == FRAGMENTS_HELD_MAX {
            self.held.pop_front();
            given_up += 1;
        }
        self.held.push_back(Held {
            whole,
            since: now,
            frame: frame.to_vec(),
        });
        given_up
    }

    /// Forgets those that have waited for too long; how many.
    fn give_up(&mut self, now: Instant) -> u64 {
        let is_old = |held: &Held| now - held.since > FRAGMENTS_HELD_TIME;
        let before = self.held.len();
        while self.held.pop_front_if(|held| is_old(held)).is_some() {}
        (before - self.held.len()) as u64
    }

    /// The next of the fragments that have waited for this one, the first of their packet, in the order in which they came.
    #[inline]
    pub fn take_held(&mut self, now: Instant, first: &Packet) -> Option<Vec<u8>> {
        if self.held.is_empty() {
            return None;
        }
        let whole = whole(first)?;
        let is_its = |held: &Held| held.whole == whole && now - held.since <= FRAGMENTS_HELD_TIME;
        let at = self.held.iter().position(is_its)?;
        self.held.remove(at).map(|held| held.frame)
    }

    /// How many wait.
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

fn whole(packet: &Packet) -> Option<Whole> {
    let transport = match packet.upper {
        Upper::Transport { transport, .. } | Upper::Later(transport) => transport,
        Upper::Icmp => return None,
    };
    Some(Whole {
        src: packet.src,
        dst: packet.dst,
        transport,
        ident: packet.fragment?.ident,
    })
}
