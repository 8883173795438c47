//! Requests and their responses, in places of the memory that the kernel's part reads.
//!
//! A response is replaced by writing the copy that is not up to date, and one word that says which is. What is written may still be read
//! by a processor that looked before: so a copy that was replaced, or a place that was taken out, is left alone for a while, and meanwhile
//! the request is not answered. What was replaced may have been lost on its way: it is kept here ([`Replaced`]) for the stack to send again.

use std::cmp::Reverse;

use exos_filter::handler::web::layout::{self, Entries, copy, entry};
use exos_inet::{Duration, Instant};
use exos_wire::Sum;

use super::memory::Memory;
use super::replaced::Replaced;

/// A place that was taken out stays its request's for so long.
const KEPT: Duration = Duration::from_secs(10);
/// What was replaced is not written to before this: processors may be reading it.
const COPY_KEPT: Duration = Duration::from_millis(10);
/// As well where a second stage reads: packets wait for it in the kernel's queues.
const COPY_KEPT_FOR_SECOND_STAGE: Duration = Duration::from_millis(100);

/// How often a request was answered in the kernel since it was last asked.
#[derive(Debug)]
pub struct Answered {
    /// The request.
    pub request: Box<[u8]>,
    /// How often.
    pub count: u64,
    /// What it was answered with, at last.
    pub response: Box<[u8]>,
}

/// What a request is answered with.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// The connection ends behind it.
    pub closes: bool,
    /// What it is called in [reports](super::Report).
    pub note: u32,
}

/// A request that the kernel answers, or answered.
#[derive(Debug)]
struct Known {
    request: Box<[u8]>,
    response: Box<[u8]>,
    /// Of the response; 0 before there is one.
    version: u32,
    closes: bool,
    note: u32,
    hits: u64,
    unasked: u32,
    /// When it changed last.
    changed: Instant,
    /// It is answered.
    live: bool,
}

/// What is in the places.
#[derive(Debug)]
pub(super) struct Table {
    entries: Entries,
    key: u64,
    copy_kept: Duration,
    places: Vec<Option<Known>>,
    /// Of the last response that was written.
    version: u32,
    replaced: Replaced,
    /// Answers of those that were retired meanwhile.
    pending: Vec<Answered>,
}

impl Known {
    fn is_answered_with(&self, response: Response<'_>) -> bool {
        let same = (self.closes, self.note) == (response.closes, response.note);
        self.live && same && *self.response == *response.bytes
    }
}

impl Table {
    pub(super) fn new(entries: Entries, key: u64, has_second_stage: bool) -> Self {
        Self {
            entries,
            key,
            copy_kept: match has_second_stage {
                true => COPY_KEPT_FOR_SECOND_STAGE,
                false => COPY_KEPT,
            },
            places: (0..entries.count).map(|_| None).collect(),
            version: 0,
            replaced: Replaced::default(),
            pending: Vec::new(),
        }
    }

    fn at(&self, place: usize) -> u64 {
        layout::ENTRIES + place as u64 * self.entries.entry_len()
    }

    /// The places that the request may be in.
    fn ways(&self, request: &[u8]) -> std::ops::Range<usize> {
        let hash = layout::hash(self.key, request);
        let first = self.entries.first_way(hash) / self.entries.entry_len();
        first as usize..(first + layout::WAYS) as usize
    }

    /// Where the request is, or was.
    fn find(&self, request: &[u8]) -> Option<usize> {
        self.ways(request)
            .find(|&place| matches!(&self.places[place], Some(known) if *known.request == *request))
    }

    pub(super) fn has_place_for(&self, now: Instant, request: &[u8]) -> bool {
        match self.find(request) {
            None => self.free(now, request).is_some(),
            Some(place) => !self.is_live(place) && self.may_change(now, place),
        }
    }

    pub(super) fn is_answered(&self, request: &[u8]) -> bool {
        self.find(request).is_some_and(|place| self.is_live(place))
    }

    fn is_live(&self, place: usize) -> bool {
        self.places[place].as_ref().is_some_and(|known| known.live)
    }

    fn may_change(&self, now: Instant, place: usize) -> bool {
        let known = self.places[place].as_ref();
        known.is_none_or(|known| now - known.changed >= self.copy_kept)
    }

    /// A place that the request may be in, and no other needs.
    fn free(&self, now: Instant, request: &[u8]) -> Option<usize> {
        self.ways(request).find(|&place| match &self.places[place] {
            None => true,
            Some(known) => !known.live && now - known.changed >= KEPT,
        })
    }

