//! The plain wire without losses: the packet limit of the link, and what the stacks make of it.
//!
//! The limit is what two programs exchange of plain frames over AF_XDP, one core each, with nothing else to do, by the best of
//! the link's ways of sending: full frames one way, and a short one back for every second, as TCP's acknowledgements, 512 full frames under way at most, which keeps
//! the sender from going faster than the receiver. Our stack is measured against it with itself at the other end, where both
//! ends have the limit; with segments handed over one by one and several at once. With Linux at the other end Linux may be what
//! limits: that is what the comparison with Linux at both ends shows.

use super::args::Group;
use super::peer::Role;
use super::session::{EXOS_B, PEER, Session};
use crate::experiment::cells::{in_turn, measure_cells};
use crate::report::{figures, median};
use crate::stage::exchange::{Exchange, Round};
use crate::stage::link::{Best, LinkWay};
use exos_host::{Error, Result};
use exos_lab::{Lab, Side};

/// Data bytes of a full segment with timestamps, at an MTU of 1500.
const SEGMENT_BYTES: f64 = 1448.0;

/// Full frames on a wire with an MTU of 1500, and an acknowledgement with timestamps for every second of them, as receivers of
/// TCP send it (RFC 9293 §3.8.6.3): who acknowledges asks for the next two.
const ACKNOWLEDGED: Round = Round {
    ask_len: 66,
    answers: 2,
    answer_len: 1514,
    note_every: 0,
};

/// Full frames under way: a sender that goes on regardless keeps the receiver's core from taking what came.
const WINDOW_FRAMES: u32 = 512;

figures! {
    /// One way of using the wire.
    pub struct Wire {
        /// Its name.
        name: String, "from-to";
        /// Goodput in Mbit/s: median over the runs; of plain frames what their room for data would carry.
        goodput_mbit_per_sec: f64, "Mbit/s" 1;
        /// Full segments of 1,448 bytes, or frames, a second: median over the runs.
        packets_per_sec: f64, "kpackets/s" 0 |r| r.packets_per_sec / 1000.0;
        /// Part of what plain frames reached in the same run: the median.
        of_limit: f64, "of limit" 2;
        /// Of plain frames: the way of sending that was the best in most runs.
        way: Option<LinkWay>, "sent by";
        /// Packets a second in each run.
        runs: Vec<f64>;
    }
}

pub(super) const NOTE: &str =
    "The limit is AF_XDP frames from core to core, by the best way of sending.";

const LIMIT: &str = "wire/frames";
pub(super) const CELLS: [&str; 6] = [
    LIMIT,
    "wire/exos-to-exos/unsegmented",
    "wire/exos-to-exos",
    "wire/exos-to-linux",
    "wire/linux-to-exos",
    "wire/linux-to-linux",
];

/// Measures the cells that were asked for; the limit whenever there is one.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Wire>> {
    let wanted = session.args.wanted(Group::Wire, CELLS);
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut names = vec![LIMIT];
    names.extend(wanted.into_iter().filter(|name| *name != LIMIT));
    measure_cells(session, &[()], names.len(), |()| {
        let mut limits = Vec::new();
        let run = |(): &(), name: &&str| {
            let lab = session.plain()?;
            if *name != LIMIT {
                return packets_per_sec(session, &lab, name);
            }
            let best = Best::of(&lab, |way| frames_per_sec(session, &lab, way))?;
            limits.push(best);
            Ok(best.per_sec)
        };
        let (_, rates) = in_turn(session, "wire", &names, |_| Ok(()), run)?;
        let cases = names.iter().zip(&rates);
        let mut cases: Vec<_> = cases
            .map(|(name, runs)| Wire::new(name, runs, &rates[0]))
            .collect();
        cases[0].way = Best::usual_way(&limits);
        Ok(cases)
    })
}

impl Wire {
    fn new(name: &str, runs: &[f64], limits: &[f64]) -> Self {
        let packets_per_sec = median(runs.to_vec());
        let parts = runs.iter().zip(limits).map(|(rate, limit)| rate / limit);
        Self {
            name: name.to_owned(),
            goodput_mbit_per_sec: packets_per_sec * SEGMENT_BYTES * 8.0 / 1e6,
            packets_per_sec,
            of_limit: median(parts.collect()),
            way: None,
            runs: runs.to_vec(),
        }
    }
}

fn packets_per_sec(session: &Session<'_>, lab: &Lab, name: &str) -> Result<f64> {
    let bits = match name {
        "wire/exos-to-exos" => to_ourselves(session, lab, "")?,
        "wire/exos-to-exos/unsegmented" => to_ourselves(session, lab, " --no-segmentation")?,
        "wire/exos-to-linux" => with_linux(session, lab, Role::Send, true)?,
        "wire/linux-to-exos" => with_linux(session, lab, Role::Receive, true)?,
        _ => with_linux(session, lab, Role::Send, false)?,
    };
    Ok(bits / 8.0 / SEGMENT_BYTES)
}

/// What a sender of plain frames on side a gets to a receiver of them.
fn frames_per_sec(session: &Session<'_>, lab: &Lab, way: LinkWay) -> Result<f64> {
    let exchange = Exchange {
        seconds: session.args.seconds(),
        at_once: WINDOW_FRAMES / u32::from(ACKNOWLEDGED.answers),
        rounds: vec![ACKNOWLEDGED],
    };
    let exchanged = exchange.measure(session, lab, way)?;
    Ok(exchanged.per_sec * f64::from(ACKNOWLEDGED.answers))
}

/// Bits a second from our stack on side a to our stack on side b.
fn to_ourselves(session: &Session<'_>, lab: &Lab, more: &str) -> Result<f64> {
    let (port, seconds) = (PEER.port(), session.args.seconds());
    let mut server = session.exos(lab, Side::B, &format!("discard --port {port}"))?;
    session.await_address(&mut server)?;
    let chargen = format!("chargen --connect {EXOS_B}:{port} --seconds {seconds}{more}");
    let client = session.exos(lab, Side::A, &chargen)?;
    let said = session.ended(client, seconds)?;
    server.stop()?;
    said["sent_bits_per_sec"]
        .as_f64()
        .ok_or_else(|| Error::new("chargen did not say what it sent"))
}

/// Bits a second from side a to side b, or back; side a is ours or Linux's.
fn with_linux(session: &Session<'_>, lab: &Lab, role: Role, is_ours: bool) -> Result<f64> {
    let peer = session.listen(lab, role.other(), "cubic")?;
    let seconds = session.args.seconds();
    let measured = if is_ours {
        let client = session.exos(
            lab,
            Side::A,
            &format!("{} --connect {PEER}", role.program()),
        )?;
        let measured = peer.measured(session, seconds)?;
        client.stop()?;
        measured
    } else {
        let client = session.connect(lab, role, "cubic")?;
        let measured = peer.measured(session, seconds)?;
        client.stop()?;
        measured
    };
    Ok(1e6 * measured.mbit_per_sec(0))
}
