//! Which way a program goes, and what of it will not work: decided by its file alone, before it runs.
//!
//! Sockets are shared where the library can be loaded and answers the program's calls: it is a program for this machine that the
//! GNU C library's loader loads, and it makes its calls by that library. All others go by intercepted calls; 32-bit ones by neither.
//!
//! | file | job |
//! |---|---|
//! | `find` | which file a command is, and whether it can be executed |
//! | `script` | the `#!` line |
//! | `elf`, `libraries` | what an ELF file says, and the libraries that it loads |
//! | `instructions`, `steps` | calls that it makes by itself |
//! | `known` | what was found of programs that processes become |
//! | `report` | what `--check` prints |

mod elf;
mod find;
mod instructions;
mod known;
mod libraries;
mod refusal;
mod report;
mod script;
#[cfg(target_arch = "x86_64")]
mod steps;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use exos_program::text::plain;

use self::elf::Elf;
use self::libraries::{C_LIBRARY, Libraries};
use self::refusal::Refusal;
use crate::limits::{SCRIPT_LINE, SCRIPTS_NESTED};

pub(crate) use known::KnownPrograms;
pub(crate) use report::check;

/// How a program's calls come to us.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A library in the program answers them.
    Shared,
    /// The kernel tells us of them.
    Intercepted,
    /// They do not: its connections are the kernel's.
    Kernel,
}

/// What is known of a program.
#[derive(Debug)]
pub(crate) struct Finding {
    /// Its file; of a script, that of its last interpreter.
    pub file: PathBuf,
    /// The scripts that it interprets, the first one first.
    scripts: Vec<PathBuf>,
    pub way: Way,
    /// Why this way.
    pub why: String,
    /// What it says of itself, if it is an ELF file.
    elf: Elf,
    libraries: Libraries,
    /// Why it would have more privilege than the one that runs it, if so.
    gains: Option<&'static str>,
}

/// Finds out which way a command goes.
///
/// # Errors
///
/// It cannot be run.
pub(crate) fn look_at(name: &OsStr) -> Result<Finding, Refusal> {
    follow(name, Vec::new())
}

/// Finds out which way a command goes that these scripts come to.
fn follow(name: &OsStr, mut scripts: Vec<PathBuf>) -> Result<Finding, Refusal> {
    let mut file = find::program(name)?;
    while let Some(line) = head(&file).as_deref().and_then(script::line) {
        if scripts.len() >= SCRIPTS_NESTED {
            let what = format!(
                "cannot run {}: it is the interpreter of a script of a script",
                file.display()
            );
            return Err(Refusal::not_executable(
                what,
                "name a program as interpreter",
            ));
        }
        let interpreter = interpreter_of(&file, &line.interpreter)?;
        scripts.push(file);
        if let Some(asked) = line.env() {
            return behind_env(interpreter, &asked, scripts);
        }
        file = interpreter;
    }
    let mut finding = Finding::of(file)?;
    finding.scripts = scripts;
    Ok(finding)
}

/// The program that `env` becomes for the last of these scripts. Where it is not found so, `env` itself, which may find it in its own way
/// or say why not.
fn behind_env(
    env: PathBuf,
    asked: &script::Env,
    scripts: Vec<PathBuf>,
) -> Result<Finding, Refusal> {
    let env = Finding::of(env)?;
    // Why the library does not come as far as the program.
    let hindrance = if asked.is_empty {
        Some("env does not pass the environment on to it".to_owned())
    } else if env.way != Way::Shared {
        Some(format!("{} starts it: {}", env.file.display(), env.why))
    } else {
        None
    };
    let program = asked.program.as_deref();
    let mut finding = program
        .and_then(|program| follow(program, scripts.clone()).ok())
        .unwrap_or(Finding { scripts, ..env });
    if let Some(why) = hindrance.filter(|_| finding.way == Way::Shared) {
        (finding.way, finding.why) = (Way::Intercepted, why);
    }
    Ok(finding)
}

/// What a file begins with; nothing of one that may not be read.
fn head(file: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::with_capacity(SCRIPT_LINE as usize);
    // Opening another may wait.
    let file = File::open(file.is_file().then_some(file)?).ok()?;
    file.take(SCRIPT_LINE).read_to_end(&mut head).ok()?;
    Some(head)
}

fn interpreter_of(script: &Path, interpreter: &Path) -> Result<PathBuf, Refusal> {
    match find::executable(interpreter) {
        Ok(()) => Ok(interpreter.to_owned()),
        Err(refusal) => {
            let what = format!(
                "{}, which the first line of {} names",
                refusal.error.what,
                script.display()
            );
            Err(Refusal::not_executable(
                what,
                "correct that line, or install the program",
            ))
        }
    }
}

/// The program that a file comes to be run by: itself, or the last interpreter of a script, looked for below `root`.
fn program_behind(file: &Path, root: &Path) -> PathBuf {
    let mut file = file.to_owned();
    for _ in 0..SCRIPTS_NESTED {
        let Some(line) = head(&file).as_deref().and_then(script::line) else {
            break;
        };
        let interpreter = line.interpreter.strip_prefix("/");
        file = root.join(interpreter.unwrap_or(&line.interpreter));
    }
    file
}

