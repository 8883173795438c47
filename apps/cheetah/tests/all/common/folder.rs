//! A directory of the real file system for a test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use exos_cheetah::Site;
use exos_cheetah::site::{Limits, LoadError, Omission, Settings, Tree};

/// A directory in memory, what was left out of it, and what tells of its changes if it is followed.
#[derive(Debug)]
pub struct Loaded {
    pub site: Site,
    pub omissions: Vec<Omission>,
    pub tree: Tree,
}

/// Loads a directory as the server does.
pub fn load(
    directory: &Path,
    limits: Limits,
    settings: Arc<Settings>,
    is_live: bool,
) -> Result<Loaded, LoadError> {
    let mut tree = Tree::open(directory, limits, settings.clone(), is_live)?;
    let mut site = Site::with(settings);
    tree.scan(&mut |_, change| site.apply(change))?;
    Ok(Loaded {
        site,
        omissions: tree.take_omissions(),
        tree,
    })
}

/// Loads a directory that is followed.
pub fn load_live(directory: &Path, limits: Limits, settings: Arc<Settings>) -> (Site, Tree) {
    let loaded = load(directory, limits, settings, true).unwrap();
    (loaded.site, loaded.tree)
}

/// A directory of its own, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("exos-cheetah-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A file of this time of change, in seconds since 1970.
    pub fn write_at(&self, name: &str, content: &str, modified_secs: u64) {
        self.write(name, content);
        let file = fs::File::options().write(true).open(self.path(name));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(modified_secs);
        file.unwrap().set_modified(time).unwrap();
    }

    pub fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    pub fn load(&self) -> Site {
        self.load_within(Limits::default())
    }

    pub fn load_within(&self, limits: Limits) -> Site {
        self.load_and_say(limits).0
    }

    /// The site, and what was left out of it.
    pub fn load_and_say(&self, limits: Limits) -> (Site, Vec<Omission>) {
        let loaded = load(&self.0, limits, Arc::default(), false).unwrap();
        (loaded.site, loaded.omissions)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}
