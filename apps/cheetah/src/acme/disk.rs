//! Files that are there as a whole or not at all, for their owner alone, in folders where nobody else can replace them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::limits::ACME_FILE_LEN_MAX;

/// Of a folder's mode: what is in it is renamed and removed by its owner alone, or that of the folder (inode(7)).
pub(super) const STICKY: u32 = 0o1000;

pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file beside its place, and renames it when it is on the disk. What is beside goes where that fails.
pub(super) fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(folder, name);
    let written = write_over(&beside, bytes).and_then(|()| {
        fs::rename(&beside, folder.join(name))?;
        File::open(folder)?.sync_all()
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

pub(super) fn beside(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!(".{name}.new"))
}

/// Writes a file, in the room that it has where it is there, up to the disk.
pub(super) fn write_over(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(file)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()
}

/// What is in a file; nothing where it is not there.
pub(super) fn read_json<T: DeserializeOwned>(file: &Path) -> io::Result<Option<T>> {
    let opened = match File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    opened.take(ACME_FILE_LEN_MAX).read_to_end(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// That a file is not there is as well as that it was removed.
pub(super) fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Others than this user and root can replace what is in a folder of this mode, user and group, by the bits for group and others. Of the
/// outermost it is said whose the one folder `in_it` is: where the sticky bit is set, others can add to it, but neither rename nor remove
/// what is not theirs (inode(7)). What is added to an inner one is a key. What is for root's own group is for nobody else.
pub(super) fn may_others_replace(
    (mode, uid, gid): (u32, u32, u32),
    in_it: Option<u32>,
    user: u32,
) -> bool {
    let for_others = match gid {
        0 => mode & 0o002,
        _ => mode & 0o022,
    };
    let is_kept = mode & STICKY != 0 && is_of(uid, user) && in_it.is_some_and(|it| is_of(it, user));
    for_others != 0 && !is_kept
}

/// What is this user's, or root's.
pub(super) fn is_of(uid: u32, user: u32) -> bool {
    uid == user || uid == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of whom folders are, and who is in their group, counts.
    #[test]
    fn what_others_cannot_replace_is_good() {
        const USER: u32 = 7;
        const OTHER: u32 = 8;
        for (mode, uid, gid, in_it, is_bad) in [
            (0o755, USER, USER, Some(USER), false),
            (0o770, USER, 0, None, false), // Root's own group.
            (0o777, USER, 0, None, true),
            (0o2775, USER, OTHER, Some(USER), true),
            (0o1777, 0, 0, Some(USER), false), // As /tmp.
            (0o1770, USER, OTHER, Some(0), false),
            (0o1777, OTHER, 0, Some(USER), true),
            (0o1777, 0, 0, Some(OTHER), true),
            (0o1777, USER, 0, None, true),
        ] {
            let about = (mode, uid, gid);
            let said = may_others_replace(about, in_it, USER);
            assert_eq!(said, is_bad, "{mode:o} {uid} {gid} {in_it:?}");
        }
    }
}
