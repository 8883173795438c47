//! Which file a command is (execvp(3)), and whether it can be executed.

use std::env;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::refusal::Refusal;

/// Where programs are looked for when nothing says so.
const USUAL_PATH: &str = "/bin:/usr/bin";

/// The file that a command's first word is.
///
/// # Errors
///
/// There is none, or it cannot be executed.
pub(super) fn program(name: &OsStr) -> Result<PathBuf, Refusal> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        executable(&path)?;
        return Ok(path);
    }
    let path = env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
    let mut refusal = None;
    for folder in env::split_paths(&path).filter(|_| !name.is_empty()) {
        let file = folder.join(name);
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(why) if why.was_found() => refusal = refusal.or(Some(why)),
            Err(_) => {}
        }
    }
    let name = name.to_string_lossy();
    Err(refusal.unwrap_or_else(|| {
        let what = format!("cannot run {name}: no directory of PATH has it");
        Refusal::not_found(what, "check its name, or install it")
    }))
}

/// Whether a file can be executed.
pub(super) fn executable(path: &Path) -> Result<(), Refusal> {
    let shown = path.display();
    let refuse =
        |why: &str, mend: &str| Refusal::not_executable(format!("cannot run {shown}: {why}"), mend);
    match path.metadata() {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            let what = format!("cannot run {shown}: it is not there");
            return Err(Refusal::not_found(what, "check its name"));
        }
        Err(e) => {
            return Err(refuse(
                &e.to_string(),
                "check who may look into its directories",
            ));
        }
        Ok(file) if file.is_dir() => {
            return Err(refuse("it is a directory", "name a program in it"));
        }
        Ok(file) if !file.is_file() => {
            return Err(refuse("it is no regular file", "name a program"));
        }
        Ok(_) => {}
    }
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).map_err(|_| {
        let mend = "allow it (chmod +x), and look whether its file system is mounted noexec";
        refuse("it may not be executed", mend)
    })
}

/// Why a program is run with more privilege than that of the one that runs it, if so.
pub(super) fn gains(path: &Path, file: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = file.permissions().mode();
    let mut value = [0; 64];
    match mode {
        _ if mode & 0o4000 != 0 => Some("it is set-user-ID"),
        _ if mode & 0o2010 == 0o2010 => Some("it is set-group-ID"),
        _ if rustix::fs::getxattr(path, "security.capability", &mut value).is_ok() => {
            Some("it has file capabilities")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_cannot_be_executed_is_said_to_be_so() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("text");
        fs::write(&file, "echo").expect("a file");
        let said = |path: &Path| match program(path.as_os_str()) {
            Ok(_) => (0, String::new()),
            Err(refusal) => (refusal.status, refusal.error.to_string()),
        };
        for (path, status, why) in [
            (file.as_path(), 126, "may not be executed"),
            (folder.path(), 126, "is a directory"),
            (&folder.path().join("none"), 127, "is not there"),
            (&file.join("below"), 127, "is not there"),
            (Path::new("/dev/null"), 126, "no regular file"),
            (Path::new("no-such-program-anywhere"), 127, "PATH"),
            (Path::new(""), 127, "PATH"),
        ] {
            let (is, text) = said(path);
            assert!(is == status && text.contains(why), "{path:?}: {is} {text}");
        }
        fs::set_permissions(&file, Permissions::from_mode(0o755)).expect("ours");
        assert_eq!(said(&file).0, 0);
        let sh = program(OsStr::new("sh")).expect("a shell");
        assert!(sh.is_absolute(), "{sh:?}");
    }
}
