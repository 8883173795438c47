//! A handler as text.
//!
//! ```text
//! handler counters {
//!     words counters[1024];
//!
//!     need 12;
//!     counter = &counters[be32(0)];          // gives the message up where there is no such counter
//!     before = add(counter, be64(4));
//!     reply 12 { be64(4) = before; }
//! }
//! ```
//!
//! A variable begins with its first assignment and is the whole handler's. What is written is read again as what it was.

mod error;
mod lexer;
mod parser;
mod words;
mod write;

pub use error::TextError;
pub use parser::parse;
pub(crate) use words::is_name;
