//! The way to the directory that is served: which directories have to be watched for another one in its place.
//!
//! A path leads from the file system's root through names and links, and each of them may come to lead elsewhere, or nowhere and back, as by
//! `rm -rf build && make`. Names are waited for in few directories, for those far up may be busy: where the way follows a link, where
//! it ends, and where there is nothing by a name. Of all others it is enough to know that they are moved or removed themselves.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Links that are followed: as many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// How often it is begun again because something has changed meanwhile.
const TRIES_MAX: usize = 10;

/// What a name leads to.
#[derive(PartialEq, Eq)]
enum Found {
    Link(PathBuf),
    Directory,
    /// No directory, that is: it may become one.
    Nothing,
}

/// Goes as far as the way leads. `watch` gets each directory, and the name that is waited for there, if one is. What changes
/// behind a look is noticed: by a watch, or because it is looked at again behind that.
pub fn walk(root: &Path, mut watch: impl FnMut(&Path, Option<&OsStr>) -> io::Result<()>) {
    let root = std::path::absolute(root).unwrap_or_else(|_| root.into());
    for _ in 0..TRIES_MAX {
        if walk_once(&root, &mut watch) {
            return;
        }
    }
}

/// False when something has changed meanwhile.
fn walk_once(root: &Path, watch: &mut impl FnMut(&Path, Option<&OsStr>) -> io::Result<()>) -> bool {
    let mut at = PathBuf::from("/");
    let mut ahead = Vec::new();
    push_names(&mut ahead, root);
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            at.pop(); // No link leads here: it is its parent.
            continue;
        }
        let next = at.join(&name);
        let found = look(&next);
        let is_waited_for = found != Found::Directory || ahead.is_empty();
        let watched = watch(&at, is_waited_for.then_some(&name));
        let has_gone = watched.is_err_and(|error| {
            use io::ErrorKind as E;
            matches!(error.kind(), E::NotFound | E::NotADirectory)
        });
        if has_gone || look(&next) != found {
            return false;
        }
        match found {
            Found::Link(target) if links < LINKS_MAX => {
                links += 1;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                push_names(&mut ahead, &target);
            }
            Found::Directory => at = next,
            Found::Link(_) | Found::Nothing => return true,
        }
    }
    true
}

/// Puts the names of a path before those that are ahead, the first one last.
fn push_names(ahead: &mut Vec<OsString>, path: &Path) {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let names: Vec<OsString> = names.collect();
    ahead.extend(names.into_iter().rev());
}

fn look(path: &Path) -> Found {
    match fs::symlink_metadata(path) {
        Ok(stat) if stat.is_dir() => Found::Directory,
        Ok(stat) if stat.is_symlink() => fs::read_link(path).map_or(Found::Nothing, Found::Link),
        _ => Found::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The directories of the way below `base`, each with the name that is waited for there.
    fn way(base: &Path, root: &str) -> Vec<String> {
        let mut all = Vec::new();
        walk(&base.join(root), |directory, name| {
            if let Ok(below) = directory.strip_prefix(base) {
                let name = name.unwrap_or_default().display();
                all.push(format!("{}:{name}", below.display()));
            }
            Ok(())
        });
        all
    }

    #[test]
    fn names_are_waited_for_where_others_may_come() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        for (target, link) in [
            ("a/b", "www"),
            ("../none/c", "a/away"),
            ("a", "current"),
            ("turn", "turn"),
        ] {
            symlink(target, base.join(link)).unwrap();
        }
        fs::write(base.join("file"), "").unwrap();
        for (root, wanted) in [
            ("a/b", &[":", "a:b"][..]),
            ("a/c", &[":", "a:c"]),
            ("c/d/e", &[":c"]),
            ("file/d", &[":file"]),
            ("www", &[":www", ":", "a:b"]),
            ("current/b", &[":current", ":", "a:b"]),
            ("www/../b", &[":www", ":", "a:", "a:b"]),
            ("a/away", &[":", "a:away", ":none"]),
        ] {
            assert_eq!(way(&base, root), wanted, "{root}");
        }
        assert_eq!(way(&base, "turn").len(), LINKS_MAX + 1);
    }

    /// What comes while its directory is not watched yet is found by the next try.
    #[test]
    fn what_changes_meanwhile_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let mut waited = Vec::new();
        walk(&base.join("a/b"), |directory, name| {
            if directory.starts_with(&base) {
                waited.extend(name.map(OsStr::to_owned));
                let _ = fs::create_dir_all(base.join("a/b"));
            }
            Ok(())
        });
        assert_eq!(waited, ["a", "b"]);
    }
}
