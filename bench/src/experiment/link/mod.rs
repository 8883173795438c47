//! `exos bench link`: what each way of sending frames over a veth carries, and what a frame costs.
//!
//! | group | what is measured |
//! |---|---|
//! | `send` | one direction: frames that arrive in a second, and time of either core for each |
//! | `exchange` | both directions: frames there and back with 16, 64 and 256 under way |
//! | `lone` | the time of a single frame there and back |
//!
//! Set-up: the lab's plain wire; one end in namespace a on one core, the other in namespace b on another. An end is a process
//! that looks at nothing in the frames. Whatever sends, an AF_XDP link receives, except where sockets and DPDK are compared. In
//! each run of a cell the ways take turns, and a ratio is taken of each run before the median over the runs.
//!
//! A veth takes 256 frames at a time and drops what is beyond; no batch is larger.
//!
//! Each group is a file, with its cells, its results and its columns. `flood` and `round_trips` are the ends; `socket`,
//! `iperf3` and `dpdk` are what is compared.

mod dpdk;
mod exchange;
mod flood;
mod iperf3;
mod lone;
mod round_trips;
mod send;
mod socket;
mod way;

pub use exchange::{Exchange, ExchangeOutcome, ExchangeRun};
pub(crate) use flood::{Receiver, Sender};
pub use lone::{Lone, LoneOutcome, LoneRun};
pub(crate) use round_trips::{Answerer, Asker};
pub use send::{Send, SendOutcome, SendRun};
pub use way::Way;

use crate::report::{self, Document, Results, notes};
use crate::stage::args::{CommonArgs, check_seconds, shown_as_on_the_command_line};
use crate::stage::helper::{Helper, Helping};
use crate::stage::link::WARMUP;
use crate::stage::link::live_refusal;
use crate::stage::{Stage, check_left_behind, mac_of};
use exos_host::{Error, Result, kernel};
use exos_lab::{Guard, Lab, Settings, Side};
use round_trips::Asked;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Bytes of the frames: short ones, and full ones of a wire with an MTU of 1500.
const FRAME_LENS: [usize; 2] = [64, 1514];

/// Frames that are handed to the kernel at a time.
const BATCHES: [usize; 4] = [1, 16, 64, 256];

/// Frames under way.
const UNDER_WAY: [u32; 3] = [16, 64, 256];

/// Groups of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Group {
    /// One direction, in batches of 1, 16, 64 and 256
    Send,
    /// Both directions, with 16, 64 and 256 frames under way
    Exchange,
    /// The time of a single frame there and back
    Lone,
}

shown_as_on_the_command_line!(Group);

/// Options of `exos bench link`.
#[derive(clap::Args, Clone, Debug)]
pub struct LinkArgs {
    /// How cells are chosen and told of.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Groups to measure, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Group::Send, Group::Exchange, Group::Lone])]
    pub groups: Vec<Group>,
    /// Ways of sending to measure, in this order, separated by commas; skips those that this machine does not have
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Way::ALL)]
    pub ways: Vec<Way>,
    /// Seconds per measurement [default: 1, with --quick 0.2]
    #[arg(long)]
    pub seconds: Option<f64>,
}

/// The cells of each group that were asked for.
struct Cells {
    send: Vec<send::Cell>,
    exchange: Vec<exchange::Cell>,
    lone: Vec<lone::Cell>,
}

impl LinkArgs {
    fn seconds(&self) -> f64 {
        let default = if self.common.quick { 0.2 } else { 1.0 };
        self.seconds.unwrap_or(default)
    }

    fn wanted<C: ToString>(&self, group: Group, cells: impl IntoIterator<Item = C>) -> Vec<C> {
        let is_wanted =
            |cell: &C| self.groups.contains(&group) && self.common.wants(&cell.to_string());
        cells.into_iter().filter(is_wanted).collect()
    }

    fn cells(&self) -> Cells {
        let (lens, batches, under_way) = match self.common.quick {
            true => (&FRAME_LENS[..1], &BATCHES[2..3], &UNDER_WAY[1..2]),
            false => (&FRAME_LENS[..], &BATCHES[..], &UNDER_WAY[..]),
        };
        let mut sends = send::cells(lens, batches);
        if self.ways.contains(&Way::Iperf3) {
            sends.push(send::IPERF3);
        }
        Cells {
            send: self.wanted(Group::Send, sends),
            exchange: self.wanted(Group::Exchange, exchange::cells(lens, under_way)),
            lone: self.wanted(Group::Lone, lone::cells(lens)),
        }
    }

    fn names(&self) -> Vec<String> {
        let cells = self.cells();
        let sends = cells.send.iter().map(ToString::to_string);
        let exchanges = cells.exchange.iter().map(ToString::to_string);
        let lone = cells.lone.iter().map(ToString::to_string);
        sends.chain(exchanges).chain(lone).collect()
    }

