//! Replays the fuzzers' corpora with a stable compiler.
//!
//! What is checked of each input stands in `fuzz/bodies/filter.rs`, which the fuzz targets include as well.

#[path = "../../../../fuzz/bodies/filter.rs"]
mod bodies;
use crate::common;

use exos_testing::{Random, corpus, run};

fn each(target: &str, body: fn(&[u8])) {
    for (name, input) in corpus(target) {
        run(&name, &input, body);
    }
}

#[test]
fn texts_of_the_corpus_hold() {
    each("filter_parse", bodies::parse);
}

#[test]
fn frames_of_the_corpus_hold() {
    each("filter_matches", bodies::matches);
}

/// Checks generated filters and packets, which reach further than a small corpus.
#[test]
fn generated_inputs_hold() {
    for seed in 0..3000 {
        let random = &mut Random(seed);
        let (a, b) = (common::text(random, 2), common::text(random, 2));
        bodies::parse(a.as_bytes());
        let mut input = format!("{a}\n{b}\n").into_bytes();
        input.extend(common::packet(random));
        bodies::matches(&input);
    }
}
