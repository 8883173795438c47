//! What all experiments of a session share: the lab, the daemon, programs of an ordinary user, the other side.
//!
//! Namespace a is the daemon's host, on its wire is 10.10.0.10, which programs share; namespace b is the rest of the
//! world, 10.10.0.2. Programs of an ordinary user are started in neither: they need nothing but the daemon's socket.

use super::daemon;
use super::figure::Figures;
use super::options::{Group, SharingArgs};
use crate::limits::POLL_INTERVAL;
use crate::stage::daemon::Daemon;
use crate::stage::{Stage, Started, mac_of};
use exos_filter::Filter;
use exos_filter::program::{Action, Rule};
use exos_host::{Error, Result};
use exos_lab::{Guard, INTERFACE, Settings, Side};
use exos_link::{XdpConfig, XdpLink};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// The address that programs share.
pub(super) const OURS: &str = "10.10.0.10";
/// The other side's.
pub(super) const PEER: &str = "10.10.0.2";
/// Where senders send to: dropped there unseen.
pub(super) const SINK_PORT: u16 = 9;

/// How long programs run before they are measured: buckets are empty and caches warm by then.
const SETTLING: Duration = Duration::from_millis(300);

/// Something to be measured.
pub(super) struct Experiment {
    /// What its figures' names begin with.
    pub name: &'static str,
    /// Measures it once.
    pub run: fn(&Session<'_>, &mut Figures) -> Result<()>,
}

/// A session.
pub(super) struct Session<'a> {
    pub args: &'a SharingArgs,
    pub lab: Guard,
    stage: Stage,
}

impl std::ops::Deref for Session<'_> {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl<'a> Session<'a> {
    pub fn new(args: &'a SharingArgs) -> Result<Self> {
        let stage = Stage::new(args.exos.as_deref())?;
        let lab = exos_lab::up(&Settings::named(&args.lab))?.0.guard();
        let there = lab.netns(Side::B);
        there.set_sysctl("net/ipv4/ip_local_port_range", "1024 65535")?;
        there.set_sysctl("net/ipv4/tcp_tw_reuse", "1")?;
        Ok(Self { args, lab, stage })
    }

    /// Runs the experiments that were asked for, all of them once before the first is repeated.
    pub fn measure(&self, all: &[(Group, &[Experiment])]) -> Result<Figures> {
        let only = &self.args.only;
        let wanted = |e: &&Experiment| {
            only.is_empty() || only.iter().any(|text| e.name.contains(text.as_str()))
        };
        let groups = all
            .iter()
            .filter(|(group, _)| self.args.groups.contains(group));
        let chosen: Vec<&Experiment> = groups.flat_map(|(_, e)| e.iter()).filter(wanted).collect();
        if chosen.is_empty() {
            let names: Vec<&str> = all
                .iter()
                .flat_map(|(_, e)| e.iter())
                .map(|e| e.name)
                .collect();
            return Err(Error::new("no figure has such a name")
                .mend(format!("choose of {}", names.join(", "))));
        }
        let mut figures = Figures::default();
        let progress = self.progress(chosen.len() * self.args.runs() as usize);
        for _ in 0..self.args.runs() {
            for experiment in &chosen {
                progress.set_message(experiment.name);
                (experiment.run)(self, &mut figures)?;
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        Ok(figures)
    }

    /// Bits a second of the link.
    pub fn link_rate(&self) -> f64 {
        self.args.rate as f64 * 1e6
    }

    /// A daemon that divides the link of `--rate`.
    pub fn daemon(&self) -> Result<Daemon<'_>> {
        daemon::start(self, Some(self.args.rate))
    }

    /// A program of the ordinary user on a core.
    pub fn as_user(&self, core: usize, arguments: &[&str]) -> Result<Started> {
        self.as_other(self.args.uid, core, arguments)
    }

    /// The same of another user.
    pub fn as_other(&self, uid: u32, core: usize, arguments: &[&str]) -> Result<Started> {
        let mut command = Command::new(self.program());
        command.args(arguments).uid(uid).gid(uid).current_dir("/");
        self.start(arguments[0], command, core)
    }

    /// A program of this experiment with a part that the daemon lends, when it has it.
    pub fn part(&self, daemon: &Daemon<'_>, core: usize, arguments: &[&str]) -> Result<Started> {
        self.part_of(self.args.uid, daemon, core, arguments)
    }

    /// The same of another user.
    pub fn part_of(
        &self,
        uid: u32,
        daemon: &Daemon<'_>,
        core: usize,
        arguments: &[&str],
    ) -> Result<Started> {
        let socket = daemon.socket();
        let common = ["--xokd", socket.as_str()];
        let arguments = [&["bench", "sharing-program"], arguments, &common].concat();
        let mut started = self.as_other(uid, core, &arguments)?;
        self.await_said(&mut started, "ready")?;
        Ok(started)
    }

    /// A program of this experiment that is root in a namespace, on the wire itself or on Linux's sockets.
    pub fn on_side(&self, side: Side, core: usize, arguments: &[&str]) -> Result<Started> {
        let mut command = self.lab.command(side, self.program())?;
        command.args(["bench", "sharing-program"]).args(arguments);
        let mut started = self.start(arguments[0], command, core)?;
        self.await_said(&mut started, "ready")?;
        Ok(started)
    }

    /// The wire's link address on a side, as text.
    pub fn mac(&self, side: Side) -> Result<String> {
        Ok(mac_of(&self.lab, side)?.to_string())
    }

    /// What drops on side b what senders send, before Linux sees it.
    pub fn sink(&self) -> Result<XdpLink> {
        let text = format!("tcp dst port {SINK_PORT}");
        let rules = vec![Rule {
            filter: Filter::parse(&text).expect("a constant filter"),
            action: Action::Drop,
        }];
        let config = XdpConfig::new(INTERFACE, rules);
        let there = self.lab.netns(Side::B);
        there.run(|| XdpLink::open(&config))?
    }

    /// Lets programs settle.
    pub fn settle(&self) -> Result<()> {
        self.pause(SETTLING)
    }

    /// Lets programs run for as long as one measurement takes.
    pub fn wait(&self) -> Result<()> {
        self.pause(Duration::from_secs_f64(self.args.seconds()))
    }

    fn pause(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.go_on()?;
            std::thread::sleep(POLL_INTERVAL.min(end - Instant::now().min(end)));
        }
        Ok(())
    }
}
