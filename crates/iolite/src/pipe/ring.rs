//! Descriptors one way between two processes, in memory that both write: neither believes what it finds there, and each keeps its own
//! position to itself.
//!
//! ```text
//! word  0    the producer sleeps              8   the consumer sleeps      (lines of 64 bytes of their own)
//!      16    head: descriptors taken         24   the producer has closed the pipe
//!      64 .. slots of 8 words:
//!            0  turn: this slot's descriptor is that of position `turn - 1`
//!            1  kind (8 bits), pool of the pipe (8), buffer (32)
//!            2  generation
//!            3  start (32), length (32)
//!            4  up to 32 bytes, where these are all
//! ```
//!
//! There is no tail: a slot says itself that it is there, so a message that fits into one is one cache line that goes from core to core.
//! The turn is written behind the rest.

use crate::error::{Error, Result};
use crate::limits::INLINE_LEN_MAX;
use crate::memory::Region;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

const PRODUCER_SLEEPS: usize = 0;
const CONSUMER_SLEEPS: usize = 8;
const HEAD: usize = 16;
const CLOSED: usize = 24;
const SLOTS: usize = 64;
const SLOT: usize = 8;

const KIND_BUFFER: u64 = 1;
const KIND_INLINE: u64 = 2;

/// What goes through a pipe: bytes by reference, or few bytes themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Descriptor {
    Buffer(Reference),
    Inline {
        len: u32,
        bytes: [u8; INLINE_LEN_MAX],
    },
}

/// Bytes of a buffer of one of the pipe's pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    pub pool: u8,
    pub buffer: u32,
    pub generation: u64,
    pub start: u32,
    pub len: u32,
}

/// A slot's words behind its turn.
type Words = [u64; SLOT - 1];

impl Descriptor {
    #[inline]
    fn encode(self) -> Words {
        let mut words = [0; SLOT - 1];
        match self {
            Self::Buffer(r) => {
                words[0] = KIND_BUFFER << 56 | u64::from(r.pool) << 48 | u64::from(r.buffer);
                words[1] = r.generation;
                words[2] = u64::from(r.start) << 32 | u64::from(r.len);
            }
            Self::Inline { len, bytes } => {
                words[0] = KIND_INLINE << 56;
                words[2] = len.into();
                let (chunks, _) = bytes.as_chunks();
                for (word, bytes) in words[3..].iter_mut().zip(chunks) {
                    *word = u64::from_ne_bytes(*bytes);
                }
            }
        }
        words
    }

    /// What another process wrote; `None` where it has no meaning.
    #[inline]
    fn decode(words: Words) -> Option<Self> {
        let len = words[2] as u32;
        match words[0] >> 56 {
            KIND_BUFFER if len > 0 => Some(Self::Buffer(Reference {
                pool: (words[0] >> 48) as u8,
                buffer: words[0] as u32,
                generation: words[1],
                start: (words[2] >> 32) as u32,
                len,
            })),
            KIND_INLINE if len > 0 && len as usize <= INLINE_LEN_MAX => {
                let mut bytes = [0; INLINE_LEN_MAX];
                let (chunks, _) = bytes.as_chunks_mut();
                for (bytes, word) in chunks.iter_mut().zip(&words[3..]) {
                    *bytes = word.to_ne_bytes();
                }
                Some(Self::Inline { len, bytes })
            }
            _ => None,
        }
    }
}

/// Bytes of memory that a ring of this many slots takes.
pub(crate) fn file_len(slots: usize) -> usize {
    (8 * (SLOTS + SLOT * slots)).next_multiple_of(4096)
}

/// The memory, seen from either side.
#[derive(Clone, Debug)]
struct Ring {
    region: Rc<Region>,
    slots: u64,
}

impl Ring {
    fn new(region: Region, slots: usize) -> Self {
        assert!(slots.is_power_of_two() && region.len() >= file_len(slots));
        Self {
            region: Rc::new(region),
            slots: slots as u64,
        }
    }

    /// The first word of the slot of a position.
    #[inline]
    fn slot(&self, position: u64) -> usize {
        SLOTS + SLOT * (position & (self.slots - 1)) as usize
    }

    /// Says that this side is about to sleep. What it waits for is looked at behind this.
    fn falls_asleep(&self, word: usize) {
        self.region.word(word).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn is_awake(&self, word: usize) {
        self.region.word(word).store(0, Ordering::Relaxed);
    }

    /// Whether the other side, asleep, is to be woken by this one, behind what it was told.
    #[inline]
    fn must_wake(&self, word: usize) -> bool {
        fence(Ordering::SeqCst);
        let word = self.region.word(word);
        word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::AcqRel) != 0
    }
}

/// The side that writes.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: Ring,
    tail: u64,
    head: u64,
}

impl Producer {
    pub fn new(region: Region, slots: usize) -> Self {
        let ring = Ring::new(region, slots);
        Self {
            ring,
            tail: 0,
            head: 0,
        }
    }

    /// How many descriptors were taken, of all.
    #[inline]
    pub fn look(&mut self) -> Result<u64> {
        let head = self.ring.region.word(HEAD).load(Ordering::Acquire);
        if head < self.head || head > self.tail {
            return Err(Error::PeerFault("it has taken what was not there"));
        }
        self.head = head;
        Ok(head)
    }

    /// How many were taken when it was looked last.
    pub fn taken(&self) -> u64 {
        self.head
    }

