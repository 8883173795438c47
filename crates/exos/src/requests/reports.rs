//! What became of answers, as the kernel's part reports it.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Release;

use exos_filter::handler::web::layout::{self, report, slot};
use exos_inet::{Duration, Instant};

use super::memory::Memory;

/// How soon reports are looked for where there were some: room is for three million a second.
const SOON: Duration = Duration::from_millis(10);

/// An answer of the kernel's whose response its client has taken, or will not take any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The note of the [response](super::Response).
    pub note: u32,
    /// The client.
    pub peer: IpAddr,
    /// When the request came.
    pub begun: Instant,
    /// When the client acknowledged all of the response, or the connection was over.
    pub ended: Instant,
    /// The client has acknowledged all of it; else nothing.
    pub is_taken: bool,
}

/// Those that come.
#[derive(Debug)]
pub(super) struct Reports {
    /// Where they are written; nowhere where they are not wanted, or another core reads them.
    ring: Option<u64>,
    /// Read from the ring.
    read: u64,
    /// Of connections that ended here.
    ended: Vec<Report>,
    /// There may be more soon.
    is_busy: bool,
}

impl Reports {
    pub(super) fn new(ring: Option<u64>) -> Self {
        Self {
            ring,
            read: 0,
            ended: Vec::new(),
            is_busy: false,
        }
    }

    /// The next one.
    pub(super) fn poll(&mut self, memory: &Memory) -> Option<Report> {
        let next = self.ended.pop().or_else(|| self.read(memory))?;
        hear(memory);
        self.is_busy = true;
        Some(next)
    }

    fn read(&mut self, memory: &Memory) -> Option<Report> {
        let at = self.ring? + self.read % layout::REPORT_COUNT * layout::REPORT_LEN;
        if memory.get(at + report::NUMBER) != self.read + 1 {
            return None;
        }
        self.read += 1;
        Some(Report {
            note: memory.get(at + report::NOTE) as u32,
            peer: memory.address(at + report::PEER),
            begun: instant(memory.get(at + report::BEGUN)),
            ended: instant(memory.get(at + report::ENDED)),
            is_taken: memory.get(at + report::IS_TAKEN) == 1,
        })
    }

    /// The connection of a slot that is locked is over, or goes to the stack.
    pub(super) fn end(&mut self, memory: &Memory, now: Instant, at: u64) {
        if let Some(begun) = take_begun(memory, at) {
            let peer = memory.address(at + slot::ENDS + 16);
            self.lose(peer, memory.half(at + slot::NOTE), begun, now);
        }
    }

    /// Nobody has an answer's connection any more.
    pub(super) fn lose(&mut self, peer: IpAddr, note: u32, begun: Instant, now: Instant) {
        self.ended.push(Report {
            note,
            peer,
            begun,
            ended: now,
            is_taken: false,
        });
    }

    /// When to look again.
    pub(super) fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        std::mem::take(&mut self.is_busy).then(|| now + SOON)
    }
}

/// There is room for another, of one that need not be reported any more.
pub(super) fn hear(memory: &Memory) {
    memory.word(layout::HEARD).fetch_add(1, Release);
}

/// When the request came that the slot, which is locked, was to report; it does not now.
pub(super) fn take_begun(memory: &Memory, at: u64) -> Option<Instant> {
    let begun = memory.get(at + slot::BEGUN);
    memory.set(at + slot::BEGUN, 0);
    (begun != 0).then(|| instant(begun))
}

pub(super) fn instant(nanos: u64) -> Instant {
    Instant::from_micros(nanos / 1000)
}
