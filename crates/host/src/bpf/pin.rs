//! Objects that outlive the process: names in the BPF file system.
//!
//! A pinned map, program or link lives until its name is removed, also when the process that made it is killed: its
//! successor opens it by the name. Everything here wants absolute paths inside a mounted BPF file system
//! ([`require_bpffs`]); directories are made with `std::fs`, names removed with `std::fs::remove_file`, which for a
//! link whose descriptors are closed detaches it. Names must not contain a dot, which the kernel reserves: `eth0.5`
//! cannot be a directory here.

use super::syscall::{Attr, Command, bpf, bpf_fd, failed};
use crate::error::{Context as _, Error, Result};
use procfs::process::Process;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `BPF_FS_MAGIC` of include/uapi/linux/magic.h.
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

#[repr(C)]
struct ObjectAttr {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}
// SAFETY: the prefix for BPF_OBJ_PIN and BPF_OBJ_GET, no padding; both callers keep the path alive over the call.
unsafe impl Attr for ObjectAttr {}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

/// Give the object behind `fd` a name.
pub(super) fn pin(fd: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let what = |source| {
        let error = failed(
            format!("cannot pin a BPF object as {}", path.display()),
            source,
        );
        explain(error, path)
    };
    let name = c_path(path).map_err(what)?;
    let mut attr = ObjectAttr {
        pathname: name.as_ptr() as u64,
        bpf_fd: fd.as_raw_fd() as u32,
        file_flags: 0,
    };
    bpf(Command::ObjPin, &mut attr).map(drop).map_err(what)
}

/// Open the object of this name.
pub(super) fn open(path: &Path) -> Result<OwnedFd> {
    let what = |source| {
        let error = failed(
            format!("cannot open the pinned BPF object {}", path.display()),
            source,
        );
        explain(error, path)
    };
    let name = c_path(path).map_err(what)?;
    let mut attr = ObjectAttr {
        pathname: name.as_ptr() as u64,
        bpf_fd: 0,
        file_flags: 0,
    };
    bpf_fd(Command::ObjGet, &mut attr).map_err(what)
}

/// With the remedy where the file system is the trouble.
fn explain(error: Error, path: &Path) -> Error {
    let mend = match error.errno() {
        Some(libc::EEXIST) => "remove it first: it is somebody's, or was left by a crash",
        Some(libc::EPERM)
            if path
                .file_name()
                .is_some_and(|n| n.as_bytes().contains(&b'.')) =>
        {
            "names in a BPF file system have no dots"
        }
        Some(libc::EPERM | libc::EINVAL) if !is_bpffs(path.parent().unwrap_or(path)) => {
            "only a BPF file system holds such names: `mount -t bpf bpf /sys/fs/bpf`"
        }
        _ => return error,
    };
    error.mend(mend)
}

/// Whether the directory lies in a BPF file system.
pub fn is_bpffs(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|fs| fs.f_type == BPF_FS_MAGIC)
}

/// Whether what is named in `directory` ends with this process's mount namespace, because a process that this one comes
/// from sees another file system there: `ip netns exec` makes such a namespace. False when that cannot be found out.
pub fn is_private(directory: &Path) -> bool {
    let device = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev).ok();
    let relative = directory.strip_prefix("/").unwrap_or(directory);
    let theirs = |pid: i32| device(&Path::new(&format!("/proc/{pid}/root")).join(relative));
    let ours = device(directory);
    ancestors().any(|pid| theirs(pid).is_some_and(|theirs| Some(theirs) != ours))
}

/// The processes that this one comes from, the nearest first.
fn ancestors() -> impl Iterator<Item = i32> {
    let parent = |pid: i32| Some(Process::new(pid).ok()?.stat().ok()?.ppid).filter(|pid| *pid != 0);
    let first = parent(std::process::id().cast_signed());
    std::iter::successors(first, move |pid| parent(*pid))
}

/// See that `directory`, usually `/sys/fs/bpf`, is a BPF file system: mounts one if none is there.
pub fn require_bpffs(directory: &Path) -> Result<()> {
    if is_bpffs(directory) {
        return Ok(());
    }
    let flags = rustix::mount::MountFlags::NOSUID
        | rustix::mount::MountFlags::NODEV
        | rustix::mount::MountFlags::NOEXEC;
    rustix::mount::mount("bpf", directory, "bpf", flags, c"mode=0700")
        .context(|| format!("cannot mount a BPF file system at {}", directory.display()))
        .map_err(|e| e.mend("mount it as root: `mount -t bpf bpf /sys/fs/bpf`"))
}
