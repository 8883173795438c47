//! The program's side: whether anybody watches, and the copies.

use std::time::Duration;

use exos_filter::Filter;
use exos_host::user_memory::UserMemory;
use exos_inet::Instant;
use exos_link::Link;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::layout::{
    FILTER_BYTES_MAX, MAGIC, MEMORY_WORDS, NAME, PLACES, RECORD_HEAD_WORDS, SENT_ONLY, begin, end,
    head, nature, place, place_words, sizes, text_in, word_of,
};
use exos_filter::gate::Direction;

/// How often it is asked whether watchers are there still.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A program's packets, offered to the one that may look into the process.
#[derive(Debug)]
pub(crate) struct Offer {
    memory: UserMemory,
    watches: [Watch; PLACES],
    /// Somebody watches.
    watched: bool,
    /// When the watchers were last asked for.
    looked: Instant,
    /// A packet that is looked at, where it is in pieces.
    joined: Vec<u8>,
}

/// What somebody watches.
#[derive(Debug, Default)]
struct Watch {
    /// The request that was seen last.
    request: u64,
    /// What is wanted, and how many bytes of it.
    wanted: Option<(Filter, usize)>,
    /// Words ever written.
    produced: u64,
    lost: u64,
}

impl Offer {
    /// Offers the packets of a link; `None` where there is no memory for it.
    pub(crate) fn new(link: &Link) -> Option<Self> {
        let memory = UserMemory::create(NAME, MEMORY_WORDS).ok()?;
        begin(&memory, MAGIC, link);
        Some(Self {
            memory,
            watches: Default::default(),
            watched: false,
            looked: Instant::START,
            joined: Vec::new(),
        })
    }

    /// Copies only what is sent, from now on.
    pub(crate) fn sent_only(&self) {
        self.memory.words()[head::FLAGS].fetch_or(SENT_ONLY, Relaxed);
    }

    /// Looks whether anybody watches, once a turn.
    #[inline]
    pub(crate) fn look(&mut self, now: Instant) {
        let requests = &self.memory.words()[head::REQUESTS..][..PLACES];
        let mut all = self.watches.iter().zip(requests);
        let changed = all.any(|(watch, word)| watch.request != word.load(Relaxed));
        if changed || (self.watched && now - self.looked >= LOOK_EVERY) {
            self.see_to_watchers(now);
        }
    }

    /// True when packets are to be copied.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    #[cold]
    fn see_to_watchers(&mut self, now: Instant) {
        self.looked = now;
        let words = self.memory.words();
        for (number, watch) in self.watches.iter_mut().enumerate() {
            let request = words[head::REQUESTS + number].load(Acquire);
            let is_there = self.memory.is_locked(number as u64);
            if watch.wanted.is_some() && (request != watch.request || !is_there) {
                watch.wanted = None;
                let start = head::WORDS + number * place::WORDS + place::RING;
                self.memory.discard(start..start + place::RING_WORDS);
            }
            if request != watch.request && request % 2 == 1 && is_there {
                watch.begin(place_words(words, number), request);
            }
            watch.request = request;
        }
        self.watched = self.watches.iter().any(|watch| watch.wanted.is_some());
    }

    /// Copies a packet, which may be in pieces, for all who want it.
    #[cold]
    pub(crate) fn copy(&mut self, direction: Direction, head: &[u8], body: &[&[u8]]) {
        let words = self.memory.words();
        let left_out = words[head::FLAGS].load(Relaxed) & SENT_ONLY != 0;
        if left_out && direction == Direction::In {
            return;
        }
        self.joined.clear();
        self.joined.extend_from_slice(head);
        for part in body {
            self.joined.extend_from_slice(part);
        }
        for (number, watch) in self.watches.iter_mut().enumerate() {
            watch.put(place_words(words, number), direction, &self.joined);
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        end(&self.memory);
    }
}

impl Watch {
    /// Reads what is wanted. What cannot be read is of a program of another kind, and gets nothing.
    fn begin(&mut self, place: &[AtomicU64], request: u64) {
        let len = place[place::FILTER_LEN].load(Relaxed);
        let Some(len) = usize::try_from(len).ok().filter(|l| *l <= FILTER_BYTES_MAX) else {
            return;
        };
        let text = text_in(&place[place::FILTER..][..len.div_ceil(8)]);
        let filter = match text.trim() {
            "" => Ok(Filter::everything()),
            text => Filter::parse(text),
        };
        let snaplen = place[place::SNAPLEN].load(Relaxed) as usize;
        self.wanted = filter.ok().map(|filter| (filter, snaplen));
        self.lost = 0;
        place[place::LOST].store(0, Relaxed);
        place[place::BEGAN].store(self.produced, Relaxed);
        place[place::ANSWERED].store(request, Release);
    }

    /// Puts a packet into the ring, when it is wanted.
    fn put(&mut self, place: &[AtomicU64], direction: Direction, packet: &[u8]) {
        let Some((filter, snaplen)) = &self.wanted else {
            return;
        };
        if !filter.matches(packet) {
            return;
        }
        let captured = packet.len().min(*snaplen);
        let words = RECORD_HEAD_WORDS + captured.div_ceil(8);
        let used = self
            .produced
            .wrapping_sub(place[place::CONSUMED].load(Acquire));
        // More than there is: the watcher has written nonsense, and harms itself.
        let free = (place::RING_WORDS as u64).saturating_sub(used);
        if free < words as u64 {
            self.lost += 1;
            place[place::LOST].store(self.lost, Relaxed);
            return;
        }
        let ring = &place[place::RING..];
        let head = [
            sizes(words, captured),
            nature(packet.len(), direction),
            monotonic_ns(),
            self.lost,
        ];
        let bytes = packet[..captured].chunks(8).map(word_of);
        for word in head.into_iter().chain(bytes) {
            ring[self.produced as usize % place::RING_WORDS].store(word, Relaxed);
            self.produced += 1;
        }
        place[place::PRODUCED].store(self.produced, Release);
    }
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::super::watchable;
    use super::*;
    use exos_link::{MemoryConfig, MemoryLink};
    use exos_wire::Mac;

    /// What comes by a queue of the daemon's interface is copied by the daemon.
    #[test]
    fn only_what_is_sent_is_copied_where_the_daemon_copies_the_rest() {
        let macs = [Mac([2; 6]), Mac([4; 6])];
        let [link, _other] = MemoryLink::pair(macs, MemoryConfig::default());
        let mut offer = Offer::new(&link.into()).expect("memory");
        offer.sent_only();
        let found = watchable(Some(std::process::id())).pop();
        let mut watcher = found.expect("offered").watch("", 100).expect("a place");
        offer.look(Instant::START);
        offer.copy(Direction::In, &[1; 60], &[]);
        offer.copy(Direction::Out, &[2; 40], &[&[3; 20], &[4; 20]]);
        let mut bytes = Vec::new();
        let record = watcher.take(&mut bytes).expect("sound").expect("a packet");
        assert_eq!((record.direction, record.length), (Direction::Out, 80));
        assert_eq!(bytes, [[2; 20], [2; 20], [3; 20], [4; 20]].concat());
        assert_eq!(watcher.take(&mut bytes).expect("sound"), None);
    }
}
