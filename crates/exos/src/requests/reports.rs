//! What became of answers, as the kernel's part reports it.

use std::net::{IpAddr, Ipv4Addr};
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
    /// The last one that was told of, whose buffer the next is read into.
    told: Report,
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
            told: Report {
                named: Named {
                    note: 0,
                    logged: Vec::with_capacity(layout::LOGGED_MAX.next_multiple_of(8)),
                },
                peer: Ipv4Addr::UNSPECIFIED.into(),
                begun: Instant::START,
                ended: Instant::START,
                is_taken: false,
            },
            is_busy: false,
        }
    }

    /// The next one.
    pub(super) fn poll(&mut self, memory: &Memory) -> Option<&Report> {
        match self.ended.pop() {
            Some(ended) => self.told = ended,
            None => self.read(memory)?,
        }
        hear(memory);
        self.is_busy = true;
        Some(&self.told)
    }

    /// Reads the next of the ring, if there is one.
    fn read(&mut self, memory: &Memory) -> Option<()> {
        let place = self.read % layout::REPORT_COUNT;
        let at = self.ring? + place * layout::REPORT_LEN;
        if memory.get(at + report::NUMBER) != self.read + 1 {
            return None;
        }
        self.read += 1;
        let told = &mut self.told;
        told.named.note = memory.get(at + report::NOTE) as u32;
        let lines = self.entries.logged_of_report(place);
        read_logged(memory, lines, &mut told.named.logged);
        told.peer = memory.address(at + report::PEER);
        told.begun = instant(memory.get(at + report::BEGUN));
        told.ended = instant(memory.get(at + report::ENDED));
        told.is_taken = memory.get(at + report::IS_TAKEN) == 1;
        Some(())
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
        let mut logged = Vec::new();
        read_logged(
            memory,
            entries.logged_of_slot(at - layout::SLOTS),
            &mut logged,
        );
        Self {
            note: memory.half(at + slot::NOTE),
            logged,
        }
    }
}

/// Lines for the log.
fn read_logged(memory: &Memory, at: u64, into: &mut Vec<u8>) {
    let len = memory.get(at).min(layout::LOGGED_MAX as u64);
    memory.read(at + 8, len as usize, into);
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

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: Entries = Entries {
        count: 4,
        response_max: 8,
    };

    /// Each says what is its own, also where the one before had more lines; nothing is allocated for it.
    #[test]
    fn reports_are_read_into_one_buffer() {
        let words = (0..ENTRIES.memory_len_with_reports() / 8).map(|_| 0.into());
        let memory = Memory::Plain(words.collect());
        let mut reports = Reports::new(ENTRIES, true);
        let buffer = reports.told.named.logged.as_ptr();
        let longest = vec![b'l'; layout::LOGGED_MAX];
        let lines = [&b"Referer: a"[..], b"", &longest, b"User-Agent: b"];
        for (number, lines) in (0..).zip(lines) {
            let at = ENTRIES.memory_len() + number * layout::REPORT_LEN;
            let logged = ENTRIES.logged_of_report(number);
            memory.write(logged + 8, lines);
            memory.set(logged, lines.len() as u64);
            memory.set(at + report::NOTE, 7 + number);
            memory.set(at + report::BEGUN, 1_000_000 * number);
            memory.set(at + report::IS_TAKEN, number % 2);
            assert_eq!(reports.poll(&memory), None);
            memory.set(at + report::NUMBER, number + 1);
            let report = reports.poll(&memory).expect("a report");
            assert_eq!(report.named.logged, lines);
            assert_eq!(report.named.logged.as_ptr(), buffer);
            assert_eq!(u64::from(report.named.note), 7 + number);
            assert_eq!(report.begun, Instant::from_millis(number));
            assert_eq!(report.is_taken, number % 2 == 1);
            assert_eq!(memory.get(layout::HEARD), number + 1);
        }
    }
}
