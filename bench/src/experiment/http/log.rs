//! More documents than fit into memory, and a log of requests for them: as *IO-Lite*'s section 4.3 has those of a server, of which few documents are
//! most asked for, and a request is of 17 to 19 KB.

use crate::stage::Stage;
use crate::stage::request::{Size, body};
use crate::stage::scratch::write;
use exos_host::{Error, Result, error::Context as _};
use exos_inet::siphash::Random;
use exos_replacement::trace::{requests, sizes};
use rustix::fs::{Advice, fadvise, statfs, syncfs};
use std::fmt::Write as _;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

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

/// Bytes of a request, of a large part of the log: with as many in each set, rates of sets compare.
const MEAN_LEN: Range<f64> = 17_500.0..18_500.0;
const LARGE_PART: usize = 100_000;
/// Documents that nginx keeps open (`bench/nginx/nginx.conf`).
const OPEN_MAX: usize = 200_000;
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
    /// Of a request of the log, on average.
    pub mean_len: f64,
    /// The file with the requests.
    pub log: PathBuf,
    /// Another that asks for each document once, in an order that says nothing of how often the log asks for it.
    pub each_once: PathBuf,
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
        let drawn = requests(&mut random, lens.len(), asked.max(LARGE_PART));
        if !turn(&mut lens, &drawn[..LARGE_PART]) {
            stage.note(format!(
                "{}: with none of the orders of documents a request is of some 18 KB",
                part.folder
            ));
        }
        if lens.len() > OPEN_MAX {
            stage.note(format!(
                "{}: nginx does not keep all documents open",
                part.folder
            ));
        }
        let drawn = &drawn[..asked];
        let is_there = stage.scratch.file(part.folder).exists();
        let folder = stage.scratch.directory(part.folder)?;
        let name = |document: usize| format!("d{document}.html");
        let paths: Vec<_> = (0..lens.len()).map(|at| folder.join(name(at))).collect();
        if !is_there {
            check_space(&folder, bytes)?;
            write(&folder.join(checked.document()), body(checked))?;
            let text = body(Size::of_bytes(2 * LEN_MAX as u64));
            for (at, (path, len)) in paths.iter().zip(&lens).enumerate() {
                let begin = at * 4099 % LEN_MAX;
                write(path, &text[begin..begin + len])?;
            }
            let what = || cannot_write(&folder);
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
        let log_of = |file: &str, documents: &mut dyn Iterator<Item = usize>| {
            let mut lines = String::new();
            for document in documents {
                let _ = writeln!(
                    lines,
                    "- - - [01/Jan/2026:00:00:00 +0000] \"GET /{} HTTP/1.1\" 200 -",
                    name(document)
                );
            }
            let file = format!("{}-{file}.log", part.folder);
            stage.scratch.write(&file, lines)
        };
        Ok(Self {
            folder: part.folder,
            bytes,
            mean_len: mean_len(&lens, drawn),
            log: log_of("drawn", &mut drawn.iter().copied())?,
            // The documents most asked for are anywhere among the numbers.
            each_once: log_of("each-once", &mut (0..lens.len()))?,
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

/// Bytes of a request, on average.
fn mean_len(lens: &[usize], drawn: &[usize]) -> f64 {
    let bytes: usize = drawn.iter().map(|&document| lens[document]).sum();
    bytes as f64 / drawn.len() as f64
}

/// Gives each document the length of the next one, as often as it takes until requests have the bytes that they are to have; whether they have.
fn turn(lens: &mut [usize], drawn: &[usize]) -> bool {
    (0..lens.len()).any(|_| {
        lens.rotate_left(1);
        MEAN_LEN.contains(&mean_len(lens, drawn))
    })
}

fn cannot_write(folder: &Path) -> String {
    format!("cannot write {}", folder.display())
}

/// An error where a folder has no space for as many bytes.
fn check_space(folder: &Path, bytes: u64) -> Result<()> {
    let of = statfs(folder).context(|| cannot_write(folder))?;
    let free = of.f_bavail.saturating_mul(of.f_bsize as u64);
    match free < bytes {
        true => Err(Error::new(format!(
            "{} has space for {free} bytes, and documents take {bytes}",
            folder.display()
        ))
        .mend("set TMPDIR, or ask for less --memory")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn documents_that_do_not_fit_are_not_begun() {
        let folder = std::env::temp_dir();
        check_space(&folder, 1).expect("a byte");
        let error = check_space(&folder, u64::MAX).expect_err("too many");
        assert!(error.to_string().contains("documents take"), "{error}");
    }

    #[test]
    fn documents_have_the_bytes_that_were_asked_for_and_the_log_asks_for_them() {
        let stage = Stage::alone().expect("a core");
        let checked = Size::of_bytes(100);
        let make = |part| Set::make(&stage, part, 4 << 20, LARGE_PART, checked).expect("writable");
        for part in PARTS {
            let set = make(part);
            let asked = part.times * f64::from(4 << 20);
            assert!((asked..asked + LEN_MAX as f64).contains(&(set.bytes as f64)));
            let len = |path: &PathBuf| std::fs::metadata(path).expect("written").len();
            assert_eq!(set.paths.iter().map(len).sum::<u64>(), set.bytes);
            set.forget().expect("they are there");
            let folder = stage.scratch.file(part.folder);
            assert!(folder.join(checked.document()).exists());
            let name = |line: &str| line.split(' ').nth(6).expect("a path")[1..].to_owned();
            let documents = |log: &PathBuf| -> Vec<PathBuf> {
                let text = std::fs::read_to_string(log).expect("written");
                text.lines().map(|line| folder.join(name(line))).collect()
            };
            let mut lens = BTreeMap::new();
            for path in &set.paths {
                lens.insert(path.clone(), len(path));
            }
            let asked = documents(&set.log);
            assert_eq!(asked.len(), LARGE_PART);
            let mean = asked.iter().map(|path| lens[path]).sum::<u64>() as f64 / asked.len() as f64;
            assert!((17e3..19e3).contains(&mean), "{}: {mean}", part.folder);
            assert!((mean - set.mean_len).abs() < 1.0);
            assert_eq!(documents(&set.each_once), set.paths);
            let log = std::fs::read_to_string(&set.log).expect("written");
            // Made again, it is the same.
            assert_eq!(make(part).bytes, set.bytes);
            assert_eq!(std::fs::read_to_string(set.log).expect("written"), log);
        }
    }
}
