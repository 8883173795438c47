//! The command line of `exos lab`.

use crate::build::{Outcome, take_down, up};
use crate::emulator::Statistics;
use crate::emulator::background;
use crate::foreground;
use crate::lab::{Lab, find_sides};
use crate::options::UpArgs;
use crate::report;
use crate::settings::{Settings, Side};
use crate::status::{Labs, SideStatus, State, Status, list, status};
use exos_host::{Error, Result, say};
use std::ffi::OsString;
use std::process::{Command, ExitCode};

/// Make two network namespaces joined by a virtual wire, for experiments (needs root).
#[derive(clap::Args, Debug)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

/// What to do with a lab.
#[derive(clap::Subcommand, Debug)]
pub enum LabCommand {
    /// Make a lab: namespaces a (10.10.0.1, fd10::1) and b (10.10.0.2, fd10::2) joined by a wire
    Up(Box<UpArgs>),
    /// Run a command on one side, for example: exos lab exec b -- curl http://10.10.0.1/
    Exec {
        /// Name of the lab
        #[arg(long, default_value = "lab")]
        name: String,
        /// Side of the lab
        side: Side,
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Show all labs, or one
    Status {
        /// Name of the lab [default: all labs]
        #[arg(long)]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a lab, or what a crash left of one
    Down {
        /// Name of the lab
        #[arg(long, default_value = "lab")]
        name: String,
        /// Print the emulator's statistics as JSON
        #[arg(long)]
        json: bool,
    },
    /// The emulator in the background, as `up` starts it
    #[command(hide = true)]
    Emulate {
        /// Name of the lab
        #[arg(long)]
        name: String,
    },
}

/// Does what the command line says.
pub fn run(args: LabArgs) -> Result<ExitCode> {
    match args.command {
        LabCommand::Up(args) if args.foreground() => foreground::run(&args)?,
        LabCommand::Up(args) => run_up(&args)?,
        LabCommand::Exec {
            name,
            side,
            command,
        } => return Err(exec(&name, side, &command)),
        LabCommand::Status { name, json } => run_status(name.as_deref(), json)?,
        LabCommand::Down { name, json } => run_down(&name, json)?,
        LabCommand::Emulate { name } => background::run(&name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_up(args: &UpArgs) -> Result<()> {
    let settings = args.settings();
    let (lab, outcome) = up(&settings)?;
    let verb = match outcome {
        Outcome::Made => "is up",
        Outcome::Unchanged => "was up already",
        Outcome::Changed => "is now as asked for",
    };
    report::announce(&lab, &settings, verb);
    if outcome == Outcome::Made {
        let name = lab.name();
        let option = if *name == Settings::default().name {
            String::new()
        } else {
            format!("--name {name} ")
        };
        say!("try: exos lab exec {option}b -- ping -c 1 10.10.0.1");
    }
    Ok(())
}

/// Becomes the command: its exit code, signals and standard streams are those of this process.
fn exec(name: &str, side: Side, command: &[OsString]) -> Error {
    let lab = match Lab::open(name) {
        Ok(lab) => lab,
        Err(e) => return e,
    };
    let (program, arguments) = command
        .split_first()
        .expect("the command line requires one");
    lab.netns(side).exec(Command::new(program).args(arguments))
}

/// What `exos lab down` did.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Down {
    /// False when there was nothing.
    removed: bool,
    /// What the emulator of its wire did until then; `null` when the sides were joined directly.
    emulation: Option<Statistics>,
}

fn run_down(name: &str, json: bool) -> Result<()> {
    let mut inside = Vec::new();
    for netns in find_sides(name)?.iter().flatten() {
        inside.extend(netns.processes().unwrap_or_default());
    }
    let removed = take_down(name)?;
    if json {
        let json = Down {
            removed: removed.was_there,
            emulation: removed.statistics,
        };
        say!(
            "{}",
            serde_json::to_string_pretty(&json).expect("plain data becomes JSON")
        );
        return Ok(());
    }
    if !removed.was_there {
        say!("lab {name} is not there; nothing to do");
        return Ok(());
    }
    removed
        .statistics
        .iter()
        .for_each(|s| say!("{}", report::text(s)));
    say!("lab {name} is gone");
    if !inside.is_empty() {
        say!(
            "still running, now without a wire: {}",
            processes_text(&inside)
        );
    }
    Ok(())
}

fn run_status(name: Option<&str>, json: bool) -> Result<()> {
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => list()?,
    };
    let labs: Vec<Status> = names
        .iter()
        .map(|name| status(name))
        .collect::<Result<_>>()?;
    if json {
        let labs = Labs { labs };
        say!(
            "{}",
            serde_json::to_string_pretty(&labs).expect("plain data becomes JSON")
        );
        return Ok(());
    }
    if labs.is_empty() {
        say!("there is no lab; make one with `exos lab up`");
    }
    labs.iter().for_each(show);
    Ok(())
}

fn show(lab: &Status) {
    let wire = match lab.wire {
        Some(wire) => format!(", {wire} wire"),
        None => String::new(),
    };
    say!("lab {}: {}{wire}", lab.name, lab.state);
    if !lab.sides.is_empty() {
        say!("  side  namespace             state  mtu    mac                addresses");
    }
    for side in &lab.sides {
        show_side(side);
    }
    if let Some(emulation) = &lab.emulation {
        say!("{}", report::text(emulation));
    }
    for problem in &lab.problems {
        if lab.state == State::Broken {
            say!("  problem: {problem}");
        }
    }
    if lab.state == State::Broken {
        say!("  mend it with `exos lab up --name {}`", lab.name);
    }
}

fn show_side(side: &SideStatus) {
    let state = if side.up { "up" } else { "down" };
    let mtu = side.mtu.map_or("-".to_owned(), |mtu| mtu.to_string());
    let mac = side.mac.as_deref().unwrap_or("-");
    let addresses = side.addresses.join(" ");
    say!(
        "  {:<4}  {:<20}  {state:<5}  {mtu:<5}  {mac:<17}  {addresses}",
        side.side,
        side.namespace
    );
    if let Some(core) = side.receive_core {
        say!("        receives on core {core}");
    }
    if let Some(program) = side.xdp_program {
        say!("        XDP program {program} on {}", side.interface);
    }
    if !side.processes.is_empty() {
        say!("        running: {}", processes_text(&side.processes));
    }
}

fn processes_text(processes: &[(u32, String)]) -> String {
    processes
        .iter()
        .map(|(pid, name)| format!("{name} ({pid})"))
        .collect::<Vec<_>>()
        .join(", ")
}
