//! Grants: who gets them, by claims and by filters, for whom they are kept, and how they are taken back.

mod claims;
mod generals;
mod revocation;
mod successors;

pub(super) use claims::Wish;
pub(super) use generals::check_words;
pub(super) use successors::dropped;
