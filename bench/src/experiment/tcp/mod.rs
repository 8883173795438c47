//! `exos bench tcp`: our TCP beside Linux's, on the same wire in the same session.
//!
//! | group | what is measured |
//! |---|---|
//! | `wire` | the plain wire without losses: the packet limit of the link, and what each stack makes of it |
//! | `flood` | SYNs at link rate: what becomes of connections that stand, and of new ones |
//! | `fair` | two flows through one bottleneck |
//! | `bulk` | goodput both ways at several round trips and losses, with and without reordering |
//!
//! Set-up: the stack that is measured is in namespace a on one core, its peer, always Linux's stack, in namespace b on
//! another; between them the wire of `exos lab`, plain or emulated. In each run of a cell the contenders take
//! turns with the same seed of losses, so that drift of the machine and luck meet all alike, and the ratio of
//! each run is taken before the median over the runs.
//!
//! What segments and connections cost without a wire is `exos bench cost`.
//!
//! Each group is a file, with its cells, its results and its columns. `peer` is Linux's side; `frames` are the link's; `syns` and `clients` are who
//! floods, and who is served meanwhile.

mod bulk;
mod clients;
mod fair;
mod flood;
mod frames;
mod peer;
mod syns;
mod wire;

pub use bulk::{Bulk, Outcome, Retransmissions, Run};
pub use clients::Phase;
pub(crate) use clients::{Clients, Echo};
pub use fair::Fair;
pub use flood::Flood;
pub(crate) use frames::{FrameReceiver, FrameSender};
pub(crate) use peer::{Connector, Listener, Role};
pub(crate) use syns::Syns;
pub use wire::Wire;

use crate::report::{self, Document, Results, Section, notes};
use crate::stage::args::{CommonArgs, check_seconds};
use crate::stage::helper::{Helper, Helping};
use crate::stage::{Stage, Started, check_left_behind};
use exos_host::{Error, Result, kernel};
use exos_lab::{Conditions, Emulated, Emulation, Guard, INTERFACE, Lab, Settings, Side};
use schemars::JsonSchema;
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

/// Our stack's address on side a; Linux's there is 10.10.0.1.
const EXOS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 10);
/// Our stack's address where it is on side b.
const EXOS_B: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 20);
/// Linux on side b, with the port that everything is measured on.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 10, 0, 2)), 5001);

/// Groups of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Group {
    /// Goodput in both directions under delay, loss and reordering
    Bulk,
    /// Two flows through one bottleneck
    Fair,
    /// The plain wire without losses, compared with the packet limit of the link
    Wire,
    /// A SYN flood at link rate
    Flood,
}

/// Options of `exos bench tcp`.
#[derive(clap::Args, Clone, Debug)]
pub struct TcpArgs {
    /// How cells are chosen and told of.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Wire, Group::Flood, Group::Fair, Group::Bulk])]
    pub groups: Vec<Group>,
    /// Seconds per measurement
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// Bandwidth of the emulated link in Mbit/s; 0: as fast as the emulator can
    #[arg(long, default_value_t = 200)]
    pub rate: u64,
    /// SYNs per second of the flood, in thousands; 0: as fast as possible, which overflows the sender's own interface,
    /// so that its neighbours lose packets whichever of them is attacked
    #[arg(long, default_value_t = 300)]
    pub flood_rate: u64,
    /// Congestion control of the ExOS stack when it sends; Linux keeps CUBIC
    #[arg(long, value_name = "NAME", default_value = "cubic", value_parser = ["cubic", "newreno", "bbr"])]
    pub ours: String,
    /// Do not measure Linux's BBR
    #[arg(long)]
    pub no_bbr: bool,
    /// Seed of the losses in the first run; each further run uses the next number
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl TcpArgs {
    /// Of the cells of a group those that were asked for.
    fn wanted<C: ToString>(&self, group: Group, cells: impl IntoIterator<Item = C>) -> Vec<C> {
        let is_wanted =
            |cell: &C| self.groups.contains(&group) && self.common.wants(&cell.to_string());
        cells.into_iter().filter(is_wanted).collect()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = wire::CELLS.map(str::to_owned).to_vec();
        names.extend(flood::CELLS.map(str::to_owned));
        names.extend(fair::PAIRS.map(|pair| pair.to_string()));
        names.extend(bulk::cells(self).iter().map(ToString::to_string));
        names
    }

    /// Says what cannot be measured, before anything is made.
    fn check(&self) -> Result<()> {
        if self.groups.is_empty() {
            return Err(Error::new("there is nothing to measure: give a group"));
        }
        self.common.check()?;
        check_seconds(self.seconds)
    }
}

/// Measures as asked, prints the table, and writes JSON and the page.
pub fn run(args: &TcpArgs) -> Result<ExitCode> {
    report::tell(&args.common, || args.names(), || measure(args))
}

/// Everything that a session measured. Goodput is data that arrived, without headers and repetitions; a Mbit is 1,000,000 bits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The kernel's release.
    pub kernel: String,
    /// What our program calls itself.
    pub exos: String,
    /// Congestion control of our stack where it sends bulk data; Linux's is CUBIC.
    pub exos_congestion_control: String,
    /// How often each cell was measured.
    pub runs: u32,
    /// How long one measurement was meant to last.
    pub seconds: f64,
    /// Rate of the emulated link in cells of goodput; 0: no limit.
    pub rate_mbit_per_sec: u64,
    /// What distorts the numbers, a sentence each; empty when all is well.
    pub notes: Vec<String>,
    /// The plain wire, used in several ways.
    pub wire: Vec<Wire>,
    /// The flood, of each server.
    pub flood: Vec<Flood>,
    /// Two flows.
    pub fair: Vec<Fair>,
    /// Goodput.
    pub bulk: Vec<Bulk>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let (kernel, exos, runs, seconds) = (&self.kernel, &self.exos, self.runs, self.seconds);
        let control = match self.exos_congestion_control.as_str() {
            "cubic" => "CUBIC".to_owned(),
            ours => format!("exos with {ours}, Linux with CUBIC"),
        };
        let (rate, below) = (self.rate_mbit_per_sec, bulk::below(&self.bulk));
        Document {
            command: "exos bench tcp",
            title: "TCP beside Linux's",
            lines: vec![format!(
                "kernel {kernel}, {exos}; medians of {runs} runs of {seconds} s"
            )],
            sections: vec![
                Section::of(
                    "The plain wire, MTU 1500, no losses",
                    wire::NOTE,
                    &self.wire,
                ),
                Section::of("A SYN flood", flood::NOTE, &self.flood),
                Section::of(
                    format!("Two flows through 100 Mbit/s, 20 ms, a queue of 250 kB, {control}"),
                    "",
                    &self.fair,
                ),
                Section::of(
                    format!("Goodput in Mbit/s, {control}, a link of {rate} Mbit/s; {below}"),
                    bulk::NOTE,
                    &self.bulk,
                ),
            ],
            remarks: notes(&self.notes).collect(),
        }
    }
}

