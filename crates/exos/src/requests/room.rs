//! Room for connections, which the kernel's part and the stack have together: of all ([`layout::ROOM`]), and of each peer
//! ([`layout::peer`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use exos_filter::handler::web::layout::{self, peer};
use exos_inet::tcp::{Flow, SharedRoom};

use super::memory::Memory;

/// In the memory that both have.
#[derive(Debug)]
pub(super) struct Room {
    memory: Arc<Memory>,
    peers: Option<PeerRoom>,
}

impl Room {
    /// For a stack with this many connections. They have room, even where that makes more than the limit.
    pub(super) fn new(memory: Arc<Memory>, open: usize, peers: Option<PeerRoom>) -> Self {
        memory.word(layout::ROOM).fetch_sub(open as u64, Relaxed);
        Self { memory, peers }
    }
}

impl SharedRoom for Room {
    fn take(&self) -> bool {
        let one = |room: u64| (room as i64 > 0).then(|| room - 1);
        let word = self.memory.word(layout::ROOM);
        word.fetch_update(Relaxed, Relaxed, one).is_ok()
    }

    fn give_back(&self, count: usize) {
        self.memory
            .word(layout::ROOM)
            .fetch_add(count as u64, Relaxed);
    }

    fn taken_on_is_over(&self, flow: &Flow) {
        if let Some(peers) = &self.peers {
            peers.leave(flow.remote().ip(), false);
        }
    }
}

/// How many connections each peer has, an IPv4 address or an IPv6 network of 64 bits: the kernel's part and the program count them
/// together. Peers whose word is another's are the program's alone, and are not counted together with any in the kernel.
#[derive(Clone, Debug)]
pub struct PeerRoom {
    memory: Arc<Memory>,
    key: u64,
    most: u64,
}

/// Whether a peer may have one connection more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may: it is counted with those that the kernel's part has.
    Counted,
    /// It may, and its connections are the program's to count; the kernel's part has none of it, and begins none.
    Beside,
    /// It has as many as it may.
    Refused,
}

impl PeerRoom {
    /// With this many of each.
    pub(super) fn new(memory: Arc<Memory>, key: u64, most: u32) -> Self {
        let most = u64::from(most).min(peer::MOST);
        Self { memory, key, most }
    }

    /// A connection of the program with a peer, of whose connections this many are the program's to count. To be called by one at a time for
    /// each peer.
    pub fn admit(&self, ip: IpAddr, beside: u32) -> Admission {
        use Admission::*;
        let (at, tag) = self.word_of(ip);
        let word = self.memory.word(at);
        let mut before = word.load(Relaxed);
        loop {
            let (counted, others) = counts(before);
            let (after, admission) = match counted {
                0 if others == 0 => (tag << peer::TAG_SHIFT | 1, Counted),
                1.. if before >> peer::TAG_SHIFT == tag => match counted < self.most {
                    true => (before + 1, Counted),
                    false => return Refused,
                },
                _ if u64::from(beside) < self.most && others < peer::MOST => {
                    (before + (1 << peer::BESIDE_SHIFT), Beside)
                }
                _ => return Refused,
            };
            match word.compare_exchange_weak(before, after, Relaxed, Relaxed) {
                Ok(_) => return admission,
                Err(now) => before = now,
            }
        }
    }

    /// A connection of a peer is over that was admitted as one of the program's to count, or not.
    pub fn leave(&self, ip: IpAddr, is_beside: bool) {
        let (at, _) = self.word_of(ip);
        let one = if is_beside {
            1 << peer::BESIDE_SHIFT
        } else {
            1
        };
        self.memory.word(at).fetch_sub(one, Relaxed);
    }

    fn word_of(&self, ip: IpAddr) -> (u64, u64) {
        layout::peer_of(self.key, layout::ends(ip, ip))
    }
}

/// How many connections a word counts, and how many of others.
fn counts(word: u64) -> (u64, u64) {
    let others = word >> peer::BESIDE_SHIFT;
    (word & peer::MOST, others & peer::MOST)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Where the kernel's part has taken more than there was, for a moment, there is none.
    #[test]
    fn the_last_is_had_once() {
        let words = (0..=layout::ROOM / 8).map(|_| 0.into());
        let memory = Arc::new(Memory::Plain(words.collect()));
        memory.set(layout::ROOM, 3);
        let room = Room::new(memory, 1, None);
        assert_eq!([(); 3].map(|()| room.take()), [true, true, false]);
        room.give_back(1);
        room.memory.word(layout::ROOM).fetch_sub(2, Relaxed);
        assert!(!room.take());
        room.give_back(2);
        assert!(room.take());
    }

    /// Peers that have one word among them: each has as many as it may, however they come and go, and the first of them the word.
    #[test]
    fn each_peer_has_as_many_as_it_may() {
        const MOST: u32 = 3;
        let words = (0..layout::ENTRIES / 8).map(|_| 0.into());
        let memory = Arc::new(Memory::Plain(words.collect()));
        let room = PeerRoom::new(memory.clone(), 0x5851_f42d_4c95_7f2d, MOST);
        let addresses = (0..1 << 20).map(|n| IpAddr::from((0x0a00_0000_u32 + n).to_be_bytes()));
        let first = room.word_of([10, 0, 0, 0].into()).0;
        let peers = addresses.filter(|ip| room.word_of(*ip).0 == first).take(3);
        let peers: Vec<IpAddr> = peers.collect();
        let tags: HashSet<u64> = peers.iter().map(|ip| room.word_of(*ip).1).collect();
        assert_eq!(tags.len(), 3, "they are told apart");
        // Of each, how many are counted, and how many beside.
        let mut has = [[0_u32; 2]; 3];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (number, comes) = ((state >> 33) as usize % 3, state >> 62 != 0);
            let (ip, [counted, beside]) = (peers[number], &mut has[number]);
            if comes {
                match room.admit(ip, *beside) {
                    Admission::Counted => *counted += 1,
                    Admission::Beside => *beside += 1,
                    Admission::Refused => assert_eq!(*counted + *beside, MOST),
                }
            } else if *counted + *beside > 0 {
                let is_beside = *beside > 0;
                *if is_beside { beside } else { counted } -= 1;
                room.leave(ip, is_beside);
            }
            let [counted, beside] = has[number];
            assert!(counted == 0 || beside == 0, "never both");
            assert!(counted + beside <= MOST);
            let sum = |of: usize| u64::from(has.iter().map(|it| it[of]).sum::<u32>());
            assert_eq!(counts(memory.get(first)), (sum(0), sum(1)));
        }
    }
}
