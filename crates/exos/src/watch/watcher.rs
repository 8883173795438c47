//! The watcher's side: which programs there are, and their packets.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use exos_host::Error;
use exos_host::user_memory::{self, UserMemory};

use super::layout::{
    FILTER_BYTES_MAX, MAGIC, MEMORY_WORDS, NAME, PLACES, RECORD_HEAD_WORDS, has_ended, head, place,
    place_words, put_text, whose,
};
use exos_filter::gate::Direction;

/// A program on one of its links, whose packets may be watched.
#[derive(Debug)]
pub struct Watchable {
    memory: UserMemory,
    /// What tells it from others as long as it is there.
    pub id: u64,
    /// Its process.
    pub pid: u32,
    /// The program's name, of its own choosing.
    pub program: String,
    /// The interface's name, in the program's network namespace.
    pub interface: String,
}

/// All that this process may watch, of the process `only` or of all.
pub fn watchable(only: Option<u32>) -> Vec<Watchable> {
    let mut found = Vec::new();
    for program in user_memory::find(NAME, only) {
        // What cannot be opened has just ended, or is of another version.
        let Ok(memory) = UserMemory::open(&program.path, MEMORY_WORDS) else {
            continue;
        };
        let said = whose(&memory, MAGIC).filter(|_| !has_ended(&memory));
        found.extend(said.map(|(name, interface)| Watchable {
            id: program.inode,
            pid: program.pid,
            program: name,
            interface,
            memory,
        }));
    }
    found
}

impl Watchable {
    /// Has copies made from now on, of packets that match the filter, with this many bytes of each.
    ///
    /// # Errors
    ///
    /// As many watch as can.
    pub fn watch(self, filter: &str, snaplen: u32) -> Result<Watcher, Error> {
        assert!(
            filter.len() <= FILTER_BYTES_MAX,
            "a filter is parsed before"
        );
        let who = format!("{} (process {})", self.program, self.pid);
        let number = (0..PLACES).find(|number| self.memory.lock(*number as u64));
        let number = number.ok_or_else(|| {
            Error::new(format!(
                "{PLACES} watch {who} already, which is as many as can"
            ))
            .mend("end one of the others")
        })?;
        let words = self.memory.words();
        let place = place_words(words, number);
        // All of it is free, whatever somebody before has left.
        let produced = place[place::PRODUCED].load(Acquire);
        place[place::CONSUMED].store(produced, Relaxed);
        place[place::SNAPLEN].store(u64::from(snaplen), Relaxed);
        place[place::FILTER_LEN].store(filter.len() as u64, Relaxed);
        put_text(&place[place::FILTER..place::RING], filter);
        let before = words[head::REQUESTS + number].load(Relaxed);
        let request = (before | 1).wrapping_add(2);
        words[head::REQUESTS + number].store(request, Release);
        Ok(Watcher {
            number,
            request,
            has_begun: false,
            consumed: 0,
            lost: 0,
            of: self,
        })
    }
}

/// A program's packets, as they come. Ends the copying when it is dropped.
#[derive(Debug)]
pub struct Watcher {
    of: Watchable,
    number: usize,
    request: u64,
    /// The program has seen the request.
    has_begun: bool,
    /// Words ever read.
    consumed: u64,
    /// What had been lost when the last packet was put into the ring.
    lost: u64,
}

/// What is said of a packet beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was copied, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// How long it was.
    pub length: usize,
    /// Which way it went.
    pub direction: Direction,
}

impl Watcher {
    /// Whose packets these are.
    pub fn of(&self) -> &Watchable {
        &self.of
    }

    /// When the next packet was copied; `None` when there is none now.
    ///
    /// # Errors
    ///
    /// What is in the memory is not what a program of ours writes.
    pub fn next_time_ns(&mut self) -> Result<Option<u64>, Error> {
        if !self.has_begun && !self.begin() {
            return Ok(None);
        }
        let ready = self.place()[place::PRODUCED].load(Acquire);
        let ready = ready.wrapping_sub(self.consumed);
        if ready == 0 {
            return Ok(None);
        }
        let (words, captured) = self.sizes();
        let is_sound = ready <= place::RING_WORDS as u64
            && words as u64 <= ready
            && words == RECORD_HEAD_WORDS + captured.div_ceil(8);
        match is_sound {
            true => Ok(Some(self.word(2))),
            false => Err(Error::new(format!(
                "the packets of {} (process {}) cannot be read",
                self.of.program, self.of.pid
            ))
            .mend("use programs of the same version")),
        }
    }

    /// Until the program has seen us it may go on for somebody before; true when it has.
    fn begin(&mut self) -> bool {
        self.has_begun = self.place()[place::ANSWERED].load(Acquire) == self.request;
        if self.has_begun {
            self.consumed = self.place()[place::BEGAN].load(Relaxed);
        }
        self.has_begun
    }

    /// Takes the next packet, whose bytes replace those in `bytes`; `None` when there is none now.
    ///
    /// # Errors
    ///
    /// As for [`Self::next_time_ns`].
    pub fn take(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Record>, Error> {
        let Some(time_ns) = self.next_time_ns()? else {
            return Ok(None);
        };
        let (words, captured) = self.sizes();
        let nature = self.word(1);
        self.lost = self.word(3);
        bytes.clear();
        for at in RECORD_HEAD_WORDS..words {
            bytes.extend(self.word(at).to_ne_bytes());
        }
        bytes.truncate(captured);
        self.consumed = self.consumed.wrapping_add(words as u64);
        self.place()[place::CONSUMED].store(self.consumed, Release);
        Ok(Some(Record {
            time_ns,
            length: (nature >> 1) as usize,
            direction: match nature & 1 {
                0 => Direction::In,
                _ => Direction::Out,
            },
        }))
    }

    /// Packets that had no room in the ring before the last one that was taken.
    pub fn lost_before(&self) -> u64 {
        self.lost
    }

    /// Packets that had no room in the ring up to now.
    pub fn lost(&self) -> u64 {
        match self.has_begun {
            true => self.place()[place::LOST].load(Relaxed),
            false => 0,
        }
    }

    /// True when the program has ended, or its link: what is in the ring can still be taken.
    pub fn has_ended(&self) -> bool {
        has_ended(&self.of.memory)
    }

    fn place(&self) -> &[AtomicU64] {
        place_words(self.of.memory.words(), self.number)
    }

    /// A word of the next record.
    fn word(&self, at: usize) -> u64 {
        let at = self.consumed.wrapping_add(at as u64) as usize % place::RING_WORDS;
        self.place()[place::RING + at].load(Relaxed)
    }

    /// The next record's length in words, and that of its bytes.
    fn sizes(&self) -> (usize, usize) {
        let word = self.word(0);
        ((word >> 32) as usize, (word & 0xffff_ffff) as usize)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let words = self.of.memory.words();
        words[head::REQUESTS + self.number].store(self.request + 1, Release);
    }
}
