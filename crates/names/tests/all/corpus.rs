//! Replays the fuzzing corpora, and damaged copies of each of their inputs, with the ordinary compiler.

#[path = "../../../../fuzz/bodies/names.rs"]
mod body;

use exos_testing::{corpus, replay};

const MUTATIONS: usize = 200;

#[test]
fn answer_corpus() {
    replay(corpus("names_answer"), MUTATIONS, body::answer);
}

#[test]
fn files_corpus() {
    replay(corpus("names_files"), MUTATIONS, body::files);
}
