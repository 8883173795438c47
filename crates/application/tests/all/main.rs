//! Servers and applications in one process, on two threads.

mod common;
mod corpus;
mod ending;
mod good;
mod hostile;
