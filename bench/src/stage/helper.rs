//! Helpers: parts of an experiment that need a process of their own, on another core or in another namespace. Each is this
//! program once more, as `exos bench helper NAME SETTINGS`, with its settings as JSON; not the program that is measured, which
//! may be an older one ([`Stage::helpers`]).
//!
//! A helper says `ready` on a line of its own when it has what it needs, and what it measured as a line of JSON at its end.

use super::process::command_as;
use super::session::{Stage, Started};
use exos_host::{Error, Result, error::Context as _};
use exos_lab::{Lab, Side};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write as _;
use std::marker::PhantomData;
use std::process::Command;

/// What a helper does; its fields are its settings.
pub(crate) trait Helper: Serialize + DeserializeOwned {
    /// Its name on the command line.
    const NAME: &'static str;
    /// What it measures.
    type Measured: Serialize + DeserializeOwned;

    /// Does it, in the helper's process.
    fn run(self) -> Result<Self::Measured>;

    /// Has a command start it: the command is [`Stage::helpers`], or one that starts it.
    fn call(&self, command: &mut Command) {
        let settings = serde_json::to_string(self).expect("plain data becomes JSON");
        command.args(["bench", "helper", Self::NAME, &settings]);
    }
}

/// A helper's name, and what reads its settings and runs it.
pub(crate) type Entry = (&'static str, fn(&str) -> Result<()>);

/// A helper's entry in the list of all.
pub(crate) const fn entry<H: Helper>() -> Entry {
    (H::NAME, run::<H>)
}

fn run<H: Helper>(settings: &str) -> Result<()> {
    let helper: H = serde_json::from_str(settings)
        .map_err(|e| Error::new(format!("settings of {}: {e}", H::NAME)))?;
    let measured = serde_json::to_string(&helper.run()?).expect("plain data becomes JSON");
    say(&measured)
}

/// A line for the program that started this helper.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    let said = writeln!(out, "{line}").and_then(|()| out.flush());
    said.context(|| "cannot write to standard output")
}

/// A helper has what it needs.
pub(crate) fn say_ready() -> Result<()> {
    say("ready")
}

/// A helper that runs.
pub(crate) struct Helping<H> {
    pub started: Started,
    helper: PhantomData<H>,
}

impl<H: Helper> Helping<H> {
    /// Waits for its end, when it measures for this long; what it measured.
    pub fn measured(self, stage: &Stage, seconds: f64) -> Result<H::Measured> {
        read::<H>(&stage.output_of(self.started, seconds)?)
    }

    /// Ends it; what it measured until then.
    pub fn stop_measured(self) -> Result<H::Measured> {
        read::<H>(&self.started.stop_said()?)
    }

    /// Ends it.
    pub fn stop(self) -> Result<()> {
        self.started.stop()
    }
}

/// What a helper measured: the last line that it wrote.
pub(crate) fn read<H: Helper>(said: &str) -> Result<H::Measured> {
    let line = said.lines().rev().find(|line| !line.is_empty());
    serde_json::from_str(line.unwrap_or_default()).map_err(|e| {
        let name = H::NAME;
        Error::new(format!("{name} did not say what it measured: {e}: {said}"))
    })
}

impl Stage {
    /// Starts a helper on a core, with a command that starts [`Stage::helpers`], and waits until it is ready.
    pub fn help<H: Helper>(&self, command: Command, core: usize, helper: &H) -> Result<Helping<H>> {
        let mut helping = self.begin(command, core, helper)?;
        self.await_said(&mut helping.started, "ready")?;
        Ok(helping)
    }

    /// A helper on a side of a lab and that side's core, when it is ready.
    pub fn help_on<H: Helper>(&self, lab: &Lab, side: Side, helper: &H) -> Result<Helping<H>> {
        let command = lab.command(side, &self.helpers)?;
        self.help(command, self.cores[side as usize], helper)
    }

    /// A helper as some user, in no namespace of a lab, on a core, when it is ready.
    pub fn help_as<H: Helper>(&self, uid: u32, core: usize, helper: &H) -> Result<Helping<H>> {
        self.help(command_as(uid, &self.helpers), core, helper)
    }

    /// Starts a helper that may wait for others until it is ready.
    pub fn begin<H: Helper>(
        &self,
        mut command: Command,
        core: usize,
        helper: &H,
    ) -> Result<Helping<H>> {
        helper.call(&mut command);
        Ok(Helping {
            started: self.start(H::NAME, command, core)?,
            helper: PhantomData,
        })
    }
}
