//! How connections begin: who listens, from which ports we open, and cookies of what is not kept. What is done with a SYN
//! stands in `endpoint`.

pub mod cookie;
pub mod listeners;
pub mod ports;
