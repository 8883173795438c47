//! Files that are there as a whole or not at all, for their owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::limits::ACME_FILE_LEN_MAX;

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
