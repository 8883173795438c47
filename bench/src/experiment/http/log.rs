//! More documents than fit into memory, and a log of requests for them: as *IO-Lite*'s section 4.3 has those of a server, of which few documents are
//! most asked for, and a request is of 17 to 19 KB.

use crate::stage::Stage;
use crate::stage::request::{Size, body};
use crate::stage::scratch::write;
use exos_host::{Result, error::Context as _};
use exos_inet::siphash::Random;
use exos_replacement::trace::{requests, sizes};
use rustix::fs::{Advice, fadvise, statfs, syncfs};
use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;

/// The documents have this many times the bytes of the memory that each server may use.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Part {
    pub times: f64,
    folder: &'static str,
}

/// Less than that, as much, and much more.
pub(super) const PARTS: [Part; 3] = [
    Part {
        times: 0.5,
        folder: "half",
    },
    EQUAL,
    Part {
        times: 4.0,
        folder: "four-times",
    },
];
pub(super) const EQUAL: Part = Part {
    times: 1.0,
    folder: "as-much",
};

/// No document is longer.
const LEN_MAX: usize = 4_000_000;
/// Their lengths and their log are the same in each session.
const SEED: u64 = 1;
/// Of a file system that is in memory only (statfs(2)).
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Documents, and what is asked for of them.
pub(super) struct Set {
    /// Of the session's files: where a server finds them.
    pub folder: &'static str,
    /// Of all documents.
    pub bytes: u64,
    /// The file with the requests.
    pub log: PathBuf,
    paths: Vec<PathBuf>,
}

impl Set {
    /// Documents for so large a memory, which are written once in a session, and a log with this many requests. One more document is of a size that
    /// servers are checked with.
    pub fn make(
        stage: &Stage,
        part: Part,
        memory: u64,
        asked: usize,
        checked: Size,
    ) -> Result<Self> {
        let mut random = Random::new(SEED);
        let mut random = || random.next_u64();
        let (mut lens, mut bytes) = (Vec::new(), 0);
        while (bytes as f64) < part.times * memory as f64 {
            let len = sizes(&mut random, 1)[0];
            bytes += len;
            lens.push(len as usize);
        }
        let is_there = stage.scratch.file(part.folder).exists();
        let folder = stage.scratch.directory(part.folder)?;
        let name = |document: usize| format!("d{document}.html");
        let paths: Vec<_> = (0..lens.len()).map(|at| folder.join(name(at))).collect();
        if !is_there {
            write(&folder.join(checked.document()), body(checked))?;
            let text = body(Size::of_bytes(2 * LEN_MAX as u64));
            for (at, (path, len)) in paths.iter().zip(&lens).enumerate() {
                let begin = at * 4099 % LEN_MAX;
                write(path, &text[begin..begin + len])?;
            }
            let what = || format!("cannot write {}", folder.display());
            let opened = File::open(&folder).context(what)?;
            // What is not written yet stays in memory, whatever is asked of the kernel.
            syncfs(opened).context(what)?;
            if statfs(&folder).context(what)?.f_type == TMPFS_MAGIC {
                stage.note(format!(
                    "{} is in memory: no server reads from a disk; set TMPDIR",
                    folder.display()
                ));
            }
        }
        let mut lines = String::new();
        for document in requests(&mut random, lens.len(), asked) {
            let _ = writeln!(
                lines,
                "- - - [01/Jan/2026:00:00:00 +0000] \"GET /{} HTTP/1.1\" 200 -",
                name(document)
            );
        }
        let log = stage
            .scratch
            .write(&format!("{}.log", part.folder), lines)?;
        Ok(Self {
            folder: part.folder,
            bytes,
            log,
            paths,
        })
    }

    /// Has the kernel keep none of them: the server that reads them next is the one that has them in its memory.
    pub fn forget(&self) -> Result<()> {
        for path in &self.paths {
            let what = || format!("cannot have the kernel forget {}", path.display());
            let file = File::open(path).context(what)?;
            fadvise(&file, 0, None, Advice::DontNeed).context(what)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_bytes_that_were_asked_for_and_the_log_asks_for_them() {
        let stage = Stage::alone().expect("a core");
        let checked = Size::of_bytes(100);
        let make = |part| Set::make(&stage, part, 4 << 20, 1000, checked).expect("writable");
        for part in PARTS {
            let set = make(part);
            let asked = part.times * f64::from(4 << 20);
            assert!((asked..asked + LEN_MAX as f64).contains(&(set.bytes as f64)));
            let len = |path: &PathBuf| std::fs::metadata(path).expect("written").len();
            assert_eq!(set.paths.iter().map(len).sum::<u64>(), set.bytes);
            set.forget().expect("they are there");
            let folder = stage.scratch.file(part.folder);
            assert!(folder.join(checked.document()).exists());
            let log = std::fs::read_to_string(&set.log).expect("written");
            let name = |line: &str| line.split(' ').nth(6).expect("a path")[1..].to_owned();
            assert!(log.lines().all(|line| folder.join(name(line)).exists()));
            assert_eq!(log.lines().count(), 1000);
            // Made again, it is the same.
            assert_eq!(make(part).bytes, set.bytes);
            assert_eq!(std::fs::read_to_string(set.log).expect("written"), log);
        }
    }
}
