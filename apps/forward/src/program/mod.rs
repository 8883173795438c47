//! The program around the forwarder: its loop, who it follows and who follows it, checks, reports and control.

pub(crate) mod announce;
pub(crate) mod answers;
pub(crate) mod busy_poll;
pub(crate) mod checking;
pub(crate) mod control;
pub(crate) mod exporter;
pub(crate) mod keeper;
pub(crate) mod lent;
pub(crate) mod predecessor;
pub(crate) mod run;
pub(crate) mod seeking;
pub(crate) mod statistics;
pub mod status;
