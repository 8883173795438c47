//! What all measurements of a session share, whatever is measured: the cores, starting programs on them and ending
//! them, what they said, and notes on what distorts the numbers.
//!
//! `process` starts and ends programs, `daemon` is xokd, `scratch` their files; `link` is the wire; `cpu` and `memory` tell what
//! was used of the machine.

pub(crate) mod cpu;
pub(crate) mod daemon;
pub(crate) mod link;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod scratch;

use crate::limits::{
    CLIENT_GRACE, CONNECT_TIMEOUT, OTHER_LOAD_MAX, OTHER_LOAD_WINDOW, POLL_INTERVAL, START_TIMEOUT,
};
use exos_host::{Error, Result, error::Context as _};
use exos_lab::{Lab, Side};
use indicatif::{ProgressBar, ProgressStyle};
use process::{Interrupt, Running};
use scratch::Scratch;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a session stands on.
pub(crate) struct Stage {
    /// Files of this session.
    pub scratch: Scratch,
    /// The first for what is measured, the second for its peer.
    pub cores: [usize; 2],
    interrupt: Interrupt,
    program: PathBuf,
    notes: RefCell<BTreeSet<String>>,
    /// Makes the names of files.
    started: Cell<u32>,
}

/// A program that was started, with the file that its standard output goes to.
pub(crate) struct Started {
    pub running: Running,
    output: PathBuf,
}

impl Stage {
    /// With the exos program to measure, this one when it is `None`.
    pub fn new(exos: Option<&Path>) -> Result<Self> {
        let (first, second) = cpu::two_cores()?;
        let program = match exos {
            Some(path) => path.to_owned(),
            None => std::env::current_exe().context(|| "cannot tell where this program is")?,
        };
        Ok(Self {
            scratch: Scratch::new()?,
            interrupt: Interrupt::on_signals()?,
            cores: [first, second],
            program,
            notes: RefCell::default(),
            started: Cell::new(0),
        })
    }

    /// An error once the user wants to stop.
    pub fn go_on(&self) -> Result<()> {
        self.interrupt.check()
    }

