//! Replays the fuzzers' corpora with a stable compiler.
//!
//! What is checked of each input stands in `fuzz/bodies/filter.rs`, which the fuzz targets include as well.

#[path = "../../../fuzz/bodies/filter.rs"]
mod bodies;
mod common;

use std::path::Path;

/// The files of one corpus.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

#[test]
fn texts_of_the_corpus_hold() {
    corpus("filter_parse")
        .iter()
        .for_each(|input| bodies::parse(input));
}

#[test]
fn frames_of_the_corpus_hold() {
    corpus("filter_matches")
        .iter()
        .for_each(|input| bodies::matches(input));
}

/// The same checks on generated filters and packets, which reach further than a small corpus.
#[test]
fn generated_inputs_hold() {
    for seed in 0..3000 {
        let random = &mut common::Random(seed);
        let (a, b) = (common::text(random, 2), common::text(random, 2));
        bodies::parse(a.as_bytes());
        let mut input = format!("{a}\n{b}\n").into_bytes();
        input.extend(common::packet(random));
        bodies::matches(&input);
    }
}
