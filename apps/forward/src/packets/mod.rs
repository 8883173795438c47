//! One packet: what is read of it, how it is rewritten, wrapped or answered, and where it goes.

pub mod endpoint;
pub mod fragments;
pub mod icmp;
pub(crate) mod onward;
pub mod packet;
pub mod reach;
pub mod refusal;
pub mod rewrite;
pub mod too_big;
pub mod traffic;
pub mod tunnel;
