//! Descriptors one way between two processes, in memory that both write: neither believes what it finds there, and each keeps its own
//! position to itself.
//!
//! ```text
//! word  0    what the producer waits for      8   what the consumer waits for      (lines of 64 bytes of their own)
//!      16    head: descriptors taken         24   the producer has closed the pipe    25   flushed: to be read up to here, though it is less
//!                                                                                            than the consumer waits for
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
//!
//! Each side publishes what it waits for ([`exos_wait`]), and the other evaluates it over what it knows itself: the producer how many
//! descriptors and bytes it has sent and up to where it has flushed, the consumer how many descriptors it has taken.

use super::descriptor::Descriptor;
use super::wait::LowWater;
use crate::error::{Error, Result};
use crate::memory::Region;
use exos_wait::{Predicate, Test};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

const PRODUCER_WAITS: usize = 0;
const CONSUMER_WAITS: usize = 8;
const HEAD: usize = 16;
const CLOSED: usize = 24;
const FLUSHED: usize = 25;
const SLOTS: usize = 64;
const SLOT: usize = 8;

/// Values of the producer's, by their numbers in the consumer's predicate.
const OF_TAIL: u8 = 0;
const OF_BYTES: u8 = 1;
const OF_FLUSHED: u8 = 2;
/// The value of the consumer's.
const OF_HEAD: u8 = 0;

/// More bytes than a pipe ever has: one that waits for as many waits for slices alone.
const BYTES_MAX: u64 = 1 << 48;

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

    /// The words of the slot of a position, the turn first.
    #[inline]
    fn slot(&self, position: u64) -> &[AtomicU64; SLOT] {
        let index = SLOTS + SLOT * (position & (self.slots - 1)) as usize;
        self.region.words(index)
    }
}

/// What a side publishes, and the number of its wait.
#[derive(Debug, Default)]
struct Published(u32);

impl Published {
    /// Says what this side waits for. It looks whether that is so behind this.
    fn publish(&mut self, region: &Region, line: usize, predicate: &Predicate) {
        self.0 = self.0.checked_add(1).unwrap_or(1);
        region.line(line).publish(self.0, predicate);
    }
}

/// The side that writes.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: Ring,
    tail: u64,
    head: u64,
    /// Bytes sent, of all.
    bytes: u64,
    flushed: u64,
    /// Slots that are to be free before it is woken.
    low_water: u64,
    /// How many are to be taken, says what was published last.
    wanted_head: u64,
    published: Published,
}

impl Producer {
    pub fn new(region: Region, slots: usize) -> Self {
        let ring = Ring::new(region, slots);
        Self {
            ring,
            tail: 0,
            head: 0,
            bytes: 0,
            flushed: 0,
            low_water: 1,
            wanted_head: 0,
            published: Published::default(),
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
        let [turn, words @ ..] = self.ring.slot(self.tail);
        for (word, value) in words.iter().zip(descriptor.encode()) {
            word.store(value, Ordering::Relaxed);
        }
        self.tail += 1;
        self.bytes += descriptor.len();
        turn.store(self.tail, Ordering::Release);
        self.tail
    }

    /// Waits for room end when there is room for this many.
    pub fn set_low_water(&mut self, slices: usize) {
        self.low_water = (slices as u64).clamp(1, self.ring.slots);
    }

    /// Whether there is as much room as is waited for, as far as was looked.
    #[inline]
    pub fn has_wanted_room(&self) -> bool {
        self.head >= self.room_at()
    }

    /// How many are to be taken for that.
    #[inline]
    fn room_at(&self) -> u64 {
        (self.tail + self.low_water).saturating_sub(self.ring.slots)
    }

    /// Nothing follows.
    pub fn close(&mut self) {
        self.ring.region.word(CLOSED).store(1, Ordering::Release);
        self.set_flushed(self.tail + 1);
    }

    fn set_flushed(&mut self, flushed: u64) {
        self.flushed = flushed;
        self.ring
            .region
            .word(FLUSHED)
            .store(flushed, Ordering::Release);
    }

    /// What was sent is to be read, though the consumer may wait for more. Whether it is to be woken.
    pub fn flush(&mut self) -> bool {
        if self.flushed >= self.tail {
            return false;
        }
        self.set_flushed(self.tail);
        self.must_wake()
    }

    /// Says that this side is about to sleep, until there is the room that it wants, or until more is taken than was.
    pub fn publish(&mut self, is_any_enough: bool) {
        let any = self.head + 1;
        self.wanted_head = match is_any_enough {
            true => any,
            false => self.room_at().max(any),
        };
        let predicate = Predicate::NEVER.or(OF_HEAD, Test::Reached(self.wanted_head));
        let region = &self.ring.region;
        self.published.publish(region, PRODUCER_WAITS, &predicate);
    }

    pub fn withdraw(&self) {
        self.ring.region.line(PRODUCER_WAITS).withdraw();
    }

    /// Whether the consumer says that as many were taken as was published; nothing is made of it.
    pub fn is_reached(&self) -> bool {
        self.ring.region.word(HEAD).load(Ordering::Acquire) >= self.wanted_head
    }

    /// Whether the consumer is to be woken, behind what was sent.
    #[inline]
    pub fn must_wake(&self) -> bool {
        let values = [self.tail, self.bytes, self.flushed];
        self.ring.region.line(CONSUMER_WAITS).decide(&values)
    }
}

/// The side that reads.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: Ring,
    head: u64,
    /// Bytes of what was taken.
    bytes: u64,
    /// Up to here it was looked what is there, and the bytes of all of that.
    seen: u64,
    seen_bytes: u64,
    low_water: LowWater,
    published: Published,
}