    /// Whether there is room for another, as far as was looked.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.tail - self.head < self.ring.slots
    }

    /// Writes one; the position behind it.
    #[inline]
    pub fn push(&mut self, descriptor: Descriptor) -> u64 {
        assert!(self.has_room(), "the ring is full");
        let (slot, region) = (self.ring.slot(self.tail), &self.ring.region);
        for (index, word) in descriptor.encode().into_iter().enumerate() {
            region.word(slot + 1 + index).store(word, Ordering::Relaxed);
        }
        self.tail += 1;
        region.word(slot).store(self.tail, Ordering::Release);
        self.tail
    }

    /// Nothing follows.
    pub fn close(&self) {
        self.ring.region.word(CLOSED).store(1, Ordering::Release);
    }

    pub fn falls_asleep(&self) {
        self.ring.falls_asleep(PRODUCER_SLEEPS);
    }

    pub fn is_awake(&self) {
        self.ring.is_awake(PRODUCER_SLEEPS);
    }

    /// Whether the consumer is to be woken.
    #[inline]
    pub fn must_wake(&self) -> bool {
        self.ring.must_wake(CONSUMER_SLEEPS)
    }
}

/// The side that reads.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: Ring,
    head: u64,
}

impl Consumer {
    pub fn new(region: Region, slots: usize) -> Self {
        let ring = Ring::new(region, slots);
        Self { ring, head: 0 }
    }

    /// How many descriptors fit into it.
    pub fn slots(&self) -> u64 {
        self.ring.slots
    }

    /// The next descriptor, which stays.
    #[inline]
    pub fn peek(&self) -> Result<Option<Descriptor>> {
        let (slot, region) = (self.ring.slot(self.head), &self.ring.region);
        if region.word(slot).load(Ordering::Acquire) != self.head + 1 {
            return Ok(None);
        }
        let mut words = [0; SLOT - 1];
        for (index, word) in words.iter_mut().enumerate() {
            *word = region.word(slot + 1 + index).load(Ordering::Relaxed);
        }
        let what = "it sends a descriptor without a meaning";
        Descriptor::decode(words)
            .ok_or(Error::PeerFault(what))
            .map(Some)
    }

    /// The next one was taken.
    #[inline]
    pub fn advance(&mut self) {
        self.head += 1;
        self.ring
            .region
            .word(HEAD)
            .store(self.head, Ordering::Release);
    }

    /// Whether the producer has closed the pipe; what is there then is all.
    pub fn is_closed(&self) -> bool {
        self.ring.region.word(CLOSED).load(Ordering::Acquire) != 0
    }

    pub fn falls_asleep(&self) {
        self.ring.falls_asleep(CONSUMER_SLEEPS);
    }

    pub fn is_awake(&self) {
        self.ring.is_awake(CONSUMER_SLEEPS);
    }

    /// Whether the producer is to be woken.
    #[inline]
    pub fn must_wake(&self) -> bool {
        self.ring.must_wake(PRODUCER_SLEEPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{self, Access};

    const COUNT: usize = 4;

    fn both() -> (Producer, Consumer, Region) {
        let file = memory::file("exos-test", file_len(COUNT)).expect("memory");
        let map = || Region::map(&file, Access::Write).expect("memory");
        (
            Producer::new(map(), COUNT),
            Consumer::new(map(), COUNT),
            map(),
        )
    }

    fn descriptors() -> [Descriptor; 2] {
        let reference = Reference {
            pool: 255,
            buffer: u32::MAX,
            generation: u64::MAX,
            start: 7,
            len: u32::MAX,
        };
        let inline = Descriptor::Inline {
            len: 32,
            bytes: std::array::from_fn(|n| n as u8),
        };
        [Descriptor::Buffer(reference), inline]
    }

    #[test]
    fn what_is_pushed_is_taken_in_order_and_no_more_than_there_is_room_for() {
        let (mut producer, mut consumer, _) = both();
        for round in 0..100_usize {
            let count = round % (COUNT + 1);
            let sent = |n: usize| descriptors()[(round + n) % 2];
            for n in 0..count {
                assert!(producer.has_room());
                producer.push(sent(n));
            }
            assert_eq!(producer.has_room(), count < COUNT);
            for n in 0..count {
                assert_eq!(consumer.peek().expect("good"), Some(sent(n)));
                consumer.advance();
            }
            assert_eq!(consumer.peek().expect("good"), None);
            producer.look().expect("good");
        }
    }

    #[test]
    fn nonsense_of_the_other_side_is_told() {
        let (mut producer, consumer, memory) = both();
        for head in [1, u64::MAX] {
            memory.word(HEAD).store(head, Ordering::Relaxed);
            assert!(producer.look().is_err(), "{head}");
        }
        for (first, length) in [
            (0, 1),
            (KIND_BUFFER << 56, 0),
            (KIND_INLINE << 56, 33),
            (9 << 56, 1),
        ] {
            memory.word(SLOTS + 1).store(first, Ordering::Relaxed);
            memory.word(SLOTS + 3).store(length, Ordering::Relaxed);
            memory.word(SLOTS).store(1, Ordering::Relaxed);
            assert!(consumer.peek().is_err(), "{first:x} {length}");
        }
        memory.word(SLOTS).store(77, Ordering::Relaxed);
        assert_eq!(consumer.peek().expect("not there yet"), None);
    }

    #[test]
    fn who_sleeps_is_woken_once() {
        let (producer, consumer, _) = both();
        assert!(!producer.must_wake() && !consumer.must_wake());
        consumer.falls_asleep();
        assert!(producer.must_wake() && !producer.must_wake());
        producer.falls_asleep();
        producer.is_awake();
        assert!(!consumer.must_wake());
        assert!(!consumer.is_closed());
        producer.close();
        assert!(consumer.is_closed());
    }
}
