//! Replays the fuzzers' corpora, and seeded mutations of each input, with a stable compiler.
//!
//! What is checked of each input stands in `fuzz/bodies/webswamp.rs`, which the fuzz targets include too. A failure names its
//! input.

#[path = "../../../../fuzz/bodies/webswamp.rs"]
mod bodies;

use exos_testing::{corpus, replay};

#[test]
fn responses() {
    replay(corpus("load_response"), 200, bodies::response);
}

#[test]
fn frames_of_http2() {
    replay(corpus("load_http2"), 200, bodies::http2);
}

#[test]
fn logs() {
    replay(corpus("load_log"), 200, bodies::log);
}

#[test]
fn lists() {
    replay(corpus("load_list"), 200, bodies::list);
}

#[test]
fn sets_of_documents() {
    replay(corpus("load_documents"), 200, bodies::documents);
}

#[test]
fn saved_results() {
    replay(corpus("load_results"), 40, bodies::results);
}
