//! Drivers: what the clients ask for, and how long they think before (*Fast and Flexible*, section 6.1).
//!
//! | file | what is in it |
//! |---|---|
//! | `task` | what a driver is |
//! | `one` | one request, each time |
//! | [`weighted`] | a list of requests, each as often as it says |
//! | [`replay`], [`log_line`] | an access log |
//! | [`surge`] | users of a set of documents |
//! | `plan` | which of these the command line asks for |

pub mod log_line;
mod one;
mod plan;
pub mod replay;
pub mod surge;
mod task;
pub mod weighted;

pub use one::One;
pub use plan::DriverArgs;
pub(crate) use plan::{Common, Plan};
pub(crate) use task::Maker;
pub use task::{Driver, Task};
