//! Handlers: programs that answer packets in the kernel, before the filter, as the application would.
//!
//! A handler looks at a packet first. What it can answer it turns into the answer, in place, and has it sent back by
//! the interface that it came from (`XDP_TX`): the application never sees it. Everything else it hands on to the
//! filter, so a handler that knows only the commonest packets is complete. It is the application's own code in the
//! kernel, made safe by the verifier (ASHs; *Fast and Flexible*, section 8).
//!
//! [`syn`] answers SYNs, so that who opens a connection costs the application nothing until he has shown that he is
//! where he says.

mod arithmetic;
mod sip;
pub mod syn;

pub use syn::SynHandler;
