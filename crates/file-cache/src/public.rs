//! Which files anybody on this host may read: they alone are kept by a service of several users, since a member of its pool reads all of it.
//!
//! A file is public when everybody has the right to read it, its owner and group included, and everybody may pass each folder from the root to
//! it, and no list of access rights says more than their modes do (acl(5)). The folders are walked one by one, as anybody could walk them: so
//! whatever is renamed meanwhile, anybody could have come to the file then. What is public no longer changes its version (the time of the last
//! change is that of its mode, too), or lies in a folder that was closed later; what was kept until then everybody could have read until then.
//! What a security module denies to some programs beside that is not seen here.
//!
//! A name may lead through a file system that a user has mounted and answers for itself. None is asked anything: folders are of the root's file
//! system or of the file's, and which one they are of the kernel says without asking it (`AT_STATX_DONT_SYNC`).

use rustix::fs::{
    AtFlags, CWD, Dev, FileType, Mode, OFlags, Stat, StatxFlags, getxattr, makedev, openat,
    readlink, statx,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

/// Everybody's right to read, and to pass a folder.
const READ: u32 = 0o444;
const PASS: u32 = 0o111;

/// Whether anybody may read an open file, by the name under which it was opened.
pub(crate) fn is_public(file: BorrowedFd<'_>, found: &Stat) -> bool {
    let is_readable = found.st_mode & READ == READ && !has_list(file);
    // By that name it is the very file.
    is_readable
        && walk(file, found.st_dev)
            .is_some_and(|it| (it.device, it.inode) == (found.st_dev, found.st_ino))
}

/// What the kernel knows of a file or folder, without asking its file system.
struct Known {
    device: Dev,
    inode: u64,
    mode: u32,
}

impl Known {
    fn of(file: &OwnedFd) -> Option<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = statx(file, "", flags, StatxFlags::BASIC_STATS).ok()?;
        Some(Self {
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            mode: found.stx_mode.into(),
        })
    }

    fn is_passed_by_all(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::Directory && self.mode & PASS == PASS
    }
}

/// What is found under the name of an open file on a device, if anybody finds it.
fn walk(file: BorrowedFd<'_>, device: Dev) -> Option<Known> {
    let name = readlink(link(file), Vec::new()).ok()?;
    let mut steps = name
        .as_bytes()
        .strip_prefix(b"/")?
        .split(|byte| *byte == b'/');
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(CWD, "/", flags, Mode::empty()).ok()?;
    let devices = [Known::of(&at)?.device, device];
    loop {
        let found = Known::of(&at).filter(|it| devices.contains(&it.device))?;
        let Some(step) = steps.next() else {
            return Some(found);
        };
        if !found.is_passed_by_all() || has_list(at.as_fd()) {
            return None;
        }
        at = openat(&at, OsStr::from_bytes(step), flags, Mode::empty()).ok()?;
    }
}

fn link(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Whether a list of access rights is there, or may be.
fn has_list(file: BorrowedFd<'_>) -> bool {
    let none: &mut [u8] = &mut [];
    let list = getxattr(link(file), "system.posix_acl_access", none);
    !matches!(list, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;
    use std::fs::{File, Permissions, create_dir, rename, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    fn set(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
    }

    fn public(file: &File) -> bool {
        is_public(file.as_fd(), &fstat(file).expect("it is open"))
    }

    /// Below a folder that everybody may pass, if the temporary one is such.
    #[test]
    fn a_file_is_public_when_all_may_come_to_it_and_read_it() {
        let all = tempfile::tempdir().expect("room");
        set(all.path(), 0o755);
        let (folder, path) = (all.path().join("folder"), all.path().join("folder/file"));
        create_dir(&folder).expect("room");
        write(&path, "text").expect("room");
        let file = File::open(&path).expect("it is there");
        for (of_folder, of_file, is_so) in [
            (0o755, 0o644, true),
            (0o711, 0o444, true),
            (0o700, 0o644, false),
            (0o750, 0o644, false),
            (0o705, 0o644, false),
            (0o755, 0o640, false),
            // Those of its group, or its owner, may not.
            (0o755, 0o604, false),
            (0o755, 0o244, false),
        ] {
            set(&folder, of_folder);
            set(&path, of_file);
            assert_eq!(public(&file), is_so, "{of_folder:o} {of_file:o}");
        }
        set(&folder, 0o755);
        set(&path, 0o644);
        // By a link it is the same file, at its own name.
        let linked = all.path().join("link");
        symlink(&path, &linked).expect("room");
        assert!(public(&File::open(&linked).expect("it is there")));
        // Another file has its name now, or none has.
        rename(&path, all.path().join("closed")).expect("room");
        write(&path, "other").expect("room");
        set(all.path(), 0o700);
        assert!(!public(&file) && !public(&File::open(&path).expect("it is there")));
        set(all.path(), 0o755);
        assert!(public(&file), "under its new name");
        std::fs::remove_file(all.path().join("closed")).expect("it is there");
        assert!(!public(&file), "it has no name");
    }
}
