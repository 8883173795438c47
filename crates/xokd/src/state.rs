//! What a successor of this daemon must know of the slots, and cannot read from the kernel.
//!
//! One small file for each interface, written whole whenever a slot comes or goes or a grant is passed on, never half
//! (it is renamed into place). Grants are not in it, but for what the kernel's own table does not say of them. The tokens are: anyone who could read the file could
//! take slots over, so only root can, and it is not on a disk (/run).
//!
//! A file that cannot be understood is no file: then what the kernel still has is taken down. One that cannot be read is
//! another matter: nothing is taken down for it. Fields that were added
//! since the first form have defaults, so that an older daemon's programs live through an upgrade.

mod groups;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use exos_host::Error;
use exos_host::error::{Context as _, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::limits::LOCK_PATIENCE;
use crate::policy::Who;
pub use groups::{GroupLists, Groups};

/// Where state is kept.
const FOLDER: &str = "/run/exos";

/// A slot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// Its number.
    pub slot: u32,
    /// Whose it is.
    #[serde(flatten)]
    pub who: Who,
    /// The process.
    pub pid: u32,
    /// When that process began, so that another of the same number is not taken for it.
    pub began: u64,
    /// The program's name.
    pub program: String,
    /// What it proves itself with.
    pub token: [u8; 16],
    /// The ring's facts.
    pub link: Vec<u8>,
    /// The queue that it has of the interface itself; a pair of its own without one.
    #[serde(default)]
    pub queue: Option<u32>,
    /// Its general filters: number and text.
    #[serde(default)]
    pub filters: Vec<(u32, String)>,
    /// Our end of its pair, else 0.
    pub ifindex: u32,
    /// The number of its namespace in the interface's; none for a queue.
    #[serde(default)]
    pub namespace: Option<u32>,
    /// Bytes of its memory.
    pub memory: u64,
    /// The kernel's numbers of the maps that it sends from beside the ring.
    #[serde(default)]
    pub maps: Vec<u32>,
    /// What its handlers have of the kernel's memory, and those before them.
    #[serde(default)]
    pub handlers: Vec<HandlerMemory>,
    /// Its share.
    pub weight: u32,
    /// Its cap.
    pub rate_max: Option<u64>,
    /// Since when, in milliseconds since the machine started.
    pub since_ms: u64,
}

impl Slot {
    /// Since when, in nanoseconds since the machine started.
    pub fn since_ns(&self) -> u64 {
        self.since_ms.saturating_mul(1_000_000)
    }

    /// What may be left when it goes.
    pub fn leftover(&self) -> Leftover {
        // Memory that it has joined is another slot's.
        let own = self.handlers.iter().filter(|memory| memory.bytes > 0);
        let handlers = own.map(|memory| memory.map);
        Leftover {
            who: self.who.clone(),
            memory: self.memory,
            namespace: self.namespace,
            maps: self.maps.iter().copied().chain(handlers).collect(),
        }
    }
}

/// Memory of a handler, which its program can map, and its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandlerMemory {
    /// The kernel's number of it.
    pub map: u32,
    /// Bytes, which are part of the slot's memory.
    pub bytes: u64,
    /// The kernel's number of the program made of it.
    #[serde(default)]
    pub code: u32,
    /// Bytes of that, as long as it is there, which are part of the slot's memory, too.
    #[serde(default)]
    pub code_bytes: u64,
    /// Cores of its program's that have not joined it yet, a bit each.
    #[serde(default)]
    pub cores_left: u64,
}

/// What somebody may have of a slot that has gone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Leftover {
    /// Whose it was.
    #[serde(flatten)]
    pub who: Who,
    /// Bytes of its memory.
    pub memory: u64,
    /// The number of its namespace, as long as that is there.
    pub namespace: Option<u32>,
    /// The kernel's numbers of the maps that it could send from beside the ring, and of handlers' memory, as long as one of them
    /// is there.
    #[serde(default)]
    pub maps: Vec<u32>,
}

/// Everything about the slots of one interface.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// Of this file's form.
    pub version: u32,
    /// The slots.
    pub slots: Vec<Slot>,
    /// What is left of earlier ones.
    #[serde(default)]
    pub leftovers: Vec<Leftover>,
    /// Grants of which the kernel's table does not say everything.
    #[serde(default)]
    pub passed_on: Vec<PassedOn>,
    /// The groups of those by whose right they are held, each list once.
    #[serde(default)]
    pub groups: Vec<Vec<u32>>,
    /// Tickets that nobody has presented yet.
    ///
    /// Earlier daemons had others beside them, which moved a grant, and called them all `tickets`: these have run out when
    /// a daemon follows, or are asked for again.
    #[serde(default, rename = "shares")]
    pub tickets: Vec<Ticket>,
    /// What slots leave to a successor when they go.
    #[serde(default)]
    pub promised: Vec<Promised>,
    /// Grants of slots that have gone, for which a successor is awaited.
    #[serde(default)]
    pub awaited: Vec<Awaited>,
}