impl Consumer {
    pub fn new(region: Region, slots: usize) -> Self {
        Self {
            ring: Ring::new(region, slots),
            head: 0,
            bytes: 0,
            seen: 0,
            seen_bytes: 0,
            low_water: LowWater::default(),
            published: Published::default(),
        }
    }

    /// How many descriptors fit into it.
    pub fn slots(&self) -> u64 {
        self.ring.slots
    }

    /// The next descriptor, which stays.
    #[inline]
    pub fn peek(&self) -> Result<Option<Descriptor>> {
        let [turn, words @ ..] = self.ring.slot(self.head);
        if turn.load(Ordering::Acquire) != self.head + 1 {
            return Ok(None);
        }
        let what = "it sends a descriptor without a meaning";
        Descriptor::decode(words.each_ref().map(|word| word.load(Ordering::Relaxed)))
            .ok_or(Error::PeerFault(what))
            .map(Some)
    }

    /// The next one, which is this, was taken.
    #[inline]
    pub fn advance(&mut self, descriptor: &Descriptor) {
        self.head += 1;
        self.bytes = self.bytes.wrapping_add(descriptor.len());
        if self.seen <= self.head {
            self.seen = self.head;
            self.seen_bytes = self.bytes;
        }
        self.ring
            .region
            .word(HEAD)
            .store(self.head, Ordering::Release);
    }

    /// Waits end when this much is there.
    pub fn set_low_water(&mut self, low_water: LowWater) {
        self.low_water = low_water;
    }

    /// Whether waits end with the first slice.
    #[inline]
    pub fn wants_any(&self) -> bool {
        self.low_water.slices <= 1
    }

    /// Slices and bytes that are waited for, where some bytes are at hand already; either is enough.
    #[inline]
    fn missing(&self, at_hand: usize) -> (u64, u64) {
        let LowWater { slices, bytes } = self.low_water;
        let slices = (slices as u64).clamp(1, self.ring.slots);
        let bytes = bytes.saturating_sub(at_hand) as u64;
        (slices - u64::from(at_hand > 0), bytes)
    }

