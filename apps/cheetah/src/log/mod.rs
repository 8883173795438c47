//! The access log: a line for each response, when its client has taken it.
//!
//! # Rules of the interface
//!
//! - Each response is given to the log as it is made, and its line hangs on the connection's [`Unfinished`]
//!   ([`Log::answered`]).
//! - A line is written when all bytes of its response are acknowledged ([`Log::acknowledged`]), or when its connection
//!   is over ([`Log::ended`]): only then is it known how much was sent and how long it took. Its time of day is that
//!   moment's, so lines are in order of time.
//! - Once a turn, [`Log::tick`].
//!
//! What others answer with, a program in the kernel, has a line prepared ([`Log::take_lines`]), which is written as often as they say
//! that they did ([`Log::answered_by_others`]), with the time that they say.
//!
//! Nothing here waits: a full buffer goes to the [`writer`], a thread that writes to a [`sink`]; when that has too much
//! already, lines are left out and counted. All memory is bounded, see the limits of the log in [`crate::limits`].
//!
//! Several loops have a log each and one writer. [`line`] is what a line looks like, [`stamp`] its time.

mod access_log;
mod args;
mod chunk;
mod line;
mod sink;
mod stamp;
mod unfinished;
mod writer;

pub use access_log::{Log, Told};
pub use args::LogArgs;
pub use line::{Answer, Format, LoggedRequest};
pub use sink::Target;
pub use unfinished::{Line, Unfinished};
