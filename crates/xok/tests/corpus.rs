//! Replays the fuzzer's corpus with a stable compiler, each input also cut and with each byte changed.
//!
//! What is checked of each input stands in `fuzz/bodies/xok.rs`, which the fuzz target includes as well.

#[path = "../../../fuzz/bodies/xok.rs"]
mod bodies;

use exos_testing::corpus;
use exos_xok::Request;
use exos_xok::message::FromDaemon;

#[test]
fn messages_of_the_corpus_hold() {
    for (_, input) in corpus("xok_message") {
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
    for (name, input) in corpus("xok_message") {
        let known = Request::decode(&input).is_ok() || FromDaemon::decode(&input).is_ok();
        let bad = name == "bad_kind" || name == "claim_port_zero";
        let found = name.len() == 40 || known != bad; // Found by the fuzzer: named by its hash.
        assert!(found, "{name}");
    }
}
