//! What a server does: it asks an application over a [`Link`], and takes its answers in parts.

mod asked;
mod heads;
mod hearing;
mod kept;
mod link;
mod requests;
mod sending;

pub use asked::{Content, Head, Part};
pub use link::Link;
