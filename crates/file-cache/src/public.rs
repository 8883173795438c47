//! Which files anybody on this host may read: they alone are kept by a service of several users, since a member of its pool reads all of it.
//!
//! A file is public when everybody has the right to read it, its owner and group included, and everybody may pass each folder from the root to
//! it, and no list of access rights says more than their modes do (acl(5)). The folders are walked one by one, as anybody could walk them: so
//! whatever is renamed meanwhile, anybody could have come to the file then. A file that is closed to some has another version (the time of the
//! last change is that of its mode, too), unless it is a folder that was closed; what was kept until then everybody could have read until then.
//! What a security module denies to some programs beside that is not seen here.

use crate::mounts::Mounts;
use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, getxattr, openat, readlink};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

/// Everybody's right to read, and to pass a folder.
const READ: u32 = 0o444;
const PASS: u32 = 0o111;

/// Whether anybody may read an open file, by the name under which it was opened.
pub(crate) fn is_public(file: BorrowedFd<'_>, found: &Stat, mounts: &Mounts) -> bool {
    let is_open = |file: BorrowedFd<'_>, found: &Stat, right| {
        found.st_mode & right == right && !has_list(file)
    };
    let Some(walked) = is_open(file, found, READ)
        .then(|| walk(file, mounts, is_open))
        .flatten()
    else {
        return false;
    };
    // By that name it is the very file.
    fstat(&walked).is_ok_and(|it| (it.st_dev, it.st_ino) == (found.st_dev, found.st_ino))
}

/// What is found under the name of an open file, if anybody finds it.
fn walk(
    file: BorrowedFd<'_>,
    mounts: &Mounts,
    is_open: impl Fn(BorrowedFd<'_>, &Stat, u32) -> bool,
) -> Option<OwnedFd> {
    let name = readlink(link(file), Vec::new()).ok()?;
    let mut steps = name
        .as_bytes()
        .strip_prefix(b"/")?
        .split(|byte| *byte == b'/');
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(CWD, "/", flags, Mode::empty()).ok()?;
    loop {
        match steps.next() {
            None => return mounts.has_kept(&at).then_some(at),
            // Where it leads through a program's file system, as the name that the file has elsewhere may, that is not asked.
            Some(step) if mounts.has_passed(&at) => {
                let found = fstat(&at).ok()?;
                if !is_open(at.as_fd(), &found, PASS) {
                    return None;
                }
                at = openat(&at, OsStr::from_bytes(step), flags, Mode::empty()).ok()?;
            }
            Some(_) => return None,
        }
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
    use std::fs::{File, Permissions, create_dir, rename, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    fn set(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
    }

    fn public(file: &File) -> bool {
        let found = fstat(file).expect("it is open");
        is_public(file.as_fd(), &found, &Mounts::now().expect("Linux has it"))
    }

    /// In a folder on a disk that everybody may pass.
    #[test]
    fn a_file_is_public_when_all_may_come_to_it_and_read_it() {
        let all = tempfile::tempdir_in("/var/tmp").expect("room");
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
