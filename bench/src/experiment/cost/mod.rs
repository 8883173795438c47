//! `exos bench cost`: what a segment, a connection and a timer cost, in instructions, bytes and nanoseconds.
//!
//! No wire, no kernel and no other program take part: the stack under test is given the frames of a recorded
//! exchange (`tape`), so the numbers are the same in every run, and small changes can be seen. Instructions are
//! counted by valgrind's callgrind (`callgrind`), ours beside smoltcp's on the same exchange (`exos`, `smoltcp`);
//! memory and time with many connections are measured in `capacity`. What the link does is not in the numbers:
//! our stack hands out a head and slices that the link copies or gathers; smoltcp writes whole frames.

mod callgrind;
mod capacity;
mod clients;
mod exos;
mod options;
mod report;
mod scenario;
mod smoltcp;
mod tape;

pub use capacity::{Idle, TimeWait, Timers};
pub use options::{CostArgs, Exchange, ReplayArgs};
pub use report::{Instructions, Report};
pub use scenario::{Family, Link, Scenario, StackKind};

use crate::limits::{CAPACITY_TIMEOUT, FEW_CONNECTIONS, TIME_WAIT_ENTRIES};
use crate::report as output;
use crate::stage::print_measured;
use crate::stage::process::{Interrupt, Running};
use crate::stage::scratch::Scratch;
use callgrind::Callgrind;
use exos_host::{Error, Result, affinity, error::Context as _};
use options::{Part, Replayed};
use serde::de::DeserializeOwned;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use tape::Side;

/// Measures as asked, prints the table, and writes the JSON.
pub fn run(args: &CostArgs) -> Result<ExitCode> {
    args.check()?;
    if let Some(scenario) = args.profile {
        return profile(args, scenario);
    }
    output::tell((args.json.as_deref(), None), || measure(args))?;
    Ok(ExitCode::SUCCESS)
}

/// Measures as asked. Without valgrind the instructions are left out, and the report says so.
pub fn measure(args: &CostArgs) -> Result<Report> {
    let interrupt = Interrupt::on_signals()?;
    let scratch = Scratch::new()?;
    let mut report = Report::default();
    match Callgrind::find() {
        _ if args.no_instructions => {}
        Ok(callgrind) => {
            report.instructions = instructions(args, &callgrind, &scratch, &interrupt)?;
        }
        Err(error) => report
            .skipped
            .push(format!("SKIPPED instructions: {error}")),
    }
    if args.connections > 0 {
        for connections in [FEW_CONNECTIONS.min(args.connections), args.connections] {
            report
                .idle
                .push(own_process("idle", connections, &scratch, &interrupt)?);
        }
        report.idle.dedup_by_key(|idle| idle.connections);
        if args.huge_pages {
            let idle = own_process_with(HUGE_PAGES, "idle", args.connections, &scratch, &interrupt);
            report.idle.insert(0, idle?);
        }
        let waiting = TIME_WAIT_ENTRIES.min(args.connections);
        report.time_wait = Some(own_process("time-wait", waiting, &scratch, &interrupt)?);
        report.timers = Some(own_process(
            "timers",
            args.connections,
            &scratch,
            &interrupt,
        )?);
    }
    Ok(report)
}

/// All exchanges that were asked for.
fn instructions(
    args: &CostArgs,
    callgrind: &Callgrind,
    scratch: &Scratch,
    interrupt: &Interrupt,
) -> Result<Vec<Instructions>> {
    let mut all = Vec::new();
    for &scenario in &args.scenarios {
        for &family in &args.families {
            for &link in &args.links {
                for &stack in &args.stacks {
                    let exchange = Exchange {
                        stack,
                        scenario,
                        family,
                        link,
                        operations: args.operations,
                    };
                    let (counted, said) = callgrind.count(&exchange, scratch, interrupt)?;
                    all.push(Instructions::new(&exchange, &parse(&said)?, counted));
                }
            }
        }
    }
    Ok(all)
}

