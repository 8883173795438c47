//! Where what lies in the memory that a program and its watchers share (see the folder).

use std::sync::atomic::{AtomicU64, Ordering};

use exos_filter::gate::Direction;
use exos_host::user_memory::UserMemory;
use exos_link::Link;

use super::name::program_name;

/// What the memory is called.
pub(super) const NAME: &str = "exos-packets";

/// The first word: another layout has another one.
pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"exospkt1");

/// How many may watch at once. Each takes a ring's memory while it does.
pub(super) const PLACES: usize = 4;

/// Bytes of a filter's text; the parser takes no more either.
pub(super) const FILTER_BYTES_MAX: usize = exos_filter::limits::TEXT_MAX;

pub(super) const NAME_BYTES: usize = 64;
pub(super) const RECORD_HEAD_WORDS: usize = 4;

/// Where things are in the first page. Up to the requests it is the same for packets and for sockets.
pub(super) mod head {
    pub const MAGIC: usize = 0;
    pub const FLAGS: usize = 1;
    pub const INTERFACE: usize = 2;
    pub const INTERFACE_NAME: usize = 8;
    pub const PROGRAM: usize = 16;
    /// One for each place, in one cache line.
    pub const REQUESTS: usize = 32;
    pub const WORDS: usize = 512;
}

/// The program has ended with this link, or its stack.
const CLOSED: u64 = 1;
/// Only what is sent is copied: what comes is copied by the daemon.
pub(super) const SENT_ONLY: u64 = 2;

/// Where things are in a place.
pub(super) mod place {
    /// The program's: words ever written.
    pub const PRODUCED: usize = 0;
    /// The program's: packets for which there was no room, since the request that it answers.
    pub const LOST: usize = 1;
    /// The program's: the request that it answers.
    pub const ANSWERED: usize = 2;
    /// The program's: words that it had written when it saw that request.
    pub const BEGAN: usize = 3;
    /// The watcher's: words ever read.
    pub const CONSUMED: usize = 8;
    /// The watcher's: bytes wanted of each packet.
    pub const SNAPLEN: usize = 9;
    /// The watcher's: bytes of the filter's text, and the text.
    pub const FILTER_LEN: usize = 10;
    pub const FILTER: usize = 16;
    /// Words of a ring: 8 MiB, which is 5,000 of Ethernet's longest packets, or 128 super-packets.
    pub const RING_WORDS: usize = 1 << 20;
    pub const RING: usize = 1024;
    pub const WORDS: usize = RING + RING_WORDS;
}

pub(super) const MEMORY_WORDS: usize = head::WORDS + PLACES * place::WORDS;
const _: () = assert!(place::FILTER + FILTER_BYTES_MAX / 8 <= place::RING);

/// The interface of a link: its name and index.
fn interface_of(link: &Link) -> (&str, u32) {
    match link {
        Link::Xdp(link) => (link.name(), link.interface()),
        Link::Packet(link) => (link.end().name(), link.end().interface()),
        Link::Tap(link) => (link.end().name(), link.end().interface()),
        Link::Memory(_) => ("memory", 0),
    }
}

/// Says whose the memory is; and last of all what is in it, for what comes before is there for anyone who sees that.
pub(super) fn begin(memory: &UserMemory, magic: u64, link: &Link) {
    let words = memory.words();
    let (name, index) = interface_of(link);
    words[head::INTERFACE].store(index.into(), Ordering::Relaxed);
    put_text(&words[head::INTERFACE_NAME..][..NAME_BYTES / 8], name);
    put_text(&words[head::PROGRAM..][..NAME_BYTES / 8], &program_name());
    words[head::MAGIC].store(magic, Ordering::Release);
}

/// The program and the interface that the memory is of; `None` of what is in another layout.
pub(super) fn whose(memory: &UserMemory, magic: u64) -> Option<(String, String)> {
    let words = memory.words();
    let text = |at| text_in(&words[at..][..NAME_BYTES / 8]);
    let is_known = words[head::MAGIC].load(Ordering::Acquire) == magic;
    is_known.then(|| (text(head::PROGRAM), text(head::INTERFACE_NAME)))
}

/// The program ends.
pub(super) fn end(memory: &UserMemory) {
    memory.words()[head::FLAGS].fetch_or(CLOSED, Ordering::Release);
}

/// True when the program has said so, or has ended without a word.
pub(super) fn has_ended(memory: &UserMemory) -> bool {
    memory.words()[head::FLAGS].load(Ordering::Acquire) & CLOSED != 0 || !memory.is_owned()
}

/// The words of a place.
pub(super) fn place_words(memory: &[AtomicU64], number: usize) -> &[AtomicU64] {
    let start = head::WORDS + number * place::WORDS;
    &memory[start..start + place::WORDS]
}

/// Puts text into words, 0 behind it.
pub(super) fn put_text(words: &[AtomicU64], text: &str) {
    let mut bytes = text.as_bytes().chunks(8);
    for word in words {
        word.store(word_of(bytes.next().unwrap_or(&[])), Ordering::Relaxed);
    }
}

/// The text in words, up to a 0 or the end.
pub(super) fn text_in(words: &[AtomicU64]) -> String {
    let bytes = words.iter();
    let bytes = bytes.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Up to eight bytes as a word.
pub(super) fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// The first word of a record: its length in words, and bytes of the packet that are in it.
pub(super) fn sizes(words: usize, captured: usize) -> u64 {
    (words as u64) << 32 | captured as u64
}

/// The second word: how long the packet was, and the way it went.
pub(super) fn nature(length: usize, direction: Direction) -> u64 {
    (length as u64) << 1 | u64::from(direction == Direction::Out)
}
