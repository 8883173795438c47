//! Replays the fuzzers' corpora, the captures, and seeded mutations of both, with a stable compiler.
//!
//! What is checked of each input stands in `fuzz/bodies/wire.rs`, which the fuzz targets include
//! too. A failure names its input, so that it can be replayed alone.

use crate::bodies;
use crate::common;

use common::captured;
use exos_testing::{corpus, replay};

/// Mutations of each input; some 150 files per corpus make tens of thousands of inputs, in a second.
const MUTATIONS: usize = 300;

#[test]
fn frames() {
    replay(corpus("wire_frame"), MUTATIONS, bodies::frame);
}

#[test]
fn captured_frames() {
    let frames = captured()
        .into_iter()
        .map(|frame| (frame.name, frame.bytes))
        .collect();
    replay(frames, MUTATIONS, bodies::frame);
}

#[test]
fn tcp_options() {
    replay(corpus("wire_tcp_options"), MUTATIONS, bodies::tcp_options);
}

#[test]
fn checksums() {
    replay(corpus("wire_checksum"), MUTATIONS, bodies::checksum);
}

#[test]
fn neighbour_discovery() {
    replay(corpus("wire_ndp"), MUTATIONS, bodies::ndp);
}

#[test]
fn hellos() {
    replay(corpus("wire_hello"), MUTATIONS, bodies::hello);
}
