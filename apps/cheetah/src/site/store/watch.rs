//! Notices of the kernel that something below a directory has changed (inotify).
//!
//! A watch belongs to a directory, not to its name: after a rename it goes on, and the same directory
//! reached by two names has one watch. So each watch has the list of paths that it stands for.
//!
//! rustix speaks to inotify without `unsafe` of ours, and the workspace has it already; the crate
//! `inotify` would add its own descriptors and an allocation for each notice.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::mem::take;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::limits::NOTICES_LEN;
use crate::site::path::SitePath;
use crate::site::store::approach;

/// What happened to a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It leads elsewhere now, or nowhere: the result can be read at once.
    Named,
    /// Somebody has written to the file and closed it.
    Written,
    /// The file is new, or somebody writes to it. More may come.
    Touched,
    /// Its rights or times are others. More may come.
    Altered,
}

/// What a notice says.
#[derive(Debug)]
pub enum Notice<'a> {
    /// Something happened to a name in a directory.
    At {
        /// The directory, with a slash at its end.
        directory: &'a SitePath,
        /// The name in it.
        name: &'a [u8],
        /// What happened.
        what: What,
    },
    /// The directory at this path has gone, or its watch has. Another one may be there already, perhaps with the inode
    /// number that has become free, so that looking at it does not tell.
    Ended(&'a SitePath),
    /// Something happened in a directory that only links lead to.
    Elsewhere,
    /// The directory that is served may be another one now.
    Root,
    /// Notices were lost: everything may have changed.
    Overflow,
}

/// Watched directories.
#[derive(Debug)]
pub struct Watch {
    fd: OwnedFd,
    watched: HashMap<i32, Watched>,
    /// The watches of the directories on the way to the root, and the name that is waited for in each, if one is.
    parents: Vec<(i32, Option<Vec<u8>>)>,
    /// Directories that the kernel would not watch.
    refused: u64,
    /// Where notices are read into.
    buffer: Box<[MaybeUninit<u8>]>,
}

/// What a watch stands for.
#[derive(Debug, Default)]
struct Watched {
    /// The paths of its directory.
    paths: Vec<SitePath>,
    /// Links lead to files in it.
    is_target: bool,
}

const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);
const FILES: WatchFlags = NAMES
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB);
/// Of a directory itself.
const ITSELF: WatchFlags = WatchFlags::MOVE_SELF
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR);
const HAS_GONE: ReadFlags = ReadFlags::MOVE_SELF
    .union(ReadFlags::DELETE_SELF)
    .union(ReadFlags::IGNORED);

impl Watch {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Watch> {
        Ok(Watch {
            fd: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?,
            watched: HashMap::new(),
            parents: Vec::new(),
            refused: 0,
            buffer: Box::new_uninit_slice(NOTICES_LEN),
        })
    }

    /// Readable when there are notices.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// How many directories the kernel would not watch.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Watches a directory on behalf of a path.
    pub fn add(&mut self, directory: &OwnedFd, path: &SitePath) -> Option<i32> {
        let id = self.ask_for(directory)?;
        let paths = &mut self.watched.entry(id).or_default().paths;
        if !paths.contains(path) {
            paths.push(path.clone());
        }
        Some(id)
    }

    /// Watches a directory that may have no path of the site, because a link leads to a file in it. That ends with the
    /// directory.
    pub fn add_nameless(&mut self, directory: &OwnedFd) {
        if let Some(id) = self.ask_for(directory) {
            self.watched.entry(id).or_default().is_target = true;
        }
    }

    /// The kernel's watch of a directory, which is the same whenever it is asked for.
    fn ask_for(&mut self, directory: &OwnedFd) -> Option<i32> {
        // The descriptor, not a name: it cannot have been exchanged.
        let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
        // A directory on the way to the root is watched for more than the files in it.
        let id = inotify::add_watch(&self.fd, itself, FILES | WatchFlags::MASK_ADD).ok();
        self.refused += u64::from(id.is_none());
        id
    }

    /// Forgets one of the paths of a watch, and with the last the watch, unless links lead there too.
    pub fn remove(&mut self, id: i32, path: &SitePath) {
        let Some(watched) = self.watched.get_mut(&id) else {
            return;
        };
        watched.paths.retain(|known| known != path);
        if watched.paths.is_empty() && !watched.is_target {
            self.watched.remove(&id);
            self.end_unused(id);
        }
    }

    /// Watches for another directory in the place of the root, on all of the way there. What was watched for that before is not any more.
    pub fn add_parents(&mut self, root: &Path) {
        let before = take(&mut self.parents);
        approach::walk(root, |directory, name| {
            let names = if name.is_some() { NAMES } else { ITSELF };
            let flags = ITSELF | names | WatchFlags::MASK_ADD;
            let id = inotify::add_watch(&self.fd, directory, flags)?;
            let name = name.map(|name| name.as_encoded_bytes().to_vec());
            self.parents.push((id, name));
            Ok(())
        });
        for (id, _) in before {
            self.end_unused(id);
        }
    }

    /// Ends a watch that nothing needs.
    fn end_unused(&self, id: i32) {
        if !self.is_parent(id) && !self.watched.contains_key(&id) {
            // The kernel may have removed it with its directory.
            let _ = inotify::remove_watch(&self.fd, id);
        }
    }

    fn is_parent(&self, id: i32) -> bool {
        self.parents.iter().any(|(parent, _)| *parent == id)
    }

