//! Where a user's service is found: a socket in a folder of that user alone.

use crate::error::{Error, Refused as _, Result};
use rustix::fs::{Mode, mkdir, stat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::path::{Path, PathBuf};

/// The folder of this user's sockets: `$XDG_RUNTIME_DIR/exos`, else `/run/exos-UID` for root and `/tmp/exos-UID` for others.
pub fn folder() -> PathBuf {
    let uid = geteuid().as_raw();
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if Path::new(&folder).is_absolute() => Path::new(&folder).join("exos"),
        _ if uid == 0 => PathBuf::from("/run/exos-0"),
        _ => PathBuf::from(format!("/tmp/exos-{uid}")),
    }
}

/// The usual socket of this user's service.
pub fn socket() -> PathBuf {
    folder().join("file-cache.sock")
}

/// Makes the folder of a socket, if it is not there, for this user alone.
///
/// # Errors
///
/// It cannot be made, or is another user's.
pub fn make_folder(of: &Path) -> Result<()> {
    let Some(folder) = of.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    match mkdir(folder, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error).refused("cannot make the folder of the socket"),
    }
    let found = stat(folder).refused("cannot look at the folder of the socket")?;
    match found.st_uid == geteuid().as_raw() || found.st_uid == 0 {
        true => Ok(()),
        false => Err(Error::AnotherUser(found.st_uid)),
    }
}
