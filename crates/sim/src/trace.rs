//! What crossed the wire, as text in the manner of tcpdump, and the comparison of it with what a
//! test expects.
//!
//! One line per frame, at the virtual time it was sent:
//!
//! ```text
//! 0.000  client > server  S   seq 0                (dropped)
//! 1.000  client > server  S   seq 0
//! 1.010  server > client  S.  seq 0 ack 1
//! 1.020  client > server  P.  seq 1 ack 1 len 100
//! ```
//!
//! - Time in seconds; microseconds are shown only where they are not zero.
//! - Hosts by name; addresses that no host has as they are.
//! - TCP sequence numbers count from the SYN of their direction; where no SYN was seen they are as
//!   on the wire. Flags as tcpdump writes them: S, F, R, P, and a dot for ACK. Lengths are of
//!   payload and left out when zero.
//! - In parentheses what the wire did to the frame. A damaged frame is shown as it was sent.
//!
//! [`Trace::compare`] ignores how many spaces separate words, empty lines, and lines that begin
//! with `#`.

mod diff;
mod flows;
mod frame;
mod names;

use crate::wire::Fate;
use exos_inet::Instant;
use std::net::IpAddr;

use flows::Flows;
use names::Names;
pub use names::Style;

/// Bytes kept of each frame: all headers that the text shows.
const SNAP_LEN: usize = 200;

/// Frames kept: a scenario has dozens, the longest transfers tens of thousands; beyond this the
/// oldest go.
const RECORDS_MAX: usize = 200_000;

/// One frame that was sent.
#[derive(Clone, Debug)]
struct Record {
    at: Instant,
    bytes: Vec<u8>,
    fate: Fate,
}

/// Every frame of a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    records: std::collections::VecDeque<Record>,
    names: Names,
    /// What was known before the first record.
    flows: Flows,
}

impl Trace {
    /// Nothing yet.
    pub fn new() -> Trace {
        Trace::default()
    }

    /// Show `addr` as `name`.
    pub fn name(&mut self, addr: IpAddr, name: &str) {
        self.names.by_address.insert(addr, name.to_owned());
    }

    /// Show more or less.
    pub fn set_style(&mut self, style: Style) {
        self.names.style = style;
    }

    /// A frame was sent and met its fate.
    pub fn record(&mut self, at: Instant, frame: &[u8], fate: Fate) {
        if self.records.len() == RECORDS_MAX {
            self.records.pop_front();
        }
        let bytes = frame[..frame.len().min(SNAP_LEN)].to_vec();
        self.records.push_back(Record { at, bytes, fate });
    }

    /// Forget what was recorded, but not where sequence numbers began.
    pub fn clear(&mut self) {
        let mut flows = std::mem::take(&mut self.flows);
        for record in &self.records {
            frame::describe(&self.names, &mut flows, &record.bytes);
        }
        self.flows = flows;
        self.records.clear();
    }

    /// Frames recorded.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True when nothing was sent.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The lines, one per frame.
    pub fn lines(&self) -> Vec<String> {
        let mut flows = self.flows.clone();
        let mut lines = Vec::new();
        for record in &self.records {
            let Some((ends, what)) = frame::describe(&self.names, &mut flows, &record.bytes) else {
                continue;
            };
            let what = match fate_text(record.fate) {
                "" => what,
                fate => format!("{what:<24} ({fate})"),
            };
            lines.push(
                format!("{}  {ends:<17}  {what}", time_text(record.at))
                    .trim_end()
                    .to_owned(),
            );
        }
        lines
    }

    /// The last lines, for the message of a failing test.
    pub fn tail(&self, count: usize) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    /// `Err` with a readable difference unless the trace is what `expected` says.
    pub fn compare(&self, expected: &str) -> Result<(), String> {
        diff::compare(&diff::normalized(expected), &self.lines())
    }
}

fn time_text(at: Instant) -> String {
    let (secs, micros) = (at.micros() / 1_000_000, at.micros() % 1_000_000);
    if micros.is_multiple_of(1000) {
        format!("{secs}.{:03}", micros / 1000)
    } else {
        format!("{secs}.{micros:06}")
    }
}

fn fate_text(fate: Fate) -> &'static str {
    match fate {
        Fate::Delivered => "",
        Fate::Dropped => "dropped",
        Fate::Overflowed => "overflowed",
        Fate::Corrupted => "corrupted",
        Fate::Duplicated => "duplicated",
        Fate::Reordered => "reordered",
    }
}

#[cfg(test)]
mod tests;