    /// Has one of those that are in the request's places make room for it, which it is entered into later; none where one is about to.
    /// It is the one unasked for the most turns, `unasked` at least; of several, the one that changed first.
    pub(super) fn make_room_for(
        &mut self,
        memory: &Memory,
        now: Instant,
        request: &[u8],
        unasked: u32,
    ) {
        let mut ways = self.ways(request);
        if self.find(request).is_some() || !ways.all(|place| self.is_live(place)) {
            return;
        }
        let known = |place| Some((place, self.places.get::<usize>(place)?.as_ref()?));
        let idle = self.ways(request).filter_map(known);
        let idle = idle.filter(|(_, known)| known.unasked >= unasked);
        let oldest = idle.max_by_key(|(_, known)| (known.unasked, Reverse(known.changed)));
        if let Some((victim, _)) = oldest {
            self.retire(memory, now, victim);
        }
    }

    pub(super) fn all(&self) -> Vec<Box<[u8]>> {
        let live = self.places.iter().flatten().filter(|known| known.live);
        live.map(|known| known.request.clone()).collect()
    }

    pub(super) fn put(
        &mut self,
        memory: &Memory,
        now: Instant,
        request: &[u8],
        response: Response<'_>,
    ) {
        let Some(place) = self.find(request) else {
            if let Some(place) = self.free(now, request) {
                self.enter(memory, now, place, request);
                self.renew(memory, now, place, response);
            }
            return;
        };
        let known = self.places[place].as_ref();
        if known.is_some_and(|known| known.is_answered_with(response)) {
            return;
        }
        match self.may_change(now, place) {
            true => self.renew(memory, now, place, response),
            false => self.retire(memory, now, place),
        }
    }

    /// Another request in a place, without a response yet.
    fn enter(&mut self, memory: &Memory, now: Instant, place: usize, request: &[u8]) {
        if let Some(before) = self.places[place].take() {
            self.keep_replaced(memory, now, before.version, before.response);
        }
        let at = self.at(place);
        memory.set(at + entry::REQUEST_LEN, request.len() as u64);
        memory.write(at + self.entries.request(), request);
        self.places[place] = Some(Known {
            request: request.into(),
            response: Box::default(),
            version: 0,
            closes: false,
            note: 0,
            hits: memory.get(at + entry::HITS),
            unasked: 0,
            changed: now,
            live: false,
        });
    }

    /// The request in a place is answered with this.
    fn renew(&mut self, memory: &Memory, now: Instant, place: usize, response: Response<'_>) {
        let (at, bytes) = (self.at(place), response.bytes);
        let Some(known) = &mut self.places[place] else {
            return;
        };
        // Each number is one copy's, and none is 0.
        let other = !memory.half(at + entry::VERSION) & 1;
        self.version = self.version.wrapping_add(2).max(2) & !1 | other;
        let version = std::mem::replace(&mut known.version, self.version);
        let before = std::mem::replace(&mut known.response, bytes.into());
        known.closes = response.closes;
        known.note = response.note;
        known.changed = now;
        let to = at + entry::COPIES + u64::from(other) * self.entries.copy_len();
        memory.set(to + copy::SUM, u64::from(Sum::of(bytes).value()));
        memory.set(to + copy::LEN, bytes.len() as u64);
        memory.set_halves(to + copy::CLOSES, u32::from(response.closes), response.note);
        memory.write(to + copy::BYTES, bytes);
        memory.set(at + entry::VERSION, self.version.into());
        known.live = true;
        memory.set(at + entry::TAG, layout::hash(self.key, &known.request));
        self.keep_replaced(memory, now, version, before);
    }

    fn keep_replaced(&mut self, memory: &Memory, now: Instant, version: u32, response: Box<[u8]>) {
        if version != 0 {
            self.replaced
                .keep(memory, now, self.copy_kept, (version, response));
        }
    }

    /// The response of this version, of the entry that is `at` bytes behind the first, which a connection has not acknowledged.
    pub(super) fn response(&self, at: u32, version: u32) -> Option<&[u8]> {
        let place = u64::from(at) / self.entries.entry_len();
        match self.places.get(place as usize) {
            Some(Some(known)) if known.version == version => Some(&known.response),
            _ => self.replaced.get(version),
        }
    }

    fn retire(&mut self, memory: &Memory, now: Instant, place: usize) {
        memory.set(self.at(place) + entry::TAG, 0);
        let answered = self.count(memory, place);
        self.pending.extend(answered);
        if let Some(known) = &mut self.places[place] {
            known.live = false;
            known.changed = now;
        }
    }

