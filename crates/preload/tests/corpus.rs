//! Replays the fuzzer's corpus with a stable compiler, with mutations of each input.
//!
//! What is checked of each input stands in `fuzz/bodies/run.rs`, which the fuzz target includes as well.

#[path = "../../../fuzz/bodies/run.rs"]
mod bodies;

use exos_testing::{corpus, replay};

#[test]
fn memory_of_the_corpus_holds() {
    replay(corpus("run_memory"), 60, bodies::memory);
}