    /// Whether as much is there as is waited for, or all that will be or was flushed, where some bytes are at hand already.
    ///
    /// # Errors
    ///
    /// What was there is not any more.
    #[inline]
    pub fn is_enough(&mut self, at_hand: usize) -> Result<bool> {
        let (slices, bytes) = self.missing(at_hand);
        loop {
            let unread = self.seen - self.head;
            let has_some = unread > 0 || at_hand > 0;
            let has_bytes = self.seen_bytes.wrapping_sub(self.bytes) >= bytes;
            if unread >= slices || (has_some && has_bytes) {
                break;
            }
            let Some(len) = self.len_at(self.seen) else {
                let is_flushed = || {
                    let flushed = self.ring.region.word(FLUSHED).load(Ordering::Acquire);
                    flushed >= self.flushed_at(at_hand)
                };
                if (has_some && is_flushed()) || self.is_closed() {
                    break;
                }
                return Ok(false);
            };
            self.seen += 1;
            self.seen_bytes = self.seen_bytes.wrapping_add(len.into());
        }
        // Or one that waits would find nothing, and look again for good.
        if self.seen > self.head && self.len_at(self.head).is_none() {
            return Err(Error::PeerFault("it takes back what it has sent"));
        }
        Ok(true)
    }

    /// What is there, or at hand, is enough when it was flushed up to here.
    #[inline]
    fn flushed_at(&self, at_hand: usize) -> u64 {
        // What is at hand was taken, though not all of it was read.
        self.head + u64::from(at_hand == 0)
    }

    /// How many bytes stand at a position, if something does.
    #[inline]
    fn len_at(&self, position: u64) -> Option<u32> {
        let [turn, _, _, len, ..] = self.ring.slot(position);
        let is_there = turn.load(Ordering::Acquire) == position + 1;
        is_there.then(|| len.load(Ordering::Relaxed) as u32)
    }

    /// Whether the producer has closed the pipe; what is there then is all.
    pub fn is_closed(&self) -> bool {
        self.ring.region.word(CLOSED).load(Ordering::Acquire) != 0
    }

    /// Says that this side is about to sleep, until there is as much as it waits for.
    pub fn publish(&mut self, at_hand: usize) {
        let (slices, bytes) = self.missing(at_hand);
        let mut predicate = Predicate::NEVER
            .or(OF_TAIL, Test::Reached(self.head + slices))
            .or(OF_FLUSHED, Test::Reached(self.flushed_at(at_hand)));
        if bytes < BYTES_MAX {
            let at = self.bytes.wrapping_add(bytes);
            predicate = predicate.or(OF_BYTES, Test::Reached(at));
        }
        let region = &self.ring.region;
        self.published.publish(region, CONSUMER_WAITS, &predicate);
    }

    pub fn withdraw(&self) {
        self.ring.region.line(CONSUMER_WAITS).withdraw();
    }

    /// Whether the producer is to be woken, behind what was taken.
    #[inline]
    pub fn must_wake(&self) -> bool {
        let producer = self.ring.region.line(PRODUCER_WAITS);
        producer.decide(&[self.head])
    }
}

#[cfg(test)]
mod tests {
    use super::super::descriptor::{KIND_BUFFER, KIND_INLINE, Reference};
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
                consumer.advance(&sent(n));
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
    fn one_that_sleeps_is_woken_once() {
        let (mut producer, mut consumer, _) = both();
        assert!(!producer.must_wake() && !consumer.must_wake());
        consumer.publish(0);
        assert!(!producer.must_wake(), "nothing was sent");
        producer.push(descriptors()[1]);
        assert!(producer.must_wake() && !producer.must_wake());
        producer.publish(false);
        producer.withdraw();
        consumer.advance(&descriptors()[1]);
        assert!(!consumer.must_wake());
        assert!(!consumer.is_closed());
        consumer.publish(0);
        producer.close();
        assert!(consumer.is_closed() && producer.must_wake());
    }

