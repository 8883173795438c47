//! What all experiments of a session share: the lab, the daemon, programs of an ordinary user, the other side.
//!
//! Namespace a is the daemon's host, on its wire is 10.10.0.10, which programs share; namespace b is the rest of the
//! world, 10.10.0.2. Programs of an ordinary user that are helpers are started in neither: they need nothing but the daemon's
//! socket, and send by their rings. Web servers are started in a, as users do, where frames leave in batches.

use super::args::SharingArgs;
use super::policy::policy;
use super::program::{FlowSettings, Own, Send};
use crate::experiment::figure::Figures;
use crate::stage::daemon::Daemon;
use crate::stage::helper::{Helper, Helping};
use crate::stage::process::command_as;
use crate::stage::request::Size;
use crate::stage::web::{WebArgs, WebStage};
use crate::stage::{Started, mac_of};
use exos_filter::Filter;
use exos_filter::program::{Action, Rule};
use exos_host::{Error, Result};
use exos_lab::{Guard, INTERFACE, Side, WireKind};
use exos_link::{XdpConfig, XdpLink};
use exos_program::status::{SlotStatus, Status};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

/// The address that programs share.
pub(super) const OURS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 10);
/// The other side's.
pub(super) const PEER: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 2);
/// Where senders send to: dropped there unseen.
pub(super) const SINK: SocketAddrV4 = SocketAddrV4::new(PEER, 9);

/// What web servers are asked for.
pub(super) const DOCUMENT: Size = Size::of_bytes(1024);

/// How long programs run before they are measured: buckets are empty and caches warm by then.
const SETTLING: Duration = Duration::from_millis(300);

/// Measures something once.
type Run = dyn Fn(&Session<'_>, &mut Figures) -> Result<()>;

/// Something to be measured.
pub(super) struct Experiment {
    /// What its figures' names begin with.
    pub name: String,
    pub run: Box<Run>,
}

impl Experiment {
    pub fn new(
        name: impl Into<String>,
        run: impl Fn(&Session<'_>, &mut Figures) -> Result<()> + 'static,
    ) -> Self {
        let (name, run) = (name.into(), Box::new(run));
        Self { name, run }
    }
}

/// A session.
pub(super) struct Session<'a> {
    pub args: &'a SharingArgs,
    pub lab: Guard,
    web: WebStage,
}

impl std::ops::Deref for Session<'_> {
    type Target = WebStage;

    fn deref(&self) -> &WebStage {
        &self.web
    }
}

impl<'a> Session<'a> {
    pub fn new(args: &'a SharingArgs) -> Result<Self> {
        let mut common = args.common.clone();
        common.runs = Some(common.runs(5));
        common.duration = Some(args.seconds());
        let web = WebArgs {
            common,
            connection: Vec::new(),
            connections: 64,
            uid: args.uid,
        };
        let web = WebStage::new(&web, &[DOCUMENT])?;
        let lab = web.lab(WireKind::Plain)?;
        Ok(Self { args, lab, web })
    }

    /// Bits a second of the link.
    pub fn link_rate(&self) -> f64 {
        self.args.rate as f64 * 1e6
    }

    /// A daemon that divides the link of `--rate`.
    pub fn daemon(&self) -> Result<Daemon<'_>> {
        self.daemon_of(Some(self.args.rate))
    }

    /// A daemon on side a, with a link of this many Mbit/s, or of what the device says.
    pub fn daemon_of(&self, rate: Option<u64>) -> Result<Daemon<'_>> {
        Daemon::start(self, self.host(), &policy(self.args.uid, OURS, rate))
    }

    /// A daemon on side a that lends some programs live frames, as `exos daemon --live-frames` has it.
    pub fn daemon_lending(&self, live_frames: &str) -> Result<Daemon<'_>> {
        let policy = policy(self.args.uid, OURS, None);
        let options = ["--live-frames", live_frames];
        Daemon::start_with(self, self.host(), &policy, &options, &self.cores)
    }

    /// The namespace of the daemon's host.
    fn host(&self) -> String {
        Side::A.namespace(&self.args.common.lab)
    }

    /// One of our programs as the ordinary user, on a core, with a part that the daemon lends.
    pub fn program(&self, daemon: &Daemon<'_>, core: usize, arguments: &str) -> Result<Started> {
        let mut command = command_as(self.args.uid, &self.web.program);
        command.args(arguments.split(' '));
        command.args(["--via", "xokd", "--xokd", &daemon.socket()]);
        self.start(arguments, command, core)
    }

    /// A helper as the ordinary user on a core, when it is ready.
    pub fn as_user<H: Helper>(&self, core: usize, helper: &H) -> Result<Helping<H>> {
        self.help_as(self.args.uid, core, helper)
    }

    /// A helper that is root in a namespace, on the wire itself or on Linux's sockets, when it is ready.
    pub fn on_side<H: Helper>(&self, side: Side, core: usize, helper: &H) -> Result<Helping<H>> {
        let command = self.lab.command(side, &self.helpers)?;
        self.help(command, core, helper)
    }

    /// A sender from our address with a port: what it sends goes to the sink, at a rate or as fast as it goes.
    pub fn sender(
        &self,
        daemon: Option<&Daemon<'_>>,
        port: u16,
        rate: Option<f64>,
    ) -> Result<Send> {
        let flows = vec![FlowSettings::of(SINK, rate)];
        self.sender_to(Side::B, Own::of(daemon, OURS, port), flows)
    }

    /// A sender of full frames to the programs of a side.
    pub fn sender_to(&self, side: Side, own: Own, flows: Vec<FlowSettings>) -> Result<Send> {
        Ok(Send {
            own,
            flows,
            mac: mac_of(&self.lab, side)?.0,
            bytes: 1514,
            super_packets: false,
        })
    }

    /// What drops on side b what senders send, before Linux sees it.
    pub fn sink(&self) -> Result<XdpLink> {
        let text = format!("tcp dst port {}", SINK.port());
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
}

/// A counter of a program's slot.
pub(super) fn counter(status: &Status, program: &Started, name: &str) -> Result<u64> {
    let slots = status.interfaces.iter().flat_map(|i| &i.slots);
    let mut own = slots.filter(|slot| slot.pid == Some(program.running.pid()));
    let count = |slot: &SlotStatus| slot.counters.get(name).copied();
    own.next()
        .and_then(count)
        .ok_or_else(|| Error::new(format!("the daemon does not report {name} of a program")))
}
