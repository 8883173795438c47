//! A daemon of an experiment, and what it uses of the machine.

use crate::stage::cpu::unreadable;
use crate::stage::memory;
use crate::stage::session::{Stage, Started};
use exos::via::control::Control;
use exos_host::Result;
use exos_program::status::Status;
use procfs::process::Process;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A daemon, taken down when dropped.
pub(crate) struct Daemon<'s> {
    stage: &'s Stage,
    namespace: String,
    started: Option<Started>,
    path: PathBuf,
}

impl<'s> Daemon<'s> {
    /// Starts it in a namespace, with a policy, on whichever core is free: nobody pins a daemon.
    pub fn start(stage: &'s Stage, namespace: String, policy: &str) -> Result<Self> {
        Self::start_on(stage, namespace, policy, &stage.cores)
    }

    /// Starts it on one of some cores.
    pub fn start_on(
        stage: &'s Stage,
        namespace: String,
        policy: &str,
        cores: &[usize],
    ) -> Result<Self> {
        Self::start_with(stage, namespace, policy, &[], cores)
    }

    /// Starts it with some options on one of some cores.
    pub fn start_with(
        stage: &'s Stage,
        namespace: String,
        policy: &str,
        options: &[&str],
        cores: &[usize],
    ) -> Result<Self> {
        let path = stage.scratch.file("xokd.sock");
        let policy = stage.scratch.write("policy.toml", policy)?;
        let mut command = Command::new(&stage.program);
        command.arg("daemon").arg("--policy").arg(policy);
        command.arg("--socket").arg(&path);
        command.arg("--namespace").arg(&namespace).args(options);
        let mut started = stage.start_on("daemon", command, cores)?;
        stage.await_said(&mut started, "listening")?;
        Ok(Self {
            stage,
            namespace,
            started: Some(started),
            path,
        })
    }

    /// Where it listens.
    pub fn socket(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Why it lends nobody live frames; `None` where it does.
    pub fn live_refusal(&self) -> Result<Option<String>> {
        let said = self.running().said()?;
        let why = |line: &str| {
            Some(
                line.split_once(": no live frames for programs: ")?
                    .1
                    .to_owned(),
            )
        };
        Ok(said.lines().find_map(why))
    }

    /// What it reports.
    pub fn status(&self) -> Result<Status> {
        let mut control = Control::connect(&self.path)?;
        Status::parse(&control.report()?)
    }

    fn running(&self) -> &Started {
        let started = self.started.as_ref();
        started.expect("it runs until it is dropped")
    }

    fn pid(&self) -> u32 {
        self.running().running.pid()
    }

    /// Its processor time so far, in nanoseconds.
    pub fn cpu_ns(&self) -> Result<u64> {
        let time = Process::new(self.pid() as i32).and_then(|process| process.schedstat());
        let time = time.map_err(unreadable("the daemon's processor time"))?;
        Ok(time.sum_exec_runtime)
    }

    /// Its resident memory, in bytes.
    pub fn resident(&self) -> Result<u64> {
        memory::resident(self.pid())
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let stopped = self.started.take().map_or(Ok(()), Started::stop);
        let Err(error) = stopped else {
            return;
        };
        exos_program::error!("{error}");
        let mut clean = Command::new(&self.stage.program);
        clean.args(["daemon", "--clean", "--namespace", &self.namespace]);
        clean.arg("--socket").arg(&self.path).stdout(Stdio::null());
        let _ = clean.status();
    }
}
