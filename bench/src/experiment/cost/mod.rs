//! `exos bench cost`: what a segment, a connection and a timer cost, in instructions, bytes and nanoseconds.
//!
//! No wire, no kernel and no other program take part: the stack under test is given the frames of a recorded
//! exchange (`tape`), so the numbers are the same in every run, and small changes can be seen. Instructions are
//! counted by valgrind's callgrind (`callgrind`), ours beside smoltcp's on the same exchange (`exos`, `smoltcp`);
//! memory and time with many connections are measured in `capacity`, and how fast a stream is received in `stream`, for `exos bench ash`. What the link does is not in the numbers:
//! our stack hands out a head and slices that the link copies or gathers; smoltcp writes whole frames.

mod callgrind;
mod capacity;
mod clients;
mod exos;
mod replay;
mod role;
mod scenario;
mod smoltcp;
mod stream;
mod tape;

pub use capacity::{Idle, TimeWait, Timers};
pub(crate) use capacity::{IdleConnections, ManyTimers, WaitingConnections};
pub(crate) use replay::{Replay, Replayed};
pub use scenario::{Family, Link, Scenario, StackKind};
pub(crate) use stream::Stream;

use crate::limits::{CAPACITY_TIMEOUT, FEW_CONNECTIONS, TIME_WAIT_ENTRIES};
use crate::limits::{IDLE_CONNECTIONS_MAX, OPERATIONS_MAX};
use crate::report::{self, Document, Results, Section, figures};
use crate::stage::Stage;
use crate::stage::args::all;
use crate::stage::helper::Helper;
use callgrind::{Callgrind, Counted};
use exos_host::{Error, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Options of `exos bench cost`.
#[derive(clap::Args, Clone, Debug)]
pub struct CostArgs {
    /// Scenarios to count instructions of, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = all::<Scenario>())]
    pub scenarios: Vec<Scenario>,
    /// TCP/IP stacks, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [StackKind::Exos, StackKind::Smoltcp])]
    pub stacks: Vec<StackKind>,
    /// Address families, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Family::Ipv4, Family::Ipv6])]
    pub families: Vec<Family>,
    /// What the link says about received checksums, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Link::Verified, Link::Unknown])]
    pub links: Vec<Link>,
    /// Operations of each scenario to count
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=OPERATIONS_MAX))]
    pub operations: u64,
    /// Idle connections to hold at once; 0: do not measure memory and time
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(..=IDLE_CONNECTIONS_MAX))]
    pub connections: u32,
    /// Also measure the idle connections with an allocator that asks for huge pages
    #[arg(long)]
    pub huge_pages: bool,
    /// Do not count instructions
    #[arg(long)]
    pub no_instructions: bool,
    /// Write the results as JSON to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Only write a callgrind profile of this scenario, with the first of --stacks, --families and --links
    #[arg(long, value_enum, value_name = "SCENARIO")]
    pub profile: Option<Scenario>,
    /// File to write the profile to
    #[arg(
        long,
        value_name = "FILE",
        default_value = "exos.callgrind",
        requires = "profile"
    )]
    pub profile_file: PathBuf,
}

impl CostArgs {
    /// All exchanges that were asked for.
    fn exchanges(&self) -> Vec<Replay> {
        let mut all = Vec::new();
        for &scenario in &self.scenarios {
            for &family in &self.families {
                for &link in &self.links {
                    all.extend(self.stacks.iter().map(|&stack| Replay {
                        stack,
                        scenario,
                        family,
                        link,
                        operations: self.operations,
                    }));
                }
            }
        }
        all
    }
}

