//! Where a service is found: a user's in a folder of that user alone, the host's in root's.

use crate::error::{Error, Refused as _, Result};
use crate::open_file::Audience;
use rustix::fs::{FileType, Mode, chmod, lstat, mkdir};
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder of this user's sockets: `$XDG_RUNTIME_DIR/exos`, else `/run/exos-UID` for root and `/tmp/exos-UID` for others. A process that has
/// become another user still has the variable of the one before, whose folder is not its own.
pub fn folder() -> PathBuf {
    folder_of(std::env::var_os("XDG_RUNTIME_DIR"), geteuid())
}

fn folder_of(runtime: Option<OsString>, user: Uid) -> PathBuf {
    let runtime = runtime.map(PathBuf::from).filter(|it| it.is_absolute());
    let is_anothers = |it: &Path| lstat(it).is_ok_and(|found| found.st_uid != user.as_raw());
    match runtime {
        Some(folder) if !is_anothers(&folder) => folder.join("exos"),
        _ if user.is_root() => PathBuf::from("/run/exos-0"),
        _ => PathBuf::from(format!("/tmp/exos-{}", user.as_raw())),
    }
}

/// The usual socket of this user's service.
pub fn socket() -> PathBuf {
    folder().join("file-cache.sock")
}

/// The usual socket of the host's service, which is for several users.
pub const HOST_SOCKET: &str = "/run/exos/file-cache.sock";

/// Makes the folder of a socket, if it is not there, in which this user alone makes files.
///
/// # Errors
///
/// It cannot be made, is no folder, or others can make files in it.
pub(crate) fn make_folder(of: &Path, audience: Audience) -> Result<()> {
    let Some(folder) = of.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let mode = match audience {
        Audience::User => 0o700,
        Audience::Host => 0o755,
    };
    let mode = Mode::from_raw_mode(mode);
    match mkdir(folder, mode) {
        // Whatever this process's mask is: those that it is for are to reach the socket.
        Ok(()) => {
            chmod(folder, mode).refused("cannot say who may pass the folder of the socket")?
        }
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error).refused("cannot make the folder of the socket"),
    }
    match is_own(folder).refused("cannot look at the folder of the socket")? {
        true => Ok(()),
        false => Err(Error::Folder(folder.to_owned())),
    }
}

/// Whether this is a folder in which this user alone makes files. A link is another's choice of one.
fn is_own(folder: &Path) -> rustix::io::Result<bool> {
    let found = lstat(folder)?;
    let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let is_own = found.st_uid == geteuid().as_raw();
    let others = Mode::WGRP | Mode::WOTH;
    Ok(is_folder && is_own && !Mode::from_raw_mode(found.st_mode).intersects(others))
}

/// Whether a socket may be this user's: what others have put in its place is not asked, and waited for.
pub(crate) fn may_be_own(socket: &Path) -> bool {
    socket
        .parent()
        .is_some_and(|folder| is_own(folder) == Ok(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn the_folder_of_who_one_was_before_is_not_ones_own() {
        let runtime = tempfile::tempdir().expect("room");
        let told = || Some(runtime.path().as_os_str().to_owned());
        let other = Uid::from_raw(geteuid().as_raw() + 1);
        assert_eq!(folder_of(told(), geteuid()), runtime.path().join("exos"));
        let others = PathBuf::from(format!("/tmp/exos-{}", other.as_raw()));
        assert_eq!(folder_of(told(), other), others);
        assert_eq!(folder_of(Some("relative".into()), other), others);
        assert_eq!(folder_of(None, Uid::ROOT), Path::new("/run/exos-0"));
    }

    #[test]
    fn others_have_no_part_in_the_folder() {
        let all = tempfile::tempdir().expect("room");
        let folder = all.path().join("own");
        make_folder(&folder.join("socket"), Audience::User).expect("it is made");
        make_folder(&folder.join("socket"), Audience::User).expect("it is there");
        assert!(may_be_own(&folder.join("socket")) && !may_be_own(&all.path().join("no/socket")));
        for (name, audience, mode) in [
            ("user", Audience::User, 0o700),
            ("all", Audience::Host, 0o755),
        ] {
            let folder = all.path().join(name);
            make_folder(&folder.join("socket"), audience).expect("it is made");
            let found = std::fs::metadata(&folder).expect("it is there");
            assert_eq!(found.permissions().mode() & 0o777, mode);
        }
        let link = all.path().join("link");
        symlink(&folder, &link).expect("room");
        let through_link = make_folder(&link.join("socket"), Audience::User);
        assert!(matches!(through_link, Err(Error::Folder(_))));
        assert!(!may_be_own(&link.join("socket")));
        let open_to_all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&folder, open_to_all).expect("it is ours");
        let error =
            make_folder(&folder.join("socket"), Audience::User).expect_err("all can write there");
        assert!(error.to_string().contains("--socket"), "{error}");
    }
}
