//! The program around the forwarder: its loop, who it follows and who follows it, checks, reports and control.
//!
//! | file | what is in it |
//! |---|---|
//! | `run` | `exos forward`: its start, its loop, its end |
//! | `cores` | one core's turns, and all cores together |
//! | `links` | a core's links, and frames that go from one to another |
//! | `lent` | on what a daemon lends |
//! | `predecessor`, `keeper` | in place of another forwarder, with its flows |
//! | `checking`, `seeking` | servers that are checked, and that are looked for on the link |
//! | `answers` | answers of servers that see their clients |
//! | `busy_poll` | when the loop does not sleep |
//! | `announce` | what it says when it listens |
//! | `statistics`, [`status`] | what it reports |
//! | `control`, `exporter` | who asks it, over its socket and over HTTP |

pub(crate) mod announce;
pub(crate) mod answers;
pub(crate) mod busy_poll;
pub(crate) mod checking;
pub(crate) mod control;
pub(crate) mod cores;
pub(crate) mod exporter;
pub(crate) mod keeper;
pub(crate) mod lent;
pub(crate) mod links;
pub(crate) mod predecessor;
pub(crate) mod run;
pub(crate) mod seeking;
pub(crate) mod statistics;
pub mod status;
