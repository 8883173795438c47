//! The thread that writes the log: whatever it waits for, nobody waits for it.
//!
//! It gets whole lines in chunks over a queue of bounded length. What cannot be written, because the disk is full or the
//! reader of a pipe has gone, is lost and counted; it goes on trying with what comes next, and says on standard error
//! when that begins and when it is over.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::LAST_LINES_TIME;
use crate::limits::{LOG_CHUNKS_MAX, LOG_TELL_TIME};

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file, or a pipe that has a name. Lines are appended.
    File(PathBuf),
    /// Standard output.
    Output,
}

/// Some whole lines.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
}

/// What the thread and its owner share.
#[derive(Debug, Default)]
struct Shared {
    /// Open the file again before the next lines.
    reopen: AtomicBool,
    /// Lines that could not be written.
    lost: AtomicU64,
    /// Lines that were left out because the thread had too many already.
    dropped: AtomicU64,
}

/// The thread, seen from its owner.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` when no more is to come.
    chunks: Option<SyncSender<Chunk>>,
    empty: Receiver<Chunk>,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts the thread on these cores; without any, on those of the caller.
    pub(super) fn start(target: Target, cores: &[usize]) -> io::Result<Writer> {
        let mut sink = Sink::open(target)?;
        let (chunks, waiting) = sync_channel::<Chunk>(LOG_CHUNKS_MAX);
        let (done, empty) = sync_channel(LOG_CHUNKS_MAX);
        let shared = Arc::new(Shared::default());
        let (of_thread, cores) = (Arc::clone(&shared), cores.to_vec());
        let thread = std::thread::Builder::new()
            .name("log".into())
            .spawn(move || {
                if !cores.is_empty() {
                    // Where it runs is all that would differ.
                    let _ = exos_host::affinity::set(&cores);
                }
                for mut chunk in waiting {
                    if of_thread.reopen.swap(false, Ordering::Relaxed) {
                        sink.reopen();
                    }
                    sink.write(&chunk, &of_thread);
                    chunk.bytes.clear();
                    chunk.lines = 0;
                    let _ = done.try_send(chunk);
                }
            })?;
        Ok(Writer {
            chunks: Some(chunks),
            empty,
            shared,
            thread,
        })
    }

    /// Takes the lines and leaves an empty chunk; false, and nothing taken, when too many wait.
    pub(super) fn give(&mut self, chunk: &mut Chunk) -> bool {
        let Some(chunks) = &self.chunks else {
            return false;
        };
        match chunks.try_send(std::mem::take(chunk)) {
            Ok(()) => {
                *chunk = self.empty.try_recv().unwrap_or_default();
                true
            }
            Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                *chunk = back;
                false
            }
        }
    }

    /// So many lines were left out in all: the thread says so when it comes to it.
    pub(super) fn tell_dropped(&self, lines: u64) {
        self.shared.dropped.store(lines, Ordering::Relaxed);
    }

    pub(super) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Relaxed);
        // Wakes a thread that waits; one that has chunks is awake.
        if let Some(chunks) = &self.chunks {
            let _ = chunks.try_send(Chunk::default());
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    pub(super) fn finish(&mut self) {
        self.chunks = None;
        let until = Instant::now() + LAST_LINES_TIME;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// What is written to, seen from the thread.
struct Sink {
    target: Target,
    /// Without it, standard output.
    file: Option<File>,
    /// The last write failed.
    failing: bool,
    /// It failed in the middle of a line.
    torn: bool,
    /// Lines left out that were told of, and when.
    told: (u64, Option<Instant>),
}

impl Sink {
    fn open(target: Target) -> io::Result<Sink> {
        let file = match &target {
            Target::File(path) => Some(open(path)?),
            Target::Output => None,
        };
        Ok(Sink {
            target,
            file,
            failing: false,
            torn: false,
            told: (0, None),
        })
    }

    fn reopen(&mut self) {
        let Target::File(path) = &self.target else {
            return;
        };
        match open(path) {
            Ok(file) => (self.file, self.torn) = (Some(file), false),
            Err(e) => {
                let name = path.display();
                eprintln!(
                    "exos serve: cannot open the log {name} again: {e}; it goes on in the old file"
                );
            }
        }
    }

    fn write(&mut self, chunk: &Chunk, shared: &Shared) {
        self.tell_dropped(shared.dropped.load(Ordering::Relaxed));
        if chunk.bytes.is_empty() {
            return;
        }
        let (mut rest, mut result) = (&chunk.bytes[..], Ok(()));
        if self.torn {
            result = self.write_all(&mut &b"\n"[..]);
            self.torn = result.is_err();
        }
        if result.is_ok() {
            result = self.write_all(&mut rest);
        }
        let written = &chunk.bytes[..chunk.bytes.len() - rest.len()];
        self.torn |= !written.is_empty() && !written.ends_with(b"\n");
        if let Err(error) = &result {
            let whole = written.iter().filter(|&&b| b == b'\n').count() as u64;
            let lost = chunk.lines.saturating_sub(whole);
            shared.lost.fetch_add(lost, Ordering::Relaxed);
            if !self.failing {
                eprintln!(
                    "exos serve: cannot write the log: {error}; lines are lost until it can be written"
                );
            }
        } else if self.failing {
            let lost = shared.lost.load(Ordering::Relaxed);
            eprintln!("exos serve: the log is written again; {lost} lines of it are lost");
        }
        self.failing = result.is_err();
    }

    /// As much as can be; what is left stays in `rest`.
    fn write_all(&mut self, rest: &mut &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            let result = match &mut self.file {
                Some(file) => file.write(rest),
                None => {
                    let mut out = io::stdout().lock();
                    let all = rest.len();
                    out.write_all(rest).and_then(|()| out.flush()).map(|()| all)
                }
            };
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => *rest = &rest[count..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Says now and then that lines are left out.
    fn tell_dropped(&mut self, dropped: u64) {
        let (told, at) = self.told;
        if dropped > told && at.is_none_or(|at| at.elapsed() >= LOG_TELL_TIME) {
            eprintln!(
                "exos serve: the log is not written as fast as it grows: {dropped} lines were left out"
            );
            self.told = (dropped, Some(Instant::now()));
        }
    }
}

/// Opens a file to append to. A pipe that nobody reads is an error rather than a wait.
fn open(path: &Path) -> io::Result<File> {
    let nonblock = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .custom_flags(nonblock)
        .open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(text: &str) -> Chunk {
        Chunk {
            bytes: text.as_bytes().to_vec(),
            lines: text.lines().count() as u64,
        }
    }

    /// A name that no other test has; nothing is there.
    fn path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("exos-log-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    /// The thread has its own time.
    fn await_that(is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed().as_secs() < 60, "it does not come to be");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn lines_go_to_the_file_of_that_name_after_a_rotation() {
        let (name, old) = (path("rotation"), path("rotation.1"));
        let mut writer = Writer::start(Target::File(name.clone()), &[]).expect("a file");
        assert!(writer.give(&mut chunk("one\n")));
        await_that(|| std::fs::read(&name).is_ok_and(|text| text == b"one\n"));
        std::fs::rename(&name, &old).expect("rotated");
        writer.reopen();
        assert!(writer.give(&mut chunk("two\n")));
        await_that(|| std::fs::read(&name).is_ok_and(|text| text == b"two\n"));
        assert_eq!(std::fs::read(&old).expect("it is there"), b"one\n");
        writer.finish();
        for path in [name, old] {
            std::fs::remove_file(path).expect("it is there");
        }
    }

    #[test]
    fn a_full_disk_loses_lines_and_counts_them() {
        let target = Target::File("/dev/full".into());
        let mut writer = Writer::start(target, &[]).expect("it opens");
        assert!(writer.give(&mut chunk("one\ntwo\n")));
        assert!(writer.give(&mut chunk("three\n")));
        await_that(|| writer.lost() == 3);
        writer.finish();
    }

    /// A disk that is full in the middle of a line, and has room again.
    #[test]
    fn a_torn_line_does_not_run_into_the_next() {
        let name = path("torn");
        let mut sink = Sink::open(Target::File(name.clone())).expect("a file");
        let shared = Shared::default();
        sink.write(&chunk("one\nha"), &shared);
        assert!(sink.torn, "its last line has no end");
        sink.write(&chunk("two\n"), &shared);
        assert_eq!(
            std::fs::read(&name).expect("it is there"),
            b"one\nha\ntwo\n"
        );
        std::fs::remove_file(name).expect("it is there");
    }
}
