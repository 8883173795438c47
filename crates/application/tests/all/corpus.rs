//! Replays the fuzzing corpora, and damaged copies of each of their inputs, with the ordinary compiler.

#[path = "../../../../fuzz/bodies/application.rs"]
pub mod body;

use exos_testing::{corpus, replay};

const MUTATIONS: usize = 2000;
/// Each makes three links.
const LINK_MUTATIONS: usize = 100;

#[test]
fn records_corpus() {
    replay(corpus("application_records"), MUTATIONS, body::records);
}

#[test]
fn variables_corpus() {
    replay(corpus("application_variables"), MUTATIONS, body::variables);
}

#[test]
fn answers_corpus() {
    replay(corpus("application_answers"), LINK_MUTATIONS, body::answers);
}
