//! The log of one loop: lines from responses, to the thread that writes them.

use std::io;
use std::net::IpAddr;

use exos_inet::{Duration, Instant};

use super::chunk::Chunk;
use super::line::{self, Answer, Format};
use super::sink::Target;
use super::stamp::Stamp;
use super::unfinished::{Line, Pending, Pool, Unfinished};
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

/// What others say of a response.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// Who asked.
    pub peer: IpAddr,
    /// Of the request, which is answered as the one of the line, the lines that the log wants and that one has not.
    pub logged: &'a [u8],
    /// When it was taken, or the connection over, in seconds since 1970 (UTC).
    pub unix_secs: u64,
    /// From the request until then.
    pub time: Duration,
    /// The client has taken all of it; else nothing.
    pub is_taken: bool,
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

    /// Begins a turn, or goes on with it behind what others have told. `unix_secs` is the time of day, in seconds since 1970 (UTC).
    pub fn set_time(&mut self, now: Instant, unix_secs: u64) {
        self.now = now;
        self.stamp.set_time(unix_secs);
    }

    /// A response was made, and is queued on the connection whose lines these are.
    pub fn answered(&mut self, answer: &Answer<'_>, lines: &mut Unfinished) {
        let mut line = self.pool.take();
        line::render(self.format, answer, &mut line.text);
        line.head_len = answer.head_len as u64;
        line.len = answer.len as u64;
        lines.given += line.len;
        self.keep(lines, line, answer.peer, answer.begun);
    }

    /// Writes a line when its response, which was given to the connection last, has been taken.
    fn keep(&mut self, lines: &mut Unfinished, line: Line, peer: IpAddr, begun: Instant) {
        if self.pool.bytes() + line.text.cost() <= LOG_UNFINISHED_LEN_MAX {
            self.pool.append(lines, line, peer, begun);
        } else {
            self.counters.early += 1;
            self.write(&line, peer, line.len, self.since(begun));
            self.pool.recycle(line);
        }
    }

    /// Of all that was queued on the connection, `unacknowledged` bytes are left to be taken.
    #[inline]
    pub fn acknowledged(&mut self, queue: &mut Unfinished, unacknowledged: usize) {
        let position = queue.given.saturating_sub(unacknowledged as u64);
        self.acknowledged_until(queue, position);
    }

    /// Of all that was queued on the connection, this many bytes have been taken.
    #[inline]
    pub fn acknowledged_until(&mut self, queue: &mut Unfinished, position: u64) {
        queue.taken = position;
        while let Some(pending) = self.pool.pop_until(queue, queue.taken) {
            self.write_pending(&pending, pending.line.len);
            self.pool.recycle(pending.line);
        }
    }

    /// The connection is over; what its client has not taken, it will not take.
    #[inline]
    pub fn ended(&mut self, queue: &mut Unfinished) {
        let taken = queue.taken;
        while let Some(pending) = self.pool.pop_until(queue, u64::MAX) {
            let len = pending.line.len;
            let begin = pending.end.saturating_sub(len);
            self.write_pending(&pending, taken.saturating_sub(begin).min(len));
            self.pool.recycle(pending.line);
        }
    }

    /// Whether the next line will wait for its response to be taken, however long it is.
    pub fn has_room(&self) -> bool {
        self.pool.bytes() + LOG_BUFFER_LEN <= LOG_UNFINISHED_LEN_MAX
    }

    /// Takes the lines of a connection that is none, which are not written: gives the last.
    pub fn take_lines(&mut self, mut queue: Unfinished) -> Option<Line> {
        let mut last = None;
        while let Some(pending) = self.pool.pop_until(&mut queue, u64::MAX) {
            last = Some(pending.line);
        }
        last
    }

    /// The line of a request that is answered as the one of this line, which has neither Referer nor User-Agent: this one has these lines
    /// of them.
    pub fn line_like(&self, line: &Line, logged: &[u8]) -> Line {
        let mut line = line.clone();
        if !logged.is_empty() {
            line::render_logged(self.format, logged, &mut line.text);
        }
        line
    }

    /// Others have answered as this line says, and say what became of that. Without a line it is left out.
    pub fn answered_by_others(&mut self, line: Option<&Line>, told: &Told<'_>) {
        let Some(line) = line else {
            self.counters.dropped += 1;
            return;
        };
        let sent = if told.is_taken { line.len } else { 0 };
        self.stamp.set_time(told.unix_secs);
        let numbers = line::Numbers {
            peer: told.peer,
            logged: told.logged,
            sent,
            body: sent.saturating_sub(line.head_len),
            micros: told.time.as_micros() as u64,
        };
        self.write_with(line, &numbers);
    }

    /// Others have sent `len` bytes on the connection whose lines these are, which goes on here. Without a line they are left out.
    pub fn sent_by_others(
        &mut self,
        lines: &mut Unfinished,
        line: Option<Line>,
        peer: IpAddr,
        begun: Instant,
        len: u64,
    ) {
        lines.given += len;
        match line {
            Some(line) => self.keep(lines, line, peer, begun),
            None => self.counters.dropped += 1,
        }
    }

    /// Has the lines of a response wait with others on a connection, where it ends at `end` among all that that is given; `head_len` bytes of
    /// these were its head.
    pub(crate) fn join(
        &mut self,
        mut from: Unfinished,
        to: &mut Unfinished,
        head_len: u64,
        end: u64,
    ) {
        to.given = end;
        while let Some(pending) = self.pool.pop_until(&mut from, u64::MAX) {
            let Pending {
                mut line,
                peer,
                begun,
                ..
            } = pending;
            line.len = line.len.saturating_sub(line.head_len) + head_len;
            line.head_len = head_len;
            self.pool.append(to, line, peer, begun);
        }
    }

    fn since(&self, begun: Instant) -> u64 {
        self.now.micros().saturating_sub(begun.micros())
    }

    fn write_pending(&mut self, pending: &Pending, sent: u64) {
        let micros = self.since(pending.begun);
        self.write(&pending.line, pending.peer, sent, micros);
    }

    /// A line of which `sent` bytes were taken.
    fn write(&mut self, line: &Line, peer: IpAddr, sent: u64, micros: u64) {
        let numbers = line::Numbers {
            peer,
            logged: b"",
            sent,
            body: sent.saturating_sub(line.head_len),
            micros,
        };
        self.write_with(line, &numbers);
    }

    fn write_with(&mut self, line: &Line, numbers: &line::Numbers<'_>) {
        let before = self.chunk.bytes.len();
        self.append(line, numbers);
        if self.chunk.bytes.len() > LOG_BUFFER_LEN && before > 0 {
            // It does not fit: the writer gets what is before it, or it is left out.
            self.chunk.bytes.truncate(before);
            if !self.writer.give(&mut self.chunk) {
                self.counters.dropped += 1;
                return;
            }
            self.append(line, numbers);
        }
        self.counters.lines += 1;
        self.chunk.lines += 1;
        self.flush_at.get_or_insert(self.now + LOG_FLUSH_TIME);
    }

    fn append(&mut self, line: &Line, numbers: &line::Numbers<'_>) {
        let time = self.stamp.text(self.format);
        line::finish(
            self.format,
            &line.text,
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
