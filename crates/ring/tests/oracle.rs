//! Both ends of a ring in plain memory, compared with a queue that is
//! obviously right, from any starting position of the counters; hostile peers;
//! and two threads.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ptr::NonNull;

use exos_ring::{Consumer, PeerFault, Plain, Producer, RingMemory};
use proptest::prelude::*;

/// The memory of a ring, as a mapping would give it.
struct PlainMemory<T> {
    words: Box<[UnsafeCell<u32>; 3]>,
    entries: Box<[UnsafeCell<T>]>,
}

impl<T: Plain + Default> PlainMemory<T> {
    /// An empty ring of `capacity` whose counters both stand at `start`.
    fn new(capacity: usize, start: u32) -> Self {
        Self {
            words: Box::new([start, start, 0].map(UnsafeCell::new)),
            entries: (0..capacity)
                .map(|_| UnsafeCell::new(T::default()))
                .collect(),
        }
    }

    fn word(&self, index: usize) -> NonNull<u32> {
        NonNull::new(self.words[index].get()).unwrap()
    }

    fn ring(&self) -> RingMemory<T> {
        let entries = NonNull::new(UnsafeCell::raw_get(self.entries.as_ptr())).unwrap();
        let capacity = self.entries.len() as u32;
        // SAFETY: the boxes are not touched but through the ends, which the
        // tests drop first, one of each kind.
        unsafe {
            RingMemory::new(
                self.word(0),
                self.word(1),
                Some(self.word(2)),
                entries,
                capacity,
            )
        }
    }

    /// Writes a counter as a peer of another process could.
    fn forge(&self, index: usize, value: u32) {
        // SAFETY: one thread, and no end is being called.
        unsafe { *self.words[index].get() = value };
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write { want: u32, commit: bool },
    Read { want: u32, release: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..40u32, any::<bool>()).prop_map(|(want, commit)| Step::Write { want, commit }),
        (0..40u32, 0..40u32).prop_map(|(want, release)| Step::Read { want, release }),
    ]
}

/// What the two ends should see: entries committed, and entries only written.
#[derive(Default)]
struct Oracle {
    committed: VecDeque<u64>,
    written: VecDeque<u64>,
    next: u64,
}

impl Oracle {
    fn write(&mut self, producer: &mut Producer<u64>, want: u32, commit: bool) {
        let free = producer.capacity() - (self.committed.len() + self.written.len()) as u32;
        let granted = producer.reserve(want).unwrap();
        assert_eq!(granted, free.min(want));
        for _ in 0..granted {
            producer.write(self.next);
            self.written.push_back(self.next);
            self.next += 1;
        }
        assert_eq!(producer.uncommitted() as usize, self.written.len());
        if commit {
            producer.commit();
            self.committed.append(&mut self.written);
        }
        assert_eq!(producer.pending().unwrap() as usize, self.committed.len());
    }

    fn read(&mut self, consumer: &mut Consumer<u64>, want: u32, release: u32) {
        let ready = consumer.peek(want).unwrap();
        assert_eq!(ready, want.min(self.committed.len() as u32));
        for i in 0..ready {
            assert_eq!(consumer.read(i), self.committed[i as usize]);
        }
        let release = release.min(ready);
        consumer.release(release);
        self.committed.drain(..release as usize);
    }
}

/// Miri runs some thousand times slower.
const CASES: u32 = if cfg!(miri) { 8 } else { 512 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() })]

    /// Nothing is lost, doubled, reordered or seen before it is committed,
    /// wherever the counters begin, the wrap of 32 bits included.
    #[test]
    fn ends_agree_with_a_queue(
        exponent in 0u32..6,
        start in prop_oneof![any::<u32>(), (0u32..80).prop_map(|n| u32::MAX - n)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let memory = PlainMemory::<u64>::new(1 << exponent, start);
        let mut producer = Producer::new(memory.ring()).unwrap();
        let mut consumer = Consumer::new(memory.ring()).unwrap();
        let mut oracle = Oracle::default();
        for step in steps {
            match step {
                Step::Write { want, commit } => oracle.write(&mut producer, want, commit),
                Step::Read { want, release } => oracle.read(&mut consumer, want, release),
            }
        }
    }

    /// A forged counter is either a fault or a position that a correct peer
    /// could have reached; the ends never claim more than the ring holds.
    #[test]
    fn forged_counters_are_faults_or_in_range(
        start in any::<u32>(),
        written in 0u32..=8,
        distance in prop_oneof![any::<u32>(), (-20i32..20).prop_map(|d| d as u32)],
    ) {
        let memory = PlainMemory::<u64>::new(8, start);
        let mut producer = Producer::new(memory.ring()).unwrap();
        let mut consumer = Consumer::new(memory.ring()).unwrap();
        for i in 0..producer.reserve(written).unwrap() {
            producer.write(u64::from(i));
        }
        producer.commit();
        let value = start.wrapping_add(distance);
        memory.forge(1, value);
        match producer.reserve(9) {
            Ok(free) => {
                prop_assert!(value.wrapping_sub(start) <= written);
                prop_assert_eq!(free, 8 - written + value.wrapping_sub(start));
            }
            Err(fault) => {
                prop_assert!(value.wrapping_sub(start) > written);
                prop_assert_eq!(fault.consumed, value);
            }
        }
        memory.forge(0, value);
        match consumer.peek(9) {
            Ok(ready) => prop_assert_eq!(ready, value.wrapping_sub(start)),
            Err(fault) => prop_assert_eq!(
                fault,
                PeerFault { produced: value, consumed: start, capacity: 8 }
            ),
        }
    }
}

