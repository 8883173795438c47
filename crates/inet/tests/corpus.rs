//! Replays the fuzzers' corpora, seeded mutations of them, and scripts drawn at random, with a stable
//! compiler.
//!
//! What is checked stands in `fuzz/bodies` (`inet.rs`, `connection.rs`, `handover.rs`), which the fuzz targets
//! include too. A failure names its input, so that it can be replayed alone.

#[path = "../../../fuzz/bodies/inet.rs"]
mod bodies;
#[path = "../../../fuzz/bodies/frames.rs"]
mod frames;
#[path = "../../../fuzz/bodies/connection.rs"]
mod live;
#[path = "../../../fuzz/bodies/handover.rs"]
mod moved;

use std::panic::catch_unwind;
use std::path::Path;

/// Mutations of each input of the corpus.
const MUTATIONS: usize = 20;
/// Scripts drawn at random.
const SCRIPTS: usize = 1500;
/// Scripts drawn at random for a live connection, and steps of each.
const LIVES: usize = 1500;
const LIFE_BYTES: u64 = 400;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn run(body: fn(&[u8]), name: &str, input: &[u8]) {
    if catch_unwind(|| body(input)).is_err() {
        panic!("failed on {name}: {input:02x?}");
    }
}

#[test]
fn the_corpus_and_its_mutations() {
    replay("inet_stack", bodies::stack);
}

#[test]
fn the_corpus_of_a_live_connection_and_its_mutations() {
    replay("inet_connection", live::connection);
}

#[test]
fn the_corpus_of_connections_from_other_processes_and_its_mutations() {
    replay("inet_handover", moved::handover);
}

fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = folder.join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut random = Random(2);
    for path in files {
        let (name, input) = (path.display().to_string(), std::fs::read(&path).unwrap());
        run(body, &name, &input);
        for _ in 0..MUTATIONS {
            let mut damaged = input.clone();
            for _ in 0..1 + random.next() % 4 {
                let at = random.next() as usize % damaged.len();
                damaged[at] = random.next() as u8;
            }
            run(body, &name, &damaged);
        }
    }
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
        run(bodies::stack, &format!("script {n}"), &script);
    }
}

/// Any bytes lead a live connection somewhere. `EXOS_SEEDS` multiplies how many are tried.
#[test]
fn random_lives() {
    let factor: usize = std::env::var("EXOS_SEEDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    let mut random = Random(4);
    for n in 0..LIVES * factor {
        let len = 4 + random.next() % LIFE_BYTES;
        let script: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        run(live::connection, &format!("life {n}"), &script);
    }
}
