//! What the tests of several crates share: random choices that a seed repeats, and how many of them are drawn ([`cases`]), the replay of fuzzing corpora,
//! parts that run in a process of their own, an allocator that counts ([`heap`]), and an interpreter for programs of the
//! kernel, which it shows as text, too ([`ebpf`]).
//!
//! Only tests depend on it. It depends on nothing, so that a seed means the same choices whatever is updated. The
//! simulator has random numbers of its own (`exos_sim::Random`), because it is a library for programs too.

mod cases;
mod corpus;
pub mod ebpf;
pub mod heap;
mod random;
mod subprocess;

pub use cases::cases;
pub use corpus::{corpus, replay, run};
pub use random::Random;
pub use subprocess::{done, is_done, play, role};
