//! What was last seen of a directory, and what has changed since.
//!
//! # Nodes
//!
//! Each path of the site has a node: a directory (its path ends with a slash), a file, or something
//! that is not served. To examine a path is to look at it in the file system, by the rules of
//! [`load`](super::super::load), and to say by [`Change`]s how it differs from its node. Loading is
//! examining the root without any node; a notice is examining one path; lost notices are examining all
//! again. So there is one way in which a site comes to be what it is.
//!
//! # Order
//!
//! What is new is said before what has gone, so that a renamed file or an exchanged directory is at no
//! time at neither place. Each change is right by itself, a batch is not made whole at once.
//!
//! # Links
//!
//! No notice tells that what a link leads to is another file. So links are resolved again whenever
//! anything has happened, and the directories of the files that they lead to are watched too. A file
//! with several names (hard links) is read once; all of them change when one does. What is written by a
//! name outside the directory, or by one that comes and goes between two looks, is not noticed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::cache::{Cache, SharedCache};
use super::change::Change;
use super::dirty::{Dirty, Due};
use super::nodes::{Directory, Node, Nodes};
use super::root::{Found, Root, identity, sorted_names};
use super::watch::{Notice, Watch, What};
use crate::limits::RESCAN_TIME;
use crate::site::load::{Limits, LoadError, Omission, Reason};
use crate::site::path::SitePath;
use crate::site::settings::Settings;

/// What was last seen of a directory.
#[derive(Debug)]
pub struct Tree {
    pub(super) site: usize,
    directory: PathBuf,
    pub(super) root: Root,
    pub(super) limits: Limits,
    pub(super) nodes: Nodes,
    /// Paths that are symbolic links or one of several hard links: no notice may tell of their changes.
    pub(super) links: BTreeSet<SitePath>,
    pub(super) watch: Option<Watch>,
    pub(super) dirty: Dirty,
    /// When all is examined again.
    rescan: Option<Instant>,
    /// Something was left out for want of room.
    pub(super) crowded: bool,
    /// Something happened where only links lead.
    elsewhere: bool,
    /// Everything is being looked at.
    pub(super) is_scanning: bool,
    /// What is examined has been waited for long enough.
    pub(super) at_rest: bool,
    /// There is nothing at the path of the root now.
    is_away: bool,
    /// The time of the present poll.
    pub(super) now: Instant,
    pub(super) gone: Vec<SitePath>,
    /// Documents whose variants may be others; and whether nothing has been said yet of the present version.
    pub(super) doubtful: BTreeMap<SitePath, bool>,
    /// Documents that have variants.
    pub(super) joined: HashSet<SitePath>,
    /// Which documents are in memory; others are listed.
    pub(super) cache: SharedCache,
    /// The document that is asked for, until it has been said.
    pub(super) demanded: Option<SitePath>,
    /// Documents of which has been said that they cannot be read.
    pub(super) unreadable: HashSet<SitePath>,
    /// Other names of files that may have been written to by a name that has gone since.
    pub(super) reread: Vec<SitePath>,
    pub(super) omissions: Vec<Omission>,
}

/// What hears of changes: it gets the number of a site, and a change of it.
pub type Sink<'a> = dyn FnMut(usize, Change) + 'a;

impl Tree {
    /// A tree of a directory, of which nothing has been seen yet. If it `is_live`, it is watched from
    /// before the first look, so that no change is missed.
    ///
    /// # Errors
    ///
    /// When the directory itself cannot be opened.
    pub fn open(
        directory: &Path,
        limits: Limits,
        settings: Arc<Settings>,
        is_live: bool,
    ) -> Result<Tree, LoadError> {
        let root = Root::open(directory).map_err(|e| LoadError::new(directory, e))?;
        // Without inotify all is examined from time to time.
        let mut watch = is_live.then(|| Watch::new().ok()).flatten();
        if let Some(watch) = &mut watch {
            watch.add_parents(directory);
        }
        Ok(Tree {
            site: 0,
            directory: directory.into(),
            root,
            limits,
            nodes: Nodes::new(settings, limits.memory_len),
            links: BTreeSet::new(),
            watch,
            dirty: Dirty::default(),
            rescan: None,
            crowded: false,
            elsewhere: false,
            is_scanning: false,
            at_rest: false,
            is_away: false,
            now: Instant::now(),
            gone: Vec::new(),
            doubtful: BTreeMap::new(),
            joined: HashSet::new(),
            cache: Cache::new(u64::MAX).into(),
            demanded: None,
            unreadable: HashSet::new(),
            reread: Vec::new(),
            omissions: Vec::new(),
        })
    }

