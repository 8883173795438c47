//! What a session stands on: two cores, programs that are started on them and ended, what they said, notes on what distorts the
//! numbers.

use crate::limits::{
    CLIENT_GRACE, CONNECT_TIMEOUT, OTHER_LOAD_MAX, OTHER_LOAD_WINDOW, POLL_INTERVAL, START_TIMEOUT,
};
use crate::stage::args::CommonArgs;
use crate::stage::cpu;
use crate::stage::process::{Interrupt, Running, output_of};
use crate::stage::scratch::Scratch;
use exos_host::{Error, Result, affinity, error::Context as _};
use exos_lab::{Guard, Lab, Settings, Side, State};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a session stands on.
pub(crate) struct Stage {
    /// Files of this session.
    pub scratch: Scratch,
    /// The first for what is measured, the second for its peer.
    pub cores: [usize; 2],
    /// How often each cell is measured.
    pub runs: u32,
    /// The program that is measured.
    pub program: PathBuf,
    /// The program that helpers are: this one, whichever is measured.
    pub helpers: PathBuf,
    /// How far the session has come.
    pub progress: ProgressBar,
    interrupt: Interrupt,
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
    /// With a core each for what is measured and its peer, and the program that the user asks for.
    pub fn new(args: &CommonArgs, runs: u32) -> Result<Self> {
        match affinity::allowed()?.as_slice() {
            [first, second, ..] => {
                let programs = [&args.exos, &args.helpers].map(Option::clone);
                Self::on([*first, *second], programs, runs)
            }
            _ => Err(Error::new(
                "both sides of a measurement need a core each, but this process may use one only",
            )
            .mend("give the machine a second core, or lift the restriction (taskset, container)")),
        }
    }

    /// With one core, for what is measured by itself: this program, once.
    pub fn alone() -> Result<Self> {
        let core = affinity::allowed()?.first().copied();
        let core = core.ok_or_else(|| Error::new("this process may use no core"))?;
        Self::on([core, core], [None, None], 1)
    }

    /// With the program that is measured and that of helpers, where they are not this one.
    fn on(cores: [usize; 2], programs: [Option<PathBuf>; 2], runs: u32) -> Result<Self> {
        let own = std::env::current_exe().context(|| "cannot tell where this program is")?;
        // Some are started in other directories.
        let absolute = |other: Option<PathBuf>| std::path::absolute(other.unwrap_or(own.clone()));
        let [program, helpers] = programs.map(absolute);
        let what = || "cannot tell where the program to measure is";
        let (program, helpers) = (program.context(what)?, helpers.context(what)?);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} left  {msg}");
        Ok(Self {
            scratch: Scratch::new()?,
            cores,
            runs,
            program,
            helpers,
            progress: ProgressBar::hidden().with_style(style.expect("a valid template")),
            interrupt: Interrupt::on_signals()?,
            notes: RefCell::default(),
            started: Cell::new(0),
        })
    }

    /// An error once the user wants to stop.
    pub fn go_on(&self) -> Result<()> {
        self.interrupt.check()
    }

    /// Lets programs run for this long.
    pub fn pause(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.go_on()?;
            std::thread::sleep(POLL_INTERVAL.min(left));
        }
        Ok(())
    }

    /// How busy the cores are for this long, 0 to 1.
    pub fn busy_for(&self, time: Duration) -> Result<[f64; 2]> {
        Ok(self.busy_while(|| self.pause(time))?.1)
    }

    /// What comes of something, and how busy the cores are meanwhile, 0 to 1.
    pub fn busy_while<R>(&self, what: impl FnOnce() -> Result<R>) -> Result<(R, [f64; 2])> {
        let before = self.cores.map(cpu::of_core);
        let result = what()?;
        let mut busy = [0.0; 2];
        for ((busy, core), before) in busy.iter_mut().zip(self.cores).zip(before) {
            *busy = (cpu::of_core(core)? - before?).busy_share();
        }
        Ok((result, busy))
    }

    pub fn note(&self, note: String) {
        self.notes.borrow_mut().insert(note);
    }

    pub fn notes(&self) -> Vec<String> {
        self.notes.borrow().iter().cloned().collect()
    }

    /// Other programs on the two cores take time from both sides.
    pub fn note_other_load(&self) -> Result<()> {
        for (core, busy) in self.cores.iter().zip(self.busy_for(OTHER_LOAD_WINDOW)?) {
            if busy > OTHER_LOAD_MAX {
                self.note(format!(
                    "core {core} was {:.0} % busy with other programs before measuring",
                    100.0 * busy
                ));
            }
        }
        Ok(())
    }

    /// What our program calls itself.
    pub fn version(&self) -> Result<String> {
        Ok(output_of(&self.program, &["--version"])?.trim().to_owned())
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
            running: Running::start(name, command, cores, &errors)?,
            output,
        })
    }

    /// Waits for the end of a program that runs for this long; all that it said.
    pub fn output_of(&self, started: Started, seconds: f64) -> Result<String> {
        let timeout = Duration::from_secs_f64(seconds) + CONNECT_TIMEOUT + CLIENT_GRACE;
        started.running.output(timeout, &self.interrupt)?;
        std::fs::read_to_string(&started.output).context(|| "cannot read what was measured")
    }

    /// Waits for the end of one of our programs that runs for this long; its statistics.
    pub fn ended(&self, started: Started, seconds: f64) -> Result<serde_json::Value> {
        self.output_of(started, seconds)
            .map(|text| last_object(&text))
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
        self.stop_said().map(|text| last_object(&text))
    }

    /// All that it has said so far.
    pub fn said(&self) -> Result<String> {
        std::fs::read_to_string(&self.output).context(|| "cannot read what a program said")
    }

    /// Ends it; all that it said.
    pub fn stop_said(self) -> Result<String> {
        self.running.stop()?;
        Ok(std::fs::read_to_string(&self.output).unwrap_or_default())
    }

    /// Ends it.
    pub fn stop(self) -> Result<()> {
        self.running.stop()
    }
}

/// Nanoseconds of CLOCK_MONOTONIC, which is one for all processes and never goes back.
pub(crate) fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A lab for as long as the guard is there, in which nothing runs yet.
pub(crate) fn lab_up(settings: &Settings) -> Result<Guard> {
    check_left_behind(&settings.name)?;
    Ok(exos_lab::up(settings)?.0.guard())
}

/// An error where programs run in a lab that was left behind: they would distort what is measured in it.
pub(crate) fn check_left_behind(lab: &str) -> Result<()> {
    let left = exos_lab::status(lab)?;
    let inside = left.sides.iter().flat_map(|side| &side.processes);
    let inside: Vec<String> = inside
        .map(|(pid, name)| format!("{name} ({pid})"))
        .collect();
    if left.state == State::Down || inside.is_empty() {
        return Ok(());
    }
    let who = inside.join(", ");
    Err(
        Error::new(format!("programs still run in the lab {lab}: {who}"))
            .mend(format!("stop them, then `exos lab down --name {lab}`")),
    )
}

/// The wire's link address on a side of a lab.
pub(crate) fn mac_of(lab: &Lab, side: Side) -> Result<exos_wire::Mac> {
    let mac = lab.link(side)?.mac.map(exos_wire::Mac);
    mac.ok_or_else(|| Error::new("the wire has no link address"))
}
