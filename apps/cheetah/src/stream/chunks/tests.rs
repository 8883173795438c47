//! Chunks against what is known of each: random wishes, arrivals, losses and releases.

use std::collections::HashMap;

use super::*;
use proptest::prelude::*;

const SLOTS: usize = 5;

fn key(number: u64) -> Key {
    let version = Version {
        identity: (1, 2),
        len: 1 << 40,
        modified: (3, 4),
        changed: (5, 6),
    };
    (version, number)
}

fn who(chunks: &Taken) -> Slot {
    match *chunks {
        Taken::Ready(slot) | Taken::Reading(slot) | Taken::New(slot, _) => slot,
    }
}

/// What is known: by key its slot and users; what is being read, with its memory; slices that others still have.
#[derive(Default)]
struct Known {
    users: HashMap<u64, (Slot, u32)>,
    reading: HashMap<u64, (Slot, Box<[u8]>, u32)>,
    kept: Vec<exos_buf::Slice>,
}

impl Known {
    fn in_use(&self) -> usize {
        let used = self.users.keys().filter(|n| !self.reading.contains_key(n));
        used.count() + self.reading.len()
    }
}

/// Steps: which, and of which chunk.
fn step(chunks: &mut Chunks, known: &mut Known, what: u8, number: u64) {
    match what {
        0..=3 => take(chunks, known, number),
        4 | 5 => {
            if let Some((slot, mut memory, waiting)) = known.reading.remove(&number) {
                memory.fill(number as u8);
                assert_eq!(chunks.filled(slot, memory).len(), waiting as usize);
            }
        }
        6 => {
            if let Some((slot, memory, waiting)) = known.reading.remove(&number) {
                assert_eq!(chunks.lost(slot, memory).len(), waiting as usize);
                // Anyone who took it hears of that, and releases it.
                let (slot, users) = known.users.remove(&number).unwrap_or((slot, 0));
                (0..users).for_each(|_| chunks.release(slot));
            }
        }
        7 => {
            if let Some((slot, _)) = known.users.get(&number)
                && let Some(buffer) = chunks.buffer(*slot)
            {
                known.kept.push(buffer.slice(0..9));
            }
        }
        8 => known.kept.clear(),
        _ => {
            if let Some((slot, users)) = known.users.get_mut(&number) {
                chunks.release(*slot);
                *users -= 1;
                if *users == 0 {
                    known.users.remove(&number);
                }
            }
        }
    }
}

fn take(chunks: &mut Chunks, known: &mut Known, number: u64) {
    let free = chunks.free();
    let taken = chunks.take(&key(number), ConnectionId::default());
    let taken = match taken {
        Some(taken) => taken,
        None => {
            assert!(!known.users.contains_key(&number) && !known.reading.contains_key(&number));
            let made = chunks.make(key(number), ConnectionId::default());
            let Some(made) = made else {
                assert!(free == 0 || !known.kept.is_empty(), "there was memory");
                return;
            };
            made
        }
    };
    let slot = who(&taken);
    match taken {
        Taken::New(slot, memory) => {
            known.reading.insert(number, (slot, memory, 1));
        }
        Taken::Reading(_) => known.reading.get_mut(&number).unwrap().2 += 1,
        Taken::Ready(_) => {}
    }
    let users = known.users.entry(number).or_insert((slot, 0));
    assert_eq!(
        users.0, slot,
        "a chunk stays where it is as long as it is used"
    );
    users.1 += 1;
}

proptest! {
    #[test]
    fn chunks_are_what_is_known_of_them(steps in prop::collection::vec((0..12_u8, 0..12_u64), 1..400)) {
        let (mut chunks, mut known) = (Chunks::new(SLOTS), Known::default());
        for (what, number) in steps {
            step(&mut chunks, &mut known, what, number);
            prop_assert!(chunks.memory_len() <= SLOTS * CHUNK_LEN);
            prop_assert_eq!(chunks.free(), SLOTS - known.in_use());
            for (number, (slot, _)) in &known.users {
                let buffer = chunks.buffer(*slot);
                prop_assert_eq!(buffer.is_some(), !known.reading.contains_key(number));
                if let Some(buffer) = buffer {
                    prop_assert_eq!(buffer.as_slice()[CHUNK_LEN - 1], *number as u8);
                }
            }
        }
        let bytes = known.kept.iter().all(|slice| slice.as_bytes().iter().all(|b| *b == slice.as_bytes()[0]));
        prop_assert!(bytes, "nobody has written to what others have");
    }
}
