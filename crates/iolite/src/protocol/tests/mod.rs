//! Models of the protocol: every order of its steps.

mod buffers;
mod shares;
