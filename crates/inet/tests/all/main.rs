//! All integration tests of this crate, in one program: each module has its own first line.

mod allocations;
mod checksums;
mod corners;
mod corpus;
mod datagram_bursts;
mod deadlines;
mod fast_paths;
#[path = "../../../../fuzz/bodies/frames.rs"]
mod frames;
mod handling;
mod loopback;
mod marked_fragments;
mod memory;
mod own_congestion_control;
mod own_loop;
mod pools;
mod requirements;
mod runner;
mod scripts;
mod sharing;
mod skipping;
mod syn_offload;
mod two_stacks;
