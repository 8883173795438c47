//! Handlers: programs that deal with packets in the kernel, before the filter, as the application would.
//!
//! A handler looks at a packet first. What it can deal with it changes, in place, and has it leave by the interface
//! that it came from: the application never sees it. Everything else it hands on to the filter, so a handler that knows
//! only the commonest packets is complete. It is the application's own code in the kernel, made safe by the verifier
//! (ASHs; *Fast and Flexible*, section 8).
//!
//! - [`syn`] answers SYNs, so that who opens a connection costs the application nothing until they have shown that they are
//!   where they say.
//! - [`web`] answers requests, with what the server answered to the same bytes before.
//! - [`forward`] sends packets of known flows on, with other ends.

pub mod arithmetic;
mod attached;
mod behind;
pub mod forward;
mod sip;
pub mod syn;
pub mod web;

pub use attached::{FILTER_SLOT, Handler};
pub use behind::Behind;
pub use forward::ForwardHandler;
pub use syn::SynHandler;
pub use web::WebHandler;
