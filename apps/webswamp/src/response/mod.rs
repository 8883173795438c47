//! Responses, taken in where they lie and counted: [`head`] says how long a body is, [`chunks`] where one ends that
//! says so itself. Nothing is kept of them.

mod body;
mod chunks;
mod head;
mod malformed;

pub use body::Body;
pub use chunks::{Chunks, Taken};
pub use head::{Head, Heads};
pub use malformed::Malformed;
