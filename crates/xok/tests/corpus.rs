//! Replays the fuzzer's corpus with a stable compiler, each input also cut and with each byte changed.
//!
//! What is checked of each input stands in `fuzz/bodies/xok.rs`, which the fuzz target includes as well.

#[path = "../../../fuzz/bodies/xok.rs"]
mod bodies;

use std::path::Path;

use exos_xok::Request;
use exos_xok::message::FromDaemon;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/xok_message");
    let entries = std::fs::read_dir(&folder).expect("the corpus is there");
    let read = |path: std::path::PathBuf| {
        let name = path
            .file_name()
            .expect("it has one")
            .to_string_lossy()
            .into_owned();
        (name, std::fs::read(&path).expect("it can be read"))
    };
    entries
        .map(|entry| read(entry.expect("it can be listed").path()))
        .collect()
}

#[test]
fn messages_of_the_corpus_hold() {
    for (_, input) in corpus() {
        bodies::message(&input);
        for at in 0..input.len() {
            bodies::message(&input[..at]);
            for bit in 0..8 {
                let mut changed = input.clone();
                changed[at] ^= 1 << bit;
                bodies::message(&changed);
            }
        }
    }
}

/// The corpus was written by hand from the format's description: it reads back, but for what is named bad.
#[test]
fn the_format_is_what_its_description_says() {
    for (name, input) in corpus() {
        let known = Request::decode(&input).is_ok() || FromDaemon::decode(&input).is_ok();
        let bad = name == "bad_kind" || name == "claim_port_zero";
        let found = name.len() == 40 || known != bad; // Found by the fuzzer: named by its hash.
        assert!(found, "{name}");
    }
}
