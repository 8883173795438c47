//! The program: starts, runs its loop, stops in order.
//!
//! | file | what is in it |
//! |---|---|
//! | `start` | what is wanted is checked, and all that it takes is had |
//! | `program` | the loop |
//! | `asked` | what others ask of it while it runs |
//! | `reload`, `follow` | another file, and other addresses of names |

mod asked;
mod follow;
mod program;
mod reload;
mod start;

use std::io::Write;
use std::process::ExitCode;

use exos::Error;

use crate::program::control;
use crate::settings::check;
use crate::settings::options::{ForwardArgs, Other};
use program::Program;

/// `exos forward`.
///
/// # Errors
///
/// What is wanted does not fit together, or the link cannot be had or has gone.
pub fn run(args: &ForwardArgs) -> Result<ExitCode, Error> {
    if let Some(Other::Ctl(args)) = &args.other {
        return control::run(args);
    }
    if args.splice {
        return crate::splice::run(args);
    }
    if let (Some(file), Some(None)) = (&args.config, &args.health.check) {
        check::check(file, args).map_err(|errors| Error::new(errors.to_string()))?;
        // Nobody may be reading; the status says it too.
        let _ = writeln!(std::io::stdout(), "{}: good", file.display());
        return Ok(ExitCode::SUCCESS);
    }
    Program::start(args)?.run()
}
