//! Packets that come in fragments: only the first has ports, and the others follow it.
//!
//! The first fragment is forwarded like any packet. What was done with it is remembered by what all fragments of the
//! packet have in common, and done with the others too; nothing is put together, since the checksum is in the first
//! fragment and follows without the rest. The identification is made again for each packet, because those of two clients
//! may be the same, and come from one address now. A fragment that comes before its first waits for it, as a copy.
//!
//! Those that wait go on after the first has, in the order in which they came. If it does not go on, nor do they. A fragment that comes
//! twice goes on twice; a first one that does keeps its number, so that those behind it and those before it stay one packet.
//!
//! Both are bounded, and in the order of age: under pressure the oldest goes. Overlaps are left as they are to who puts the packet
//! together.

use std::collections::VecDeque;

use exos_inet::Instant;

use crate::limits::{
    FRAGMENTED_MAX, FRAGMENTED_TIME, FRAGMENTS_HELD_LEN_MAX, FRAGMENTS_HELD_MAX,
    FRAGMENTS_HELD_TIME,
};
use crate::packets::endpoint::Address;
use crate::packets::packet::{Packet, Transport, Upper};
use crate::packets::reach::Reach;
use crate::packets::rewrite::Rewrite;
use crate::packets::traffic::Course;

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

impl Known {
    /// True when the same first fragment has come once more, and goes on as before: a copy that the network made. A sender that
    /// gives another packet the same number does so later.
    fn is_again(&self, now: Instant, onward: &Onward) -> bool {
        let mut again = *onward;
        again.rewrite.ident = self.onward.rewrite.ident;
        again == self.onward && now - self.since < FRAGMENTS_HELD_TIME
    }
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
    /// Bytes of all that are held.
    held_len: usize,
    idents: u32,
}

impl Fragments {
    /// The first fragment of a packet goes on so. Gives the same with a new identification.
    pub fn begin(&mut self, now: Instant, packet: &Packet, mut onward: Onward) -> Onward {
        let Some(whole) = whole(packet) else {
            return onward;
        };
        let known = self.forget(packet);
        onward.rewrite.ident = match known {
            Some(known) if known.is_again(now, &onward) => known.onward.rewrite.ident,
            _ => {
                self.idents = self.idents.wrapping_add(1);
                self.idents
            }
        };
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

    /// What follows this first fragment does not follow it any more.
    fn forget(&mut self, first: &Packet) -> Option<Known> {
        let whole = whole(first)?;
        let at = self.known.iter().position(|known| known.whole == whole)?;
        self.known.remove(at)
    }

    /// A first fragment does not go on, nor do others of its packet: those that wait are given up. Gives how many.
    pub fn refuse(&mut self, first: &Packet) -> u64 {
        let _ = self.forget(first);
        let of_it = whole(first);
        let before = self.held.len();
        self.held.retain(|held| Some(held.whole) != of_it);
        self.held_len = self.held.iter().map(|held| held.frame.len()).sum();
        (before - self.held.len()) as u64
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
        let has_room = |held: &Self| {
            let len = held.held_len + frame.len();
            held.held.len() < FRAGMENTS_HELD_MAX && len <= FRAGMENTS_HELD_LEN_MAX
        };
        while !has_room(self) && self.take(0).is_some() {
            given_up += 1;
        }
        self.held_len += frame.len();
        self.held.push_back(Held {
            whole,
            since: now,
            frame: frame.to_vec(),
        });
        given_up
    }

    /// Gives up those that have waited for too long; how many.
    pub fn give_up(&mut self, now: Instant) -> u64 {
        let mut given_up = 0;
        while self.poll_timeout().is_some_and(|at| at <= now) {
            self.take(0);
            given_up += 1;
        }
        given_up
    }

    /// When some have waited for too long.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let oldest = self.held.front()?;
        Some(oldest.since + FRAGMENTS_HELD_TIME)
    }

    /// The next of the fragments that have waited for this one, the first of their packet, in the order in which they came.
    #[inline]
    pub fn take_held(&mut self, now: Instant, first: &Packet) -> Option<Vec<u8>> {
        if self.held.is_empty() {
            return None;
        }
        let whole = whole(first)?;
        let is_its = |held: &Held| held.whole == whole && now < held.since + FRAGMENTS_HELD_TIME;
        let at = self.held.iter().position(is_its)?;
        self.take(at)
    }

    fn take(&mut self, at: usize) -> Option<Vec<u8>> {
        let frame = self.held.remove(at)?.frame;
        self.held_len -= frame.len();
        Some(frame)
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
