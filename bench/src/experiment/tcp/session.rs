//! What all measurements of a session share: the labs, and starting our programs and Linux's side in them.

use super::options::{Group, TcpArgs};
use super::peer::Measured;
use crate::stage::{Stage, Started};
use exos_host::Result;
use exos_lab::{Conditions, Emulated, Emulation, Guard, INTERFACE, Lab, Settings, Side};

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
    stage: Stage,
}

impl std::ops::Deref for Session<'_> {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl<'a> Session<'a> {
    pub fn new(args: &'a TcpArgs) -> Result<Self> {
        let stage = Stage::new(args.exos.as_deref())?;
        Ok(Self { args, stage })
    }

    /// Whether a group, and one of its cells, was asked for.
    pub fn wants(&self, group: Group, cell: &str) -> bool {
        let only = &self.args.only;
        self.args.groups.contains(&group)
            && (only.is_empty() || only.iter().any(|text| cell.contains(text)))
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

    /// One of our programs, on side a or b.
    pub fn exos(&self, lab: &Lab, side: Side, arguments: &[&str]) -> Result<Started> {
        let address = match side {
            Side::A => EXOS,
            Side::B => EXOS_B,
        };
        let address = format!("{address}/24");
        let link = format!("xdp:{INTERFACE}");
        let own = ["--link", &link, "--address", &address, "--json"];
        let name = arguments[0];
        self.launch(lab, side, name, &[arguments, &own].concat())
    }

    /// A helper of this experiment, which is part of the program that is measured.
    pub fn helper(&self, lab: &Lab, side: Side, arguments: &[&str]) -> Result<Started> {
        let name = format!("{} {}", arguments[0], arguments[1]);
        self.launch(lab, side, &name, &[&["bench"], arguments].concat())
    }

    /// The same; returns when it says that it is ready.
    pub fn ready_helper(&self, lab: &Lab, side: Side, arguments: &[&str]) -> Result<Started> {
        let ready = self.ready_file();
        let path = ready.to_string_lossy().into_owned();
        let mut started = self.helper(lab, side, &[arguments, &["--ready", &path]].concat())?;
        self.await_true(&mut started, || ready.exists())?;
        Ok(started)
    }

    fn launch(&self, lab: &Lab, side: Side, name: &str, arguments: &[&str]) -> Result<Started> {
        let mut command = lab.command(side, self.program())?;
        command.args(arguments);
        let core = match side {
            Side::A => self.cores[0],
            Side::B => self.cores[1],
        };
        self.start(name, command, core)
    }

    /// Waits for the end of one of Linux's sides that measures for so long, and reads what it measured.
    pub fn flows(&self, started: Started, seconds: f64) -> Result<Measured> {
        self.measured(started, seconds)
    }
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
