//! Replays the fuzzing corpora, and damaged copies of each of their inputs, with the ordinary compiler.

#[path = "../../../../fuzz/bodies/tls.rs"]
pub(crate) mod body;

use exos_testing::{corpus, replay};

const MUTATIONS: usize = 200;

#[test]
fn hello_corpus() {
    replay(corpus("tls_hello"), MUTATIONS, body::hello);
}

#[test]
fn certificate_corpus() {
    replay(corpus("tls_certificate"), MUTATIONS, body::validity);
}

/// A handshake comes before each.
const HANDSHAKES: usize = MUTATIONS / 4;

#[test]
fn records_corpus() {
    replay(corpus("tls_records"), HANDSHAKES, body::records);
}

#[test]
fn observed_corpus() {
    replay(corpus("tls_observed"), MUTATIONS, body::observed);
}
