//! Replays the fuzzers' corpora, the captures, and seeded mutations of both, with a stable compiler.
//!
//! What is checked of each input stands in `fuzz/bodies/wire.rs`, which the fuzz targets include
//! too. A failure names its input, so that it can be replayed alone.

#[path = "../../../fuzz/bodies/wire.rs"]
mod bodies;
mod common;

use std::panic::catch_unwind;
use std::path::Path;

use common::{Random, captured};

/// Mutations of each input; some 150 files per corpus make tens of thousands of inputs, in a second.
const MUTATIONS: usize = 300;
const SEED: u64 = 2;

/// The files of one target's corpus.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let read = |path: &Path| (path.display().to_string(), std::fs::read(path).unwrap());
    files.iter().map(|path| read(path)).collect()
}

fn replay(inputs: Vec<(String, Vec<u8>)>, body: fn(&[u8])) {
    let mut random = Random(SEED);
    for (name, input) in inputs {
        run(&name, &input, body);
        for _ in 0..MUTATIONS {
            let mut damaged = input.clone();
            random.mutate(&mut damaged);
            run(&name, &damaged, body);
        }
    }
}

fn run(name: &str, input: &[u8], body: fn(&[u8])) {
    if catch_unwind(|| body(input)).is_err() {
        panic!("failed on a mutation of {name}: {input:02x?}");
    }
}

#[test]
fn frames() {
    replay(corpus("wire_frame"), bodies::frame);
}

#[test]
fn captured_frames() {
    let frames = captured()
        .into_iter()
        .map(|frame| (frame.name, frame.bytes))
        .collect();
    replay(frames, bodies::frame);
}

#[test]
fn tcp_options() {
    replay(corpus("wire_tcp_options"), bodies::tcp_options);
}

#[test]
fn checksums() {
    replay(corpus("wire_checksum"), bodies::checksum);
}

#[test]
fn neighbour_discovery() {
    replay(corpus("wire_ndp"), bodies::ndp);
}
