//! The language of handlers: code of a program that deals with its messages where they arrive, before anything is scheduled
//! (application-specific safe handlers: Wallach, Engler, Kaashoek, *ASHs*, SIGCOMM 1996).
//!
//! A [`Handler`](code::Handler) is a tree, read from [text](parse) or put together by a [`Builder`]. [`check`] accepts it: then it is
//! bounded, and a message is dealt with whole or goes to the program as it came. [`interpret`] is what it means; [`kernel`] makes a program
//! of it that the kernel runs on each packet that arrives for it, and [`Native`] is machine code of it for the program's own use. Its
//! [memory](Memory) is the program's, too: what the one writes the other reads, without a lock and without a system call. A [`Table`] of it
//! answers what the program has put under a key.
//!
//! ```
//! let handler = exos_ash::parse(
//!     "handler counters {
//!          words counters[1024];
//!          need 12;
//!          counter = &counters[be32(0)];
//!          before = add(counter, be64(4));
//!          reply 12 { be64(4) = before; }
//!      }",
//! )?;
//! assert!(handler.steps() < 100);
//! # Ok::<(), exos_ash::TextError>(())
//! ```

pub mod builder;
mod check;
pub mod code;
mod interpret;
pub mod kernel;
mod layers;
pub mod limits;
mod memory;
#[cfg(feature = "native")]
mod native;
mod table;
mod text;

pub use builder::{Builder, Word};
pub use check::{CheckError, Checked, check};
pub use interpret::{Outcome, interpret};
pub use memory::{Layout, Memory};
#[cfg(feature = "native")]
pub use native::{Native, Unavailable, Verdict};
pub use table::{Table, TableError};
pub use text::{TextError, parse};
