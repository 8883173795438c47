//! The access log: a line for each response, when its client has taken it.
//!
//! # Rules of the interface
//!
//! - The loop says who asks and since when ([`Log::begin`]), then hands the bytes to HTTP, which gives each response to
//!   the log as it is made; then [`Log::given`] hangs their lines on the connection's [`Unfinished`].
//! - A line is written when all bytes of its response are acknowledged ([`Log::acknowledged`]), or when its connection
//!   is over ([`Log::ended`]): only then is it known how much was sent and how long it took. Its time of day is that
//!   moment's, so lines are in order of time.
//! - Once a turn, [`Log::tick`].
//!
//! Nothing here waits: a full buffer goes to the [`writer`], a thread; when that has too much already, lines are left
//! out and counted. All memory is bounded, see the limits of the log in [`crate::limits`].
//!
//! Several loops have a log each and one writer. [`line`] is what a line looks like.

mod args;
mod line;
mod sink;
mod stamp;
mod unfinished;
mod writer;

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use exos_inet::Instant;

pub use args::LogArgs;
pub use line::{Answer, Asked, Format};
pub use sink::Target;
pub use unfinished::Unfinished;

use crate::limits::{LOG_BUFFER_LEN, LOG_FLUSH_TIME, LOG_UNFINISHED_LEN_MAX};
use stamp::Stamp;
use unfinished::{Pending, Pool};
use writer::{Chunk, Writer};

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
    /// Who asks, and since when.
    peer: IpAddr,
    begun: Instant,
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
            peer: IpAddr::from([0; 4]),
            begun: Instant::START,
            now: Instant::START,
            counters: Counters::default(),
        }
    }

    /// Begins a turn. `unix_secs` is the time of day, in seconds since 1970 (UTC).
    pub fn set_time(&mut self, now: Instant, unix_secs: u64) {
        self.now = now;
        self.stamp.set_time(unix_secs);
    }

    /// What follows is asked by `peer`; the first bytes of it came at `begun`.
    #[inline]
    pub fn begin(&mut self, peer: IpAddr, begun: Instant) {
        (self.peer, self.begun) = (peer, begun);
    }

    /// A response was made.
    pub fn answered(&mut self, answer: &Answer<'_>) {
        let mut pending = self.pool.take();
        line::render(self.format, self.peer, answer, &mut pending.text);
        pending.begun = self.begun;
        pending.head_len = answer.head_len as u64;
        pending.len = answer.len as u64;
        self.pool.push_fresh(pending);
        // What is asked for behind it has come just now.
        self.begun = self.now;
    }

    /// The responses made since [`begin`](Log::begin) were queued on this connection.
    #[inline]
    pub fn given(&mut self, queue: &mut Unfinished) {
        while let Some(pending) = self.pool.take_fresh() {
            queue.given += pending.len;
            if self.pool.bytes() + pending.text.cost() <= LOG_UNFINISHED_LEN_MAX {
                self.pool.append(queue, pending);
            } else {
                self.counters.early += 1;
                self.write(&pending, pending.len);
                self.pool.recycle(pending);
            }
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

/// How long a stop waits for a slow reader of the log.
const LAST_LINES_TIME: Duration = Duration::from_secs(1);
