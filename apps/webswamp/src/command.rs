//! The command line of `exos load`: a load, or what is done before it or with the results of earlier ones.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use exos::signals::Signals;
use exos_host::{Error, Result};
use exos_program::message::results;

use crate::driver::surge::files::{self, FilesArgs};
use crate::options::{LoadArgs, OutputArgs};
use crate::output::Output;
use crate::peak;
use crate::report::{Comparison, Results, merge, warning};
use crate::run::{make, prepare};

/// Load a web server and report rate, latency and errors.
///
/// A fixed number of clients each send their next request when the last one is answered (closed loop); or, with --rate,
/// requests start at given times whether or not earlier ones are answered (open loop). Latency counts from the time at
/// which a request was due. The exit status is 0 if the load ran, however the server did, and 2 if a --fail-if
/// condition holds. SIGINT and SIGTERM end the load early; the results so far are reported.
#[derive(clap::Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct LoadCommand {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    load: LoadArgs,
}

/// What is done with saved results, or before a load.
#[derive(Subcommand, Clone, Debug)]
enum Other {
    /// Combine the results of loads that ran at the same time on several machines or cores
    Merge {
        /// Files written by exos load --json
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Generate a set of documents by the SURGE model, to serve and to load with --surge
    SurgeFiles(FilesArgs),
    /// Compare two results and say which differences are more than noise
    Compare {
        /// File written by exos load --json
        old: PathBuf,
        /// File of a later load
        new: PathBuf,
        /// Print the comparison as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
///
/// # Errors
///
/// The load could not be begun, or its link was taken away; files are none of ours.
pub fn run(command: &LoadCommand) -> Result<ExitCode> {
    match &command.other {
        Some(Other::Merge { files, output }) => {
            let parts: Result<Vec<Results>> =
                files.iter().map(|file| Results::read(file)).collect();
            let all = merge(parts?)?;
            if let Some(warning) = warning(&all) {
                exos_program::warn!("exos load: {warning}");
            }
            Output::open(output)?.tell(&all)
        }
        Some(Other::Compare { old, new, json }) => {
            let both = Comparison::new(&Results::read(old)?, &Results::read(new)?);
            results(&if *json { both.json() } else { both.text() })?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Other::SurgeFiles(args)) => {
            results(&files::write(args)?)?;
            Ok(ExitCode::SUCCESS)
        }
        None => run_load(&command.load),
    }
}

/// Runs a load, or as many as find a peak.
fn run_load(args: &LoadArgs) -> Result<ExitCode> {
    match &args.find_peak {
        Some(bound) => {
            if args.opens_links_as_root() {
                return Err(Error::new("--find-peak opens the link for each of its steps, and --user takes the right to")
                    .mend("leave --user out, or load through the daemon (--via xokd) or over --sockets"));
            }
            let output = args.user.as_user(|| Output::open_for_peak(&args.output))?;
            let signals = Signals::catch()?;
            let told = |line: &str| {
                if !args.show.quiet {
                    exos_program::info!("{}", line.trim_end_matches('\n'));
                }
            };
            output.tell(&peak::find(args, bound, &signals, told)?)
        }
        None => {
            let output = args.user.as_user(|| Output::open(&args.output))?;
            // Until here a signal ends the program where it stands: reading a log and finding an address may take long.
            let setup = args.user.as_user(|| prepare(args))?;
            output.tell(&make(args, setup, &Signals::catch()?)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser, Debug)]
    struct Line {
        #[command(flatten)]
        command: LoadCommand,
    }

    fn parse(line: &str) -> Result<LoadCommand, String> {
        let words = format!("load {line}");
        let parsed = Line::try_parse_from(words.split_whitespace());
        parsed.map(|line| line.command).map_err(|e| e.to_string())
    }

    #[test]
    fn a_url_or_a_word() {
        let load = parse("http://10.0.0.1/ --json").unwrap();
        assert!(load.other.is_none() && load.load.output.json);
        let merged = parse("merge a b --json").unwrap().other;
        assert!(
            matches!(merged, Some(Other::Merge { files, output }) if files.len() == 2 && output.json)
        );
        let compared = parse("compare a b").unwrap().other;
        assert!(matches!(compared, Some(Other::Compare { json: false, .. })));
        for (line, part) in [
            ("", "URL"),
            ("--json", "URL"),
            ("merge", "FILE"),
            ("compare a", "NEW"),
            ("compare a b c", "unexpected"),
            ("merge a --rate 5", "unexpected"),
            ("surge-files", "FOLDER"),
            ("surge-files a --files 1", "1 is not in"),
            ("http://10.0.0.1/ --fail-if p99", "no comparison"),
            ("http://10.0.0.1/ --quiet --progress", "cannot be used"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