/// A grant that a slot leaves to a successor when it goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Promised {
    /// The slot.
    pub slot: u32,
    /// The grant.
    pub grant: u32,
    /// For how long the successor is awaited, in milliseconds.
    pub ms: u64,
}

/// A grant for which a successor is awaited.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Awaited {
    /// The grant.
    pub grant: u32,
    /// Of which user.
    pub uid: u32,
    /// The user's groups.
    pub groups: Groups,
    /// The process that had it.
    pub pid: u32,
    /// That program's name.
    pub program: String,
    /// Until when, in milliseconds since the machine started.
    pub until_ms: u64,
}

/// A grant that has several holders, or one who has it by another's right.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PassedOn {
    /// The grant.
    pub grant: u32,
    /// The slots that hold it, the one that gets the packets first.
    pub holders: Vec<u32>,
    /// Who claimed it first: the user.
    pub uid: u32,
    /// And the user's groups.
    pub groups: Groups,
}

impl State {
    /// By whose right a grant is held; `None` when the file does not say.
    pub fn origin(&self, of: &PassedOn) -> Option<Who> {
        self.who(of.uid, &of.groups)
    }

    /// A user with their groups; `None` when the file does not say which.
    pub fn who(&self, uid: u32, groups: &Groups) -> Option<Who> {
        let groups = match groups {
            Groups::At(at) => self.groups.get(*at)?,
            Groups::Here(groups) => groups,
        };
        let groups = groups.clone();
        Some(Who { uid, groups })
    }
}

/// A ticket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ticket {
    /// What is presented.
    pub secret: [u8; 16],
    /// The grant that it is for.
    pub grant: u32,
    /// The slot that gave it.
    pub from: u32,
    /// Until when it is good, in milliseconds since the machine started.
    pub expires_ms: u64,
}

/// The form of the file.
const VERSION: u32 = 1;

fn path(name: &str) -> PathBuf {
    PathBuf::from(FOLDER).join(format!("{name}.json"))
}

/// Shows that an interface is served, as long as it is there: the kernel takes it from a daemon that ends, however.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// `None` while a daemon serves the interface.
    pub fn try_take(name: &str) -> Result<Option<Self>> {
        let path = Path::new(FOLDER).join(format!("{name}.lock"));
        let what = || format!("cannot lock {}", path.display());
        std::fs::create_dir_all(FOLDER).context(what)?;
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        loop {
            let file = options.open(&path).context(what)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(e) => return Err(Error::io(what(), e)),
            }
            // Anyone who had it may have removed it meanwhile: then it locks nothing.
            let inode = file.metadata().context(what)?.ino();
            if path.metadata().is_ok_and(|there| there.ino() == inode) {
                return Ok(Some(Self { _file: file }));
            }
        }
    }

    /// Waits a little for a daemon that is about to end.
    pub fn take(name: &str, interface: &str) -> Result<Self> {
        let until = Instant::now() + LOCK_PATIENCE;
        loop {
            if let Some(lock) = Self::try_take(name)? {
                return Ok(lock);
            }
            if Instant::now() > until {
                let error = Error::new(format!("another daemon serves {interface}"));
                return Err(error.mend(
                    "stop it, or let this one take over: --replace, with the other's --socket",
                ));
            }
            std::thread::sleep(LOCK_PATIENCE / 100);
        }
    }
}

/// The names of all interfaces about which there is something.
pub fn names() -> BTreeSet<String> {
    let entries = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (name, kind) = name.rsplit_once('.')?;
        matches!(kind, "json" | "lock" | "new").then(|| name.to_owned())
    });
    names.collect()
}

/// What an earlier daemon wrote for an interface.
pub fn read(name: &str) -> Result<State> {
    let path = path(name);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let error = Error::io(format!("cannot read {}", path.display()), error);
            return Err(error.mend("try again; what programs have is lost if you remove it"));
        }
    };
    let state: State = serde_json::from_slice(&bytes).unwrap_or_default();
    match state.version {
        VERSION => Ok(state),
        _ => Ok(State::default()),
    }
}

/// Writes it for the next. Returns how many bytes that is.
pub fn write(name: &str, state: State) -> Result<usize> {
    let what = || format!("cannot write {}", path(name).display());
    let state = State {
        version: VERSION,
        ..state
    };
    let text = serde_json::to_vec(&state)
        .map_err(std::io::Error::other)
        .context(what)?;
    std::fs::create_dir_all(FOLDER).context(what)?;
    let new = path(name).with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new);
    file.and_then(|mut file| file.write_all(&text))
        .context(what)?;
    std::fs::rename(&new, path(name)).context(what)?;
    Ok(text.len())
}

