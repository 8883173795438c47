//! Replays what fuzzers have found with the ordinary compiler.

use crate::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

const SEED: u64 = 2;

/// The inputs of one fuzz target in the order of their names: name, bytes.
///
/// # Panics
///
/// When there are none.
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = files
        .map(|file| file.expect("it can be listed").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    let read = |path: &Path| {
        let name = path.file_name().expect("files have names");
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (name.to_string_lossy().into_owned(), bytes)
    };
    files.iter().map(|path| read(path)).collect()
}

/// Run `body` on each input and on this many seeded mutations of it.
///
/// # Panics
///
/// When `body` does; see [`run`].
pub fn replay(inputs: Vec<(String, Vec<u8>)>, mutations: usize, body: impl Fn(&[u8])) {
    let mut random = Random(SEED);
    for (name, input) in inputs {
        run(&name, &input, &body);
        for number in 0..mutations {
            let mut damaged = input.clone();
            random.mutate(&mut damaged);
            run(&format!("mutation {number} of {name}"), &damaged, &body);
        }
    }
}

/// Run `body` on one input.
///
/// # Panics
///
/// When `body` does, with the input, so that it can be run alone and kept in the corpus.
pub fn run(name: &str, input: &[u8], body: impl Fn(&[u8])) {
    if catch_unwind(AssertUnwindSafe(|| body(input))).is_err() {
        panic!("failed on {name}: {input:02x?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_runs_each_input_and_its_mutations() {
        let seen = std::cell::Cell::new(0);
        let inputs = vec![("a".to_owned(), vec![1, 2]), ("b".to_owned(), Vec::new())];
        replay(inputs, 3, |_| seen.set(seen.get() + 1));
        assert_eq!(seen.get(), 8);
    }

    #[test]
    #[should_panic(expected = "failed on three: [03]")]
    fn a_failure_names_its_input() {
        run("three", &[3], |input| assert_ne!(input, [3]));
    }
}
