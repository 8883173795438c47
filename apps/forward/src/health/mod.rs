//! Whether servers are well: by asking them ([`Checks`], [`Prober`]), and by what becomes of the connections that they are
//! given ([`passive`]).
//!
//! A server that is not well gets no new flows; those that it has go on. `rule` is what is asked and how often, `question`
//! what is said and how the answer is judged, `checks` when, and what follows: none of these perform anything. `prober` has the
//! checks made by a stack.

mod args;
mod checks;
pub mod passive;
mod prober;
mod question;
mod rule;

pub use args::{Ask, Codes, HealthArgs};
pub(crate) use args::{text, word};
pub use checks::{Checks, Target};
pub use prober::{Outcome, Prober};
pub use question::Failure;
pub use rule::{Kind, Question, Rule};
