//! What attacks are made with: the hostile process, its program and what it tries with descriptors, the far end of the wire, and the world around them.

pub mod attacker;
pub mod far_end;
pub mod games;
pub mod program;
pub mod raw_rings;
pub mod world;
