//! What a program says: messages to the operator on standard error, by [`error!`](crate::error!), [`warn!`](crate::warn!)
//! and [`info!`](crate::info!), and what it was asked for on standard output, by [`say!`](crate::say!) and [`results`].
//!
//! A reader of results that has gone has seen enough, which is no error and no reason to end; one that is slow is waited for.
//!
//! Standard error may be a pipe whose reader has ended or has stopped reading, a terminal that is gone, a file on a full
//! disk. None of this ends a program or makes it wait: a line that cannot be written at once is lost, and how many were is
//! said with the next one that can.
//!
//! Where standard error is the journal's (`JOURNAL_STREAM`, systemd.exec(5)) each line begins with its level, as sd-daemon(3)
//! has it.

use std::fmt::{Arguments, Write as _};
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stderr;

use crate::error::{Error, Result};

/// How much a message matters, with the numbers of syslog(3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// The program, or something that it was asked for, ends with it.
    Error = 3,
    /// The program goes on without something.
    Warning = 4,
    /// How it goes.
    Info = 6,
}

/// A pipe that can be written to takes this many bytes at once (pipe(7), `PIPE_BUF`).
const PIECE_BYTES: usize = 4096;

/// Lines that were lost and not reported yet.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Writes a message of one or several lines; the macros call it.
pub fn write(level: Level, message: Arguments<'_>) {
    let lost = LOST.swap(0, Ordering::Relaxed);
    if lost > 0 {
        let told = format!("({lost} lines before this one could not be written)\n");
        if !put(&line(Level::Warning, &told)) {
            LOST.fetch_add(lost, Ordering::Relaxed);
        }
    }
    let text = format!("{message}\n");
    let put_all = |text: &str| put(&line(level, text));
    let lost = text.split_inclusive('\n').filter(|text| !put_all(text));
    LOST.fetch_add(lost.count() as u64, Ordering::Relaxed);
}

/// A message as it is written, for a program that writes it by other means.
pub fn text(level: Level, message: Arguments<'_>) -> String {
    let text = format!("{message}\n");
    let lines = text.split_inclusive('\n').map(|text| line(level, text));
    lines.collect()
}

/// One line as it is written.
fn line(level: Level, text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 3);
    if is_journal() {
        let _ = write!(line, "<{}>", level as u8);
    }
    line.push_str(text);
    line
}

/// Whether standard error goes to the journal: the variable names its device and inode.
fn is_journal() -> bool {
    static IS_JOURNAL: OnceLock<bool> = OnceLock::new();
    *IS_JOURNAL.get_or_init(|| {
        let own = rustix::fs::fstat(stderr()).map(|own| (own.st_dev, own.st_ino));
        is_stream(std::env::var("JOURNAL_STREAM").ok().as_deref(), own.ok())
    })
}

/// Whether a stream of this name is this file.
fn is_stream(name: Option<&str>, file: Option<(u64, u64)>) -> bool {
    file.is_some_and(|(device, inode)| name == Some(&format!("{device}:{inode}")[..]))
}

/// Writes to standard error as far as that does not wait; false when some of it was lost.
fn put(line: &str) -> bool {
    line.as_bytes().chunks(PIECE_BYTES).all(|piece| {
        loop {
            if !is_ready() {
                return false;
            }
            match rustix::io::write(stderr(), piece) {
                Err(Errno::INTR) => {}
                written => return written == Ok(piece.len()),
            }
        }
    })
}

fn is_ready() -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stderr(), PollFlags::OUT)];
    let at_once = Timespec::default();
    poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Writes what a program was asked for to standard output. That its reader has gone is no error.
///
/// # Errors
///
/// It cannot be written for another reason: the disk is full.
pub fn results(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write to standard output", error))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard output for anyone who reads it; the program goes on if it cannot be written.
#[macro_export]
macro_rules! say {
    ($($line:tt)*) => {
        drop($crate::message::results(&format!("{}\n", format_args!($($line)*))))
    };
}

/// Tells the operator of an error.
#[macro_export]
macro_rules! error {
    ($($message:tt)*) => {
        $crate::message::write($crate::message::Level::Error, format_args!($($message)*))
    };
}

/// Tells the operator what the program goes on without.
#[macro_export]
macro_rules! warn {
    ($($message:tt)*) => {
        $crate::message::write($crate::message::Level::Warning, format_args!($($message)*))
    };
}

/// Tells the operator how it goes.
#[macro_export]
macro_rules! info {
    ($($message:tt)*) => {
        $crate::message::write($crate::message::Level::Info, format_args!($($message)*))
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    const MANY: usize = 10_000;

    /// Each in a process of its own, whose standard error is a pipe.
    #[test]
    fn role() {
        let Some(role) = exos_testing::role() else {
            return;
        };
        let (reader, writer) = rustix::pipe::pipe().expect("descriptors are left");
        rustix::stdio::dup2_stderr(&writer).expect("both are open");
        if role == "results" {
            rustix::stdio::dup2_stdout(&writer).expect("both are open");
        }
        drop(writer);
        let mut reader = std::fs::File::from(reader);
        match &role[..] {
            "nobody-reads" => {
                drop(reader);
                for n in 0..MANY {
                    crate::error!("line {n}");
                }
            }
            "results" => {
                crate::say!("one {}", "line");
                let mut read = vec![0; 100];
                let len = reader.read(&mut read).expect("a line");
                assert_eq!(&read[..len], b"one line\n");
                drop(reader);
                for n in 0..MANY {
                    crate::say!("line {n}");
                    results("and another\n").expect("nobody reads it");
                }
                let full = std::fs::File::options().write(true).open("/dev/full");
                let full = full.expect("Linux has it");
                rustix::stdio::dup2_stdout(&full).expect("both are open");
                let error = results("one more\n").expect_err("there is no room");
                assert!(error.to_string().contains("No space left"), "{error}");
            }
            "reader-stopped" => {
                for n in 0..MANY {
                    crate::warn!("line {n}");
                }
                let lost = LOST.load(Ordering::Relaxed);
                assert!(lost > 0, "a pipe takes less than all lines");
                // Room again: what is missing is said before what comes next.
                let mut read = vec![0; 1 << 20];
                let len = reader.read(&mut read).expect("lines");
                let text = String::from_utf8_lossy(&read[..len]);
                assert!(text.starts_with("line 0\nline 1\n"), "{text}");
                crate::info!("one more");
                let len = reader.read(&mut read).expect("lines");
                let text = String::from_utf8_lossy(&read[..len]);
                let told =
                    format!("({lost} lines before this one could not be written)\none more\n");
                assert!(text.ends_with(&told), "{text}");
            }
            other => panic!("no such role: {other}"),
        }
        exos_testing::done();
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        assert!(is_stream(Some("8:1234"), Some((8, 1234))));
        for (name, file) in [
            (None, Some((8, 1234))),
            (Some("8:1234"), None),
            (Some("8:123"), Some((8, 1234))),
            (Some(""), Some((8, 1234))),
        ] {
            assert!(!is_stream(name, file), "{name:?} {file:?}");
        }
    }

    #[test]
    fn what_nobody_hears_is_no_reason_to_end_or_to_wait() {
        for role in ["nobody-reads", "reader-stopped", "results"] {
            let ended = exos_testing::play("message::tests::role", role);
            assert!(exos_testing::is_done(ended), "{role}: {ended}");
        }
    }
}
