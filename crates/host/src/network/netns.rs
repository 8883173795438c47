//! Network namespaces, by the conventions of `ip netns`.
//!
//! A named namespace is a file in /run/netns with the namespace mounted on it; such a name keeps the namespace
//! alive without any process in it. A file there without a mount is what a crash left: it counts as absent.
//!
//! Entering is a property of a thread. [`NetNs::run`] does something inside on a thread of its own, so the
//! caller never moves; sockets opened there keep belonging to the namespace.

use crate::error::{Context as _, Error, Result};
use crate::ethtool::Ethtool;
use crate::netlink::Netlink;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount,
};
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `ip netns` keeps names.
const DIRECTORY: &str = "/run/netns";
/// The file system type of namespaces (linux/magic.h, `NSFS_MAGIC`).
const NSFS_MAGIC: i64 = 0x6e73_6673;

/// A network namespace, held open.
#[derive(Debug)]
pub struct NetNs {
    fd: OwnedFd,
    name: Option<String>,
}

/// Moves this process into new namespaces. It must have a single thread.
pub fn unshare_process(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: with a single thread nobody else relies on what is unshared.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// The cookie of the calling thread's namespace.
fn cookie() -> io::Result<u64> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    let mut cookie = 0_u64;
    let mut len = size_of_val(&cookie) as u32;
    // SAFETY: the option's value and its length live over the call, and the length is right.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(cookie)
}

impl NetNs {
    /// The namespace of the calling thread.
    pub fn current() -> Result<Self> {
        let fd = open_path(Path::new("/proc/thread-self/ns/net"))
            .context(|| "cannot open this thread's namespace")?;
        Ok(Self { fd, name: None })
    }

    /// A new namespace without a name. It goes, with every interface in it, when this handle and
    /// everything opened in it are closed: also when the process is killed.
    pub fn anonymous() -> Result<Self> {
        let make = || {
            unshare_network().context(|| "cannot make a network namespace")?;
            Self::current()
        };
        on_a_thread(make)?
    }

