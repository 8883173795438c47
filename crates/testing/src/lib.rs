//! What the tests of several crates share: random choices that a seed repeats, and the replay of fuzzing corpora.
//!
//! Only tests depend on it. It depends on nothing, so that a seed means the same choices whatever is updated. The
//! simulator has random numbers of its own (`exos_sim::Random`), because it is a library for programs too.

mod corpus;
mod random;

pub use corpus::{corpus, replay, run};
pub use random::Random;