/// Forgets it. To be called with the lock.
pub fn remove(name: &str) {
    for kind in ["json", "new", "lock"] {
        let _ = std::fs::remove_file(path(name).with_extension(kind));
    }
}

/// When a process began, in ticks since the machine started; `None` when there is none of this number, or none that may be
/// looked at. Fails when there is nothing left to look with.
pub fn began(pid: u32) -> Result<Option<u64>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let stat = stat.context(|| format!("cannot tell when process {pid} began"));
    match stat {
        Err(error) if error.has_run_out() => Err(error),
        stat => Ok(stat.ok().and_then(|stat| began_in(&stat))),
    }
}

/// proc(5): the name is in parentheses and may hold any; the start time is the 20th field behind it.
fn began_in(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One with something of each kind.
    fn state() -> State {
        let slot = Slot {
            slot: 3,
            who: Who {
                uid: 1000,
                groups: vec![1000, 27],
            },
            pid: 42,
            began: 7,
            program: "serve".to_owned(),
            token: [9; 16],
            link: vec![1; 64],
            ifindex: 5,
            namespace: Some(7),
            memory: 1 << 20,
            maps: Vec::new(),
            handlers: vec![HandlerMemory {
                map: 11,
                bytes: 8192,
                code: 12,
                code_bytes: 4096,
                cores_left: u64::MAX >> 1,
            }],
            weight: 2,
            rate_max: Some(1000),
            queue: Some(2),
            filters: vec![(7, "icmp".to_owned())],
            since_ms: 12,
        };
        State {
            version: VERSION,
            leftovers: vec![slot.leftover()],
            slots: vec![slot],
            passed_on: vec![PassedOn {
                grant: 5,
                holders: vec![3, 4],
                uid: 1000,
                groups: Groups::At(0),
            }],
            groups: vec![vec![27]],
            tickets: vec![Ticket {
                secret: [8; 16],
                grant: 5,
                from: 3,
                expires_ms: 9,
            }],
            promised: vec![Promised {
                slot: 3,
                grant: 5,
                ms: 7000,
            }],
            awaited: vec![Awaited {
                grant: 6,
                uid: 1000,
                groups: Groups::At(0),
                pid: 43,
                program: "forward".to_owned(),
                until_ms: 10,
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_and_the_rest_is_nothing() {
        let name = format!("test-{}", std::process::id());
        if write(&name, State::default()).is_err() {
            eprintln!("SKIPPED: {FOLDER} cannot be written (not root)");
            return;
        }
        let state = state();
        write(&name, state.clone()).expect("it was written before");
        assert_eq!(read(&name).expect("readable"), state);
        // As earlier daemons wrote it.
        let slot = serde_json::to_value(&state.slots[0]).expect("an object");
        assert_eq!(
            (&slot["uid"], &slot["groups"]),
            (&1000.into(), &vec![1000, 27].into())
        );
        let origin = state.origin(&state.passed_on[0]).map(|who| who.groups);
        assert_eq!(origin, Some(vec![27]));
        let mode =
            std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path(&name)).expect("there"));
        assert_eq!(mode & 0o777, 0o600);
        for other in [&b"{\"version\":9,\"slots\":[]}"[..], b"{", b"\xff"] {
            std::fs::write(path(&name), other).expect("there");
            assert_eq!(read(&name).expect("readable"), State::default());
        }
        remove(&name);
        assert_eq!(read(&name).expect("nothing"), State::default());
        std::fs::create_dir(path(&name)).expect("free");
        let error = read(&name).expect_err("no file");
        std::fs::remove_dir(path(&name)).expect("it is ours");
        assert!(error.is(libc::EISDIR), "{error}");
    }

    #[test]
    fn processes_have_a_beginning() {
        let stat = "42 (a) b) ( c) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0";
        assert_eq!(began_in(stat), Some(777));
        assert_eq!(began_in("42 (a"), None);
        assert!(began(std::process::id()).expect("ours").is_some());
        assert_eq!(began(u32::MAX).expect("nobody's"), None);
    }

    /// In a process of its own, which can open nothing more.
    #[test]
    fn role_without_descriptors() {
        if exos_testing::role().is_none() {
            return;
        }
        let none = rustix::process::Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, none).expect("less");
        let error = began(std::process::id()).expect_err("it cannot be looked at");
        assert!(
            error.to_string().contains("cannot tell when process"),
            "{error}"
        );
        assert!(read("nothing").expect_err("nor this").has_run_out());
        exos_testing::done();
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_nothing() {
        let ended = exos_testing::play("state::tests::role_without_descriptors", "short");
        assert!(exos_testing::is_done(ended), "{ended}");
    }
}
