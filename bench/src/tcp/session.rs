//! What all measurements of a session share: the labs, the cores, starting and ending programs.

use super::options::{Group, TcpArgs};
use super::peer::Measured;
use crate::cpu;
use crate::limits::{
    CLIENT_GRACE, CONNECT_TIMEOUT, OTHER_LOAD_MAX, OTHER_LOAD_WINDOW, POLL_INTERVAL, START_TIMEOUT,
};
use crate::process::{Interrupt, Running};
use crate::scratch::Scratch;
use exos_host::{Error, Result, error::Context as _};
use exos_lab::{Conditions, Emulated, Emulation, Guard, INTERFACE, Lab, Settings, Side};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Our stack's address on side a; Linux's there is 10.10.0.1.
pub(super) const EXOS: &str = "10.10.0.10";
/// Linux's address on side b.
pub(super) const PEER: &str = "10.10.0.2";
/// Our stack's address where it is on side b.
pub(super) const EXOS_B: &str = "10.10.0.20";
/// The port that everything is measured on.
pub(super) const PORT: u16 = 5001;

/// A session.
pub(super) struct Session<'a> {
    pub args: &'a TcpArgs,
    scratch: Scratch,
    interrupt: Interrupt,
    cores: [usize; 2],
    notes: RefCell<BTreeSet<String>>,
    /// Makes the names of files.
    started: Cell<u32>,
}

/// A program that was started, with the file that its standard output goes to.
pub(super) struct Started {
    pub running: Running,
    output: PathBuf,
}

impl<'a> Session<'a> {
    pub fn new(args: &'a TcpArgs) -> Result<Self> {
        let (a, b) = cpu::two_cores()?;
        Ok(Self {
            args,
            scratch: Scratch::new()?,
            interrupt: Interrupt::on_signals()?,
            cores: [a, b],
            notes: RefCell::default(),
            started: Cell::new(0),
        })
    }

    /// Whether a group, and one of its cells, was asked for.
    pub fn wants(&self, group: Group, cell: &str) -> bool {
        let only = &self.args.only;
        self.args.groups.contains(&group)
            && (only.is_empty() || only.iter().any(|text| cell.contains(text)))
    }

    /// An error once the user wants to stop.
    pub fn go_on(&self) -> Result<()> {
        self.interrupt.check()
    }

    /// A bar for so many steps.
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

    // Labs.

    /// The plain wire.
    pub fn plain(&self) -> Result<Guard> {
        let lab = exos_lab::up(&Settings::named(&self.args.lab))?.0.guard();
        prepare(&lab)?;
        Ok(lab)
    }

    /// An emulated one.
    pub fn emulated(&self, conditions: &Conditions, seed: u64) -> Result<Emulated> {
        let lab = exos_lab::emulate(&Settings {
            emulation: Some(Emulation {
                conditions: conditions.clone(),
                seed,
                core: None,
            }),
            ..Settings::named(&self.args.lab)
        })?;
        prepare(&lab)?;
        Ok(lab)
    }

    // Programs.

    fn program(&self) -> Result<PathBuf> {
        match &self.args.exos {
            Some(path) => Ok(path.clone()),
            None => std::env::current_exe().context(|| "cannot tell where this program is"),
        }
    }