    /// Says what cannot be measured, before anything is made.
    fn check(&self) -> Result<()> {
        if self.groups.is_empty() || self.ways.is_empty() {
            let what = "there is nothing to measure: give at least one group and way";
            return Err(Error::new(what));
        }
        self.common.check()?;
        check_seconds("--seconds", self.seconds())
    }
}

/// Measures as asked, prints the table, and writes JSON and the page.
pub fn run(args: &LinkArgs) -> Result<ExitCode> {
    report::tell(&args.common, || args.names(), || measure(args))
}

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The kernel's release.
    pub kernel: String,
    /// What our program calls itself.
    pub exos: String,
    /// How often each cell was measured.
    pub runs: u32,
    /// How long one measurement was meant to last.
    pub seconds: f64,
    /// Ways that were asked for and are not to be had here, a sentence each.
    pub left_out: Vec<String>,
    /// What distorts the numbers, a sentence each; empty when all is well.
    pub notes: Vec<String>,
    /// One direction.
    pub send: Vec<Send>,
    /// Both directions.
    pub exchange: Vec<Exchange>,
    /// A single frame.
    pub lone: Vec<Lone>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let (kernel, exos, runs, seconds) = (&self.kernel, &self.exos, self.runs, self.seconds);
        let left_out = self.left_out.iter().map(|way| format!("left out: {way}"));
        Document {
            command: "exos bench link",
            title: "Ways of sending frames",
            lines: vec![format!(
                "kernel {kernel}, {exos}, a veth, one core each; medians of {runs} runs of {seconds} s"
            )],
            sections: vec![
                send::section(&self.send),
                exchange::section(&self.exchange),
                lone::section(&self.lone),
            ],
            remarks: left_out.chain(notes(&self.notes)).collect(),
        }
    }
}

/// Measures as asked.
pub fn measure(args: &LinkArgs) -> Result<Report> {
    args.check()?;
    if args.names().is_empty() {
        return Err(Error::new("no cell has such a name").mend("see --list"));
    }
    let cells = args.cells();
    let stage = Stage::new(&args.common, args.common.runs(3))?;
    check_left_behind(&args.common.lab)?;
    let session = Session {
        stage,
        lab: exos_lab::up(&Settings::named(&args.common.lab))?.0.guard(),
        seconds: args.seconds(),
    };
    session.note_other_load()?;
    let (ways, left_out) = available(&session.lab, &args.ways)?;
    let send = send::measure(&session, &cells.send, &ways)?;
    let exchange = exchange::measure(&session, &cells.exchange, &ways)?;
    let lone = lone::measure(&session, &cells.lone, &ways)?;
    Ok(Report {
        kernel: kernel::release(),
        exos: session.version()?,
        runs: session.runs,
        seconds: session.seconds,
        left_out,
        notes: session.notes(),
        send,
        exchange,
        lone,
    })
}

/// Those of some ways that are to be had here, and why the others are not.
fn available(lab: &Lab, asked: &[Way]) -> Result<(Vec<Way>, Vec<String>)> {
    let (mut ways, mut left_out) = (Vec::new(), Vec::new());
    for &way in asked {
        let refusal = match way {
            Way::Live => live_refusal(lab)?,
            Way::Iperf3 => iperf3::available().err(),
            Way::DpdkPacket | Way::DpdkXdp => dpdk::available().err(),
            Way::Ring | Way::Cheaper | Way::Socket => None,
        };
        match refusal {
            Some(error) => left_out.push(format!("{way}: {error}")),
            None => ways.push(way),
        }
    }
    Ok((ways, left_out))
}

/// A session: its cores and its wire.
struct Session {
    stage: Stage,
    lab: Guard,
    seconds: f64,
}

impl std::ops::Deref for Session {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Session {
    /// An end of the wire, when it is ready.
    fn helper<H: Helper>(&self, side: Side, helper: &H) -> Result<Helping<H>> {
        let command = self.lab.command(side, &self.helpers)?;
        self.help(command, self.cores[side as usize], helper)
    }

    /// Has frames go back and forth, by one way in both directions.
    fn ask(&self, way: Way, frame_len: usize, under_way: u32) -> Result<Asked> {
        let answerer = Answerer {
            way,
            frame_len,
            mac: mac_of(&self.lab, Side::A)?.0,
        };
        let answerer = self.helper(Side::B, &answerer)?;
        let asker = Asker {
            way,
            frame_len,
            under_way,
            seconds: self.seconds,
            mac: mac_of(&self.lab, Side::B)?.0,
        };
        let asker = self.helper(Side::A, &asker)?;
        let asked = asker.measured(self, WARMUP.as_secs_f64() + self.seconds)?;
        answerer.stop()?;
        Ok(asked)
    }
}

#[cfg(test)]
mod tests;
