//! Replays the fuzzing corpora, and damaged copies of each of their inputs, with the ordinary compiler.

#[path = "../../../../fuzz/bodies/application.rs"]
mod body;

use exos_testing::{corpus, replay};

const MUTATIONS: usize = 2000;

#[test]
fn records_corpus() {
    replay(corpus("application_records"), MUTATIONS, body::records);
}

#[test]
fn variables_corpus() {
    replay(corpus("application_variables"), MUTATIONS, body::variables);
}
