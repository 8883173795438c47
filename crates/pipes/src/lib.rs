//! Integrated layer processing: what layers do to each byte of a message, put together at run time and done in one loop over the data
//! (Wallach, Engler, Kaashoek, *ASHs*, SIGCOMM 1996, section 4; Clark and Tennenhouse, SIGCOMM 1990).
//!
//! A [`Pipe`] does one thing to each word of a message, or takes something from it into a register. A [`List`] of them has a
//! meaning, one [pass](List::passes) over the message for each, and is [compiled](Loop::compile) into machine code which does all
//! of it while each word is in a register of the processor.
//!
//! ```
//! use exos_pipes::{Gauge, List, Loop, Pipe};
//!
//! let list = List::new(vec![Pipe::Checksum, Pipe::Swap(Gauge::Four)])?;
//! let both = Loop::compile(list)?;
//! let mut state = both.list().state();
//! let mut to = [0; 8];
//! both.copy(&[1, 2, 3, 4, 5, 6, 7, 8], &mut to, &mut state)?;
//! assert_eq!(to, [4, 3, 2, 1, 8, 7, 6, 5]);
//! assert_eq!(state.register(0), Some(0x0102 + 0x0304 + 0x0506 + 0x0708));
//! # Ok::<(), exos_pipes::PipeError>(())
//! ```

mod assembler;
mod code;
mod compile;
mod error;
mod lower;
mod passes;
mod pipe;
mod state;

pub use compile::Loop;
pub use error::PipeError;
pub use passes::List;
pub use pipe::{Gauge, Pipe};
pub use state::State;
