//! What a site is told by path, beside its documents: [`fields`] of responses, [`redirect`]s, and who has [`access`], each for the
//! paths of a [`pattern`]. The first two are applied when a document comes into the table.

pub mod access;
pub mod fields;
pub mod pattern;
pub mod redirect;
