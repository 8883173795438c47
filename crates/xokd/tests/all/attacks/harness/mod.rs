//! What attacks are made with: the hostile process and its program, the far end of the wire, and the world around them.

pub mod attacker;
pub mod far_end;
pub mod program;
pub mod raw_rings;
pub mod world;
