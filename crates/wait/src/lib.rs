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
//! | `watch` | sleeping at lines of several writers, by futex_waitv(2), and beside descriptors, by io_uring |
//!
//! # Waiting for any of several
//!
//! ```
//! use exos_wait::{Counts, Line, Place, Predicate, Spin, Test, Watch, wait};
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! // In memory that all share: what two producers have made so far, and a line at which each finds what is waited for.
//! let made = [AtomicU64::new(0), AtomicU64::new(0)];
//! let lines = [Line::default(), Line::default()];
//! let values = [[&made[0]], [&made[1]]];
//! let place = |n: usize, at_least| Place {
//!     line: &lines[n],
//!     predicate: Predicate::NEVER.or(0, Test::Reached(at_least)),
//!     values: &values[n],
//! };
//! // 64 of the first, or anything of the second.
//! let mut watch = Watch::default().or(place(0, 64)).or(place(1, 1));
//! let mut counts = Counts::default();
//! let has_come = std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         for n in 1..=64 {
//!             made[0].store(n, Ordering::Release);
//!             // Makes a system call with the 64th, if with any.
//!             lines[0].tell(&[n]);
//!         }
//!     });
//!     wait(&mut watch, Spin::Not, None, &mut counts)
//! })?;
//! assert!(has_come && counts.wakes <= 1 && counts.false_wakes == 0);
//! # Ok::<(), std::io::Error>(())
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
mod watch;

pub use budget::Budget;
pub use line::Line;
pub use predicate::{Predicate, Term, Test};
pub use waiting::{Counts, Slept, Spin, Waited, wait};
pub use watch::{Place, Watch};
