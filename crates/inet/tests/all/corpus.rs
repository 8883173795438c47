//! Replays the fuzzers' corpora, seeded mutations of them, and scripts drawn at random, with a stable
//! compiler.
//!
//! What is checked stands in `fuzz/bodies` (`inet.rs`, `connection.rs`, `handover.rs`), which the fuzz targets
//! include too. A failure names its input, so that it can be replayed alone.

#[path = "../../../../fuzz/bodies/inet.rs"]
mod bodies;
#[path = "../../../../fuzz/bodies/connection.rs"]
mod live;
#[path = "../../../../fuzz/bodies/handover.rs"]
mod moved;

use exos_inet::tcp::HandoverError;
use exos_testing::{Random, corpus, replay, run};

/// Mutations of each input of the corpus.
const MUTATIONS: usize = 20;
/// Scripts drawn at random.
const SCRIPTS: usize = 1500;
/// Scripts drawn at random for a live connection, and steps of each.
const LIVES: u64 = 1500;
const LIFE_BYTES: u64 = 400;

#[test]
fn the_corpus_and_its_mutations() {
    replay(corpus("inet_stack"), MUTATIONS, bodies::stack);
}

#[test]
fn the_corpus_of_a_live_connection_and_its_mutations() {
    replay(corpus("inet_connection"), MUTATIONS, live::connection);
}

#[test]
fn the_corpus_of_connections_from_other_processes_and_its_mutations() {
    replay(corpus("inet_handover"), MUTATIONS, moved::handover);
}

/// What the corpus begins with are connections of the form that this version writes: all but those that are named for the
/// field that is wrong in them.
#[test]
fn the_seeds_of_the_corpus_are_connections() {
    let mut seeds = 0;
    for (name, data) in corpus("inet_handover") {
        match moved::decode(&data).map(drop) {
            Ok(()) if name.starts_with("seed-") => seeds += 1,
            Err(HandoverError::Impossible(field)) if name.starts_with(field) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(seeds > 10, "{seeds}");
}

/// Handshakes by hand, then anything: flags are drawn from those that lead somewhere.
#[test]
fn random_scripts() {
    let mut random = Random(3);
    for n in 0..SCRIPTS {
        // Family, buffer, Nagle; then a SYN and the ACK of the SYN-ACK.
        let mut script = vec![random.next() as u8, 0x40, 0, 0];
        script.extend([1, 0x02, 1, 1, 0, 0xff, 0xff, 2, 5, 0xb4, 7, 0]);
        script.extend([1, 0x10, 0, 0, 0, 0xff, 0xff, 3, 0]);
        for _ in 0..random.next() % 60 {
            script.push(random.next() as u8);
            script
                .push([0x10, 0x18, 0x11, 0x02, 0x04, 0x14, 0x00, 0x12][random.next() as usize % 8]);
            let more = random.next() % 8;
            script.extend((0..more).map(|_| {
                if random.next().is_multiple_of(2) {
                    0
                } else {
                    random.next() as u8
                }
            }));
        }
        run(&format!("script {n}"), &script, bodies::stack);
    }
}

/// Any bytes lead a live connection somewhere. `EXOS_SEEDS` multiplies how many are tried.
#[test]
fn random_lives() {
    let mut random = Random(4);
    for n in 0..exos_testing::cases(LIVES) {
        let len = 4 + random.next() % LIFE_BYTES;
        let script: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        run(&format!("life {n}"), &script, live::connection);
    }
}
