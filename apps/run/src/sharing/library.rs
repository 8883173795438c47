//! The library that programs load: what they are told of it, and what becomes of that when a process becomes another program. One that
//! cannot load it (of another C library than GNU's, or of 32 bits) is not told to, for it would not start.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use exos_host::intercept::{Call, Calls, read_memories, read_memory};
use exos_preload::LIBRARY;
use exos_preload::memory::{Shared, VARIABLE};
use rustix::fs::{MemfdFlags, memfd_create};

use super::credentials::Credentials;
use crate::check::KnownPrograms;
use crate::limits::{ENVIRONMENT, PATH_BYTES};
use crate::target::write;
use crate::trace::Trace;

/// The library, in a file without a name.
pub(super) struct Library {
    file: File,
    programs: KnownPrograms,
    /// What file it is (device, inode).
    inode: (u64, u64),
    /// The user namespace and the credentials of this process, which keeps them.
    user_namespace: PathBuf,
    credentials: Credentials,
}

impl Library {
    /// # Errors
    ///
    /// The kernel gives no memory.
    pub fn new(program: &Path) -> io::Result<Self> {
        let mut file = File::from(memfd_create("exos-preload", MemfdFlags::CLOEXEC)?);
        file.write_all(LIBRARY)?;
        let programs = KnownPrograms::with(program);
        let meta = file.metadata()?;
        Ok(Self {
            file,
            programs,
            inode: (meta.dev(), meta.ino()),
            user_namespace: user_namespace("self")?,
            credentials: Credentials::of("self")?,
        })
    }

    /// Says in the command's environment where things are. By our number: those that it starts find them too. The command itself, a
    /// guard, is not to load it: there are spaces in the place of its name, which [`offer`](Self::offer) puts there for the program.
    pub fn tell(
        &self,
        command: &mut Command,
        memory: &Shared,
        bell: &OwnedFd,
        trace: Option<&Trace>,
    ) {
        let here = std::process::id();
        let memory = memory.file().map_or(-1, |file| file.as_raw_fd());
        let bell = bell.as_raw_fd();
        let trace = trace.map(|trace| format!(":{}", trace.to_write().as_raw_fd()));
        let trace = trace.unwrap_or_default();
        command.env(VARIABLE, format!("{here}:{memory}:{bell}{trace}"));
        let mut preload = OsString::from(" ".repeat(self.name().len()));
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(" ");
            preload.push(others);
        }
        command.env("LD_PRELOAD", preload);
    }

    /// By what name programs find the library.
    fn name(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Whether a thread finds the library by its name, once it has become another program: it sees the same processes, and may open
    /// descriptors of this one.
    fn is_found_by(&self, thread: u32) -> io::Result<bool> {
        let Ok(found) = std::fs::metadata(format!("/proc/{thread}/root{}", self.name())) else {
            return Ok(false);
        };
        let of_thread = thread.to_string();
        Ok((found.dev(), found.ino()) == self.inode
            && user_namespace(&of_thread)? == self.user_namespace
            && Credentials::of(&of_thread)?.may_open(&self.credentials))
    }

    /// Takes the library out of the environment of a program that cannot load it, and puts it back for one that can: another that was
    /// given the same variable, by a parent that shares its memory (vfork(2)), or by a program that could not.
    ///
    /// # Errors
    ///
    /// The process may not be looked into, or has gone.
    pub fn offer(&mut self, calls: &Calls, call: &Call) -> io::Result<()> {
        let (file, environment) = program_of(call)?;
        let Some((at, text)) = preload(call.thread, environment)? else {
            return Ok(());
        };
        let library = self.name().into_bytes();
        // The loader passes over spaces.
        let nothing = vec![b' '; library.len()];
        let root = PathBuf::from(format!("/proc/{}/root", call.thread));
        let loads = self.programs.takes_library(&file, &root) && self.is_found_by(call.thread)?;
        let (from, to) = match loads {
            true => (nothing, library),
            false => (library, nothing),
        };
        let place = text.windows(from.len()).position(|part| part == from);
        match place {
            Some(place) => write(calls, call, at.saturating_add(place as u64), &to),
            None => Ok(()),
        }
    }
}

fn user_namespace(of: &str) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/{of}/ns/user"))
}

/// The variable that says what to load before, in an environment of a thread's, and where it stands.
fn preload(thread: u32, environment: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
    const NAME: &[u8] = b"LD_PRELOAD=";
    /// Variables that are looked at together.
    const SOME: usize = 64;
    for first in (0..ENVIRONMENT).step_by(SOME) {
        let mut words = [0; 8 * SOME];
        let place = environment.saturating_add(8 * first);
        let count = read_memory(thread, place, &mut words)?;
        let words = words[..count].chunks_exact(8);
        let all = words.map(|word| u64::from_ne_bytes(word.try_into().expect("eight")));
        let addresses: Vec<u64> = all.take_while(|at| *at != 0).collect();
        let mut names = [[0; NAME.len()]; SOME];
        let mut at = 0;
        while at < addresses.len() {
            let left = &addresses[at..];
            let whole = read_memories(thread, left, NAME.len(), names.as_flattened_mut());
            // Behind a short one there may be no memory.
            let whole = whole.unwrap_or(0);
            let is_it = |name: &[u8; NAME.len()]| name == NAME;
            if let Some(found) = names[..whole].iter().position(is_it) {
                return Ok(Some((left[found], text_at(thread, left[found])?)));
            }
            at += whole.max(1);
        }
        if addresses.len() < SOME {
            break;
        }
    }
    Ok(None)
}

/// The file that a process becomes, as we see it, and where its environment is to be (execve(2), execveat(2)).
fn program_of(call: &Call) -> io::Result<(PathBuf, u64)> {
    let thread = call.thread;
    let (folder, path, environment) = match call.number {
        libc::SYS_execveat if call.args[0] as i32 != libc::AT_FDCWD => {
            let folder = format!("/proc/{thread}/fd/{}", call.args[0] as i32);
            (folder, call.args[1], call.args[3])
        }
        libc::SYS_execveat => (format!("/proc/{thread}/cwd"), call.args[1], call.args[3]),
        _ => (format!("/proc/{thread}/cwd"), call.args[0], call.args[2]),
    };
    let path = text_at(thread, path)?;
    let path = Path::new(OsStr::from_bytes(&path));
    let file = match path.strip_prefix("/") {
        Ok(path) => Path::new(&format!("/proc/{thread}/root")).join(path),
        Err(_) if path.as_os_str().is_empty() => folder.into(),
        Err(_) => Path::new(&folder).join(path),
    };
    Ok((file, environment))
}

/// The text at an address of a thread's, as far as it is no longer than a path.
fn text_at(thread: u32, at: u64) -> io::Result<Vec<u8>> {
    const PAGE: u64 = 4096;
    let mut text = Vec::new();
    while (text.len() as u64) < PATH_BYTES {
        let at = at.saturating_add(text.len() as u64);
        // Behind a page there may be none.
        let mut bytes = vec![0; (PAGE - at % PAGE) as usize];
        let count = read_memory(thread, at, &mut bytes)?;
        let end = bytes[..count].iter().position(|byte| *byte == 0);
        text.extend_from_slice(&bytes[..end.unwrap_or(count)]);
        if end.is_some() || count == 0 {
            break;
        }
    }
    Ok(text)
}