    pub(super) fn forget(&mut self, memory: &Memory, now: Instant, request: &[u8]) {
        let place = self.find(request);
        if let Some(place) = place.filter(|&place| self.is_live(place)) {
            self.retire(memory, now, place);
        }
    }

    /// Those that nobody has asked for when this was called so often go.
    pub(super) fn forget_unasked(&mut self, memory: &Memory, now: Instant, turns: u32) {
        for place in 0..self.places.len() {
            let Some(known) = self.places[place].as_mut().filter(|known| known.live) else {
                continue;
            };
            known.unasked += 1;
            if known.unasked > turns {
                self.retire(memory, now, place);
            }
        }
    }

    pub(super) fn answered(&mut self, memory: &Memory) -> Vec<Answered> {
        let mut all = std::mem::take(&mut self.pending);
        all.extend((0..self.places.len()).filter_map(|place| self.count(memory, place)));
        all
    }

    fn count(&mut self, memory: &Memory, place: usize) -> Option<Answered> {
        let hits = memory.get(self.at(place) + entry::HITS);
        let known = self.places[place].as_mut()?;
        let count = hits.wrapping_sub(known.hits);
        known.hits = hits;
        (count > 0).then(|| {
            known.unasked = 0;
            Answered {
                request: known.request.clone(),
                response: known.response.clone(),
                count,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: Entries = Entries {
        count: 4,
        response_max: 64,
    };

    fn response(bytes: &[u8]) -> Response<'_> {
        Response {
            bytes,
            closes: false,
            note: 0,
        }
    }

    fn memory() -> Memory {
        let words = (0..ENTRIES.memory_len() / 8).map(|_| 0.into());
        Memory::Plain(words.collect())
    }

    /// One that has gone meanwhile is not among those that are renewed.
    #[test]
    fn one_that_has_gone_is_not_answered_until_it_is_put_again() {
        let memory = memory();
        let mut table = Table::new(ENTRIES, 7, false);
        let start = Instant::from_millis(100_000);
        assert!(!table.is_answered(b"a"));
        for request in [b"a", b"b"] {
            table.put(&memory, start, request, response(b"response"));
        }
        let all = table.all();
        let now = start + Duration::from_secs(1);
        for turn in 1..3 {
            // The one is asked for.
            memory.set(table.at(0) + entry::HITS, turn);
            table.answered(&memory);
            table.forget_unasked(&memory, now, 1);
        }
        let later = now + COPY_KEPT;
        let left = all.iter().filter(|request| table.is_answered(request));
        assert_eq!(left.collect::<Vec<_>>(), [&Box::from(*b"a")]);
        assert!(table.has_place_for(later, b"b"), "it may be asked again");
        table.put(&memory, later, b"b", response(b"response"));
        assert!(table.is_answered(b"b"));
    }

    /// Of the four the one goes that nobody has asked for longest, if it is idle; its place is another's when nothing sends it again.
    #[test]
    fn the_one_that_is_unasked_longest_makes_room() {
        let memory = memory();
        let mut table = Table::new(ENTRIES, 7, false);
        let start = Instant::from_millis(100_000);
        let all = [b"a", b"b", b"c", b"d"];
        for (n, request) in (0..).zip(all) {
            let now = start + Duration::from_millis(n);
            table.put(&memory, now, request, response(b"response"));
        }
        let now = start + Duration::from_secs(1);
        table.make_room_for(&memory, now, b"e", 1);
        assert_eq!(table.all().len(), 4, "all were asked for");
        table.forget_unasked(&memory, now, 10);
        // All but two were asked for again.
        for (place, request) in all.into_iter().enumerate() {
            let hits = u64::from(![b"b", b"c"].contains(&request));
            memory.set(table.at(place) + entry::HITS, hits);
        }
        table.answered(&memory);
        assert!(!table.has_place_for(now, b"e"));
        table.make_room_for(&memory, now, b"e", 1);
        let left: Vec<_> = table.all();
        assert_eq!(left.len(), 3);
        assert!(!left.contains(&Box::from(&b"b"[..])), "which changed first");
        table.make_room_for(&memory, now, b"e", 1);
        assert_eq!(table.all().len(), 3, "one is enough");
        assert!(!table.has_place_for(now, b"e"), "it may be sent again");
        let later = now + KEPT;
        assert!(table.has_place_for(later, b"e"));
        table.put(&memory, later, b"e", response(b"other"));
        assert!(table.all().contains(&Box::from(&b"e"[..])));
    }
}
