//! Replays the fuzzers' corpora, generated packets, and seeded mutations of both, with a stable
//! compiler.
//!
//! What is checked of each input stands in `fuzz/bodies/dump.rs`, which the fuzz targets include
//! too. A failure names its input, so that it can be replayed alone.

#[path = "../../../fuzz/bodies/dump.rs"]
mod bodies;
mod common;

use std::panic::catch_unwind;
use std::path::Path;

use common::{Random, packets};

/// Mutations of each input.
const MUTATIONS: usize = 20;

/// The files of one target's corpus.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let read = |path: &Path| (path.display().to_string(), std::fs::read(path).unwrap());
    files.iter().map(|path| read(path)).collect()
}

fn replay(inputs: Vec<(String, Vec<u8>)>, body: fn(&[u8])) {
    let mut random = Random(2);
    for (name, input) in inputs {
        run(&name, &input, body);
        for _ in 0..MUTATIONS {
            let mut damaged = input.clone();
            random.mutate(&mut damaged);
            run(&name, &damaged, body);
        }
    }
}

fn run(name: &str, input: &[u8], body: fn(&[u8])) {
    if catch_unwind(|| body(input)).is_err() {
        panic!("failed on a mutation of {name}: {input:02x?}");
    }
}

#[test]
fn text_of_the_corpus() {
    replay(corpus("dump_text"), bodies::text);
}

#[test]
fn files_of_the_corpus() {
    replay(corpus("dump_file"), bodies::file);
}

#[test]
fn text_of_generated_packets() {
    let mut random = Random(7);
    let makers: [fn(&mut Random) -> Vec<u8>; 12] = [
        packets::plain_udp,
        packets::plain_tcp,
        packets::odd_tcp_options,
        packets::http,
        packets::arp,
        packets::icmpv4,
        packets::icmpv6,
        packets::odd_ipv4,
        packets::odd_ipv6,
        packets::other_ethertype,
        packets::stacked_tags,
        packets::dns,
    ];
    let mut inputs = Vec::new();
    for (number, make) in makers.iter().enumerate() {
        for i in 0..60 {
            let more = if random.one_in(2) {
                0
            } else {
                random.word() as u8
            };
            let input = [vec![more], make(&mut random)].concat();
            inputs.push((format!("packet {i} of kind {number}"), input));
        }
    }
    replay(inputs, bodies::text);
}
