//! What a server does: it asks an application over a [`Link`], and takes its answers in parts.

mod asked;
mod hearing;
mod kept;
mod link;
mod sending;

pub use asked::Part;
pub use link::Link;