    /// The namespace of this name; `None` when there is none.
    pub fn find(name: &str) -> Result<Option<Self>> {
        let fd = match open_path(&path_of(name)?) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(e) => return Err(Error::io(format!("cannot open the namespace {name}"), e)),
        };
        let kind =
            rustix::fs::fstatfs(&fd).context(|| format!("cannot examine the namespace {name}"))?;
        let mounted = kind.f_type as i64 == NSFS_MAGIC;
        Ok(mounted.then(|| Self {
            fd,
            name: Some(name.to_owned()),
        }))
    }

    /// The namespace of this name; an error that says how to list them when there is none.
    pub fn open(name: &str) -> Result<Self> {
        Self::find(name)?.ok_or_else(|| {
            Error::new(format!("there is no network namespace {name}"))
                .mend("list them with `ip netns`")
        })
    }

    /// Makes a namespace and names it. An error when the name is taken; what a crash left of it is replaced.
    pub fn create(name: &str) -> Result<Self> {
        let what = || format!("cannot make the network namespace {name}");
        if Self::find(name)?.is_some() {
            return Err(Error::io(
                what(),
                io::Error::from_raw_os_error(libc::EEXIST),
            ));
        }
        let path = path_of(name)?;
        prepare_directory().context(what)?;
        std::fs::File::create(&path).context(what)?;
        let mounted = on_a_thread(|| mount_new(&path).context(what)).flatten();
        if let Err(e) = mounted {
            let _ = std::fs::remove_file(&path);
            return Err(e);
        }
        Self::open(name)
    }

    /// Takes the name away, and with it the namespace once no process or open handle is left in it. Returns
    /// false when there was nothing of this name.
    pub fn delete(name: &str) -> Result<bool> {
        let what = || format!("cannot delete the network namespace {name}");
        let path = path_of(name)?;
        if !path.exists() {
            return Ok(false);
        }
        match unmount(&path, UnmountFlags::DETACH) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {} // Not a mount: left by a crash.
            Err(e) => return Err(Error::io(what(), e)),
        }
        std::fs::remove_file(&path).context(what)?;
        Ok(true)
    }

    /// The names of all namespaces, sorted.
    pub fn list() -> Result<Vec<String>> {
        let mut names = Self::list_with_leavings()?;
        names.retain(|name| matches!(Self::find(name), Ok(Some(_))));
        Ok(names)
    }

    /// The names of all namespaces, and those that a crash or the end of a mount namespace left without one, sorted.
    pub fn list_with_leavings() -> Result<Vec<String>> {
        let entries = match std::fs::read_dir(DIRECTORY) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io("cannot list the network namespaces", e)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<_> = names.collect();
        names.sort();
        Ok(names)
    }

    /// The name it was opened by.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Another handle of the same namespace.
    pub fn try_clone(&self) -> Result<Self> {
        let fd = self.fd.try_clone();
        Ok(Self {
            fd: fd.context(|| "cannot keep a network namespace open")?,
            name: self.name.clone(),
        })
    }

    /// What identifies it: the inode number, as in `net:[4026531840]`.
    pub fn inode(&self) -> Result<u64> {
        Ok(rustix::fs::fstat(&self.fd)
            .context(|| "cannot examine a network namespace")?
            .st_ino)
    }

    /// What identifies it to programs in the kernel (`SO_NETNS_COOKIE`, Linux 5.14): no other ever has the same.
    pub fn cookie(&self) -> Result<u64> {
        self.run(cookie)?
            .context(|| "cannot learn a network namespace's cookie")
    }

    /// Moves the calling thread into it.
    pub fn enter(&self) -> Result<()> {
        let what = || {
            format!(
                "cannot enter the network namespace {}",
                self.name().unwrap_or("given")
            )
        };
        move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network)).context(what)
    }

    /// Does something inside it, on a thread of its own, and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        on_a_thread(|| self.enter().map(|()| work())).flatten()
    }

    /// A netlink socket of this namespace, usable from anywhere.
    pub fn netlink(&self) -> Result<Netlink> {
        self.run(Netlink::new)?
    }

    /// A handle for device requests in this namespace, usable from anywhere.
    pub fn ethtool(&self) -> Result<Ethtool> {
        self.run(Ethtool::new)?
    }

    /// Writes a setting below /proc/sys of this namespace, for example `net/ipv6/conf/all/forwarding`.
    pub fn set_sysctl(&self, setting: &str, value: &str) -> Result<()> {
        let path = Path::new("/proc/sys").join(setting);
        self.run(|| {
            std::fs::write(&path, value)
                .context(|| format!("cannot set {} to {value}", path.display()))
        })?
    }

    /// Reads a setting below /proc/sys of this namespace, without its line end.
    pub fn sysctl(&self, setting: &str) -> Result<String> {
        let path = Path::new("/proc/sys").join(setting);
        let text = self.run(|| std::fs::read_to_string(&path))?;
        Ok(text
            .context(|| format!("cannot read {}", path.display()))?
            .trim_end()
            .to_owned())
    }

    /// Makes a command start inside it.
    pub fn place(&self, command: &mut Command) -> Result<()> {
        let fd = self
            .fd
            .try_clone()
            .context(|| "cannot keep a network namespace open")?;
        let enter = move || {
            Ok(move_into_link_name_space(
                fd.as_fd(),
                Some(LinkNameSpaceType::Network),
            )?)
        };
        // SAFETY: between fork and exec the closure makes one system call, and neither allocates nor locks.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }

    /// Becomes the given command inside it, as `ip netns exec` does: with /sys showing this namespace's
    /// interfaces and the files of /etc/netns/NAME over those of /etc. Returns only when that failed.
    pub fn exec(&self, command: &mut Command) -> Error {
        let program = command.get_program().to_string_lossy().into_owned();
        if let Err(e) = self.enter().and_then(|()| self.arrange_mounts()) {
            return e;
        }
        let error = command.exec();
        let missing = error.kind() == io::ErrorKind::NotFound;
        let error = Error::io(format!("cannot run {program}"), error);
        if missing {
            error.mend("check the spelling, and that it is installed")
        } else {
            error
        }
    }

    /// A mount namespace of our own in which /sys and /etc are those of the network namespace.
    fn arrange_mounts(&self) -> Result<()> {
        let what = || "cannot arrange /sys and /etc for the namespace";
        // SAFETY: the file system attributes are shared by threads of this process only until exec; no other
        // thread relies on unsharing them.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.context(what)?;
        mount_change(
            "/",
            MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
        )
        .context(what)?;
        // Without its own /sys a command sees the host's interfaces there; without any it can still run.
        let _ = unmount("/sys", UnmountFlags::DETACH);
        let _ = rustix::mount::mount("exos", "/sys", "sysfs", MountFlags::empty(), None);
        for (from, to) in self.etc_files() {
            mount_bind(&from, &to)
                .context(|| format!("cannot put {} over {}", from.display(), to.display()))?;
        }
        Ok(())
    }

    /// What `ip netns` would put over files of /etc: (from, to).
    fn etc_files(&self) -> Vec<(PathBuf, PathBuf)> {
        let Some(name) = &self.name else {
            return Vec::new();
        };
        let entries = std::fs::read_dir(Path::new("/etc/netns").join(name))
            .into_iter()
            .flatten()
            .flatten();
        let pairs = entries.map(|entry| (entry.path(), Path::new("/etc").join(entry.file_name())));
        pairs.filter(|(_, to)| to.exists()).collect()
    }

    /// The processes in it: number and name.
    pub fn processes(&self) -> Result<Vec<(u32, String)>> {
        let here = format!("net:[{}]", self.inode()?);
        let entries = std::fs::read_dir("/proc")
            .context(|| "cannot list the processes")?
            .flatten();
        let inside = entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let link = std::fs::read_link(entry.path().join("ns/net")).ok()?;
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            (link.as_os_str() == OsStr::new(&here)).then(|| (pid, name.trim_end().to_owned()))
        });
        Ok(inside.collect())
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Does something on a thread of its own, and waits for it. Fails when the machine has no thread left.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work);
        let thread = thread.context(|| "cannot start a thread for a network namespace")?;
        let done = thread.join();
        Ok(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn open_path(path: &Path) -> rustix::io::Result<OwnedFd> {
    openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// The file of a name; names that would lead out of the directory are refused.
fn path_of(name: &str) -> Result<PathBuf> {
    if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') || name.len() > 200 {
        return Err(Error::new(format!(
            "{name:?} cannot be the name of a network namespace"
        ))
        .mend("use letters, digits and hyphens"));
    }
    Ok(Path::new(DIRECTORY).join(name))
}

/// The directory as `ip netns` wants it: a mount of its own that is shared, so that a name removed in one mount
/// namespace is removed in all.
fn prepare_directory() -> io::Result<()> {
    std::fs::create_dir_all(DIRECTORY)?;
    let share = || {
        mount_change(
            DIRECTORY,
            MountPropagationFlags::SHARED | MountPropagationFlags::REC,
        )
    };
    if share().is_err() {
        mount_bind(DIRECTORY, DIRECTORY)?;
        share()?;
    }
    Ok(())
}

/// Makes a new namespace and mounts it on the file. For a thread that ends right after.
fn mount_new(path: &Path) -> io::Result<()> {
    unshare_network()?;
    mount_bind("/proc/thread-self/ns/net", path)?;
    Ok(())
}

/// Moves the calling thread into a new namespace.
fn unshare_network() -> rustix::io::Result<()> {
    // SAFETY: a network namespace is a property of the thread alone, and unsharing it closes nothing.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, Rlimit, setrlimit};

    /// In a process of its own, which has no memory left for the stack of a thread.
    #[test]
    fn role() {
        if exos_testing::role().is_none() {
            return;
        }
        let here = NetNs::current().expect("every thread has one");
        let none = Rlimit {
            current: Some(0),
            maximum: None,
        };
        setrlimit(Resource::As, none).expect("less is always allowed");
        let refused = [here.run(|| ()).err(), NetNs::anonymous().err()];
        for error in refused {
            let text = error.expect("there is no thread").to_string();
            assert!(text.contains("cannot start a thread"), "{text}");
        }
        exos_testing::done();
    }

    #[test]
    fn without_a_thread_to_be_had_it_says_so() {
        let ended = exos_testing::play("network::netns::tests::role", "without memory");
        assert!(exos_testing::is_done(ended), "{ended}");
    }
}
