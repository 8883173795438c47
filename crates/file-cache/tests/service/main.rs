//! The file cache with real files and programs: what is shared, what does not change, and peers that do as they like.

mod common;
mod hostile;
mod serving;
mod snapshots;
mod users;