/// Whether a program, or a library, makes calls of sockets past the C library. One that cannot be read is not known to.
fn has_socket_calls(file: &Path) -> bool {
    let found = File::open(file).ok().map(instructions::has_socket_calls);
    matches!(found, Some(Ok(true)))
}

impl Finding {
    /// What is known of a file that is no script.
    fn of(file: PathBuf) -> Result<Self, Refusal> {
        let mut finding = Self {
            gains: file
                .metadata()
                .ok()
                .and_then(|meta| find::gains(&file, &meta)),
            file,
            scripts: Vec::new(),
            way: Way::Intercepted,
            why: String::new(),
            elf: Elf::default(),
            libraries: Libraries::default(),
        };
        match head(&finding.file) {
            None => finding.why = "its file may not be read".to_owned(),
            Some(head) if !head.starts_with(&elf::MAGIC) => {
                finding.why = "it is no ELF file, and has no #! line".to_owned();
            }
            Some(_) => finding.look_into()?,
        }
        Ok(finding)
    }

    fn look_into(&mut self) -> Result<(), Refusal> {
        let shown = self.file.display();
        let open = File::open(&self.file).map_err(elf::Damage::from);
        self.elf = match open.and_then(Elf::read) {
            Ok(elf) => elf,
            Err(damage) if elf::may_run(&damage) => {
                self.why = format!("its ELF file cannot be read ({damage})");
                return Ok(());
            }
            Err(damage) => {
                let what = format!("cannot run {shown}: its ELF file is damaged ({damage})");
                return Err(Refusal::not_executable(what, "install it again"));
            }
        };
        if let Some(loader) = self
            .elf
            .interpreter
            .as_deref()
            .filter(|_| self.elf.is_of_this_machine())
            && let Err(refusal) = find::executable(Path::new(loader))
        {
            let what = format!("{}, which is to load {shown}", refusal.error.what);
            return Err(Refusal::not_executable(
                what,
                "install the C library that it is made for",
            ));
        }
        self.libraries = Libraries::of(&self.elf, &self.file);
        let (way, why) = self.way();
        (self.way, self.why) = (way, plain(&why));
        Ok(())
    }

    /// Which way an ELF file goes, and why.
    fn way(&self) -> (Way, String) {
        let elf = &self.elf;
        if elf.is_32_bit_of_this_machine() {
            return (Way::Kernel, "it is a 32-bit program".to_owned());
        }
        let hindrance = match (&elf.interpreter, self.gains) {
            _ if !elf.is_of_this_machine() => "it is for another machine".to_owned(),
            (_, Some(gains)) => gains.to_owned(),
            (None, _) => "it is linked statically".to_owned(),
            _ if elf.is_go => "it is a Go program, which makes its calls by itself".to_owned(),
            (Some(loader), _) if !is_gnu(loader) => {
                format!("its C library is not GNU's ({loader} loads it)")
            }
            _ if elf.is_sanitized() => {
                "the library of AddressSanitizer is to be loaded into it before any other"
                    .to_owned()
            }
            // It may be one of those that were not found.
            _ if !self.libraries.has(C_LIBRARY) && self.libraries.missing.is_empty() => {
                "it uses no C library".to_owned()
            }
            _ if has_socket_calls(&self.file) => {
                "it makes its calls by itself, past the C library".to_owned()
            }
            _ => match self.libraries.others().find(|file| has_socket_calls(file)) {
                Some(library) => {
                    let library = library.display();
                    format!("{library} makes its calls by itself, past the C library")
                }
                None => {
                    let why = "it uses the GNU C library as a shared one";
                    return (Way::Shared, why.to_owned());
                }
            },
        };
        (Way::Intercepted, hindrance)
    }
}

