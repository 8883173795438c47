//! The plain wire without losses: the packet limit of the link, and what the stacks make of it.
//!
//! The limit is what a sender and a receiver of plain frames over AF_XDP exchange, one core each, with nothing
//! else to do: with a short answer to every second frame, as TCP's acknowledgements, and a window of 512 frames, which
//! keeps the sender from going faster than the receiver. Without either the receiver may get a fraction of that, since
//! frames are delivered in the sender's time; that is shown as well. Our stack is measured against it with itself at the other end, where both ends have the limit; with
//! segments handed over one by one and several at once. With Linux at the other end Linux may be what limits: that is
//! what the comparison with Linux at both ends shows.

use super::options::Group;
use super::session::{EXOS_B, PEER, PORT, Session};
use crate::report::median;
use crate::stage::mac_of;
use exos_host::{Error, Result};
use exos_lab::{Lab, Side};
use serde::Serialize;

/// Data bytes of a full segment with timestamps, at an MTU of 1500.
const SEGMENT_BYTES: f64 = 1448.0;

/// One way of using the wire.
#[derive(Clone, Debug, Serialize)]
pub struct WireCase {
    /// Its name.
    pub name: String,
    /// Goodput in Mbit/s: median over the runs; of plain frames what their room for data would carry.
    pub goodput_mbit_per_sec: f64,
    /// Full segments or frames a second: median over the runs.
    pub packets_per_sec: f64,
    /// Part of the link's limit: median of each run's.
    pub of_limit: f64,
    /// Packets a second in each run.
    pub runs: Vec<f64>,
}

const LIMIT: &str = "wire/frames";
const REGARDLESS: &str = "wire/frames/regardless";
const CASES: [&str; 7] = [
    LIMIT,
    REGARDLESS,
    "wire/exos-to-exos/unsegmented",
    "wire/exos-to-exos",
    "wire/exos-to-linux",
    "wire/linux-to-exos",
    "wire/linux-to-linux",
];

/// The names of the cells.
pub(super) fn names() -> Vec<String> {
    CASES.map(str::to_owned).to_vec()
}

/// Measures the cells that were asked for; the limit whenever there is one.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<WireCase>> {
    let wanted = |name: &&str| session.wants(Group::Wire, name);
    if !CASES.iter().any(wanted) {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = CASES
        .into_iter()
        .filter(|name| *name == LIMIT || wanted(name))
        .collect();
    let runs = session.args.runs();
    let progress = session.progress(names.len() * runs as usize);
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
    for _ in 0..runs {
        for (name, rates) in names.iter().zip(&mut rates) {
            progress.set_message((*name).to_owned());
            let lab = session.plain()?;
            rates.push(packets_per_sec(session, &lab, name)?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let limits = rates[0].clone();
    let cases = names.iter().zip(rates);
    let cases: Vec<WireCase> = cases
        .map(|(name, rates)| case(name, rates, &limits))
        .collect();
    cases.iter().for_each(|case| eprintln!("{}", case.row()));
    Ok(cases)
}

fn case(name: &str, rates: Vec<f64>, limits: &[f64]) -> WireCase {
    let packets_per_sec = median(rates.clone());
    let parts = rates.iter().zip(limits).map(|(rate, limit)| rate / limit);
    WireCase {
        name: name.to_owned(),
        goodput_mbit_per_sec: packets_per_sec * SEGMENT_BYTES * 8.0 / 1e6,
        packets_per_sec,
        of_limit: median(parts.collect()),
        runs: rates,
    }
}

fn packets_per_sec(session: &Session<'_>, lab: &Lab, name: &str) -> Result<f64> {
    let bits = match name {
        LIMIT => return frames_per_sec(session, lab, true),
        REGARDLESS => return frames_per_sec(session, lab, false),
        "wire/exos-to-exos" => to_ourselves(session, lab, &[])?,
        "wire/exos-to-exos/unsegmented" => to_ourselves(session, lab, &["--no-segmentation"])?,
        "wire/exos-to-linux" => with_linux(session, lab, true, true)?,
        "wire/linux-to-exos" => with_linux(session, lab, false, true)?,
        _ => with_linux(session, lab, true, false)?,
    };
    Ok(bits / 8.0 / SEGMENT_BYTES)
}

/// What a sender of plain frames gets to a receiver of them.
fn frames_per_sec(session: &Session<'_>, lab: &Lab, answered: bool) -> Result<f64> {
    let seconds = session.args.seconds.to_string();
    // The sender is stopped when the receiver has counted.
    let mac = mac_of(lab, Side::B)?.to_string();
    let back = mac_of(lab, Side::A)?.to_string();
    let (receiver, option) = if answered {
        ("answer", ["--answered"].as_slice())
    } else {
        ("count", [].as_slice())
    };
    let count = ["tcp-raw", receiver, "--seconds", &seconds, "--mac", &back];
    let count = session.ready_helper(lab, Side::B, &count)?;
    let send = ["tcp-raw", "send", "--seconds", "3600", "--mac", &mac];
    let send = session.helper(lab, Side::A, &[&send[..], option].concat())?;
    let counted: serde_json::Value = session.measured(count, session.args.seconds)?;
    send.stop()?;
    counted["frames_per_sec"]
        .as_f64()
        .ok_or_else(|| Error::new("the receiver of frames counted none"))
}

/// Bits a second from our stack on side a to our stack on side b.
fn to_ourselves(session: &Session<'_>, lab: &Lab, more: &[&str]) -> Result<f64> {
    let port = PORT.to_string();
    let mut server = session.exos(lab, Side::B, &["discard", "--port", &port])?;
    session.await_address(&mut server)?;
    let to = format!("{EXOS_B}:{PORT}");
    let seconds = session.args.seconds.to_string();
    let arguments = ["chargen", "--connect", &to, "--seconds", &seconds];
    let client = session.exos(lab, Side::A, &[&arguments[..], more].concat())?;
    let said = session.ended(client, session.args.seconds)?;
    server.stop()?;
    said["sent_bits_per_sec"]
        .as_f64()
        .ok_or_else(|| Error::new("chargen did not say what it sent"))
}

/// Bits a second from side a to side b, or back; side a is ours or Linux's.
fn with_linux(session: &Session<'_>, lab: &Lab, sends: bool, ours: bool) -> Result<f64> {
    let to = format!("{PEER}:{PORT}");
    let seconds = session.args.seconds.to_string();
    let (here, there) = if sends {
        ("send", "receive")
    } else {
        ("receive", "send")
    };
    let cubic = ["--congestion", "cubic"];
    let arguments = ["tcp-peer", there, "--listen", &to, "--seconds", &seconds];
    let peer = session.ready_helper(lab, Side::B, &[&arguments[..], &cubic].concat())?;
    let client = if ours {
        let program = if sends { "chargen" } else { "discard" };
        session.exos(lab, Side::A, &[program, "--connect", &to])?
    } else {
        let arguments = ["tcp-peer", here, "--connect", &to];
        session.helper(lab, Side::A, &[&arguments[..], &cubic].concat())?
    };
    let measured = session.flows(peer, session.args.seconds)?;
    client.stop()?;
    Ok(measured.flows[0].bytes as f64 * 8.0 / measured.seconds)
}

impl WireCase {
    /// A line for people.
    pub(super) fn row(&self) -> String {
        format!(
            "{:<40} {:>9.1} {:>9.0} {:>9.2}",
            self.name,
            self.goodput_mbit_per_sec,
            self.packets_per_sec / 1000.0,
            self.of_limit
        )
    }
}
