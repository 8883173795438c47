//! Replays the fuzzers' corpora with a stable compiler, and mutations of it.
//!
//! What is checked of each input stands in `fuzz/bodies/ash.rs`, which the fuzz targets include as well.

#[path = "../../../../fuzz/bodies/ash.rs"]
mod bodies;

use exos_testing::{corpus, replay};

#[test]
fn handlers_of_the_corpus_hold() {
    replay(corpus("ash_handler"), 500, bodies::handler);
}
