//! Servers and applications in one process, on two threads.

mod common;
mod good;
mod hostile;
