//! `send`: one direction, an end that does nothing but send and one that does nothing but receive.

use super::args::Group;
use super::flood::{Receiver, Sender};
use super::session::Session;
use super::way::Way;
use super::{dpdk, iperf3, socket};
use crate::experiment::cells::{in_turn, measure_cells};
use crate::report::figure::Figure;
use crate::report::{self, Column, Section, fixed, median_of, percent_of};
use crate::stage::mac_of;
use exos_host::Result;
use exos_lab::Side;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Frames of one length, and how many of them leave at a time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Send {
    /// `send/LENGTH/BATCH`.
    pub name: String,
    /// Bytes of a frame, without its check sequence.
    pub frame_bytes: usize,
    /// Frames that are handed to the kernel at a time.
    pub batch: usize,
    /// What each way did.
    pub results: Vec<SendOutcome>,
}

/// One way: medians over the runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SendOutcome {
    /// The way.
    pub way: Way,
    /// Frames that arrived in a second.
    pub frames_per_sec: f64,
    /// Time of the sender's core for each frame that it sent: its program and the kernel's work, most of the receiver's too.
    pub sender_ns_per_frame: f64,
    /// Time of the receiver's core for each frame that arrived, while it found some; of iperf3, of its process; of DPDK, what it says.
    pub receiver_ns_per_frame: f64,
    /// Part of what was sent that did not arrive.
    pub lost_share: f64,
    /// Part of what was sent that left in live frame mode.
    pub live_share: f64,
    /// Every run.
    pub runs: Vec<SendRun>,
}

/// One way in one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SendRun {
    /// Frames that arrived in a second.
    pub frames_per_sec: f64,
    /// Time of the sender's core for each frame that it sent.
    pub sender_ns_per_frame: f64,
    /// Time of the receiver's core for each frame that arrived.
    pub receiver_ns_per_frame: f64,
    /// Part of what was sent that did not arrive.
    pub lost_share: f64,
    /// Part of what was sent that left in live frame mode.
    pub live_share: f64,
}

impl report::Tabular for Send {
    type Row = SendOutcome;
    const NAMES: &'static str = "send/bytes/batch";
    const COLUMNS: &'static [Column<Self, Self::Row>] = &[
        Column::text("way", |_, r| r.way.to_string()),
        Column::number("frames/s", |_, r| fixed(r.frames_per_sec, 0)),
        Column::number("send ns", |_, r| fixed(r.sender_ns_per_frame, 0)),
        Column::number("recv ns", |_, r| fixed(r.receiver_ns_per_frame, 0)),
        Column::number("lost %", |_, r| percent_of(r.lost_share)),
        Column::number("live %", |_, r| percent_of(r.live_share)),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn rows(&self) -> &[SendOutcome] {
        &self.results
    }
}

/// The ways in the figure.
const SHOWN: [Way; 6] = [
    Way::Ring,
    Way::Live,
    Way::Cheaper,
    Way::Socket,
    Way::DpdkPacket,
    Way::DpdkXdp,
];

const NOTE: &str = "ns: time of either core for a frame; the sender's includes the kernel's delivery. live: left in live frame mode.";

/// The figure is without iperf3, whose frames are of a length of their own.
pub(super) fn section(cases: &[Send]) -> Section {
    let series = SHOWN.map(|way| way.to_string());
    let series: Vec<&str> = series.iter().map(String::as_str).collect();
    let about = (
        "Frames that arrived, by those of the ring",
        "The numbers are frames a second.",
    );
    let kind = |case: &&Send| format!("frames of {} bytes", case.frame_bytes);
    let name = |case: &&Send| format!("{} at once", case.batch);
    let value = |case: &&Send, way: &str| {
        let mut results = case.results.iter();
        let result = results.find(|r| r.way.to_string() == way)?;
        Some(result.frames_per_sec)
    };
    let by = ("by the ring", series[0]);
    let figure = Figure::by_peer(about, by, &series, cases, (kind, name), value, |_| None);
    Section::of("One direction", NOTE, cases).with_figures(figure)
}

