//! The `exos` command: every program as a subcommand.

use std::process::ExitCode;

use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use exos_cheetah::serve::ServeArgs;
use exos_host::Error;

/// Application-level networking: programs with a TCP/IP stack of their own over AF_XDP.
#[derive(Parser, Debug)]
#[command(name = "exos", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    program: Program,
}

// Options are described of the program that is asked for alone: to describe those of all takes longer than a short tool runs.
#[derive(Subcommand, Debug)]
#[command(defer = true)]
enum Program {
    Serve(ServeArgs),
    Load(Box<exos_webswamp::LoadCommand>),
    Forward(exos_forward::ForwardArgs),
    Run(exos_run::RunArgs),
    Echo(exos_tools::EchoArgs),
    Discard(exos_tools::DiscardArgs),
    Chargen(exos_tools::ChargenArgs),
    Cat(exos_tools::cat::CatArgs),
    Io(exos_io::IoArgs),
    FileCache(exos_io::FileCacheArgs),
    Daemon(exos_xokd::DaemonArgs),
    Lab(exos_lab::LabArgs),
    Doctor(exos_doctor::DoctorArgs),
    Dump(exos_dump::DumpArgs),
    Top(exos_top::TopArgs),
    Ss(exos_ss::SsArgs),
    Metrics(exos_metrics::MetricsArgs),
    Bench(exos_bench::BenchArgs),
}

fn main() -> ExitCode {
    let mut command = Cli::command().mut_subcommand("serve", |serve| {
        serve
            .defer(|serve| ServeArgs::augment_args(serve).mut_args(exos_cheetah::serve::in_section))
    });
    let is_of_one = std::env::args_os()
        .nth(1)
        .is_some_and(|it| command.find_subcommand(it).is_some());
    if !is_of_one {
        // Help says what each of them is.
        command.build();
    }
    let cli = Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|e| e.exit());
    match run(cli.program) {
        Ok(code) => code,
        Err(error) => {
            exos_program::error!("exos: {}", exos_program::with_options(error));
            ExitCode::FAILURE
        }
    }
}

fn run(program: Program) -> Result<ExitCode, Error> {
    match program {
        Program::Serve(args) => exos_cheetah::serve::run(&args),
        Program::Load(args) => exos_webswamp::run(&args),
        Program::Forward(args) => exos_forward::run(&args),
        Program::Run(args) => exos_run::run(&args),
        Program::Echo(args) => exos_tools::echo(&args),
        Program::Discard(args) => exos_tools::discard(&args),
        Program::Chargen(args) => exos_tools::chargen(&args),
        Program::Cat(args) => exos_tools::cat::run(&args),
        Program::Io(args) => exos_io::run(&args),
        Program::FileCache(args) => exos_io::file_cache(&args),
        Program::Daemon(args) => exos_xokd::run(&args),
        Program::Lab(args) => exos_lab::run(args),
        Program::Doctor(args) => exos_doctor::run(args),
        Program::Dump(args) => exos_dump::run(args),
        Program::Top(args) => exos_top::run(&args),
        Program::Ss(args) => exos_ss::run(&args),
        Program::Metrics(args) => exos_metrics::run(&args),
        Program::Bench(args) => exos_bench::run(args),
    }
}
