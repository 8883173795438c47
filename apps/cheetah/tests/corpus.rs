//! Replays the fuzzer's corpus with a stable compiler, each input also with every byte removed.
//!
//! What is checked of each input stands in `fuzz/bodies/http.rs`, which the fuzz target includes
//! too. A failure names its input.

#[path = "../../../fuzz/bodies/http.rs"]
mod bodies;

use std::panic::catch_unwind;
use std::path::Path;

#[test]
fn requests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/http_request");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let input = std::fs::read(&path).unwrap();
        run(&path, &input);
        for at in (0..input.len()).step_by(1 + input.len() / 300) {
            let mut damaged = input.clone();
            damaged.remove(at);
            run(&path, &damaged);
        }
    }
}

fn run(path: &Path, input: &[u8]) {
    if catch_unwind(|| bodies::request(input)).is_err() {
        panic!(
            "failed on {} or what was made of it: {:?}",
            path.display(),
            input.escape_ascii()
        );
    }
}
