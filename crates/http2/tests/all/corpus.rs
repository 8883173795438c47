//! Replays the fuzzing corpora, and damaged copies of each of their inputs, with the ordinary compiler.

#[path = "../../../../fuzz/bodies/web/http2.rs"]
mod body;

use exos_testing::{corpus, replay};

const MUTATIONS: usize = 500;

#[test]
fn header_blocks_corpus() {
    replay(
        corpus("http2_header_blocks"),
        MUTATIONS,
        body::header_blocks,
    );
}

#[test]
fn connection_corpus() {
    replay(corpus("http2_connection"), MUTATIONS, body::connection);
}
