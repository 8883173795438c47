//! The thread that writes the log: whatever it waits for, nobody waits for it.
//!
//! It gets whole lines in chunks over a queue of bounded length, from one owner or several. What cannot be written, because
//! the disk is full or the reader of a pipe has gone, is lost and counted; it goes on trying with what comes next, and
//! says on standard error when that begins and when it is over ([`sink`](super::sink)).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exos_host::affinity;

use super::chunk::{Chunk, Lines, Shared};
use super::sink::{Sink, Target};
use crate::limits::LOG_CHUNKS_MAX;

/// How long a stop waits for a slow reader of the log.
const LAST_LINES_TIME: Duration = Duration::from_secs(1);

/// The thread, seen from one of its owners.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` when no more is to come.
    chunks: Option<SyncSender<(usize, Chunk)>>,
    empty: Receiver<Chunk>,
    /// Chunks that the thread has not given back.
    given: usize,
    /// Which owner this is.
    number: usize,
    shared: Arc<Shared>,
    /// With the first owner.
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread on these cores, for this many owners; without any cores, on those of the caller. Lines are in the
    /// order in which their owner gives them, and whole.
    pub(super) fn start(target: Target, cores: &[usize], owners: usize) -> io::Result<Vec<Writer>> {
        let sink = Sink::open(target)?;
        // Room for all that owners may give, and for a reopening.
        let (chunks, waiting) = sync_channel(owners * LOG_CHUNKS_MAX + 1);
        let ends = (0..owners).map(|_| sync_channel(LOG_CHUNKS_MAX));
        let (done, empty): (Vec<_>, Vec<_>) = ends.unzip();
        let lines = (0..owners).map(|_| Lines::default()).collect();
        let shared = Arc::new(Shared {
            lines,
            ..Shared::default()
        });
        let of_thread = Arc::clone(&shared);
        let thread = affinity::spawn("log", cores, move || {
            write_all(sink, waiting, &done, &of_thread);
        })?;
        let mut thread = Some(thread);
        let owner = |(number, empty)| Writer {
            chunks: Some(chunks.clone()),
            empty,
            given: 0,
            number,
            shared: Arc::clone(&shared),
            thread: thread.take(),
        };
        Ok(empty.into_iter().enumerate().map(owner).collect())
    }

    /// Takes the lines and leaves an empty chunk; false, and nothing taken, when too many wait.
    pub(super) fn give(&mut self, chunk: &mut Chunk) -> bool {
        let Some(chunks) = &self.chunks else {
            return false;
        };
        let mut empty = self.empty.try_recv().ok();
        self.given -= usize::from(empty.is_some());
        if self.given == LOG_CHUNKS_MAX {
            return false;
        }
        match chunks.try_send((self.number, std::mem::take(chunk))) {
            Ok(()) => {
                self.given += 1;
                *chunk = empty.take().unwrap_or_default();
                true
            }
            Err(TrySendError::Full((_, back)) | TrySendError::Disconnected((_, back))) => {
                *chunk = back;
                false
            }
        }
    }

    /// This many lines of this owner were left out in all: the thread says so when it comes to it.
    pub(super) fn tell_dropped(&self, lines: u64) {
        let mine = &self.shared.lines[self.number];
        mine.dropped.store(lines, Ordering::Relaxed);
    }

    pub(super) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Relaxed);
        // Wakes a thread that waits; one that has chunks is awake.
        if let Some(chunks) = &self.chunks {
            let _ = chunks.try_send((NOBODY, Chunk::default()));
        }
    }

    /// Lines of this owner that could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.shared.lines[self.number].lost.load(Ordering::Relaxed)
    }

    /// No more is to come from this owner. The first one waits for the thread, which ends when no more comes from any.
    pub(super) fn finish(&mut self) {
        self.chunks = None;
        let until = Instant::now() + LAST_LINES_TIME;
        let is_at_work = || {
            self.thread
                .as_ref()
                .is_some_and(|thread| !thread.is_finished())
        };
        while is_at_work() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// In the place of an owner: nobody waits for the chunk to come back.
const NOBODY: usize = usize::MAX;

/// The thread.
fn write_all(
    mut sink: Sink,
    waiting: Receiver<(usize, Chunk)>,
    done: &[SyncSender<Chunk>],
    shared: &Shared,
) {
    for (owner, mut chunk) in waiting {
        if shared.reopen.swap(false, Ordering::Relaxed) {
            sink.reopen();
        }
        sink.write(owner, &chunk, shared);
        chunk.bytes.clear();
        chunk.lines = 0;
        if let Some(done) = done.get(owner) {
            let _ = done.try_send(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn start(target: Target, owners: usize) -> Vec<Writer> {
        Writer::start(target, &[], owners).expect("it opens")
    }

    /// A name that no other test has; nothing is there.
    fn path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("exos-log-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    /// The thread has its own time.
    fn await_that(is_so: impl Fn() -> bool) {
        await_that_mut(is_so);
    }

    fn await_that_mut(mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed().as_secs() < 60, "it does not come to be");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn lines_go_to_the_file_of_that_name_after_a_rotation() {
        let (name, old) = (path("rotation"), path("rotation.1"));
        let mut writer = start(Target::File(name.clone()), 1).remove(0);
        assert!(writer.give(&mut Chunk::from("one\n")));
        await_that(|| std::fs::read(&name).is_ok_and(|text| text == b"one\n"));
        std::fs::rename(&name, &old).expect("rotated");
        writer.reopen();
        assert!(writer.give(&mut Chunk::from("two\n")));
        await_that(|| std::fs::read(&name).is_ok_and(|text| text == b"two\n"));
        assert_eq!(std::fs::read(&old).expect("it is there"), b"one\n");
        writer.finish();
        for path in [name, old] {
            std::fs::remove_file(path).expect("it is there");
        }
    }

    /// Cores write to one file: each one's lines are whole and in its order, and one that writes much leaves out its own.
    #[test]
    fn several_owners_have_one_file() {
        let name = path("owners");
        let writers = start(Target::File(name.clone()), 3);
        let mut owners = writers.into_iter().enumerate();
        let (_, mut first) = owners.next().expect("three");
        std::thread::scope(|scope| {
            for (owner, mut writer) in owners {
                scope.spawn(move || {
                    for n in 0..1000 {
                        let mut lines =
                            Chunk::from(format!("{owner} {n}\n{owner} {n} again\n").as_str());
                        await_that_mut(|| writer.give(&mut lines));
                    }
                    writer.finish();
                });
            }
        });
        first.finish();
        let text = std::fs::read_to_string(&name).expect("text");
        for owner in 1..3 {
            let begin = format!("{owner} ");
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| line.starts_with(&begin))
                .collect();
            let wanted =
                (0..1000).flat_map(|n| [format!("{owner} {n}"), format!("{owner} {n} again")]);
            assert!(
                lines.iter().copied().eq(wanted.collect::<Vec<_>>()),
                "owner {owner}"
            );
        }
        assert_eq!(text.lines().count(), 4000);
        std::fs::remove_file(name).expect("it is there");
    }

    #[test]
    fn a_full_disk_loses_lines_and_counts_them() {
        let target = Target::File("/dev/full".into());
        let mut writer = start(target, 1).remove(0);
        assert!(writer.give(&mut Chunk::from("one\ntwo\n")));
        assert!(writer.give(&mut Chunk::from("three\n")));
        await_that(|| writer.lost() == 3);
        writer.finish();
    }
}
