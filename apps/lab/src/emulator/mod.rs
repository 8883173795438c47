//! The emulated wire: delay, loss and the rest between the two sides of a lab.
//!
//! | file | job |
//! |---|---|
//! | `conditions` | what happens to frames: settings, bounds, defaults |
//! | `direction` | one direction as a state machine without I/O: where to start reading |
//! | `bottleneck`, `ecn`, `random` | its limited rate, its marks, its random numbers |
//! | `forward` | the thread that moves frames between two AF_XDP rings |
//! | `waiting`, `urgency` | when that thread sleeps, and before whom it runs |
//! | `interfaces`, `lateness`, `statistics` | what the kernel lost around it, how late frames leave, and everything else that is counted |
//! | `shared`, `reporter`, `control`, `running` | its threads, and how others ask them |
//! | `background` | the same in a process of its own |
//!
//! Why it is made so, and how exact it is: docs/internals/measuring.md#the-wire-emulator.

pub(crate) mod background;
mod bottleneck;
mod conditions;
pub(crate) mod control;
mod direction;
mod ecn;
mod forward;
mod interfaces;
mod lateness;
mod random;
mod reporter;
pub(crate) mod running;
mod shared;
mod statistics;
mod urgency;
mod waiting;

pub(crate) use conditions::parse_reorder;
pub use conditions::{BurstLoss, Conditions};
pub use direction::{Departure, Direction};
pub use lateness::Lateness;
pub use statistics::{
    DirectionReport, DirectionStatistics, Emulation, OwnLosses, SCHEMA, Statistics,
};