    /// Reads the notices that there are.
    pub fn read(&mut self, mut each: impl FnMut(Notice)) {
        let mut reader = Reader::new(&self.fd, &mut self.buffer);
        // Without a notice the error is EAGAIN; any other is of the kernel's memory, and comes again.
        while let Ok(event) = reader.next() {
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                each(Notice::Overflow);
            }
            if flags.contains(ReadFlags::IGNORED) {
                let ended = self.watched.remove(&event.wd()).unwrap_or_default();
                ended
                    .paths
                    .iter()
                    .for_each(|path| each(Notice::Ended(path)));
            }
            if flags.intersects(HAS_GONE) && self.parents.iter().any(|(id, _)| *id == event.wd()) {
                each(Notice::Root);
            }
            let Some(name) = event.file_name().map(|name| name.to_bytes()) else {
                continue; // The directory itself, of which its own directory tells.
            };
            let mut parents = self.parents.iter();
            if parents.any(|(id, root)| *id == event.wd() && root.as_deref() == Some(name)) {
                each(Notice::Root);
            }
            let Some(Watched { paths, .. }) = self.watched.get(&event.wd()) else {
                continue;
            };
            if paths.is_empty() {
                each(Notice::Elsewhere);
            }
            let what = what_of(flags);
            for directory in paths {
                each(Notice::At {
                    directory,
                    name,
                    what,
                });
            }
        }
    }
}

fn what_of(flags: ReadFlags) -> What {
    let named = ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO | ReadFlags::DELETE | ReadFlags::ISDIR;
    if flags.intersects(named) {
        What::Named
    } else if flags.contains(ReadFlags::CLOSE_WRITE) {
        What::Written
    } else if flags.contains(ReadFlags::ATTRIB) {
        What::Altered
    } else {
        What::Touched
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A directory with `d` and `e` in it, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn open(&self, name: &str) -> OwnedFd {
            fs::File::open(self.0.join(name)).expect(name).into()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("removed");
        }
    }

    /// All of it is watched.
    fn watched(test: &str) -> (Watch, Folder) {
        let name = format!("exos-watch-{}-{test}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        for name in ["", "d", "e"] {
            fs::create_dir(folder.0.join(name)).expect(name);
        }
        let mut watch = Watch::new().expect("inotify");
        for (name, path) in [("", "/"), ("d", "/d/"), ("e", "/e/")] {
            let id = watch.add(&folder.open(name), &path.as_bytes().into());
            id.expect("a watch");
        }
        (watch, folder)
    }

    fn notices(watch: &mut Watch) -> Vec<String> {
        let mut said = Vec::new();
        watch.read(|notice| {
            said.push(match notice {
                Notice::At { name, what, .. } => {
                    format!("{what:?} {}", String::from_utf8_lossy(name))
                }
                Notice::Ended(path) => format!("Ended {}", String::from_utf8_lossy(path)),
                other => format!("{other:?}"),
            });
        });
        said
    }

    /// By whatever other name it was reached, nobody else tells of that.
    #[test]
    fn a_directory_that_goes_ends_all_its_paths() {
        let (mut watch, folder) = watched("ends");
        let d = folder.open("d");
        watch.add(&d, &b"/link/"[..].into()).expect("a watch");
        drop(d);
        fs::remove_dir(folder.0.join("d")).expect("removed");
        let mut said = notices(&mut watch);
        said.sort();
        assert_eq!(said, ["Ended /d/", "Ended /link/", "Named d"]);
        assert_eq!(notices(&mut watch), [""; 0], "once");
    }

    /// How many watches the kernel has.
    fn count(watch: &Watch) -> usize {
        let info = format!("/proc/self/fdinfo/{}", watch.fd.as_raw_fd());
        let info = fs::read_to_string(info).expect("fdinfo");
        info.lines()
            .filter(|line| line.starts_with("inotify "))
            .count()
    }

    /// Whichever comes first, a directory of the tree that is on the way to the root is watched for both.
    #[test]
    fn a_directory_may_be_watched_for_the_root_and_its_files() {
        for is_first in [true, false] {
            let (mut watch, folder) = watched(&format!("both-{is_first}"));
            let all = count(&watch);
            watch.add_parents(&folder.0.join("d/root"));
            if is_first {
                let d = folder.open("d");
                watch.add(&d, &b"/d/"[..].into()).expect("a watch");
            }
            fs::write(folder.0.join("d/file"), "").expect("written");
            let said = notices(&mut watch);
            assert!(said.contains(&"Written file".to_owned()), "{said:?}");
            fs::rename(folder.0.join("d"), folder.0.join("away")).expect("renamed");
            let said = notices(&mut watch);
            assert!(said.contains(&"Root".to_owned()), "{said:?}");
            watch.add_parents(&folder.0.join("d/root"));
            fs::create_dir_all(folder.0.join("d/root")).expect("made");
            let said = notices(&mut watch);
            assert!(said.contains(&"Root".to_owned()), "{said:?}");
            watch.add_parents(Path::new("/"));
            notices(&mut watch);
            assert_eq!(count(&watch), all);
            fs::write(folder.0.join("e/file"), "").expect("written");
            let said = notices(&mut watch);
            assert!(said.contains(&"Written file".to_owned()), "{said:?}");
        }
    }

    #[test]
    fn a_watch_goes_with_its_last_path_unless_links_lead_there() {
        let (mut watch, folder) = watched("goes");
        watch.add_nameless(&folder.open("e"));
        for (name, path) in [("d", "/d/"), ("e", "/e/")] {
            let path = path.as_bytes().into();
            let id = watch.add(&folder.open(name), &path).expect("a watch");
            watch.remove(id, &path);
        }
        fs::write(folder.0.join("d/file"), "").expect("written");
        assert_eq!(notices(&mut watch), [""; 0], "nobody wants to know");
        fs::write(folder.0.join("e/file"), "").expect("written");
        let said = notices(&mut watch);
        let is_elsewhere = |notice: &String| notice == "Elsewhere";
        assert!(
            !said.is_empty() && said.iter().all(is_elsewhere),
            "{said:?}"
        );
    }
}