/// A counter that goes back would hand the same entries out twice.
#[test]
fn a_counter_that_goes_back_is_a_fault() {
    let memory = PlainMemory::<u64>::new(8, 100);
    let mut producer = Producer::new(memory.ring()).unwrap();
    let mut consumer = Consumer::new(memory.ring()).unwrap();
    memory.forge(0, 104);
    assert_eq!(consumer.peek(8), Ok(4));
    memory.forge(0, 103);
    assert_eq!(
        consumer.peek(8),
        Err(PeerFault {
            produced: 103,
            consumed: 100,
            capacity: 8
        })
    );

    memory.forge(0, 100);
    for i in 0..producer.reserve(8).unwrap() {
        producer.write(u64::from(i));
    }
    producer.commit();
    memory.forge(1, 106);
    assert_eq!(producer.reserve(8), Ok(6));
    memory.forge(1, 105);
    assert_eq!(
        producer.reserve(8),
        Err(PeerFault {
            produced: 108,
            consumed: 105,
            capacity: 8
        })
    );
}

/// An end taken over in the middle of traffic goes on where the last one stopped.
#[test]
fn ends_can_be_taken_over() {
    let memory = PlainMemory::<u64>::new(4, 7);
    {
        let mut producer = Producer::new(memory.ring()).unwrap();
        producer.reserve(3).unwrap();
        (0..3).for_each(|i| producer.write(i));
        producer.commit();
    }
    let mut producer = Producer::new(memory.ring()).unwrap();
    assert_eq!(producer.reserve(4), Ok(1));
    producer.write(3);
    producer.commit();
    let mut consumer = Consumer::new(memory.ring()).unwrap();
    assert_eq!(consumer.peek(9), Ok(4));
    assert_eq!(
        (0..4).map(|i| consumer.read(i)).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
}

#[test]
fn contradicting_counters_are_refused_at_the_start() {
    let memory = PlainMemory::<u64>::new(4, 0);
    memory.forge(0, 5);
    assert!(Producer::new(memory.ring()).is_err());
    assert!(Consumer::new(memory.ring()).is_err());
}

#[test]
fn flags_are_the_peers_word() {
    let memory = PlainMemory::<u64>::new(4, 0);
    memory.forge(2, 1);
    assert_eq!(Producer::new(memory.ring()).unwrap().flags(), 1);
    assert_eq!(Consumer::new(memory.ring()).unwrap().flags(), 1);
}

#[test]
#[should_panic(expected = "not reserved")]
fn writing_without_room_is_a_bug() {
    let memory = PlainMemory::<u64>::new(1, 0);
    let mut producer = Producer::new(memory.ring()).unwrap();
    producer.write(1);
    producer.write(2);
}

#[test]
#[should_panic(expected = "not ready")]
fn reading_what_is_not_there_is_a_bug() {
    let memory = PlainMemory::<u64>::new(4, 0);
    Consumer::new(memory.ring()).unwrap().read(0);
}

/// Entries of two words arrive whole and in order from another thread.
#[test]
fn two_threads() {
    const COUNT: u64 = if cfg!(miri) { 300 } else { 300_000 };
    let memory = PlainMemory::<[u64; 2]>::new(64, u32::MAX - 100);
    let mut producer = Producer::new(memory.ring()).unwrap();
    let mut consumer = Consumer::new(memory.ring()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 0;
            while next < COUNT {
                let granted = u64::from(producer.reserve(16).unwrap()).min(COUNT - next);
                (next..next + granted).for_each(|n| producer.write([n, !n]));
                producer.commit();
                next += granted;
                if granted == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < COUNT {
            let ready = consumer.peek(16).unwrap();
            for i in 0..ready {
                assert_eq!(consumer.read(i), [expected, !expected]);
                expected += 1;
            }
            consumer.release(ready);
            if ready == 0 {
                std::thread::yield_now();
            }
        }
    });
}