/// Measures as asked, prints the table, and writes the JSON.
pub fn run(args: &CostArgs) -> Result<ExitCode> {
    match args.profile {
        Some(scenario) => profile(args, scenario),
        None => report::write_results((args.json.as_deref(), None), || measure(args)),
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Report {
    /// What could not be measured, and how to mend that, a sentence each; empty when all was.
    pub skipped: Vec<String>,
    /// Instructions of each exchange, family, link and stack; empty without valgrind.
    pub instructions: Vec<Instructions>,
    /// Idle connections: a thousand, and as many as `--connections` says.
    pub idle: Vec<Idle>,
    /// Connections in TIME-WAIT; `null` with `--connections 0`.
    pub time_wait: Option<TimeWait>,
    /// The timer wheel; `null` with `--connections 0`.
    pub timers: Option<Timers>,
}

figures! {
    /// What one exchange costs one stack.
    pub struct Instructions {
        /// The exchange.
        scenario: Scenario, "exchange/IP/checksums" |r| format!("{}/{}/{}", r.scenario, r.family, r.link);
        /// The address family.
        family: Family;
        /// What the link says about received checksums.
        link: Link;
        /// Whose stack.
        stack: StackKind, "stack";
        /// How many operations were counted.
        operations: u64;
        /// Instructions of one operation, the program's few included.
        instructions: f64, "instructions" 0;
        /// Those of them that asked the stack for frames to send.
        transmitting: f64, "sending" 0;
        /// Frames received for one operation.
        frames_in: f64, "in" 1;
        /// Frames sent for one operation.
        frames_out: f64, "out" 1;
    }
}

const NOTE: &str = "Callgrind, x86-64 with AVX2. sending: those of them that ask for frames; in, out: frames. Checksums are verified by \
    the link, or unknown to it and verified by the stack.";

impl Results for Report {
    fn document(&self) -> Document {
        let waiting: Vec<TimeWait> = self.time_wait.into_iter().collect();
        let timers: Vec<Timers> = self.timers.into_iter().collect();
        Document {
            command: "exos bench cost",
            title: "What a segment, a connection and a timer cost",
            lines: self.skipped.clone(),
            sections: vec![
                Section::of("Instructions of one operation", NOTE, &self.instructions),
                Section::of("Idle connections", capacity::IDLE_NOTE, &self.idle),
                Section::of("Connections in TIME-WAIT", "", &waiting),
                Section::of("Timers", capacity::TIMERS_NOTE, &timers),
            ],
            remarks: Vec::new(),
        }
    }
}

impl Instructions {
    /// Totals become shares of one operation.
    fn new(replay: &Replay, done: &Replayed, counted: Counted) -> Self {
        let each = |total: u64| total as f64 / done.operations as f64;
        Self {
            stack: replay.stack,
            scenario: replay.scenario,
            family: replay.family,
            link: replay.link,
            operations: done.operations,
            frames_in: each(done.frames_in),
            frames_out: each(done.frames_out),
            instructions: each(counted.total),
            transmitting: each(counted.transmitting),
        }
    }
}

/// Measures as asked. Without valgrind the instructions are left out, and the report says so.
pub fn measure(args: &CostArgs) -> Result<Report> {
    let stage = Stage::alone()?;
    let mut report = Report::default();
    match Callgrind::find() {
        _ if args.no_instructions => {}
        Ok(callgrind) => {
            for replay in args.exchanges() {
                let (counted, done) = callgrind.count(&stage, &replay)?;
                let instructions = Instructions::new(&replay, &done, counted);
                report.instructions.push(instructions);
            }
        }
        Err(error) => report
            .skipped
            .push(format!("SKIPPED instructions: {error}")),
    }
    let connections = args.connections;
    if connections == 0 {
        return Ok(report);
    }
    let command = || Command::new(&stage.helpers);
    if args.huge_pages {
        let mut command = command();
        command.env(HUGE_PAGES.0, HUGE_PAGES.1);
        let idle = own_process(&stage, command, &IdleConnections(connections))?;
        report.idle.push(idle);
    }
    let mut counts = vec![FEW_CONNECTIONS.min(connections), connections];
    counts.dedup();
    for count in counts {
        let idle = own_process(&stage, command(), &IdleConnections(count))?;
        report.idle.push(idle);
    }
    let waiting = WaitingConnections(TIME_WAIT_ENTRIES.min(connections));
    report.time_wait = Some(own_process(&stage, command(), &waiting)?);
    report.timers = Some(own_process(&stage, command(), &ManyTimers(connections))?);
    Ok(report)
}

/// The C library's allocator asks for huge pages where it is told to (glibc 2.35); the stack itself knows nothing of
/// them. Where `/sys/kernel/mm/transparent_hugepage/enabled` says `never`, there are none.
const HUGE_PAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// Measures one part in a fresh process, so that nothing that was there before is counted.
fn own_process<H: Helper>(stage: &Stage, command: Command, helper: &H) -> Result<H::Measured> {
    let helping = stage.begin(command, stage.cores[0], helper)?;
    helping.measured(stage, CAPACITY_TIMEOUT.as_secs_f64())
}

/// One exchange, its profile left in a file.
fn profile(args: &CostArgs, scenario: Scenario) -> Result<ExitCode> {
    let asked = CostArgs {
        scenarios: vec![scenario],
        ..args.clone()
    };
    let Some(&replay) = asked.exchanges().first() else {
        return Err(Error::new("--profile needs a stack, a family and a link"));
    };
    let done = Callgrind::find()?.run(&Stage::alone()?, &replay, &args.profile_file)?;
    let Replay {
        stack,
        family,
        link,
        ..
    } = replay;
    let path = args.profile_file.display();
    exos_program::message::results(&format!(
        "{path}: {scenario}, {stack}, {family}, checksums {link}; {} operations\n\
         by function:          callgrind_annotate {path}\n\
         with what they call:  callgrind_annotate --inclusive=yes {path}\n\
         by line:              build with CARGO_PROFILE_RELEASE_DEBUG=1, callgrind_annotate --auto=yes {path}\n",
        done.operations
    ))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::assert_has_rows;

    /// Every exchange takes place, with both stacks, and its replay says what was recorded (`Tape::replay`
    /// asserts that). The frames of one operation are those that the scenario names.
    #[test]
    fn every_exchange_can_be_replayed() {
        for scenario in all::<Scenario>() {
            for family in [Family::Ipv4, Family::Ipv6] {
                for stack in [StackKind::Exos, StackKind::Smoltcp] {
                    let replay = Replay {
                        stack,
                        scenario,
                        family,
                        link: Link::Unknown,
                        operations: 64,
                    };
                    let done = replay.replay();
                    let per_operation = [done.frames_in, done.frames_out]
                        .map(|n| n as f64 / done.operations as f64);
                    let expected = match scenario {
                        Scenario::Receive => [1.0, 0.5],
                        Scenario::ReceiveBatch => [1.0, 1.0 / 16.0],
                        Scenario::ReceiveAckEach | Scenario::Request => [1.0, 1.0],
                        Scenario::Send | Scenario::SendBatch | Scenario::SendPaced => [0.5, 1.0],
                        Scenario::Connection => [4.0, 3.0],
                    };
                    for (is, should) in per_operation.into_iter().zip(expected) {
                        assert!((is - should).abs() < 0.15 * should, "{replay:?}: {done:?}");
                    }
                }
            }
        }
    }

    fn report() -> Report {
        let done = Replayed {
            operations: 200,
            frames_in: 200,
            frames_out: 100,
        };
        let counted = Counted {
            total: 70_200,
            transmitting: 20_000,
        };
        let of = |stack| {
            let replay = Replay {
                stack,
                scenario: Scenario::Receive,
                family: Family::Ipv6,
                link: Link::Verified,
                operations: 200,
            };
            Instructions::new(&replay, &done, counted)
        };
        Report {
            skipped: vec!["SKIPPED something: why".into()],
            instructions: vec![of(StackKind::Exos), of(StackKind::Smoltcp)],
            idle: vec![Idle {
                connections: 1000,
                bytes_fresh: 480.4,
                bytes_used: 500.0,
                open_ns: 1500.0,
                lookup_ns: 25.0,
                lookup_warm_ns: 20.0,
                ack_ns: 70.0,
                ack_warm_ns: 60.0,
                huge_bytes: 4 << 20,
                request_ns: 300.0,
            }],
            time_wait: Some(TimeWait {
                connections: 500,
                bytes: 80.0,
            }),
            timers: Some(Timers {
                timers: 1000,
                arm_ns: 20.0,
                expire_ns: 30.0,
                turnover_ns: 55.0,
                millions_per_sec: 40.0,
            }),
        }
    }

    #[test]
    fn the_tables_as_people_see_them() {
        let rows = [
            "SKIPPED something: why",
            "receive/ipv6/verified exos 351 100 1.0 0.5",
            "smoltcp 351 100 1.0 0.5",
            "1000 480 500 1500 25 20 70 60 300 4",
            "500 80",
            "1000 20 30 55 40.0",
        ];
        assert_has_rows(&report().table(), &rows);
    }

    #[test]
    fn json_names_what_the_table_shows() {
        let json: serde_json::Value = serde_json::from_str(&report().json()).expect("valid");
        assert_eq!(json["instructions"][0]["scenario"], "receive");
        assert_eq!(json["instructions"][1]["stack"], "smoltcp");
        assert_eq!(json["idle"][0]["connections"], 1000);
    }
}