    /// What a consumer waits for, what is there already, and at which descriptor of 32 bytes it is woken.
    #[test]
    fn a_consumer_is_woken_by_what_it_waits_for() {
        for (slices, bytes, at_hand, woken_at) in [
            (1, usize::MAX, 0, 1),
            (3, usize::MAX, 0, 3),
            (3, usize::MAX, 7, 2),
            (usize::MAX, usize::MAX, 0, COUNT),
            (usize::MAX, 33, 0, 2),
            (usize::MAX, 64, 0, 2),
            (usize::MAX, 65, 1, 2),
            (3, 32, 0, 1),
        ] {
            let (mut producer, mut consumer, _) = both();
            // Positions and bytes of before count for nothing.
            producer.push(descriptors()[1]);
            consumer.advance(&descriptors()[1]);
            producer.look().expect("good");
            consumer.set_low_water(LowWater { slices, bytes });
            consumer.publish(at_hand);
            for n in 1..=woken_at {
                assert!(!consumer.is_enough(at_hand).expect("good"), "{n}");
                producer.push(descriptors()[1]);
                let is_woken = producer.must_wake();
                assert_eq!(is_woken, n == woken_at, "{slices} {bytes} {at_hand}: {n}");
            }
            assert!(consumer.is_enough(at_hand).expect("good"));
        }
    }

    #[test]
    fn what_was_flushed_is_enough() {
        let (mut producer, mut consumer, memory) = both();
        consumer.set_low_water(LowWater::slices(COUNT));
        assert!(!producer.flush(), "nothing was sent");
        consumer.publish(0);
        producer.push(descriptors()[1]);
        assert!(!producer.must_wake() && !consumer.is_enough(0).expect("good"));
        assert!(producer.flush() && consumer.is_enough(0).expect("good"));
        assert!(!producer.flush(), "once");
        // A part of what was flushed is at hand: the rest of it is enough, too.
        consumer.advance(&descriptors()[1]);
        assert!(!consumer.is_enough(0).expect("good") && consumer.is_enough(9).expect("good"));
        consumer.publish(9);
        assert!(producer.must_wake());
        producer.push(descriptors()[1]);
        assert!(!consumer.is_enough(0).expect("good"));
        // What it says of what is not there counts for nothing, and what it takes back is a fault.
        memory.word(FLUSHED).store(u64::MAX, Ordering::Relaxed);
        memory.word(SLOTS + SLOT).store(0, Ordering::Relaxed);
        assert!(consumer.seen == 2 && consumer.peek().expect("good").is_none());
        consumer.set_low_water(LowWater::default());
        assert!(consumer.is_enough(0).is_err());
    }

    #[test]
    fn what_is_taken_back_before_it_was_seen_is_not_there() {
        let (mut producer, mut consumer, memory) = both();
        producer.push(descriptors()[1]);
        memory.word(SLOTS).store(0, Ordering::Relaxed);
        assert!(!consumer.is_enough(0).expect("good"));
        assert!(consumer.peek().expect("good").is_none());
    }

    /// A producer cannot have one that sends on what came pass more than its readers see.
    #[test]
    fn nothing_comes_behind_few_bytes() {
        for len in 1..=32_u8 {
            let (mut producer, consumer, memory) = both();
            let bytes: [u8; 32] = std::array::from_fn(|n| n as u8 + 1);
            producer.push(Descriptor::Inline { len: 32, bytes });
            memory.word(SLOTS + 3).store(len.into(), Ordering::Relaxed);
            let bytes = std::array::from_fn(|n| if n < len.into() { n as u8 + 1 } else { 0 });
            let few = Descriptor::Inline {
                len: len.into(),
                bytes,
            };
            assert_eq!(consumer.peek().expect("good"), Some(few));
        }
    }

    /// The room that a producer waits for, and at which descriptor that is taken of a full ring it is woken.
    #[test]
    fn a_producer_is_woken_by_the_room_that_it_waits_for() {
        for (room, is_any_enough, woken_at) in [
            (1, false, 1),
            (3, false, 3),
            (99, false, COUNT),
            (3, true, 1),
        ] {
            let (mut producer, mut consumer, _) = both();
            producer.set_low_water(room);
            (0..COUNT).for_each(|_| _ = producer.push(descriptors()[1]));
            producer.publish(is_any_enough);
            for n in 1..=COUNT {
                consumer.advance(&descriptors()[1]);
                let is_woken = consumer.must_wake();
                assert_eq!(is_woken, n == woken_at, "{room} {is_any_enough}: {n}");
                producer.look().expect("good");
                assert_eq!(producer.has_wanted_room(), n >= room.min(COUNT));
            }
        }
    }
}
