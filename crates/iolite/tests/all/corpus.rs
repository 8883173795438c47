//! Replays the fuzzing corpora, and damaged copies of each of their inputs, with the ordinary compiler.

#[path = "../../../../fuzz/bodies/iolite.rs"]
pub mod body;

use exos_testing::{corpus, replay};

/// Each makes memory files and a pipe.
const MUTATIONS: usize = 500;

#[test]
fn consumer_corpus() {
    replay(corpus("iolite_consumer"), MUTATIONS, body::consumer);
}

#[test]
fn producer_corpus() {
    replay(corpus("iolite_producer"), MUTATIONS, body::producer);
}
