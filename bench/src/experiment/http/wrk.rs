//! wrk, in namespace b on its core, and what it reports.

use super::{Connection, Room, Server, Size};
use crate::stage::process::find_program;
use exos_host::{Error, Result};
use exos_lab::{Lab, Side};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes wrk print its results on one line.
pub(crate) const SCRIPT: &str = include_str!("report.lua");

/// What the client measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// Answers received.
    pub requests: u64,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// Bytes received, heads of answers included.
    pub bytes: u64,
    /// What went wrong.
    pub errors: Errors,
    /// From a request to its whole answer; with a new connection for each request, without its making.
    pub latency_us: LatencyUs,
}

/// Numbers of what went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Errors {
    /// Connections that could not be made.
    pub connect: u64,
    /// Failed reads.
    pub read: u64,
    /// Failed writes.
    pub write: u64,
    /// Answers that did not come within two seconds.
    pub timeout: u64,
    /// Answers with another status than 2xx and 3xx.
    pub status: u64,
}

impl Errors {
    /// All of them.
    pub fn total(self) -> u64 {
        self.connect + self.read + self.write + self.timeout + self.status
    }
}

/// Latency in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LatencyUs {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// The client's program.
pub(crate) fn find() -> Result<PathBuf> {
    find_program("wrk", "wrk")
}

/// wrk with one case.
pub(crate) fn command(
    room: &Room,
    lab: &Lab,
    server: Server,
    connection: Connection,
    size: Size,
) -> Result<Command> {
    let mut command = lab.command(Side::B, find()?)?;
    let url = format!("http://{}/{}", server.address(), size.document());
    let script = room.scratch.file("report.lua");
    let load = (room.connections, room.seconds);
    ask(&mut command, load, &script, connection, &url);
    Ok(command)
}

/// Its arguments: this many connections for this many seconds, and the script that has it report on one line.
pub(crate) fn ask(
    command: &mut Command,
    (connections, seconds): (u32, u32),
    script: &Path,
    connection: Connection,
    url: &str,
) {
    command
        .arg("-t1")
        .arg(format!("-c{connections}"))
        .arg(format!("-d{seconds}s"));
    command.arg("-s").arg(script);
    if connection == Connection::New {
        command.args(["-H", "Connection: close"]);
    }
    command.arg(url);
}

/// What it says that it measured.
pub(crate) fn measured(output: &str, server: Server, size: Size) -> Result<Measured> {
    let measured = parse(output)
        .ok_or_else(|| Error::new(format!("wrk did not report what it measured: {output}")))?;
    if measured.requests == 0 {
        let errors = measured.errors;
        return Err(Error::new(format!(
            "{server} did not answer a single request for {size} under load ({errors:?})"
        )));
    }
    Ok(measured)
}

/// Reads the line that the script prints.
pub(crate) fn parse(output: &str) -> Option<Measured> {
    let line = output
        .lines()
        .find_map(|line| line.strip_prefix("exos-bench "))?;
    // LuaJIT prints numbers too large for an integer as floats; none of these is.
    let numbers: Vec<u64> = line
        .split_ascii_whitespace()
        .map(|n| n.parse().ok())
        .collect::<Option<_>>()?;
    let [
        requests,
        duration_us,
        bytes,
        connect,
        read,
        write,
        timeout,
        status,
        p50,
        p90,
        p99,
        max,
    ] = numbers.try_into().ok()?;
    let errors = Errors {
        connect,
        read,
        write,
        timeout,
        status,
    };
    let latency_us = LatencyUs { p50, p90, p99, max };
    (duration_us > 0).then_some(Measured {
        requests,
        duration_us,
        bytes,
        errors,
        latency_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_script_is_found_and_read() {
        let output = "Running 2s test @ http://10.10.0.1/\n  1 threads\nexos-bench 10 2000000 12345  1 2 3 4 5  50 90 99 1000\n";
        let measured = parse(output).expect("there");
        assert_eq!(
            (measured.requests, measured.duration_us, measured.bytes),
            (10, 2_000_000, 12_345)
        );
        assert_eq!(
            measured.errors,
            Errors {
                connect: 1,
                read: 2,
                write: 3,
                timeout: 4,
                status: 5
            }
        );
        assert_eq!(measured.errors.total(), 15);
        assert_eq!(
            measured.latency_us,
            LatencyUs {
                p50: 50,
                p90: 90,
                p99: 99,
                max: 1000
            }
        );
    }

    #[test]
    fn other_output_is_not_mistaken_for_a_result() {
        for output in [
            "",
            "exos-bench",
            "exos-bench 1 2 3",
            "exos-bench 1 0 3 0 0 0 0 0 1 2 3 4",
            "exos-bench 1 2 x 0 0 0 0 0 1 2 3 4",
        ] {
            assert_eq!(parse(output), None, "{output:?}");
        }
    }
}
