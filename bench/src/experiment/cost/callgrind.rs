//! Counting instructions: this program once more, under valgrind's callgrind.
//!
//! The child replays one exchange (`exos bench helper replay`), and the tool is told by name which function to
//! look into, so that nothing else is counted: not the start of the program, not the recording. Its output file
//! holds, for every function, its own cost and that of its calls; two sums are taken from it. One run is enough:
//! the same program with the same tape executes the same instructions.
//!
//! Callgrind counts instructions of a simulated x86-64 with AVX2, without AVX-512: the C library then copies with
//! 32-byte registers, on some processors a few instructions more than it would otherwise.

use super::replay::{Replay, Replayed};
use crate::limits::CALLGRIND_TIMEOUT;
use crate::stage::Stage;
use crate::stage::process::find_program;
use exos_host::{Error, Result, error::Context as _};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The function in which everything is counted (`tape::measured_turns`).
const MEASURED: &str = "*measured_turns*";

/// The functions in which a stack is asked for frames to send.
const TRANSMITTING: &str = "transmit_phase";

/// Instructions of one replay.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Counted {
    /// All of them.
    pub total: u64,
    /// Those spent asking the stack for frames to send.
    pub transmitting: u64,
}

/// The tool, found.
pub(super) struct Callgrind(PathBuf);

impl Callgrind {
    /// Looks for it; the error says how to install it.
    pub fn find() -> Result<Self> {
        find_program("valgrind", "valgrind").map(Self)
    }

    /// Runs one exchange. What the child says is returned beside what was counted.
    pub fn count(&self, stage: &Stage, replay: &Replay) -> Result<(Counted, Replayed)> {
        let out = stage.scratch.file("callgrind.out");
        let done = self.run(stage, replay, &out)?;
        let text = std::fs::read_to_string(&out);
        let text = text.context(|| format!("cannot read {}", out.display()))?;
        Ok((parse(&text)?, done))
    }

    /// Runs one exchange and leaves callgrind's file at `out`; returns what the child says.
    pub fn run(&self, stage: &Stage, replay: &Replay, out: &Path) -> Result<Replayed> {
        let mut command = Command::new(&self.0);
        command.arg("--tool=callgrind");
        command.arg(format!("--callgrind-out-file={}", out.display()));
        command.arg(format!("--toggle-collect={MEASURED}"));
        command.arg(&stage.helpers);
        let helping = stage.begin(command, stage.cores[0], replay)?;
        helping.measured(stage, CALLGRIND_TIMEOUT.as_secs_f64())
    }
}

/// Takes the two sums from callgrind's output (its manual, "Callgrind Format Specification").
///
/// A name is given in full at its first occurrence, `cfn=(7) name`, and by number afterwards; the line after
/// `calls=` has the inclusive cost of the calls as its second word.
pub(super) fn parse(text: &str) -> Result<Counted> {
    let mut names: HashMap<&str, bool> = HashMap::new();
    let mut counted = Counted::default();
    let (mut callee_transmits, mut is_call) = (false, false);
    for line in text.lines() {
        if let Some(total) = line.strip_prefix("totals: ") {
            counted.total = total.trim().parse().unwrap_or(0);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee_transmits = transmits(name, &mut names);
        } else if let Some(name) = line.strip_prefix("fn=") {
            transmits(name, &mut names);
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if std::mem::take(&mut is_call) && callee_transmits {
            let cost = line.split_whitespace().nth(1);
            counted.transmitting += cost.and_then(|c| c.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    if counted.total == 0 {
        return Err(
            Error::new("callgrind has not seen the function that is to be measured")
                .mend("build exos without stripping its symbols: it is found by name"),
        );
    }
    Ok(counted)
}

/// Whether a function, by its number with or without its name, is one that asks for frames.
fn transmits<'a>(name: &'a str, names: &mut HashMap<&'a str, bool>) -> bool {
    let (number, name) = name.split_once(' ').unwrap_or((name, ""));
    if !name.is_empty() {
        names.insert(number, name.contains(TRANSMITTING));
    }
    names.get(number).copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
version: 1
events: Ir

ob=(1) /usr/bin/exos
fl=(1) tape.rs
fn=(1) exos_bench::cost::tape::measured_turns
10 100
cfn=(2) <Exos as Side>::turn
calls=2 20
11 900

fn=(2)
20 300
cfn=(3) exos_bench::cost::exos::Exos::transmit_phase
calls=2 30
21 400
cfn=(4) stack
calls=2 40
22 200

fn=(5) other
50 7
cfn=(3)
calls=1 30
51 50

totals: 1000
";

    #[test]
    fn total_and_share_of_sending() {
        let counted = parse(OUTPUT).unwrap();
        assert_eq!(
            counted,
            Counted {
                total: 1000,
                transmitting: 450
            }
        );
    }

    #[test]
    fn a_stripped_program_is_told_of() {
        let error = parse("version: 1\nevents: Ir\ntotals: 0\n").unwrap_err();
        assert!(error.to_string().contains("symbols"), "{error}");
        assert!(parse("").is_err());
    }
}