    /// The tree of the site with this number, whose documents are in memory together with those of others. Before the
    /// first look; until then it is a site alone, with all its documents in memory.
    #[must_use]
    pub fn within(mut self, site: usize, cache: SharedCache) -> Tree {
        (self.site, self.cache) = (site, cache);
        self
    }

    /// The number of its site.
    pub fn site(&self) -> usize {
        self.site
    }

    /// A path of a file, if it is served.
    pub fn path_of(&self, file: &Metadata) -> Option<&SitePath> {
        self.nodes.names((file.dev(), file.ino())).first()
    }

    /// How its documents are found, named and sent.
    pub(super) fn settings(&self) -> &Arc<Settings> {
        self.nodes.settings()
    }

    /// Examines everything.
    ///
    /// # Errors
    ///
    /// When the directory itself cannot be read.
    pub fn scan(&mut self, sink: &mut Sink) -> Result<(), LoadError> {
        (self.crowded, self.is_scanning) = (false, true);
        let scanned = self.enter(Arc::from(&b"/"[..]), Path::new("."), sink);
        self.remove_gone(sink);
        self.join_variants(sink);
        self.is_scanning = false;
        scanned.map_err(|e| LoadError::new(&self.directory, e))
    }

    /// What was left out since the last call, and why.
    pub fn take_omissions(&mut self) -> Vec<Omission> {
        std::mem::take(&mut self.omissions)
    }

    /// What tells of changes, if the kernel does.
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// Takes in the kernel's notices, examines what is due, and says when to call again at the latest.
    pub fn poll(&mut self, now: Instant, sink: &mut Sink) -> Option<Instant> {
        self.now = now;
        self.take_notices();
        if self.rescan.is_some_and(|at| at <= now) {
            self.rescan = None;
            if self.is_away {
                self.open_again();
            }
            self.dirty.forget_settled();
            // A root that cannot be read stays as it is: the next notice or rescan finds it again.
            let _ = self.scan(sink);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        let due = dirty.take_due(now, |path| self.settling_version(path));
        self.dirty = dirty;
        let is_elsewhere = std::mem::take(&mut self.elsewhere);
        if !due.is_empty() || is_elsewhere {
            self.examine_due(due, is_elsewhere, sink);
        }
        self.arm_rescan(now);
        // Notices that came while something was read.
        let more = self.elsewhere.then_some(now);
        let next = self.dirty.next_due().into_iter().chain(self.rescan);
        next.chain(more).min()
    }

    /// Has a path looked at by the next poll.
    pub(super) fn doubt(&mut self, path: SitePath, now: Instant) {
        self.dirty.note(path, What::Named, now);
    }

    pub(super) fn take_notices(&mut self) {
        let now = self.now;
        let (Some(watch), dirty) = (&mut self.watch, &mut self.dirty) else {
            return;
        };
        let elsewhere = &mut self.elsewhere;
        let (mut lost, mut moved) = (false, false);
        watch.read(|notice| match notice {
            Notice::At { name, .. } if is_hidden(name) => {}
            Notice::At {
                directory,
                name,
                what,
            } => {
                let path = [directory, name].concat().into();
                lost |= !dirty.note(path, what, now);
            }
            Notice::Ended(directory) => match directory.strip_suffix(b"/") {
                Some(path) if !path.is_empty() => {
                    lost |= !dirty.note(path.into(), What::Named, now);
                }
                _ => moved = true,
            },
            Notice::Elsewhere => *elsewhere = true,
            Notice::Root => moved = true,
            Notice::Overflow => lost = true,
        });
        if moved {
            self.open_again();
        }
        if lost || moved {
            self.rescan = Some(now);
        }
    }

    /// Another directory may be in the place of the root.
    fn open_again(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.add_parents(&self.directory);
        }
        let opened = Root::open(&self.directory);
        self.is_away = opened.is_err();
        if let Ok(root) = opened {
            self.root = root;
        }
    }

    /// Where the kernel tells nothing, or not all of the way to a root that is away, or room has come back, all is examined after some time.
    fn arm_rescan(&mut self, now: Instant) {
        let is_told = self.watch.as_ref().is_some_and(|w| w.refused() == 0);
        if self.rescan.is_none() && (!is_told || self.crowded || self.is_away) {
            self.rescan = Some(now + RESCAN_TIME);
        }
    }

    fn examine_due(&mut self, due: Vec<Due>, is_elsewhere: bool, sink: &mut Sink) {
        let now = self.now;
        for due in due {
            self.at_rest = due.at_rest;
            if !self.examine(&due.path, due.written, sink) {
                self.dirty.note(due.path, What::Touched, now);
            }
        }
        self.at_rest = false;
        for path in self.links.clone() {
            self.follow(&path, is_elsewhere, sink);
        }
        self.remove_gone(sink);
        for path in std::mem::take(&mut self.reread) {
            if !self.examine(&path, true, sink) {
                self.dirty.note(path, What::Touched, now);
            }
        }
        self.remove_gone(sink);
        self.join_variants(sink);
    }

