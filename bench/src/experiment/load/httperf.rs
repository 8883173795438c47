//! httperf, made to work as the others do.
//!
//! It is meant to begin connections at a given rate, whatever becomes of them: asked for more than it manages, it has
//! 1,024 descriptors (those of `select`) in use at once, and counts what it could not begin. So it is given sessions
//! instead, as many as the others have connections: each makes its calls one after the other, as fast as they are
//! answered. For a connection each it speaks HTTP/1.0 and may have one at a time in a session; else it would send the next
//! call on a connection that the server is about to close.
//!
//! Sessions have a number of calls and no time. What it manages is measured by a few first.

use super::cell::Cell;
use super::output::{Reported, httperf as seen};
use crate::stage::process::find_program;
use crate::stage::request::Connection;
use crate::stage::web::{WebStage, whole};
use exos_host::Result;
use exos_lab::{Lab, Side};
use std::process::Command;

/// Calls of each session at first: some tenth of a second.
const FIRST_CALLS: u64 = 50;

/// How much longer than the measurement it is to run, since it may be faster than at first.
const LONGER: f64 = 1.5;

/// A command that takes somewhat longer than a measurement.
pub(super) fn command(web: &WebStage, lab: &Lab, cell: Cell) -> Result<Command> {
    let first = with_calls(web, lab, cell, FIRST_CALLS)?;
    let first = web.start("httperf", first, web.cores[1])?;
    let first = seen(&web.output_of(first, whole(web.seconds).into())?, cell)?;
    let calls = calls(first, whole(web.seconds), web.connections);
    with_calls(web, lab, cell, calls)
}

/// Calls of each session that keep it busy for so long, at the rate of some that it has made.
fn calls(first: Reported, seconds: u32, sessions: u32) -> u64 {
    let all = first.per_sec() * f64::from(seconds) * LONGER;
    ((all / f64::from(sessions)) as u64).max(FIRST_CALLS)
}

fn with_calls(web: &WebStage, lab: &Lab, cell: Cell, calls: u64) -> Result<Command> {
    let address = cell.server.address();
    let mut command = lab.command(Side::B, find_program("httperf", "httperf")?)?;
    // Without --hog, by which it would take ports that are still in TIME-WAIT, and whole sessions would stand still.
    command.args(["--timeout", "10"]);
    command.args(["--server", &address.ip().to_string()]);
    command.args(["--port", &address.port().to_string()]);
    command.args(["--uri", &format!("/{}", cell.size.document())]);
    // All sessions at once.
    command.args(["--rate", "100000"]);
    command.arg(format!("--wsess={},{calls},0", web.connections));
    if cell.asked.connection() == Connection::New {
        command.args(["--http-version", "1.0", "--max-connections", "1"]);
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_calls_as_take_the_time() {
        let first = |requests| Reported {
            requests,
            seconds: 0.1,
            ..Reported::default()
        };
        // 32,000 a second, for two seconds and half as long again.
        assert_eq!(calls(first(3200), 2, 64), 1500);
        assert_eq!(calls(first(10), 1, 64), FIRST_CALLS);
    }
}