    /// What our program calls itself.
    pub fn version(&self) -> Result<String> {
        let program = self.program()?;
        let output = Command::new(&program).arg("--version").output();
        let output = output.context(|| format!("cannot run {}", program.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// One of our programs, on side a or b.
    pub fn exos(&self, lab: &Lab, side: Side, arguments: &[&str]) -> Result<Started> {
        let address = match side {
            Side::A => EXOS,
            Side::B => EXOS_B,
        };
        let address = format!("{address}/24");
        let link = format!("xdp:{INTERFACE}");
        let own = ["--link", &link, "--address", &address, "--json"];
        self.start(
            lab,
            side,
            arguments[0],
            self.program()?,
            &[arguments, &own].concat(),
        )
    }

    /// A helper of this experiment, which is part of the program that is measured.
    pub fn helper(&self, lab: &Lab, side: Side, arguments: &[&str]) -> Result<Started> {
        let program = self.program()?;
        let name = format!("{} {}", arguments[0], arguments[1]);
        self.start(lab, side, &name, program, &[&["bench"], arguments].concat())
    }

    /// The same; returns when it says that it is ready.
    pub fn ready_helper(&self, lab: &Lab, side: Side, arguments: &[&str]) -> Result<Started> {
        let ready = self.scratch.file(&format!("ready-{}", self.started.get()));
        let path = ready.to_string_lossy().into_owned();
        let mut started = self.helper(lab, side, &[arguments, &["--ready", &path]].concat())?;
        self.await_true(&mut started, || ready.exists())?;
        Ok(started)
    }

    /// Waits until a server of ours has said its address.
    pub fn await_address(&self, started: &mut Started) -> Result<()> {
        let output = started.output.clone();
        let said = || std::fs::read_to_string(&output).is_ok_and(|text| text.contains(':'));
        self.await_true(started, said)
    }

    fn await_true(&self, started: &mut Started, ready: impl Fn() -> bool) -> Result<()> {
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

    fn start(
        &self,
        lab: &Lab,
        side: Side,
        name: &str,
        program: PathBuf,
        arguments: &[&str],
    ) -> Result<Started> {
        self.go_on()?;
        let number = self.started.replace(self.started.get() + 1);
        let output = self.scratch.file(&format!("out-{number}"));
        let file = std::fs::File::create(&output)
            .context(|| format!("cannot write {}", output.display()))?;
        let mut command = lab.command(side, program)?;
        command.args(arguments).stdout(Stdio::from(file));
        let errors = self.scratch.file(&format!("err-{number}"));
        let core = match side {
            Side::A => self.cores[0],
            Side::B => self.cores[1],
        };
        Ok(Started {
            running: Running::start(name, command, core, &errors)?,
            output,
        })
    }

    /// Waits for the end of a helper that measures for so long, and reads what it measured.
    pub fn measured<T: serde::de::DeserializeOwned>(
        &self,
        started: Started,
        seconds: f64,
    ) -> Result<T> {
        let timeout = Duration::from_secs_f64(seconds) + CONNECT_TIMEOUT + CLIENT_GRACE;
        started.running.output(timeout, &self.interrupt)?;
        let text =
            std::fs::read_to_string(&started.output).context(|| "cannot read what was measured")?;
        serde_json::from_str(text.trim()).map_err(|e| {
            Error::new(format!(
                "a helper did not say what it measured: {e}: {text}"
            ))
        })
    }

    /// Waits for the end of one of our programs that runs for so long; its statistics.
    pub fn ended(&self, started: Started, seconds: f64) -> Result<serde_json::Value> {
        let timeout = Duration::from_secs_f64(seconds) + CONNECT_TIMEOUT + CLIENT_GRACE;
        started.running.output(timeout, &self.interrupt)?;
        Ok(Started::said(&started.output))
    }

    /// The same of one of Linux's sides.
    pub fn flows(&self, started: Started, seconds: f64) -> Result<Measured> {
        self.measured(started, seconds)
    }
}

impl Started {
    fn said(output: &Path) -> serde_json::Value {
        let text = std::fs::read_to_string(output).unwrap_or_default();
        let line = text.lines().rev().find(|line| line.starts_with('{'));
        line.and_then(|line| serde_json::from_str(line).ok())
            .unwrap_or_default()
    }

    /// Ends one of our programs and reads its statistics; nothing where it said none.
    pub fn statistics(self) -> Result<serde_json::Value> {
        self.running.stop()?;
        Ok(Self::said(&self.output))
    }

    /// Ends it.
    pub fn stop(self) -> Result<()> {
        self.running.stop()
    }
}

/// The link address of one side, as text.
pub(super) fn mac_of(lab: &Lab, side: Side) -> Result<String> {
    let mac = lab.link(side)?.mac.map(exos_wire::Mac);
    mac.map(|mac| mac.to_string())
        .ok_or_else(|| Error::new("the wire has no link address"))
}

/// Linux shall not remember one measurement's path in the next, nor run out of ports and backlog.
fn prepare(lab: &Lab) -> Result<()> {
    for side in Side::BOTH {
        let namespace = lab.netns(side);
        namespace.set_sysctl("net/ipv4/tcp_no_metrics_save", "1")?;
        namespace.set_sysctl("net/ipv4/ip_local_port_range", "1024 65535")?;
        namespace.set_sysctl("net/ipv4/tcp_tw_reuse", "1")?;
        namespace.set_sysctl("net/core/somaxconn", "4096")?;
    }
    Ok(())
}
