//! The command line of `exos doctor`, and how a report looks on a terminal.

use crate::check::{Check, Mark};
use crate::report::{Report, examine};
use exos_host::{Result, message};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Check what this machine supports, what that means, and how to fix what is missing.
#[derive(clap::Args, Debug)]
pub struct DoctorArgs {
    /// Interfaces to check [default: all that are up]
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
    message::results(&match args.json {
        true => serde_json::to_string_pretty(&report).expect("plain data becomes JSON") + "\n",
        false => {
            let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            text(&report, colour)
        }
    })?;
    Ok(if report.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A report for people.
pub(crate) fn text(report: &Report, colour: bool) -> String {
    let mut text = String::from("this machine\n");
    add_checks(&mut text, &report.machine, colour);
    text += "\nthe daemon\n";
    add_checks(&mut text, &report.daemon, colour);
    for interface in &report.interfaces {
        text += &format!("\ninterface {}\n", interface.name);
        add_checks(&mut text, &interface.checks, colour);
    }
    text + "\n" + verdict(report) + "\n"
}

fn verdict(report: &Report) -> &'static str {
    match (report.ok, report.through_daemon) {
        (true, false) => "All that is needed works.",
        (true, true) => {
            "Programs work through the daemon. What is marked warn takes root: links without it (--link xdp:...), the \
             daemon itself, exos lab."
        }
        (false, _) => "Something that is needed does not work; see the lines marked FAIL.",
    }
}

fn add_checks(text: &mut String, checks: &[Check], colour: bool) {
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
        *text += &format!(
            "  {on}{:<4}{off}  {:<width$}  {}\n",
            check.mark, check.what, check.meaning
        );
        if let Some(mend) = &check.mend {
            *text += &format!("        mend: {mend}\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_as_people_see_it() {
        let report = Report {
            ok: false,
            through_daemon: false,
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
            interfaces: Vec::new(),
        };
        let expected = "\
this machine
  ok    kernel 6.1.0      6.1 or later is needed
  FAIL  no AF_XDP socket  packets reach a program by it
        mend: run as root

the daemon
  ok    no daemon  none is needed

Something that is needed does not work; see the lines marked FAIL.
";
        assert_eq!(text(&report, false), expected);
    }
}