    /// Resolves a link again. What it leads to is examined if it is not what it was; a directory that is
    /// the same has notices of its own, and so has a file whose bytes are others, but for one that only links lead to.
    fn follow(&mut self, path: &SitePath, is_elsewhere: bool, sink: &mut Sink) {
        let found = self.look(path);
        if !is_elsewhere
            && let Ok(Found::File(_, stat)) = &found
            && self.is_untold(path, stat)
        {
            return;
        }
        let below = [path, &b"/"[..]].concat();
        let is_known = match (&found, self.nodes.get(&below[..])) {
            (Ok(Found::Directory(real)), Some(Node::Directory(known))) => {
                let now = self.root.directory(real).map(|(_, identity)| identity);
                known.real == *real && now.ok() == Some(known.identity)
            }
            _ => false,
        };
        if !is_known && !self.examine(path, false, sink) {
            self.dirty.note(path.clone(), What::Touched, Instant::now());
        }
    }

    /// Says how a path differs from what was seen of it; `written` says that its content does, whatever
    /// its times. False when somebody is writing to it.
    pub(super) fn examine(&mut self, path: &SitePath, written: bool, sink: &mut Sink) -> bool {
        let found = self.look(path);
        if written {
            self.doubt_others(path, &found);
        }
        match self.examine_found(path, found, written, sink) {
            Ok(settled) => return settled,
            // A temporary file, most often: it was there when it was looked at, and has gone since.
            Err(reason) if self.has_vanished(path, &reason) => self.gone.push(path.clone()),
            Err(reason) if self.is_failure(path, &reason) => self.fail(path, reason),
            Err(reason) => self.leave_out(path, reason, sink),
        }
        true
    }

    fn examine_found(
        &mut self,
        path: &SitePath,
        found: Result<Found, Reason>,
        written: bool,
        sink: &mut Sink,
    ) -> Result<bool, Reason> {
        match found? {
            Found::Nothing => self.gone.push(path.clone()),
            Found::Directory(real) => {
                let below: SitePath = [path, &b"/"[..]].concat().into();
                if let Err(e) = self.enter(below.clone(), &real, sink) {
                    let reason = Reason::Unreadable(e);
                    if self.has_vanished(path, &reason) {
                        return Err(reason);
                    }
                    self.leave_out(path, reason, sink);
                    self.nodes.insert(below.clone(), Node::NotServed);
                    sink(self.site, Change::Forbidden(below));
                }
            }
            Found::File(real, stat) => return self.file(path, &real, &stat, written, sink),
        }
        Ok(true)
    }

    /// What was written by this name may have been the file that it led to before, which others still do.
    fn doubt_others(&mut self, path: &SitePath, found: &Result<Found, Reason>) {
        let Some(Node::File(known)) = self.nodes.get(path) else {
            return;
        };
        let known = known.identity;
        let is_same = matches!(found, Ok(Found::File(_, stat)) if identity(stat) == known);
        if !is_same {
            let others = self.nodes.names(known).iter();
            self.reread
                .extend(others.filter(|other| *other != path).cloned());
        }
    }

    /// Examines what is in a directory.
    fn enter(&mut self, path: SitePath, real: &Path, sink: &mut Sink) -> io::Result<()> {
        let (fd, identity) = self.root.directory(real)?;
        if let Some(name) = path.strip_suffix(b"/").filter(|name| !name.is_empty()) {
            self.remove(&name.into(), sink); // A file was there.
        }
        let watch = self.watch.as_mut().and_then(|w| w.add(&fd, &path));
        let node = Node::Directory(Directory {
            identity,
            real: real.into(),
            watch,
        });
        let before = self.nodes.insert(path.clone(), node);
        if let (Some(Node::Directory(before)), Some(watches)) = (&before, &mut self.watch)
            && let Some(id) = before.watch.filter(|_| before.watch != watch)
        {
            watches.remove(id, &path);
        }
        if !matches!(before, Some(Node::Directory(_))) {
            sink(self.site, Change::Directory(path.clone()));
        }
        let names = sorted_names(&fd)?;
        if before.is_some() {
            self.miss(&path, &names);
        }
        for name in names {
            let child: SitePath = [&path, name.as_slice()].concat().into();
            if is_hidden(&name) {
                self.omit(&child, Reason::Hidden);
            } else if !self.examine(&child, false, sink) {
                self.dirty.note(child, What::Touched, Instant::now());
            }
        }
        Ok(())
    }
}

/// Files whose names begin with a dot are not served, but for `.well-known` (RFC 8615).
fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".") && name != b".well-known"
}
