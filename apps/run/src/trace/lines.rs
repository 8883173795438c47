//! Lines of printed calls, and of messages among them, on their way to a reader that may be slow, or have stopped: a thread of their own writes them, so that no packet
//! waits for the reader. What has no room beside those that wait is left out, and how many that were is said in their place.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exos_host::signals::block_all;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::limits::TRACED_WAITING;

/// Where lines go.
#[derive(Clone)]
pub(super) struct Lines {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// The queue is another.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Lines that wait.
    waiting: Vec<u8>,
    /// How many were left out behind these.
    left_out: u64,
    /// Some are being written.
    is_writing: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.left_out == 0
    }
}

impl Lines {
    /// # Errors
    ///
    /// The kernel gives no thread.
    pub fn start(to: OwnedFd) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("trace".into());
        thread.spawn(move || {
            // They are for the thread that hears of them, which one that comes here would not wake.
            let _ = block_all();
            of_thread.write_all(&to);
        })?;
        Ok(Self { shared })
    }

    /// Adds whole lines.
    pub fn add(&self, lines: &[u8]) {
        let mut queue = self.shared.queue();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if queue.left_out > 0 || queue.waiting.len() + line.len() > TRACED_WAITING {
                queue.left_out += 1;
            } else {
                queue.waiting.extend_from_slice(line);
            }
        }
        self.shared.changed.notify_all();
    }

    /// Waits until all are written, for so long at most.
    pub fn finish(&self, at_most: Duration) {
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.is_empty();
        let (queue, changed) = (self.shared.queue(), &self.shared.changed);
        let _ = changed.wait_timeout_while(queue, at_most, is_busy);
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread's: as long as the process.
    fn write_all(&self, to: &OwnedFd) {
        loop {
            let bytes = self.next();
            // Nobody has to hear them.
            let _ = write(to, &bytes);
            self.queue().is_writing = false;
            self.changed.notify_all();
        }
    }

    /// Takes what waits, once there is any.
    fn next(&self) -> Vec<u8> {
        let queue = self
            .changed
            .wait_while(self.queue(), |queue| queue.is_empty());
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        let mut bytes = std::mem::take(&mut queue.waiting);
        let left_out = std::mem::take(&mut queue.left_out);
        if left_out > 0 {
            let told = format!(
                "exos run: {left_out} lines are left out here, for nobody has read those before in time\n"
            );
            bytes.extend_from_slice(told.as_bytes());
        }
        queue.is_writing = true;
        bytes
    }
}

/// Writes all of it, however long that takes.
fn write(to: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            // A program that has it, too, does not want to wait for it.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(to, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};

    const SOON: Duration = Duration::from_millis(50);

    /// Nobody reads: no call waits, and what there was no room for is counted where it is missing.
    #[test]
    fn lines_wait_for_their_reader_and_others_do_not() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let lines = Lines::start(writer.into()).expect("a thread");
        let line = |n: usize| format!("[1] read({n}, \"{}\", 100) = 100\n", "x".repeat(100));
        let mut count = 0;
        // What the thread has taken, what waits, and more.
        while count * 100 < 3 * TRACED_WAITING {
            let some = [line(count), line(count + 1)].concat();
            lines.add(some.as_bytes());
            count += 2;
        }
        lines.finish(SOON);
        let mut reader = BufReader::new(reader)
            .lines()
            .map(|line| line.expect("text"));
        // A thread that began late has found that some were left out before, too.
        let (mut at, mut left_out) = (0, 0);
        while at < count {
            let next = reader.next().expect("a line");
            let told = next
                .strip_prefix("exos run: ")
                .and_then(|rest| rest.split(' ').next());
            match told.map(|number| number.parse::<usize>().expect("a number")) {
                Some(number) => {
                    left_out += number;
                    at += number;
                }
                None => {
                    assert_eq!(next, line(at).trim_end());
                    at += 1;
                }
            }
        }
        assert_eq!(at, count);
        let read = count - left_out;
        assert!(left_out > 0 && read * 100 > TRACED_WAITING / 2, "{read}");
        // And again all.
        lines.add(b"another\n");
        assert_eq!(reader.next().as_deref(), Some("another"));
        lines.finish(Duration::from_secs(20));
        assert!(!lines.shared.queue().is_writing);
    }

    #[test]
    fn a_signal_loses_no_lines() {
        use rustix::fs::{OFlags, fcntl_setfl};
        use rustix::process::{Signal, kill_process};
        use std::io::Read as _;

        let has_come = Arc::default();
        signal_hook::flag::register(libc::SIGWINCH, Arc::clone(&has_come)).expect("it can be");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        fcntl_setfl(&writer, OFlags::NONBLOCK).expect("it can be");
        let bytes = vec![b'x'; 1 << 20];
        let to_write = bytes.clone();
        let (say, said) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            say.send(rustix::thread::gettid()).expect("it is heard");
            write(&writer.into(), &to_write)
        });
        let writing = said.recv().expect("said");
        std::thread::sleep(SOON);
        // By a thread's number it is that thread's, which waits for the reader.
        kill_process(writing, Signal::WINCH).expect("sent");
        std::thread::sleep(SOON);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("they come");
        assert_eq!(thread.join().expect("it ends"), Ok(()));
        assert_eq!(read.len(), bytes.len());
        assert!(has_come.load(std::sync::atomic::Ordering::Relaxed));
    }

    #[test]
    fn lines_that_nobody_will_read_are_forgotten() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let lines = Lines::start(writer.into()).expect("a thread");
        lines.add(b"one\n");
        lines.add(b"another\n");
        lines.finish(Duration::from_secs(20));
        assert!(lines.shared.queue().is_empty());
    }
}