/// What is measured together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    frame_bytes: usize,
    batch: usize,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", Group::Send, self.frame_bytes, self.batch)
    }
}

/// iperf3's frames, which leave one by one.
pub(super) const IPERF3: Cell = Cell {
    frame_bytes: iperf3::DATA_LEN + socket::HEADERS_LEN,
    batch: 1,
};

/// All others.
pub(super) fn cells(lens: &[usize], batches: &[usize]) -> Vec<Cell> {
    let cells = lens.iter().flat_map(|&frame_bytes| {
        let cell = move |&batch| Cell { frame_bytes, batch };
        batches.iter().map(cell)
    });
    cells.collect()
}

/// Measures cells by those ways that can do them.
pub(super) fn measure(session: &Session, cells: &[Cell], ways: &[Way]) -> Result<Vec<Send>> {
    let (iperf3, others): (Vec<Cell>, Vec<Cell>) = cells.iter().partition(|cell| **cell == IPERF3);
    let (apart, ways): (Vec<Way>, Vec<Way>) = ways.iter().partition(|way| **way == Way::Iperf3);
    let mut all = Vec::new();
    for (cells, ways) in [(others, ways), (iperf3, apart)] {
        if cells.is_empty() || ways.is_empty() {
            continue;
        }
        all.extend(measure_cells(session, &cells, ways.len(), |cell| {
            let run = |(): &(), way: &Way| run(session, *cell, *way);
            let (_, runs) = in_turn(session, cell, &ways, |_| Ok(()), run)?;
            let results = ways.iter().zip(runs);
            Ok(vec![Send {
                name: cell.to_string(),
                frame_bytes: cell.frame_bytes,
                batch: cell.batch,
                results: results.map(|(way, r)| SendOutcome::of(*way, r)).collect(),
            }])
        })?);
    }
    Ok(all)
}

fn run(session: &Session, cell: Cell, way: Way) -> Result<SendRun> {
    if way == Way::Iperf3 {
        return iperf3::run(session);
    }
    if matches!(way, Way::DpdkPacket | Way::DpdkXdp) {
        return dpdk::run(session, way, cell.frame_bytes, cell.batch);
    }
    let by_socket = way == Way::Socket;
    let receiver = session.helper(Side::B, &Receiver { by_socket })?;
    let sender = Sender {
        way,
        frame_len: cell.frame_bytes,
        batch: cell.batch,
        seconds: session.seconds,
        mac: mac_of(&session.lab, Side::B)?.0,
    };
    let sender = session.helper(Side::A, &sender)?;
    let sent = sender.measured(session, session.seconds)?;
    let received = receiver.measured(session, session.seconds)?;
    let (there, here) = (sent.frames.max(1) as f64, received.frames.max(1) as f64);
    Ok(SendRun {
        frames_per_sec: received.frames as f64 / received.seconds.max(f64::MIN_POSITIVE),
        sender_ns_per_frame: sent.core_ns as f64 / there,
        receiver_ns_per_frame: received.core_ns as f64 / here,
        lost_share: sent.frames.saturating_sub(received.frames) as f64 / there,
        live_share: sent.live_frames as f64 / there,
    })
}

impl SendOutcome {
    pub(super) fn of(way: Way, runs: Vec<SendRun>) -> Self {
        let of = |value: fn(&SendRun) -> f64| median_of(&runs, value);
        Self {
            way,
            frames_per_sec: of(|r| r.frames_per_sec),
            sender_ns_per_frame: of(|r| r.sender_ns_per_frame),
            receiver_ns_per_frame: of(|r| r.receiver_ns_per_frame),
            lost_share: of(|r| r.lost_share),
            live_share: of(|r| r.live_share),
            runs,
        }
    }
}
