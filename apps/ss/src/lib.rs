//! `exos ss`: the sockets of all programs that one may look into, in the columns of ss(8).
//!
//! Programs say of their sockets themselves, when they are asked ([`exos::watch`]). What they say is another process's: it is bounded
//! where it is read, and shown without what a terminal would obey.
//!
//! | file | job |
//! |---|---|
//! | `cli`, `states` | the command line, and its filter of states |
//! | `ask`, `users` | asks all programs at once; which processes have a socket |
//! | `table`, `details` | text: the columns, and what TCP knows |
//! | [`json`] | the same as JSON |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_program::message`.

mod ask;
mod cli;
mod details;
pub mod json;
mod limits;
mod states;
mod table;
mod users;

use std::process::ExitCode;

use exos::Error;
use exos_program::message::results;

pub use cli::SsArgs;

/// Prints the sockets that are asked for. The exit status says whether these are all.
///
/// # Errors
///
/// The filter is none, or the result cannot be written.
pub fn run(args: &SsArgs) -> Result<ExitCode, Error> {
    let wanted = args.wanted()?;
    let mut found = ask::all(args.pid);
    found.rows.retain(|row| wanted.has(&row.socket));
    found.rows.sort_by(ask::Row::order);
    let text = match args.json {
        true => json::report(&found),
        false => table::text(&found.rows, args),
    };
    results(&text)?;
    for silent in &found.silent {
        exos_program::warn!(
            "exos ss: these are not all sockets of {silent}: it is stopped, too busy, or there are too many"
        );
    }
    Ok(match found.silent.is_empty() && !found.is_cut {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
