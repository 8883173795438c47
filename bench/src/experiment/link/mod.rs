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
//! Each group is a file, with its figures; `cell` is what all have in common, `args` and `session` are what they are given.
//! `flood` are the ends of one direction; `socket`, `iperf3` and `dpdk` are what is compared.

mod args;
mod cell;
mod dpdk;
mod exchange;
mod flood;
mod iperf3;
mod lone;
mod send;
mod send_outcome;
mod session;
mod socket;
mod way;

pub use args::{Group, LinkArgs};
pub use exchange::{Exchange, ExchangeOutcome, ExchangeRun};
pub(crate) use flood::{Receiver, Sender};
pub use lone::{Lone, LoneOutcome, LoneRun};
pub use send_outcome::{Send, SendOutcome, SendRun};
pub use way::Way;

use crate::experiment::cells::some_cells;
use crate::report::{self, Document, Environment, Results, Section};
use crate::stage::LabStage;
use crate::stage::link::live_refusal;
use cell::Cell;
use exos_host::Result;
use exos_lab::Lab;
use schemars::JsonSchema;
use serde::Serialize;
use session::Session;
use std::process::ExitCode;

/// Bytes of the frames: short ones, and full ones of a wire with an MTU of 1500.
const FRAME_LENS: [usize; 2] = [64, 1514];

/// Frames that are handed to the kernel at a time.
const BATCHES: [u32; 4] = [1, 16, 64, 256];

/// Frames under way.
const UNDER_WAY: [u32; 3] = [16, 64, 256];

/// The cells that were asked for.
fn cells(args: &LinkArgs) -> Vec<Cell> {
    let (lens, batches, under_way) = match args.common.quick {
        true => (&FRAME_LENS[..1], &BATCHES[2..3], &UNDER_WAY[1..2]),
        false => (&FRAME_LENS[..], &BATCHES[..], &UNDER_WAY[..]),
    };
    let mut all = Cell::all(Group::Send, lens, batches);
    if args.ways.contains(&Way::Iperf3) {
        all.push(send::IPERF3);
    }
    all.extend(Cell::all(Group::Exchange, lens, under_way));
    all.extend(Cell::all(Group::Lone, lens, &[1]));
    all.retain(|cell| cell.is_wanted(args));
    all
}

/// Their names.
fn names(args: &LinkArgs) -> Vec<String> {
    cells(args).iter().map(Cell::to_string).collect()
}

/// Measures as asked, prints the table, and writes JSON and the page.
pub fn run(args: &LinkArgs) -> Result<ExitCode> {
    report::tell(&args.common, || names(args), || measure(args))
}

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Where and how it measured.
    #[serde(flatten)]
    pub environment: Environment,
    /// Ways that were asked for and are not to be had here, a sentence each.
    pub left_out: Vec<String>,
    /// One direction.
    pub send: Vec<Send>,
    /// Both directions.
    pub exchange: Vec<Exchange>,
    /// A single frame.
    pub lone: Vec<Lone>,
}

impl Results for Report {
    fn document(&self) -> Document {
        let left_out = self.left_out.iter().map(|way| format!("left out: {way}"));
        Document {
            command: "exos bench link",
            title: "Ways of sending frames",
            lines: vec![self.environment.line() + ", on a veth, one core each"],
            sections: vec![
                send::section(&self.send),
                exchange::section(&self.exchange),
                Section::of("A lone frame", lone::NOTE, &self.lone),
            ],
            remarks: left_out.chain(self.environment.remarks()).collect(),
        }
    }
}

/// Measures as asked.
pub fn measure(args: &LinkArgs) -> Result<Report> {
    let cells = some_cells(cells(args))?;
    let seconds = if args.common.quick { 0.2 } else { 1.0 };
    let stage = LabStage::up(&args.common, seconds)?;
    let (ways, left_out) = available(&stage.lab, &args.ways)?;
    let session = Session { stage, ways };
    let of = |group| {
        let of_group = cells.iter().filter(|cell| cell.group == group);
        of_group.copied().collect::<Vec<Cell>>()
    };
    let send = send::measure(&session, &of(Group::Send))?;
    let exchange = exchange::measure(&session, &of(Group::Exchange))?;
    let lone = lone::measure(&session, &of(Group::Lone))?;
    Ok(Report {
        environment: Environment::of(&session, session.seconds)?,
        left_out,
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

#[cfg(test)]
mod tests;
