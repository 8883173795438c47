//! Copies of a program's packets for others to look at: what it takes in and sends, while somebody watches.
//!
//! What AF_XDP takes and sends passes no packet socket. So every program that attaches directly keeps memory that anyone who
//! may look into the process finds and opens ([`exos_host::user_memory`]): its user, and root. A watcher ([`Watcher`])
//! writes there what it wants to see; the program's [`Offer`] looks for that once a turn, which is four loads while nobody
//! watches, and copies what matches into a ring. It never waits, makes no system call for a packet, and counts what had no
//! room. A watcher is there as long as it holds the lock of its place, so that one that was killed is noticed.
//!
//! ```text
//! words   0  magic, flags, interface's index and name, program's name, requests of all places; one page
//!       512  PLACES times: counters, snap length, filter; two pages and the ring
//! ```
//!
//! A request is odd while somebody watches, and never the one before. A record in a ring is four words and the bytes,
//! padded to words; it goes on at the ring's beginning where its end is reached.
//!
//! Each side takes what the other one wrote for input: a bad counter or length is an error or no room, never an access
//! beyond the ring.

mod offer;
mod watcher;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use exos_host::user_memory;

pub use exos_filter::gate::Direction;
pub(crate) use offer::Offer;
pub use watcher::{Record, Watchable, Watcher, watchable};

/// What the memory is called.
const NAME: &str = "exos-packets";

/// The first word: another layout has another one.
const MAGIC: u64 = u64::from_be_bytes(*b"exospkt1");

/// How many may watch at once. Each takes a ring's memory while it does.
const PLACES: usize = 4;

/// Words of a ring: 8 MiB, which is 5,000 of Ethernet's longest packets, or 128 super-packets.
const RING_WORDS: usize = 1 << 20;

/// Bytes of a filter's text; the parser takes no more either.
const FILTER_BYTES_MAX: usize = exos_filter::limits::TEXT_MAX;

const NAME_BYTES: usize = 64;
const RECORD_HEAD_WORDS: usize = 4;

/// Where things are in the first page.
mod head {
    pub(super) const MAGIC: usize = 0;
    pub(super) const FLAGS: usize = 1;
    pub(super) const INTERFACE: usize = 2;
    pub(super) const INTERFACE_NAME: usize = 8;
    pub(super) const PROGRAM: usize = 16;
    /// One for each place, in one cache line.
    pub(super) const REQUESTS: usize = 32;
    pub(super) const WORDS: usize = 512;
}

/// The program has ended with this link.
const CLOSED: u64 = 1;
/// Only what is sent is copied: what comes is copied by the daemon.
const SENT_ONLY: u64 = 2;

/// Where things are in a place.
mod place {
    /// The program's: words ever written.
    pub(super) const PRODUCED: usize = 0;
    /// The program's: packets for which there was no room, since the request that it answers.
    pub(super) const LOST: usize = 1;
    /// The program's: the request that it answers.
    pub(super) const ANSWERED: usize = 2;
    /// The program's: words that it had written when it saw that request.
    pub(super) const BEGAN: usize = 3;
    /// The watcher's: words ever read.
    pub(super) const CONSUMED: usize = 8;
    /// The watcher's: bytes wanted of each packet.
    pub(super) const SNAPLEN: usize = 9;
    /// The watcher's: bytes of the filter's text, and the text.
    pub(super) const FILTER_LEN: usize = 10;
    pub(super) const FILTER: usize = 16;
    pub(super) const RING: usize = 1024;
    pub(super) const WORDS: usize = RING + super::RING_WORDS;
}

const MEMORY_WORDS: usize = head::WORDS + PLACES * place::WORDS;
const _: () = assert!(place::FILTER + FILTER_BYTES_MAX / 8 <= place::RING);

/// Gives the packets of this process to another user to watch, who the process is about to become. Where it may not, root
/// alone can watch them.
pub fn give_to(uid: u32, gid: u32) {
    for memory in user_memory::find(NAME, Some(std::process::id())) {
        let is_its = std::fs::metadata(&memory.path).is_ok_and(|file| file.uid() == uid);
        if !is_its {
            let _ = std::os::unix::fs::chown(&memory.path, Some(uid), Some(gid));
        }
    }
}

/// The words of a place.
fn place_words(memory: &[AtomicU64], number: usize) -> &[AtomicU64] {
    let start = head::WORDS + number * place::WORDS;
    &memory[start..start + place::WORDS]
}

/// Puts text into words, 0 behind it.
fn put_text(words: &[AtomicU64], text: &str) {
    let mut bytes = text.as_bytes().chunks(8);
    for word in words {
        word.store(word_of(bytes.next().unwrap_or(&[])), Ordering::Relaxed);
    }
}

/// The text in words, up to a 0 or the end.
fn text_in(words: &[AtomicU64]) -> String {
    let bytes = words.iter();
    let bytes = bytes.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Up to eight bytes as a word.
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// The first word of a record: its length in words, and bytes of the packet that are in it.
fn sizes(words: usize, captured: usize) -> u64 {
    (words as u64) << 32 | captured as u64
}

/// The second word: how long the packet was, and the way it went.
fn nature(length: usize, direction: Direction) -> u64 {
    (length as u64) << 1 | u64::from(direction == Direction::Out)
}

/// The name that others see: that of the command, of a program with several.
pub(crate) fn program_name() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let file = Path::new(&program).file_name();
    let name = file.map_or(program.clone(), |name| name.to_string_lossy().into_owned());
    match words.next() {
        Some(command) if name == "exos" && !command.starts_with('-') => command,
        _ => name,
    }
}