/// Whether a loader is the GNU C library's, on this machine.
fn is_gnu(loader: &str) -> bool {
    let name = match cfg!(target_arch = "x86_64") {
        true => "ld-linux-x86-64.so.2",
        false => "ld-linux-aarch64.so.1",
    };
    Path::new(loader).file_name() == Some(OsStr::new(name))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A folder with files that can be executed.
    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory"))
        }

        fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, bytes).expect("a file");
            fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
            path
        }
    }

    fn way(file: &Path) -> (Way, String) {
        let finding = look_at(file.as_os_str()).expect("it can be run");
        (finding.way, finding.why)
    }

    fn refused(file: &Path) -> String {
        let refusal = look_at(file.as_os_str()).expect_err("it cannot be run");
        assert_eq!(refusal.status, Refusal::NOT_EXECUTABLE);
        refusal.error.to_string()
    }

    /// This program, with words of its file changed.
    fn changed(folder: &Folder, name: &str, changes: &[(usize, &[u8])]) -> PathBuf {
        let mut bytes = fs::read("/bin/sh").expect("a shell");
        for (at, change) in changes {
            bytes[*at..at + change.len()].copy_from_slice(change);
        }
        folder.put(name, &bytes)
    }

    /// Where the first segment of a kind stands, and how many bytes of the file it has.
    fn segment(kind: u32) -> (usize, usize) {
        let bytes = fs::read("/bin/sh").expect("a shell");
        let word = |at: usize, size: usize| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(&bytes[at..at + size]);
            u64::from_le_bytes(word) as usize
        };
        let heads = (0..word(56, 2)).map(|n| word(32, 8) + n * 56);
        let mut heads = heads.filter(|at| word(*at, 4) == kind as usize);
        let at = heads.next().expect("a segment of that kind");
        (at, word(at + 8, 8))
    }

    #[test]
    fn programs_go_the_way_that_their_file_allows() {
        const INTERPRETER: u32 = 3;
        let folder = Folder::new();
        let (head, text) = segment(INTERPRETER);
        for (changes, expected, why) in [
            (&[][..], Way::Shared, "GNU"),
            (&[(head, &[0; 4][..])], Way::Intercepted, "statically"),
            (
                &[(text, b"/bin/sh\0")],
                Way::Intercepted,
                "not GNU's (/bin/sh",
            ),
            (&[(18, &[8, 0])], Way::Intercepted, "another machine"),
            // The kernel looks at none of these: class, byte order, version.
            (&[(4, &[9])], Way::Intercepted, "cannot be read"),
            (&[(5, &[9])], Way::Intercepted, "cannot be read"),
            (&[(6, &[0])], Way::Intercepted, "cannot be read"),
        ] {
            let (way, said) = way(&changed(&folder, "program", changes));
            assert!(way == expected && said.contains(why), "{way:?}: {said}");
        }
        let file = folder.put("static", &fs::read("/bin/sh").expect("a shell"));
        fs::set_permissions(&file, Permissions::from_mode(0o4755)).expect("ours");
        assert_eq!(
            way(&file),
            (Way::Intercepted, "it is set-user-ID".to_owned())
        );
        assert_eq!(way(&folder.put("text", b"echo")).0, Way::Intercepted);
        let said = refused(&changed(&folder, "program", &[(text, b"/no/load\0")]));
        assert!(
            said.contains("/no/load") && said.contains("which is to load"),
            "{said}"
        );
        let said = refused(&folder.put("damaged", b"\x7fELF\x02\x01\x01"));
        assert!(said.contains("damaged"), "{said}");
    }

    #[test]
    fn programs_of_32_bits_are_the_kernels() {
        // Its head, one segment, and nothing else.
        let mut file = vec![0; 52 + 32];
        file[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
        for (at, byte) in [
            (16, 2),
            (18, 3),
            (20, 1),
            (28, 52),
            (42, 32),
            (44, 1),
            (52, 1),
        ] {
            file[at] = byte;
        }
        if cfg!(target_arch = "aarch64") {
            file[18] = 40;
        }
        let (way, why) = way(&Folder::new().put("short", &file));
        assert_eq!((way, why.as_str()), (Way::Kernel, "it is a 32-bit program"));
    }

    #[test]
    fn scripts_go_the_way_of_their_interpreters() {
        let folder = Folder::new();
        let inner = folder.put("inner", b"#!/bin/sh -e\n");
        let outer = folder.put("outer", format!("#!{}\n", inner.display()).as_bytes());
        let finding = look_at(outer.as_os_str()).expect("it can be run");
        assert_eq!(
            (finding.way, finding.scripts),
            (Way::Shared, vec![outer, inner])
        );
        assert_eq!(finding.file, Path::new("/bin/sh"));
        for (line, expected) in [
            ("#!/usr/bin/env sh", Way::Shared),
            ("#!/usr/bin/env -S sh -e", Way::Shared),
            ("#!/usr/bin/env -S -i sh", Way::Intercepted),
            // As env decides.
            ("#!/usr/bin/env -S \"sh\" -e", Way::Shared),
            ("#!/usr/bin/env -S ${HOME}/tool x", Way::Shared),
            ("#!/usr/bin/env -S PATH=/x/bin:/bin mytool", Way::Shared),
            ("#!/usr/bin/env no-such-program-anywhere", Way::Shared),
            ("#!/usr/bin/env -S -i A=1 sh", Way::Intercepted),
        ] {
            assert_eq!(
                way(&folder.put("script", line.as_bytes())).0,
                expected,
                "{line}"
            );
        }
        for line in ["#!/no/such", "#!/tmp", "#!/dev/null"] {
            let said = refused(&folder.put("script", line.as_bytes()));
            assert!(
                said.contains(&line[2..]) && said.contains("first line"),
                "{said}"
            );
        }
        let own = folder.0.path().join("own");
        let own = folder.put("own", format!("#!{}\n", own.display()).as_bytes());
        assert!(refused(&own).contains("script"));
    }
}
