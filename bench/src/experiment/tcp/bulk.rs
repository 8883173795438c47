//! Goodput of one connection over the emulated wire, both ways.

use super::cells::{self, BulkCell, Direction};
use super::options::Group;
use super::report::{Case, Outcome, Run};
use super::session::{EXOS, PEER, PORT, Session};
use crate::stage::Started;
use exos_host::Result;
use exos_lab::{Emulated, Side, Statistics};
use serde::Serialize;

/// Who is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contender {
    Exos,
    Linux,
    LinuxBbr,
}

impl Contender {
    fn name(self) -> &'static str {
        match self {
            Contender::Exos => "exos",
            Contender::Linux => "linux",
            Contender::LinuxBbr => "linux-bbr",
        }
    }

    /// The congestion control of the sender, whichever side that is on.
    fn congestion(self) -> &'static str {
        match self {
            Contender::Exos | Contender::Linux => "cubic",
            Contender::LinuxBbr => "bbr",
        }
    }
}

/// What was sent again, as far as it is known.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Retransmissions {
    /// Segments.
    pub segments: Option<u64>,
    /// Timeouts of the retransmission timer.
    pub timeouts: Option<u64>,
}

/// Measures the cells that were asked for.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Case>> {
    let args = session.args;
    let mut cells = cells::all(args);
    cells.retain(|cell| session.wants(Group::Bulk, &cell.name));
    if args.quick && args.only.is_empty() {
        cells.retain(cells::is_quick);
    }
    let contenders = |cell: &BulkCell| {
        let mut all = vec![Contender::Exos, Contender::Linux];
        // Who receives has no congestion control.
        if cell.direction == Direction::Send && !args.no_bbr {
            all.push(Contender::LinuxBbr);
        }
        all
    };
    let steps: usize = cells.iter().map(|cell| contenders(cell).len()).sum();
    let progress = session.progress(steps * args.runs() as usize);
    let mut cases = Vec::new();
    for cell in &cells {
        let contenders = contenders(cell);
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); contenders.len()];
        for run in 0..args.runs() {
            for (&contender, runs) in contenders.iter().zip(&mut runs) {
                progress.set_message(format!("{}, {}", cell.name, contender.name()));
                let seed = args.seed + u64::from(run);
                runs.push(measure_one(session, cell, contender, seed)?);
                progress.inc(1);
            }
        }
        let outcomes = contenders.iter().zip(runs);
        let outcomes = outcomes.map(|(c, runs)| Outcome::of(c.name(), runs));
        let case = Case::new(&cell.name, &cell.conditions, outcomes.collect());
        progress.suspend(|| eprintln!("{}", case.row()));
        cases.push(case);
    }
    progress.finish_and_clear();
    Ok(cases)
}

fn measure_one(
    session: &Session<'_>,
    cell: &BulkCell,
    contender: Contender,
    seed: u64,
) -> Result<Run> {
    let lab = session.emulated(&cell.conditions, seed)?;
    let seconds = session.args.seconds;
    let peer = start_peer(session, &lab, cell, contender)?;
    let ours = start_contender(session, &lab, cell, contender)?;
    let measured = session.flows(peer, seconds)?;
    let flow = &measured.flows[0];
    let own = match contender {
        Contender::Exos => ours.statistics()?,
        Contender::Linux | Contender::LinuxBbr => {
            ours.stop()?;
            serde_json::Value::Null
        }
    };
    let retransmissions = match (cell.direction, contender) {
        (Direction::Send, Contender::Exos) => Retransmissions {
            segments: own["counters"]["tcp_segments_retransmitted"].as_u64(),
            timeouts: own["counters"]["tcp_timeouts"].as_u64(),
        },
        (Direction::Send, _) => Retransmissions::default(),
        (Direction::Receive, _) => Retransmissions {
            segments: Some(flow.retransmitted_segments.into()),
            timeouts: flow.timeouts.map(u64::from),
        },
    };
    let wire = lab.finish()?;
    note_own_losses(session, cell, &wire);
    Ok(Run {
        seed,
        goodput_mbit_per_sec: flow.bytes as f64 * 8.0 / 1e6 / measured.seconds,
        retransmissions,
    })
}

/// Linux on side b: it listens and measures.
fn start_peer(
    session: &Session<'_>,
    lab: &Emulated,
    cell: &BulkCell,
    contender: Contender,
) -> Result<Started> {
    let role = match cell.direction {
        Direction::Send => "receive",
        Direction::Receive => "send",
    };
    let (listen, seconds) = (format!("{PEER}:{PORT}"), session.args.seconds.to_string());
    let arguments = ["tcp-peer", role, "--listen", &listen, "--seconds", &seconds];
    let congestion = ["--congestion", contender.congestion()];
    session.ready_helper(lab, Side::B, &[&arguments[..], &congestion].concat())
}

/// The stack that is measured, on side a: it connects.
fn start_contender(
    session: &Session<'_>,
    lab: &Emulated,
    cell: &BulkCell,
    contender: Contender,
) -> Result<Started> {
    let to = format!("{PEER}:{PORT}");
    let congestion = ["--congestion", contender.congestion()];
    match (contender, cell.direction) {
        (Contender::Exos, Direction::Send) => {
            let arguments = ["chargen", "--connect", &to];
            let congestion = ["--congestion", &session.args.ours];
            session.exos(lab, Side::A, &[&arguments[..], &congestion].concat())
        }
        (Contender::Exos, Direction::Receive) => {
            session.exos(lab, Side::A, &["discard", "--connect", &to])
        }
        (_, direction) => {
            let role = match direction {
                Direction::Send => "send",
                Direction::Receive => "receive",
            };
            let arguments = ["tcp-peer", role, "--connect", &to];
            session.helper(lab, Side::A, &[&arguments[..], &congestion].concat())
        }
    }
}

/// What the emulator itself could not carry is no loss that was asked for.
fn note_own_losses(session: &Session<'_>, cell: &BulkCell, wire: &Statistics) {
    for (way, direction) in [("to", &wire.a_to_b), ("from", &wire.b_to_a)] {
        let lost = direction.own.total();
        if lost > 0 {
            session.note(format!(
                "{}: the emulator lost {lost} frames {way} {EXOS} against its instructions",
                cell.name
            ));
        }
    }
}