    /// A bar for this many steps.
    pub fn progress(&self, steps: usize) -> ProgressBar {
        let progress = ProgressBar::new(steps as u64);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} left  {msg}")
            .expect("a valid template");
        progress.set_style(style);
        progress
    }

    pub fn note(&self, note: String) {
        self.notes.borrow_mut().insert(note);
    }

    pub fn notes(&self) -> Vec<String> {
        self.notes.borrow().iter().cloned().collect()
    }

    /// Other programs on the two cores take time from both sides.
    pub fn note_other_load(&self) -> Result<()> {
        let read = || self.cores.map(cpu::of_core);
        let before = read();
        std::thread::sleep(OTHER_LOAD_WINDOW);
        for ((core, before), after) in self.cores.iter().zip(before).zip(read()) {
            let busy = (after? - before?).busy_share();
            if busy > OTHER_LOAD_MAX {
                self.note(format!(
                    "core {core} was {:.0} % busy with other programs before measuring",
                    100.0 * busy
                ));
            }
        }
        Ok(())
    }

    /// The program that is measured.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// What our program calls itself.
    pub fn version(&self) -> Result<String> {
        let output = Command::new(&self.program).arg("--version").output();
        let output = output.context(|| format!("cannot run {}", self.program.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// A file for a program to make when it is ready.
    pub fn ready_file(&self) -> PathBuf {
        self.new_file("ready")
    }

    /// A file of the next program that starts.
    pub fn new_file(&self, name: &str) -> PathBuf {
        self.scratch.file(&format!("{name}-{}", self.started.get()))
    }

    /// Waits until a server of ours has said its address.
    pub fn await_address(&self, started: &mut Started) -> Result<()> {
        self.await_said(started, ":")
    }

    /// Waits until something is so, as long as a program that it depends on runs.
    pub fn await_true(&self, started: &mut Started, ready: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + START_TIMEOUT;
        while !ready() {
            self.go_on()?;
            started.running.check()?;
            if Instant::now() > end {
                return Err(Error::new("a program did not start in time"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Waits until a program of ours has said something.
    pub fn await_said(&self, started: &mut Started, word: &str) -> Result<()> {
        let output = started.output.clone();
        let said = || std::fs::read_to_string(&output).is_ok_and(|text| text.contains(word));
        self.await_true(started, said)
    }

    /// Starts a command on a core.
    pub fn start(&self, name: &str, command: Command, core: usize) -> Result<Started> {
        self.start_on(name, command, &[core])
    }

    /// Starts a command on any of some cores.
    pub fn start_on(&self, name: &str, mut command: Command, cores: &[usize]) -> Result<Started> {
        self.go_on()?;
        let number = self.started.replace(self.started.get() + 1);
        let output = self.scratch.file(&format!("out-{number}"));
        let file = std::fs::File::create(&output)
            .context(|| format!("cannot write {}", output.display()))?;
        command.stdout(Stdio::from(file));
        let errors = self.scratch.file(&format!("err-{number}"));
        Ok(Started {
            running: Running::start_on(name, command, cores, &errors)?,
            output,
        })
    }

    /// Waits for the end of a helper that measures for so long, and reads what it measured: its last line.
    pub fn measured<T: serde::de::DeserializeOwned>(
        &self,
        started: Started,
        seconds: f64,
    ) -> Result<T> {
        let text = self.said(started, seconds)?;
        let line = text.lines().rev().find(|line| !line.is_empty());
        serde_json::from_str(line.unwrap_or_default()).map_err(|e| {
            Error::new(format!(
                "a helper did not say what it measured: {e}: {text}"
            ))
        })
    }

    /// Waits for the end of a program that runs for so long; all that it said.
    pub fn said(&self, started: Started, seconds: f64) -> Result<String> {
        let timeout = Duration::from_secs_f64(seconds) + CONNECT_TIMEOUT + CLIENT_GRACE;
        started.running.output(timeout, &self.interrupt)?;
        std::fs::read_to_string(&started.output).context(|| "cannot read what was measured")
    }

    /// Waits for the end of one of our programs that runs for so long; its statistics.
    pub fn ended(&self, started: Started, seconds: f64) -> Result<serde_json::Value> {
        self.said(started, seconds).map(|text| last_object(&text))
    }
}

/// The last line that is a JSON object; nothing where there is none.
fn last_object(text: &str) -> serde_json::Value {
    let line = text.lines().rev().find(|line| line.starts_with('{'));
    line.and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_default()
}

impl Started {
    /// Ends one of our programs and reads its statistics; nothing where it said none.
    pub fn statistics(self) -> Result<serde_json::Value> {
        self.running.stop()?;
        let text = std::fs::read_to_string(&self.output).unwrap_or_default();
        Ok(last_object(&text))
    }

    /// Ends it.
    pub fn stop(self) -> Result<()> {
        self.running.stop()
    }
}

/// What a helper measured, as its last line on standard output.
pub(crate) fn print_measured(measured: &impl Serialize) {
    let text = serde_json::to_string(measured).expect("plain data becomes JSON");
    println!("{text}");
}

/// Makes the file that tells the program that started this helper that it is ready.
pub(crate) fn say_ready(file: Option<&Path>) -> Result<()> {
    file.map_or(Ok(()), |file| {
        let made = std::fs::File::create(file).map(drop);
        made.context(|| format!("cannot make {}", file.display()))
    })
}

/// Nanoseconds of CLOCK_MONOTONIC, which is one for all processes and never goes back.
pub(crate) fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The wire's link address on a side of a lab.
pub(crate) fn mac_of(lab: &Lab, side: Side) -> Result<exos_wire::Mac> {
    let mac = lab.link(side)?.mac.map(exos_wire::Mac);
    mac.ok_or_else(|| Error::new("the wire has no link address"))
}
