//! A directory of the real file system and the site that follows it.
//!
//! The kernel queues its notice before the call that makes a change returns, and time is the test's
//! own: nothing here waits.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exos_cheetah::Site;
use exos_cheetah::site::{Document, Entry, Limits, Tree};

use super::folder::{self, Folder};

/// A directory and the site that follows it.
pub struct Live {
    pub folder: Folder,
    pub site: Site,
    pub tree: Tree,
    pub now: Instant,
    pub changes: usize,
}

impl Live {
    pub fn of(folder: Folder) -> Live {
        Live::within(folder, Limits::default())
    }

    pub fn within(folder: Folder, limits: Limits) -> Live {
        let (site, tree) = folder::load_live(&folder.0, limits, Arc::default());
        Live {
            folder,
            site,
            tree,
            now: Instant::now(),
            changes: 0,
        }
    }

    /// Follows what has happened; `look` sees the site after each change.
    pub fn follow_and(&mut self, mut look: impl FnMut(&Site)) {
        let (site, changes) = (&mut self.site, &mut self.changes);
        self.tree.poll(self.now, &mut |_, change| {
            site.apply(change);
            *changes += 1;
            look(site);
        });
    }

    pub fn follow(&mut self) {
        self.follow_and(|_| {});
    }

    pub fn follow_after(&mut self, time: Duration) {
        self.now += time;
        self.follow();
    }

    pub fn get(&self, path: &str) -> Option<String> {
        content(&self.site, path)
    }

    pub fn document(&self, path: &str) -> Document {
        let entry = self.site.find(path.as_bytes());
        entry.and_then(Entry::document).expect(path).clone()
    }
}

pub fn load_live(directory: &Path) -> (Site, Tree) {
    folder::load_live(directory, Limits::default(), Arc::default())
}

pub fn content(site: &Site, path: &str) -> Option<String> {
    let document = site.find(path.as_bytes())?.document()?;
    Some(String::from_utf8(document.body().as_bytes().to_vec()).unwrap())
}
