//! What became of answers, as the kernel's part reports it.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Release;

use exos_filter::handler::web::layout::{self, Entries, report, slot};
use exos_inet::{Duration, Instant};

use super::memory::Memory;

/// How soon reports are looked for where there were some: room is for three million a second.
const SOON: Duration = Duration::from_millis(10);

/// Which answer of the kernel's it is that something is said of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The note of the [response](super::Response).
    pub note: u32,
    /// Where the request was answered as without some of its lines, those of them that a log may want ([`Reduced::logged`](super::Reduced)).
    pub logged: Vec<u8>,
}

/// An answer of the kernel's whose response its client has taken, or will not take any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which answer.
    pub named: Named,
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
    entries: Entries,
    /// Read from the ring.
    read: u64,
    /// Of connections that ended here.
    ended: Vec<Report>,
    /// There may be more soon.
    is_busy: bool,
}

impl Reports {
    pub(super) fn new(entries: Entries, has_ring: bool) -> Self {
        Self {
            ring: has_ring.then(|| entries.memory_len()),
            entries,
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
        let place = self.read % layout::REPORT_COUNT;
        let at = self.ring? + place * layout::REPORT_LEN;
        if memory.get(at + report::NUMBER) != self.read + 1 {
            return None;
        }
        self.read += 1;
        Some(Report {
            named: Named {
                note: memory.get(at + report::NOTE) as u32,
                logged: logged(memory, self.entries.logged_of_report(place)),
            },
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
            self.lose(peer, Named::of_slot(self.entries, memory, at), begun, now);
        }
    }

    /// Nobody has an answer's connection any more.
    pub(super) fn lose(&mut self, peer: IpAddr, named: Named, begun: Instant, now: Instant) {
        self.ended.push(Report {
            named,
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

impl Named {
    /// The answer of a slot, which is reported.
    pub(super) fn of_slot(entries: Entries, memory: &Memory, at: u64) -> Self {
        Self {
            note: memory.half(at + slot::NOTE),
            logged: logged(memory, entries.logged_of_slot(at - layout::SLOTS)),
        }
    }
}

/// Lines for the log.
fn logged(memory: &Memory, at: u64) -> Vec<u8> {
    let len = memory.get(at).min(layout::LOGGED_MAX as u64);
    memory.read(at + 8, len as usize)
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
