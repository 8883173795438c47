//! The log of one loop: lines from responses, to the thread that writes them.

use std::io;

use exos_inet::Instant;

use super::chunk::Chunk;
use super::line::{self, Answer, Format};
use super::sink::Target;
use super::stamp::Stamp;
use super::unfinished::{Pending, Pool, Unfinished};
use super::writer::Writer;
use crate::limits::{LOG_BUFFER_LEN, LOG_FLUSH_TIME, LOG_UNFINISHED_LEN_MAX};

/// The log of one loop.
#[derive(Debug)]
pub struct Log {
    format: Format,
    stamp: Stamp,
    writer: Writer,
    /// Lines that the writer has not got yet.
    chunk: Chunk,
    /// When it gets them, if there are any.
    flush_at: Option<Instant>,
    pool: Pool,
    /// The time of this turn.
    now: Instant,
    counters: Counters,
}

/// What became of lines.
#[derive(Debug, Default)]
struct Counters {
    lines: u64,
    dropped: u64,
    early: u64,
}

impl Log {
    /// Opens a log and starts its writer. `unix_secs` is the time of day.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or no thread be had.
    pub fn open(target: Target, format: Format, unix_secs: u64) -> io::Result<Log> {
        let mut logs = Log::open_for(target, format, unix_secs, &[], 1)?;
        Ok(logs.remove(0))
    }

    /// Opens a log for each of several loops, with one writer on these cores: not on those of the loops, if there are others.
    /// The first log is to be finished last: it waits for the writer.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or no thread be had.
    pub fn open_for(
        target: Target,
        format: Format,
        unix_secs: u64,
        cores: &[usize],
        loops: usize,
    ) -> io::Result<Vec<Log>> {
        let writers = Writer::start(target, cores, loops)?.into_iter();
        Ok(writers
            .map(|writer| Log::of(writer, format, unix_secs))
            .collect())
    }

    fn of(writer: Writer, format: Format, unix_secs: u64) -> Log {
        Log {
            format,
            stamp: Stamp::new(unix_secs),
            writer,
            chunk: Chunk::default(),
            flush_at: None,
            pool: Pool::default(),
            now: Instant::START,
            counters: Counters::default(),
        }
    }

    /// Begins a turn. `unix_secs` is the time of day, in seconds since 1970 (UTC).
    pub fn set_time(&mut self, now: Instant, unix_secs: u64) {
        self.now = now;
        self.stamp.set_time(unix_secs);
    }

    /// A response was made, and is queued on the connection whose lines these are.
    pub fn answered(&mut self, answer: &Answer<'_>, lines: &mut Unfinished) {
        let mut pending = self.pool.take();
        line::render(self.format, answer, &mut pending.text);
        pending.begun = answer.begun;
        pending.head_len = answer.head_len as u64;
        pending.len = answer.len as u64;
        lines.given += pending.len;
        if self.pool.bytes() + pending.text.cost() <= LOG_UNFINISHED_LEN_MAX {
            self.pool.append(lines, pending);
        } else {
            self.counters.early += 1;
            self.write(&pending, pending.len);
            self.pool.recycle(pending);
        }
    }

    /// Of all that was queued on the connection, `unacknowledged` bytes are left to be taken.
    #[inline]
    pub fn acknowledged(&mut self, queue: &mut Unfinished, unacknowledged: usize) {
        queue.taken = queue.given.saturating_sub(unacknowledged as u64);
        while let Some(pending) = self.pool.pop_until(queue, queue.taken) {
            self.write(&pending, pending.len);
            self.pool.recycle(pending);
        }
    }

    /// The connection is over; what its client has not taken, it will not take.
    #[inline]
    pub fn ended(&mut self, queue: &mut Unfinished) {
        let taken = queue.taken;
        while let Some(pending) = self.pool.pop_until(queue, u64::MAX) {
            let begin = pending.end - pending.len;
            self.write(&pending, taken.saturating_sub(begin).min(pending.len));
            self.pool.recycle(pending);
        }
    }

    /// A line of which `sent` bytes were taken.
    fn write(&mut self, pending: &Pending, sent: u64) {
        let numbers = line::Numbers {
            sent,
            body: sent.saturating_sub(pending.head_len),
            micros: self.now.micros().saturating_sub(pending.begun.micros()),
        };
        let before = self.chunk.bytes.len();
        self.append(pending, &numbers);
        if self.chunk.bytes.len() > LOG_BUFFER_LEN && before > 0 {
            // It does not fit: the writer gets what is before it, or it is left out.
            self.chunk.bytes.truncate(before);
            if !self.writer.give(&mut self.chunk) {
                self.counters.dropped += 1;
                return;
            }
            self.append(pending, &numbers);
        }
        self.counters.lines += 1;
        self.chunk.lines += 1;
        self.flush_at.get_or_insert(self.now + LOG_FLUSH_TIME);
    }

    fn append(&mut self, pending: &Pending, numbers: &line::Numbers) {
        let time = self.stamp.text(self.format);
        line::finish(
            self.format,
            &pending.text,
            time,
            numbers,
            &mut self.chunk.bytes,
        );
    }

    /// Gives the writer the lines that have waited long enough.
    #[inline]
    pub fn tick(&mut self) {
        if self.flush_at.is_some_and(|at| at <= self.now) {
            self.flush();
        }
    }

    /// When [`tick`](Log::tick) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.flush_at
    }

    fn flush(&mut self) {
        let is_given = self.chunk.bytes.is_empty() || self.writer.give(&mut self.chunk);
        self.flush_at = (!is_given).then_some(self.now + LOG_FLUSH_TIME);
        self.writer.tell_dropped(self.counters.dropped);
    }

    /// Opens the file again by its name: somebody has renamed it.
    pub fn reopen(&mut self) {
        self.flush();
        self.writer.reopen();
    }

    /// Writes what is left, and waits for it, where several share a writer the first one; not long for one who does not
    /// take it.
    pub fn finish(&mut self) {
        self.flush();
        self.writer.finish();
    }

    /// What became of lines, by name.
    pub fn counters(&self) -> [(&'static str, u64); 4] {
        [
            ("http_log_lines", self.counters.lines),
            ("http_log_lines_dropped", self.counters.dropped),
            ("http_log_lines_early", self.counters.early),
            ("http_log_lines_lost", self.writer.lost()),
        ]
    }

    /// Bytes that lines of unfinished responses take.
    pub fn unfinished_len(&self) -> usize {
        self.pool.bytes()
    }
}
