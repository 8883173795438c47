//! Answers that the kernel gives: each whole in a row, found by its key.
//!
//! A row is never written while a handler may still read it. One that is taken out of the table waits until all handlers that might have
//! found it before have ended (a grace period, `membarrier`), as many together; until then its place is missing, and so may an answer be:
//! the program gives it.

use std::sync::atomic::{AtomicU64, Ordering};

use exos::ash::code::{BE16, BE32};
use exos::ash::{self, Builder, CheckError, Checked, Word as _};
use exos::{Downloaded, Error, Exos};
use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

use super::item::{Item, answer, invalid};

/// Rows of a cache that are waited for together, as a share of all: one in this many.
const TOGETHER: usize = 16;
/// Bytes of memcached's frame header, which an answer has, too.
const FRAME: u16 = super::words::FRAME as u16;
/// `get `, and what ends a line.
const GET: u64 = 0x6765_7420;
const END_OF_LINE: u64 = 0x0d0a;

/// How much the kernel answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Answers that it has at most: a power of two, 64 at least; over TCP 32,768 at most.
    pub answers: u32,
    /// Bytes of each, from `VALUE` to `END\r\n`: a multiple of 8, 1,392 at most, over TCP 1,360. Over UDP room for the longest is made for each request, and a
    /// veth has some 150 bytes more than the request: where there is none, the program answers.
    pub bytes: u32,
}

#[derive(Debug)]
pub(super) struct Answers {
    downloaded: Downloaded,
    bytes: usize,
    /// The key that each row answers.
    keys: Vec<Option<Vec<u8>>>,
    free: Vec<u32>,
    /// Rows that a handler may still read.
    leaving: Vec<u32>,
    /// The row that makes room next.
    next: u32,
}

impl Answers {
    pub(super) fn download(exos: &mut Exos, port: u16, shape: Shape) -> Result<Self, Error> {
        if shape.answers < 64 {
            return Err(invalid(
                "the kernel's part of a cache has 64 answers at least",
            ));
        }
        if !membarrier_query().contains(MembarrierQuery::GLOBAL) {
            return Err(invalid(
                "this kernel does not tell when a row is out of use (membarrier); it was started with nohz_full",
            ));
        }
        let handler = handler(shape).map_err(|e| Error::new(e.what))?;
        Ok(Self {
            downloaded: exos.download_into_kernel(handler, port)?,
            bytes: shape.bytes as usize,
            keys: vec![None; shape.answers as usize],
            free: (0..shape.answers).collect(),
            leaving: Vec::new(),
            next: 0,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len() - self.free.len() - self.leaving.len()
    }

    /// Has the kernel answer a key that it has no answer for.
    pub(super) fn put(&mut self, key: &[u8], item: &Item) {
        if let Some(answer) = answer(key, item, self.bytes) {
            self.put_answer(key, &answer);
        }
    }

    fn put_answer(&mut self, key: &[u8], answer: &[u8]) {
        let Some(row) = self.free_row() else {
            return;
        };
        if let Some(words) = self.downloaded.memory().row("answers", row) {
            write(words, answer);
        }
        let word = u64::from(row) << 16 | answer.len() as u64;
        match self.table().insert(key, word) {
            Ok(_) => self.keys[row as usize] = Some(key.to_vec()),
            Err(_) => self.free.push(row),
        }
    }

    /// Makes room for a key that was asked for, at the cost of another.
    pub(super) fn put_if_missing(&mut self, key: &[u8], item: &Item) {
        if self.table().get(key).is_some() {
            return;
        }
        let Some(answer) = answer(key, item, self.bytes) else {
            return;
        };
        if self.free.is_empty() {
            let victim = self.keys[self.next as usize].clone();
            self.next = (self.next + 1) % self.keys.len() as u32;
            victim.iter().for_each(|key| self.take_out(key));
        }
        self.put_answer(key, &answer);
    }

    pub(super) fn take_out(&mut self, key: &[u8]) {
        if let Some(word) = self.table().remove(key) {
            let row = (word >> 16) as u32;
            self.keys[row as usize] = None;
            self.leaving.push(row);
        }
    }

    fn free_row(&mut self) -> Option<u32> {
        if self.free.is_empty() && self.leaving.len() >= self.keys.len() / TOGETHER {
            // Handlers run where the kernel does not schedule: each that runs now has ended then.
            membarrier(MembarrierCommand::Global).ok()?;
            self.free.append(&mut self.leaving);
        }
        self.free.pop()
    }

    fn table(&self) -> ash::Table<'_> {
        let table = self.downloaded.memory().table("keys");
        table.expect("the handler declares it")
    }
}

/// A request is a frame header (identifier, number of the datagram, how many there are, 0), and `get KEY\r\n`.
pub(crate) fn handler(shape: Shape) -> Result<Checked, CheckError> {
    let mut h = Builder::new("memcached");
    // Half as many keys as slots: hardly one finds no room.
    let keys = h.table("keys", shape.answers.saturating_mul(2), 256);
    let answers = h.rows("answers", shape.answers, shape.bytes);
    h.need(15);
    let is_other = h.number(BE16, 2).differs_from(0);
    let is_other = is_other.or(h.number(BE16, 4).differs_from(1));
    let is_other = is_other.or(h.number(BE32, 8).differs_from(GET));
    let is_other = is_other.or(h.number(BE16, h.length() - 2).differs_from(END_OF_LINE));
    h.when(is_other, |h| h.give_up());
    let found = h.find("found", keys, 12, h.length() - 14);
    let answer = h.row("answer", answers, found >> 16);
    let length = || found & 0xffff;
    let most = u16::try_from(shape.bytes).map_or(u16::MAX, |bytes| bytes.saturating_add(FRAME));
    let parts = [h.put(BE16, 6, 0), h.put_row(FRAME, answer, length())];
    h.reply_up_to(length() + u64::from(FRAME), most, parts);
    h.check()
}

fn write(row: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in row.iter().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
    }
}
