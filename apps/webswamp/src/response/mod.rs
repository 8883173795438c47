//! Responses, taken in where they lie and counted: [`Heads`] says how long a [`Body`] is, [`Chunks`] where one ends that
//! says so itself. Nothing is kept of them.

mod body;
mod chunks;
mod head;
mod malformed;

pub use body::Body;
pub use chunks::{Chunks, Taken};
pub use head::{Head, Heads};
pub use malformed::Malformed;
