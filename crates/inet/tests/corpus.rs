//! Replays the fuzzer's corpus, seeded mutations of it, and scripts drawn at random, with a stable
//! compiler.
//!
//! What is checked stands in `fuzz/bodies/inet.rs`, which the fuzz target includes too. A failure
//! names its input, so that it can be replayed alone.

#[path = "../../../fuzz/bodies/inet.rs"]
mod bodies;

use std::panic::catch_unwind;
use std::path::Path;

/// Mutations of each input of the corpus.
const MUTATIONS: usize = 20;
/// Scripts drawn at random.
const SCRIPTS: usize = 1500;

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

fn run(name: &str, input: &[u8]) {
    if catch_unwind(|| bodies::stack(input)).is_err() {
        panic!("failed on {name}: {input:02x?}");
    }
}

#[test]
fn the_corpus_and_its_mutations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/inet_stack");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut random = Random(2);
    for path in files {
        let (name, input) = (path.display().to_string(), std::fs::read(&path).unwrap());
        run(&name, &input);
        for _ in 0..MUTATIONS {
            let mut damaged = input.clone();
            for _ in 0..1 + random.next() % 4 {
                let at = random.next() as usize % damaged.len();
                damaged[at] = random.next() as u8;
            }
            run(&name, &damaged);
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
        run(&format!("script {n}"), &script);
    }
}
