//! All integration tests of this crate, in one program: each module has its own first line.

mod checked;
mod common;
mod live_frames;
mod memory;
mod offer;
mod packet;
mod tap;
mod xdp;
mod xdp_open;
mod xdp_queues;
