//! What the log is written to: a file, a pipe or standard output.
//!
//! What cannot be written is lost and counted. A line that was torn by that does not run into the next one.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::chunk::{Chunk, Shared};
use crate::limits::LOG_TELL_TIME;

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file, or a pipe that has a name. Lines are appended.
    File(PathBuf),
    /// Standard output.
    Output,
}

/// What is written to, seen from the thread.
pub(super) struct Sink {
    target: Target,
    /// Without it, standard output.
    file: Option<File>,
    /// The last write failed.
    failing: bool,
    /// It failed in the middle of a line.
    torn: bool,
    /// Lines left out that were reported, and when.
    told: (u64, Option<Instant>),
}

impl Sink {
    pub(super) fn open(target: Target) -> io::Result<Sink> {
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

    pub(super) fn reopen(&mut self) {
        let Target::File(path) = &self.target else {
            return;
        };
        match open(path) {
            Ok(file) => (self.file, self.torn) = (Some(file), false),
            Err(e) => {
                let name = path.display();
                exos_program::warn!(
                    "exos serve: cannot open the log {name} again: {e}; it goes on in the old file"
                );
            }
        }
    }

    pub(super) fn write(&mut self, owner: usize, chunk: &Chunk, shared: &Shared) {
        self.tell_dropped(shared.dropped());
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
            shared.lines[owner].lost.fetch_add(lost, Ordering::Relaxed);
            if !self.failing {
                exos_program::warn!(
                    "exos serve: cannot write the log: {error}; lines are lost until it can be written"
                );
            }
        } else if self.failing {
            let lost = shared.lost();
            exos_program::info!(
                "exos serve: the log is written again; {lost} lines of it are lost"
            );
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
            exos_program::warn!(
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
    use super::super::chunk::Lines;
    use super::*;

    /// A disk that is full in the middle of a line, and has room again.
    #[test]
    fn a_torn_line_does_not_run_into_the_next() {
        let name = std::env::temp_dir().join(format!("exos-log-{}-torn", std::process::id()));
        let _ = std::fs::remove_file(&name);
        let mut sink = Sink::open(Target::File(name.clone())).expect("a file");
        let shared = Shared {
            lines: Box::new([Lines::default()]),
            ..Shared::default()
        };
        sink.write(0, &Chunk::from("one\nha"), &shared);
        assert!(sink.torn, "its last line has no end");
        sink.write(0, &Chunk::from("two\n"), &shared);
        assert_eq!(
            std::fs::read(&name).expect("it is there"),
            b"one\nha\ntwo\n"
        );
        std::fs::remove_file(name).expect("it is there");
    }
}
