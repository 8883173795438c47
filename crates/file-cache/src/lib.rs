//! The file cache as a service: files of which programs of a user, or of several, share one copy, by reference (*IO-Lite*, Pai, Druschel, Zwaenepoel, OSDI
//! 1999, sections 2.5, 2.7 and 3.5).
//!
//! ```text
//! program                                                     service, of a user or a host
//! opens a file: the kernel decides ── descriptor ───────────> its version
//! asks for a range ─────────────────────────────────────────> extents in a pool: there, or read now
//! Aggregate  <──────────── references, by a pipe of ours ──── keeps them until others need the room
//! ```
//!
//! What a program has read does not change, whatever happens to the file, to the cache or to the service. All that it reads by one
//! [`File`] is of one version of the file.
//!
//! | file | job |
//! |---|---|
//! | `version` | which bytes of a file these are; when its times can be believed: read this first |
//! | `protocol` | what program and service say to each other |
//! | `open_file`, `mounts`, `public` | which files are taken |
//! | `passed` | descriptors of programs, whose closing may wait |
//! | `users` | who may connect, and what each may keep |
//! | `extents`, `parts` | what is in memory, and whose policy says what has to go |
//! | `service`, `session` | the process that has the memory, and what it knows of each program |
//! | `client` | the program's side |
//! | `kept` | what a program keeps in its share, by a policy of its own |
//! | `lender` | whole files for all threads of a program |
//! | `descriptor` | aggregates of what is no file of the cache: by copy |
//! | `place` | where a user's service is found |

#![forbid(unsafe_code)]

mod client;
pub mod descriptor;
mod error;
mod extents;
mod kept;
mod lender;
mod lending;
pub mod limits;
mod mounts;
mod open_file;
mod parts;
mod passed;
pub mod place;
mod protocol;
mod public;
mod service;
mod session;
mod users;
mod version;

pub use client::{Client, File, Opened};
pub use error::{Error, Result};
pub use kept::{Kept, KeptCounts, KeptFile};
pub use lender::{Lender, LentFile, NotLent};
pub use protocol::{NAME_LEN_MAX, Request, Statistics, Status, WORDS};
pub use service::{Options, Service};
pub use users::User;
