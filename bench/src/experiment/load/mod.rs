//! `exos bench load`: load generators beside one another, the paper's Figure 6 redrawn (*Fast and Flexible*, section 6).
//!
//! | generator | |
//! |---|---|
//! | `exos` | `exos load` on a stack of its own, acknowledgements riding on what is sent next |
//! | `exos-unmerged` | the same, sending them by themselves |
//! | `exos-sockets` | the same clients on the kernel's sockets: the paper's baseline |
//! | `wrk`, `ab`, `httperf` | what people use, each with the settings that its documentation advises for speed |
//!
//! Set-up: the room of `exos bench http`, on the plain wire: the server on one core, the generator on another. In each
//! run of a cell the generators take turns on a server that is started again for each, and the ratio of each run is
//! taken before the median over the runs. How busy both sides were is measured in the middle of each load: a generator
//! tells of a server only while it has time left itself.
//!
//! `options` is what may be chosen; `generator` are the command lines and what was `said`; `httperf` is led by hand;
//! `session` measures; `outcome` and `report` are what came of it; `table` and `html` show it.

mod generator;
mod html;
mod httperf;
mod options;
mod outcome;
mod report;
mod said;
mod session;
mod table;

pub use generator::Generator;
pub use options::LoadArgs;
pub use outcome::{Case, Outcome, Run};
pub use report::Report;

use crate::report as output;
use exos_host::{Error, Result};
use std::process::ExitCode;

/// Measures as asked, prints the table, and writes JSON and the page with figures.
pub fn run(args: &LoadArgs) -> Result<ExitCode> {
    if args.list {
        output::list(args.cells().iter().map(ToString::to_string).collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    let files = (args.json.as_deref(), args.html.as_deref());
    output::tell(files, || measure(args))?;
    Ok(ExitCode::SUCCESS)
}

/// Measures as asked.
pub fn measure(args: &LoadArgs) -> Result<Report> {
    args.check()?;
    if args.cells().is_empty() {
        return Err(Error::new("no cell has such a name").mend("see --list"));
    }
    session::measure(args)
}
