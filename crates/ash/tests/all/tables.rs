//! Tables: what a program keeps under a key the handler finds, in the kernel as in the interpreter, also while the program writes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use exos_ash::limits::{KEY_MAX, LOOK_UPS_MAX};
use exos_ash::{Checked, Layout, Memory, Outcome, Table, TableError, interpret, parse};
use exos_testing::Random;

use crate::native::outcome;
use crate::packets::{Bench, allowed, load_in_gate};
use crate::words;

/// The key is the message behind its first byte; the answer is its word.
fn finder(slots: u32) -> Checked {
    let text = format!(
        "handler finder {{
             table keys[{slots}] of 256;
             need 1;
             word = find(keys, u8(0), length - u8(0));
             reply 8 {{ be64(0) = word; }}
         }}"
    );
    parse(&text).unwrap()
}

/// A message with its key from that byte on, which is 1 at least.
fn message(key: &[u8], from: u8) -> Vec<u8> {
    let mut message = vec![0xee; usize::from(from)];
    message[0] = from;
    message.extend(key);
    message
}

fn word(word: u64) -> Outcome {
    Outcome::Reply(word.to_be_bytes().to_vec())
}

fn with_table(slots: u32, key_max: u32, then: impl FnOnce(Table<'_>)) {
    let text = format!("handler h {{ table keys[{slots}] of {key_max}; done; }}");
    let handler = parse(&text).unwrap();
    let layout = Layout::of(handler.handler());
    let words = words(&layout);
    then(
        Memory::new(&words, &layout, handler.handler())
            .table("keys")
            .unwrap(),
    );
}

#[test]
fn a_table_keeps_words_under_keys() {
    with_table(1024, 16, |table| {
        let key = |number: u64| format!("key {number}").into_bytes();
        let mut taken = Vec::new();
        for number in 0..1024 {
            match table.insert(&key(number), number) {
                Ok(before) => {
                    assert_eq!(before, None);
                    taken.push(number);
                }
                Err(error) => assert_eq!(error, TableError::Full),
            }
        }
        assert!(taken.len() > 1024 * 9 / 10, "{}", taken.len());
        for number in &taken {
            assert_eq!(table.get(&key(*number)), Some(*number));
            assert_eq!(table.insert(&key(*number), number + 1), Ok(Some(*number)));
            assert_eq!(table.remove(&key(*number)), Some(number + 1));
            assert_eq!(table.get(&key(*number)), None);
            assert_eq!(table.remove(&key(*number)), None);
        }
        assert_eq!(table.insert(b"", 1), Err(TableError::KeyLength));
        assert_eq!(table.insert(&[1; 17], 1), Err(TableError::KeyLength));
        assert_eq!((table.get(b""), table.get(&[1; 17])), (None, None));
    });
}

#[test]
fn keys_that_begin_alike_are_apart() {
    with_table(64, 24, |table| {
        let keys: Vec<_> = (1..=24).map(|len| vec![0; len]).collect();
        for (number, key) in keys.iter().enumerate() {
            table.insert(key, number as u64).unwrap();
        }
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(table.get(key), Some(number as u64));
        }
    });
}

#[test]
fn the_kernel_finds_keys_of_all_lengths_wherever_they_are() {
    if !allowed("the_kernel_finds_keys_of_all_lengths_wherever_they_are") {
        return;
    }
    let handler = finder(512);
    let layout = Layout::of(handler.handler());
    let bench = Bench::new(&handler, false);
    let memory = bench.seen(&layout, &handler);
    let table = memory.table("keys").unwrap();
    let native = handler.compile().unwrap();
    let mut random = Random(97);
    for len in 1..=256 {
        let key = random.bytes(len);
        table.insert(&key, len as u64).unwrap();
        let mut other = key.clone();
        let at = random.below(len);
        other[at] ^= 1;
        for (key, expected) in [(key, word(len as u64)), (other, Outcome::GivenUp)] {
            let message = message(&key, 1 + random.byte() / 2);
            assert_eq!(interpret(&handler, memory, &message), expected, "{len}");
            assert_eq!(outcome(&native, memory, &message), expected, "{len}");
            assert_eq!(bench.outcome(random.one_in(2), &message), expected, "{len}");
        }
    }
    for (key, why) in [(vec![], "no key"), (vec![7; 257], "a longer key")] {
        assert_eq!(
            bench.outcome(false, &message(&key, 1)),
            Outcome::GivenUp,
            "{why}"
        );
    }
    assert_eq!(
        bench.outcome(false, &[200, 1]),
        Outcome::GivenUp,
        "a key behind the end"
    );
}

/// One slot has now this key, now that; each has one word for ever. A third key stays.
#[test]
fn no_key_has_the_word_of_another_while_the_program_writes() {
    if !allowed("no_key_has_the_word_of_another_while_the_program_writes") {
        return;
    }
    let handler = finder(8);
    let layout = Layout::of(handler.handler());
    let bench = Bench::new(&handler, false);
    let memory = bench.seen(&layout, &handler);
    let table = memory.table("keys").unwrap();
    let native = handler.compile().unwrap();
    let keys: Vec<_> = (0..40u8)
        .map(|number| vec![number; 40 + usize::from(number)])
        .collect();
    table.insert(b"stays", 1000).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..keys.len()).cycle() {
                table.insert(&keys[number], number as u64).unwrap();
                table.remove(&keys[number]);
                if over.load(Relaxed) {
                    return;
                }
            }
        });
        for round in 0..4000 {
            let number = round % keys.len();
            let asked = message(&keys[number], 1);
            for outcome in [
                bench.outcome(false, &asked),
                interpret(&handler, memory, &asked),
                outcome(&native, memory, &asked),
            ] {
                assert!(outcome == Outcome::GivenUp || outcome == word(number as u64));
            }
            assert_eq!(bench.outcome(false, &message(b"stays", 1)), word(1000));
        }
        over.store(true, Relaxed);
    });
}

/// A verifier that followed the key on each way on which messages come would give up.
#[test]
fn a_gate_takes_as_many_look_ups_of_the_longest_keys_as_are_accepted() {
    if !allowed("a_gate_takes_as_many_look_ups_of_the_longest_keys_as_are_accepted") {
        return;
    }
    let find = "found = find(keys, u8(0), length - u8(0)); word = word + found;";
    let text = format!(
        "handler finder {{
             table keys[4096] of {KEY_MAX};
             need 1;
             word = 0;
             {}
             reply 8 + (word & 0x3ff) up to 1400 {{ be64(0) = word; }}
         }}",
        find.repeat(LOOK_UPS_MAX)
    );
    let followed = load_in_gate(&parse(&text).unwrap());
    assert!(followed < 100_000, "{followed} instructions");
}
