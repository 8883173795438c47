//! What is known of losses of one connection's data. `recovery` drives it.
//!
//! [`scoreboard`] holds what was sent, [`rack`] judges it, [`repair`] paces one episode of repairing. [`flight::Loss`] is
//! their sum.

pub mod flight;
pub mod rack;
pub mod repair;
pub mod scoreboard;