/// Measures as asked.
pub fn measure(args: &TcpArgs) -> Result<Report> {
    args.check()?;
    let session = Session {
        args,
        stage: Stage::new(&args.common, args.common.runs(3))?,
    };
    session.note_other_load()?;
    let wire = wire::measure(&session)?;
    let flood = flood::measure(&session)?;
    let fair = fair::measure(&session)?;
    let bulk = bulk::measure(&session)?;
    Ok(Report {
        kernel: kernel::release(),
        exos: session.version()?,
        exos_congestion_control: args.ours.clone(),
        runs: session.runs,
        seconds: args.seconds,
        rate_mbit_per_sec: args.rate,
        notes: session.notes(),
        wire,
        flood,
        fair,
        bulk,
    })
}

/// A session: the labs, and our programs and Linux's side in them.
struct Session<'a> {
    args: &'a TcpArgs,
    stage: Stage,
}

impl std::ops::Deref for Session<'_> {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Session<'_> {
    /// The plain wire.
    fn plain(&self) -> Result<Guard> {
        check_left_behind(&self.args.common.lab)?;
        let lab = exos_lab::up(&Settings::named(&self.args.common.lab))?
            .0
            .guard();
        prepare(&lab)?;
        Ok(lab)
    }

    /// An emulated one.
    fn emulated(&self, conditions: &Conditions, seed: u64) -> Result<Emulated> {
        check_left_behind(&self.args.common.lab)?;
        let lab = exos_lab::emulate(&Settings {
            emulation: Some(Emulation {
                conditions: conditions.clone(),
                seed,
                core: None,
            }),
            ..Settings::named(&self.args.common.lab)
        })?;
        prepare(&lab)?;
        Ok(lab)
    }

    /// One of our programs on a side, with these arguments.
    fn exos(&self, lab: &Lab, side: Side, arguments: &str) -> Result<Started> {
        let address = match side {
            Side::A => EXOS,
            Side::B => EXOS_B,
        };
        let mut command = lab.command(side, &self.program)?;
        command.args(arguments.split(' '));
        command.args(["--link", &format!("xdp:{INTERFACE}"), "--json"]);
        command.args(["--address", &format!("{address}/24")]);
        let name = arguments.split(' ').next().unwrap_or_default();
        self.start(name, command, self.cores[side as usize])
    }

    /// A helper on a side, when it is ready.
    fn helper<H: Helper>(&self, lab: &Lab, side: Side, helper: &H) -> Result<Helping<H>> {
        let command = lab.command(side, &self.helpers)?;
        self.help(command, self.cores[side as usize], helper)
    }

    /// Linux on side a, which connects to its side on side b, and may need some attempts.
    fn connect(&self, lab: &Lab, role: Role, congestion: &str) -> Result<Helping<Connector>> {
        let congestion = congestion.to_owned();
        let connector = Connector {
            role,
            address: PEER,
            congestion,
        };
        self.begin(
            lab.command(Side::A, &self.helpers)?,
            self.cores[0],
            &connector,
        )
    }

    /// Linux on side b, which listens and measures one connection.
    fn listen(&self, lab: &Lab, role: Role, congestion: &str) -> Result<Helping<Listener>> {
        let listener = Listener {
            role,
            address: PEER,
            congestion: congestion.to_owned(),
            connections: 1,
            warmup: 0.0,
            seconds: self.args.seconds,
        };
        self.helper(lab, Side::B, &listener)
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

#[cfg(test)]
mod tests;
