//! Replays the fuzzing corpora, and damaged copies of each of their inputs, with the ordinary compiler.

#[path = "../../../../fuzz/bodies/web/http3.rs"]
mod body;

use exos_testing::{corpus, replay};

const MUTATIONS: usize = 5000;

#[test]
fn field_section_corpus() {
    replay(
        corpus("http3_field_section"),
        MUTATIONS,
        body::field_section,
    );
}

#[test]
fn encoder_stream_corpus() {
    replay(
        corpus("http3_encoder_stream"),
        MUTATIONS,
        body::encoder_stream,
    );
}

#[test]
fn request_corpus() {
    replay(corpus("http3_request"), MUTATIONS, body::request);
}

#[test]
fn control_corpus() {
    replay(corpus("http3_control"), MUTATIONS, body::control);
}

#[test]
fn response_corpus() {
    replay(corpus("http3_response"), MUTATIONS, body::response);
}
