//! Wakeup predicates: a process waits until *any of these* holds, and the one that changes a value decides whether that wakes it.
//!
//! After *Application Performance and Flexibility on Exokernel Systems* (Kaashoek and others, SOSP 1997, section 5.1), where the kernel
//! evaluates such predicates before it lets a process run. Here the one that waits publishes its [`Predicate`] in shared memory, in a
//! [`Line`], and the writer evaluates it behind each change, without a system call. So a producer that adds a byte does not wake a consumer
//! that waits for 64 KiB.
//!
//! | file | job |
//! |---|---|
//! | `predicate` | what is waited for: terms over values, and how they are written into words |
//! | `line` | the protocol of the line in memory of both: read this first |
//! | `waiting` | looking for a while and then sleeping, and counting it |
//! | `budget` | for how long looking pays |
//! | `limits` | how much there can be, and how long |
//!
//! ```
//! use exos_wait::{Line, Predicate, Test};
//!
//! // In memory of both: the one that waits wants 64 of what the writer counts.
//! let line = Line::default();
//! line.publish(1, &Predicate::NEVER.or(0, Test::Reached(64)));
//! // The writer, behind each change: with the 64th it wakes it, by whatever it sleeps at.
//! let wakes: Vec<u64> = (1..=100).filter(|&made| line.decide(&[made])).collect();
//! assert_eq!(wakes, [64]);
//! ```
//!
//! # Who has to trust whom
//!
//! What stands in a line another process wrote. The worst that a writer can do is not to wake, or to wake for nothing: the one that sleeps
//! looks itself before it goes on, has a deadline if it asked for one, and hears of a peer's end by a descriptor. The worst that one that
//! waits can do is to have a writer make a needless call.

#![forbid(unsafe_code)]

mod budget;
pub mod limits;
mod line;
mod predicate;
mod waiting;

pub use budget::Budget;
pub use line::Line;
pub use predicate::{Predicate, Term, Test};
pub use waiting::{Counts, Slept, Spin, Waited, wait};