/// One exchange, its profile left in a file.
fn profile(args: &CostArgs, scenario: Scenario) -> Result<ExitCode> {
    let (Some(&stack), Some(&family), Some(&link)) = (
        args.stacks.first(),
        args.families.first(),
        args.links.first(),
    ) else {
        return Err(Error::new("--profile needs a stack, a family and a link"));
    };
    let exchange = Exchange {
        stack,
        scenario,
        family,
        link,
        operations: args.operations,
    };
    let file = &args.profile_file;
    let said =
        Callgrind::find()?.run(&exchange, file, &Scratch::new()?, &Interrupt::on_signals()?)?;
    let replayed: Replayed = parse(&said)?;
    let path = file.display();
    let how = format!(
        "{path}: {scenario}, {stack}, {family}, checksums {link}; {} operations\n\
         by function:          callgrind_annotate {path}\n\
         with what they call:  callgrind_annotate --inclusive=yes {path}\n\
         by line:              build with CARGO_PROFILE_RELEASE_DEBUG=1, callgrind_annotate --auto=yes {path}\n",
        replayed.operations
    );
    let _ = std::io::stdout().write_all(how.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// Measures one part in a fresh process, so that nothing that was there before is counted.
fn own_process<T: DeserializeOwned>(
    part: &str,
    connections: u32,
    scratch: &Scratch,
    interrupt: &Interrupt,
) -> Result<T> {
    own_process_with(None, part, connections, scratch, interrupt)
}

/// The C library's allocator asks for huge pages where it is told to (glibc 2.35); the stack itself knows nothing of
/// them. Where `/sys/kernel/mm/transparent_hugepage/enabled` says `never`, there are none.
const HUGE_PAGES: Option<(&str, &str)> = Some(("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"));

/// The same with a variable in its environment.
fn own_process_with<T: DeserializeOwned>(
    variable: Option<(&str, &str)>,
    part: &str,
    connections: u32,
    scratch: &Scratch,
    interrupt: &Interrupt,
) -> Result<T> {
    let own = std::env::current_exe().context(|| "cannot find the program itself")?;
    let mut command = Command::new(own);
    command
        .envs(variable)
        .args(["bench", "cost-replay", part])
        .arg(format!("--connections={connections}"))
        .stdout(Stdio::piped());
    let core = affinity::allowed()?.first().copied();
    let core = core.ok_or_else(|| Error::new("this process may use no core"))?;
    let errors = scratch.file("cost-replay.err");
    let said =
        Running::start("exos", command, core, &errors)?.output(CAPACITY_TIMEOUT, interrupt)?;
    parse(&said)
}

/// What a process of ours says is one line of JSON.
fn parse<T: DeserializeOwned>(said: &str) -> Result<T> {
    serde_json::from_str(said).map_err(|e| Error::new(format!("cannot read a part's answer: {e}")))
}

/// What `exos bench cost` starts itself for.
pub fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    match &args.part {
        Part::Exchange(exchange) => print_measured(&replay_exchange(exchange)),
        Part::Idle(n) => print_measured(&capacity::idle(n.connections)?),
        Part::TimeWait(n) => print_measured(&capacity::time_wait(n.connections)?),
        Part::Timers(n) => print_measured(&capacity::timers(n.connections)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Record an exchange, and replay it.
fn replay_exchange(exchange: &Exchange) -> Replayed {
    let Exchange { family, link, .. } = *exchange;
    let (role, _) = exchange.scenario.roles();
    match exchange.stack {
        StackKind::Exos => record_and_replay(exchange, || exos::Exos::new(0, role, family, link)),
        StackKind::Smoltcp => record_and_replay(exchange, || smoltcp::Smoltcp::new(role, link)),
    }
}

fn record_and_replay<S: Side>(exchange: &Exchange, fresh: impl Fn() -> S) -> Replayed {
    let (_, role) = exchange.scenario.roles();
    let mut peer = exos::Exos::new(1, role, exchange.family, Link::Verified);
    let plan = exchange.scenario.plan(exchange.operations);
    let tape = tape::record(&mut fresh(), &mut peer, &plan);
    tape.replay(&mut fresh());
    Replayed {
        operations: tape.operations,
        frames_in: tape.frames_in,
        frames_out: tape.frames_out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every exchange takes place, with both stacks, and its replay says what was recorded (`Tape::replay`
    /// asserts that). The frames of one operation are those that the scenario names.
    #[test]
    fn every_exchange_can_be_replayed() {
        for scenario in Scenario::ALL {
            for family in [Family::Ipv4, Family::Ipv6] {
                for stack in [StackKind::Exos, StackKind::Smoltcp] {
                    let exchange = Exchange {
                        stack,
                        scenario,
                        family,
                        link: Link::Unknown,
                        operations: 64,
                    };
                    let done = replay_exchange(&exchange);
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
                        assert!(
                            (is - should).abs() < 0.15 * should,
                            "{exchange:?}: {done:?}"
                        );
                    }
                }
            }
        }
    }
}
