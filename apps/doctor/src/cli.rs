//! The command line of `exos doctor`, and how a report looks on a terminal.

use crate::check::{Check, Mark};
use crate::{Report, examine};
use exos_host::Result;
use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Check what this machine offers, what that means, and how to mend what is missing.
#[derive(clap::Args, Debug)]
pub struct DoctorArgs {
    /// Interfaces to look at; all that are up when left out
    interfaces: Vec<String>,
    /// The daemon's socket [default: $EXOS_XOKD, else /run/exos/xokd.sock]
    #[arg(long, value_name = "SOCKET")]
    xokd: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Does what the command line says. The exit code is 1 when something that is needed does not work.
pub fn run(args: DoctorArgs) -> Result<ExitCode> {
    let socket = args.xokd.unwrap_or_else(exos::via::socket_path);
    let report = examine(&args.interfaces, &socket)?;
    let out = &mut std::io::stdout();
    // A reader that went away has seen enough.
    let _ = match args.json {
        true => writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&report).expect("plain data becomes JSON")
        ),
        false => {
            let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
            show(&report, colour, out)
        }
    };
    Ok(if report.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes a report for people.
pub(crate) fn show(report: &Report, colour: bool, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "this machine")?;
    show_checks(&report.machine, colour, out)?;
    writeln!(out, "\nthe daemon")?;
    show_checks(&report.daemon, colour, out)?;
    for interface in &report.interfaces {
        writeln!(out, "\ninterface {}", interface.name)?;
        show_checks(&interface.checks, colour, out)?;
    }
    let verdict = if report.ok {
        "All that is needed works."
    } else {
        "Something that is needed does not work; see the lines marked FAIL."
    };
    writeln!(out, "\n{verdict}")
}

fn show_checks(checks: &[Check], colour: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let width = checks
        .iter()
        .map(|check| check.what.chars().count())
        .filter(|&n| n <= 44)
        .max()
        .unwrap_or(0);
    for check in checks {
        let (on, off) = match (colour, check.mark) {
            (false, _) => ("", ""),
            (true, Mark::Ok) => ("\x1b[32m", "\x1b[0m"),
            (true, Mark::Warn) => ("\x1b[33m", "\x1b[0m"),
            (true, Mark::Fail) => ("\x1b[31m", "\x1b[0m"),
        };
        writeln!(
            out,
            "  {on}{:<4}{off}  {:<width$}  {}",
            check.mark, check.what, check.meaning
        )?;
        if let Some(mend) = &check.mend {
            writeln!(out, "        mend: {mend}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_as_people_see_it() {
        let report = Report {
            ok: false,
            machine: vec![
                Check::ok("kernel", "kernel 6.1.0", "6.1 or later is needed"),
                Check::fail(
                    "af-xdp",
                    "no AF_XDP socket",
                    "packets reach a program by it",
                    "run as root",
                ),
            ],
            daemon: vec![Check::ok("daemon", "no daemon", "none is needed")],
            modes: Vec::new(),
            interfaces: Vec::new(),
        };
        let mut out = Vec::new();
        show(&report, false, &mut out).expect("memory takes everything");
        let expected = "\
this machine
  ok    kernel 6.1.0      6.1 or later is needed
  FAIL  no AF_XDP socket  packets reach a program by it
        mend: run as root

the daemon
  ok    no daemon  none is needed

Something that is needed does not work; see the lines marked FAIL.
";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
