//! What was found of programs that processes become, as long as their files are as they were then: searching large ones takes the time
//! of all connections.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::elf::Elf;
use super::libraries::Libraries;
use super::{has_socket_calls, is_gnu, program_behind};
use crate::limits::KNOWN_FILES;

/// Which file, and when it was changed last.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    changed: [(i64, i64); 2],
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self {
            file: (meta.dev(), meta.ino()),
            size: meta.size(),
            changed: [
                (meta.mtime(), meta.mtime_nsec()),
                (meta.ctime(), meta.ctime_nsec()),
            ],
        }
    }
}

/// Answers about files.
#[derive(Default)]
struct Answers(HashMap<Stamp, bool>);

impl Answers {
    /// The answer, found out where it is not known; as for no file where there is none.
    fn of(&mut self, file: &Path, find: impl FnOnce() -> bool) -> bool {
        let Some(stamp) = file.metadata().ok().map(|meta| Stamp::of(&meta)) else {
            return find();
        };
        if let Some(answer) = self.0.get(&stamp) {
            return *answer;
        }
        let answer = find();
        if self.0.len() >= KNOWN_FILES {
            self.0.clear();
        }
        self.0.insert(stamp, answer);
        answer
    }
}

/// Which programs are told to load the library.
#[derive(Default)]
pub(crate) struct KnownPrograms {
    takes_library: Answers,
    /// Of libraries, which many programs have.
    has_socket_calls: Answers,
}

impl KnownPrograms {
    /// With a program that was found to take the library.
    pub fn with(program: &Path) -> Self {
        let mut known = Self::default();
        known.takes_library.of(program, || true);
        known
    }

    /// Whether a program is told to load the library: it can be started with it, and it and its libraries make their calls by the C
    /// library. Interpreters of scripts are looked for below `root`; libraries where that is this process's. What cannot be read is not
    /// known not to.
    pub fn takes_library(&mut self, file: &Path, root: &Path) -> bool {
        let file = program_behind(file, root);
        let Self {
            takes_library,
            has_socket_calls: of_libraries,
        } = self;
        takes_library.of(&file, || {
            let is_file = file.is_file();
            let opened = is_file.then(|| File::open(&file).ok()).flatten();
            let Some(elf) = opened.and_then(|file| Elf::read(file).ok()) else {
                return true;
            };
            let Some(loader) = elf.interpreter.as_deref() else {
                return true;
            };
            let mut hinders = || {
                elf.is_go
                    || elf.is_sanitized()
                    || has_socket_calls(&file)
                    || is_ours(root) && libraries_call(of_libraries, &elf, &file)
            };
            elf.is_of_this_machine() && is_gnu(loader) && !hinders()
        })
    }
}

/// Whether a library of a program makes calls of sockets past the C library.
fn libraries_call(known: &mut Answers, elf: &Elf, file: &Path) -> bool {
    Libraries::of(elf, file)
        .others()
        .any(|library| known.of(library, || has_socket_calls(library)))
}

/// Whether a folder is this process's root.
fn is_ours(root: &Path) -> bool {
    let place = |folder: &Path| folder.metadata().map(|meta| Stamp::of(&meta).file).ok();
    place(root) == place(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_looked_at_once_until_it_changes() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("program");
        let mut answers = Answers::default();
        fs::write(&file, b"one").expect("ours");
        assert!(answers.of(&file, || true));
        assert!(answers.of(&file, || unreachable!("it is known")));
        fs::write(&file, b"another").expect("ours");
        assert!(!answers.of(&file, || false), "it has changed");
        assert!(answers.of(&folder.path().join("nothing"), || true));
        for n in 0..2 * KNOWN_FILES {
            let other = folder.path().join(n.to_string());
            fs::write(&other, b"").expect("ours");
            answers.of(&other, || true);
            assert!(answers.0.len() <= KNOWN_FILES);
        }
    }

    #[test]
    fn programs_of_the_c_library_take_it() {
        let mut known = KnownPrograms::default();
        let root = Path::new("/");
        for _ in 0..2 {
            assert!(known.takes_library(Path::new("/bin/sh"), root));
            // What cannot be read is not known not to.
            assert!(known.takes_library(Path::new("/no/such/program"), root));
        }
        assert_eq!(known.takes_library.0.len(), 1);
        assert!(is_ours(root) && !is_ours(Path::new("/proc")));
    }
}
