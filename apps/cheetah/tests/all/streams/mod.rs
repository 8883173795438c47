//! Long files, which are read while they are sent.

mod streaming;
mod streaming_life;
mod streaming_wire;
