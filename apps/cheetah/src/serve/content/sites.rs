//! From a configuration to documents in memory.
//!
//! In two steps: [`Fresh`] is all that takes long, checking, reading and summing, and may be done on any thread;
//! [`Filling`] puts documents into tables, on the thread that serves them, as many at a time as it likes. Several threads
//! have tables of their own, each filled from a clone: the bytes of the documents are the same.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use exos::Error;

use crate::config::{Config, Root, SiteConfig};
use crate::site::store::cache::{FromCache, Statistics};
use crate::site::{Cache, Change, LoadError, SharedCache, Site, Sites, Tree};

/// A configuration and all documents that it names. Cloning it counts references for each document.
#[derive(Clone)]
pub struct Fresh {
    config: Config,
    /// The documents of each site that is a directory.
    changes: Vec<Vec<Change>>,
    cache: SharedCache,
}

/// Loads all sites of a configuration. What is left out of them is said on standard error.
///
/// # Errors
///
/// Everything that stands in the way.
pub fn load(config: &Config) -> Result<Sites, Vec<Error>> {
    let nobody_reads = FromCache::new(None, Vec::new());
    let (fresh, _) = Fresh::read(config.clone(), false, &nobody_reads)?;
    Ok(fresh.into_sites())
}

/// Reads all sites to be followed, as the user who follows them, or tells what stands in the way.
pub(in crate::serve) fn read_or_tell(
    config: &Config,
    file_cache: &FromCache,
) -> Result<(Fresh, Vec<Tree>), Error> {
    let read = || Fresh::read(config.clone(), true, file_cache).map_err(tell_all);
    config.user.as_user(read)
}

impl Fresh {
    /// Reads all documents, and gives what tells of their changes from then on if they are to be live. What is left out
    /// of them is said on standard error. Those that are to come from the file cache come when they are asked for.
    ///
    /// # Errors
    ///
    /// Everything that stands in the way.
    pub fn read(
        config: Config,
        is_live: bool,
        file_cache: &FromCache,
    ) -> Result<(Fresh, Vec<Tree>), Vec<Error>> {
        let file_cache = (is_live && config.file_cache).then(|| file_cache.clone());
        let cache = Cache::new(config.cache.bytes()).lending(file_cache);
        let cache = SharedCache::from(cache);
        let mut fresh = Fresh {
            changes: config.sites.iter().map(|_| Vec::new()).collect(),
            cache: cache.clone(),
            config,
        };
        let (mut trees, mut wrong) = (Vec::new(), Vec::new());
        for number in 0..fresh.config.sites.len() {
            match fresh.read_one(number, &cache, is_live) {
                Ok(tree) => trees.extend(tree),
                Err(mut errors) => wrong.append(&mut errors),
            }
        }
        if wrong.is_empty() {
            fresh.catch_up(&mut trees);
            Ok((fresh, trees))
        } else {
            Err(wrong)
        }
    }

    /// Where its documents are in memory.
    pub fn cache(&self) -> &SharedCache {
        &self.cache
    }

    /// Takes in what has changed since these trees were looked at: reading takes long, and who is served already has seen
    /// that.
    pub fn catch_up(&mut self, trees: &mut [Tree]) {
        for tree in trees {
            let changes = &mut self.changes;
            tree.poll(Instant::now(), &mut |site, change| {
                changes[site].push(change);
            });
            say_omissions(tree);
        }
    }

    fn read_one(
        &mut self,
        number: usize,
        cache: &SharedCache,
        is_live: bool,
    ) -> Result<Option<Tree>, Vec<Error>> {
        let site = &self.config.sites[number];
        let Root::Directory(directory) = &site.root else {
            let wrong = self.without_documents(number);
            return if wrong.is_empty() {
                Ok(None)
            } else {
                Err(wrong)
            };
        };
        let lines = &self.config.lines;
        let say = |e: LoadError| vec![lines.place_root(number, Error::new(e.to_string()))];
        let (limits, settings) = (self.config.limits, site.settings.clone());
        let tree = Tree::open(directory, limits, settings, is_live).map_err(say)?;
        let mut tree = tree.within(number, cache.clone());
        // A document of a site before may have to go for one of this.
        let changes = &mut self.changes;
        tree.scan(&mut |site, change| changes[site].push(change))
            .map_err(say)?;
        say_omissions(&mut tree);
        let changes = &self.changes[number];
        let missing = missing_pages(site, directory, changes).into_iter();
        let missing = missing.chain(missing_fronts(site, directory, changes));
        let place = |(path, error)| self.config.lines.place_document(number, path, error);
        let missing = missing.map(place);
        let wrong: Vec<Error> = missing.chain(self.passwords(number, &tree)).collect();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(is_live.then_some(tree))
    }

    /// What is wrong with a site that has no directory.
    fn without_documents(&self, number: usize) -> Vec<Error> {
        let pages = self.config.sites[number].settings.error_pages.iter();
        let missing = pages.map(|(status, page)| {
            let code = status.code();
            let error = Error::new(format!("there is no document {page}: the site has no root"));
            let error = error.mend(format!("write root, or leave the error page {code} out"));
            self.config.lines.place_document(number, page, error)
        });
        missing.chain(self.unread_passwords(number)).collect()
    }

    /// Reads the files of passwords of a site, and gives what is wrong with them.
    fn unread_passwords(&self, number: usize) -> impl Iterator<Item = Error> {
        let own = self.config.sites[number].settings.access.users();
        own.filter_map(move |users| {
            let error = Error::new(users.read().err()?);
            Some((self.config.lines).place_users(number, users.file(), error))
        })
    }

    /// Reads the files of passwords of a site, and gives what is wrong with them, and with those of any site that are documents of
    /// this one.
    fn passwords(&self, number: usize, tree: &Tree) -> Vec<Error> {
        let lines = &self.config.lines;
        let unread = self.unread_passwords(number);
        let all = self.config.sites.iter().enumerate();
        let all = all.flat_map(|(of, site)| site.settings.access.users().map(move |u| (of, u)));
        let served = all.filter_map(|(of, users)| {
            let file = users.file();
            let path = tree.path_of(&file.metadata().ok()?)?;
            let path = String::from_utf8_lossy(path);
            let what = format!("{} would be served, as {path}", file.display());
            let error = Error::new(what).mend("keep passwords outside of what is served");
            Some(lines.place_users(of, file, error))
        });
        unread.chain(served).collect()
    }

    /// Tables of all documents, filled at once.
    pub fn into_sites(self) -> Sites {
        let mut filling = Filling::new(self);
        while !filling.step(usize::MAX) {}
        filling.finish()
    }
}

fn say_omissions(tree: &mut Tree) {
    for omission in tree.take_omissions() {
        exos_program::warn!("exos serve: left out: {omission}");
    }
}

/// Error pages whose document is not there, with their paths.
fn missing_pages<'a>(
    site: &'a SiteConfig,
    directory: &Path,
    changes: &[Change],
) -> Vec<(&'a str, Error)> {
    let is_there = |page: &str| changes.iter().any(|change| change.puts_at(page.as_bytes()));
    let pages = site.settings.error_pages.iter();
    let missing = pages.filter(|(_, page)| !is_there(page));
    let error = |(status, page): &(crate::message::Status, String)| {
        let is_long = changes
            .iter()
            .any(|change| change.puts_long_at(page.as_bytes()));
        let what = format!("there is no document {page} in {}", directory.display());
        let code = status.code();
        if is_long {
            let what = format!("{page}, the error page {code}, is longer than [limits] stream");
            return Error::new(what).mend("make it shorter");
        }
        Error::new(what).mend(format!("write it, or leave the error page {code} out"))
    };
    missing.map(|of| (of.1.as_str(), error(of))).collect()
}

/// Fronts that are to be documents of the site and are not there, with their paths.
fn missing_fronts<'a>(
    site: &'a SiteConfig,
    directory: &Path,
    changes: &[Change],
) -> Vec<(&'a str, Error)> {
    let is_there = |path: &str| {
        let mut changes = changes.iter();
        changes.any(|change| change.puts_any_at(path.as_bytes()))
    };
    let missing = (site.settings.applications.fronts()).filter(|front| !is_there(front));
    let error = |front: &str| {
        let what = format!("there is no script {front} in {}", directory.display());
        Error::new(what)
            .mend("write it, or files = false where the application alone has the scripts")
    };
    missing.map(|front| (front, error(front))).collect()
}

/// Tables that documents are being put into.
pub struct Filling {
    config: Config,
    sites: Vec<Site>,
    changes: Vec<std::vec::IntoIter<Change>>,
    statistics: Arc<Statistics>,
}

impl Filling {
    /// Empty tables, with room for all that is to come.
    pub fn new(fresh: Fresh) -> Filling {
        let mut filling = Filling {
            sites: Vec::new(),
            changes: Vec::new(),
            statistics: fresh.cache.lock().statistics().clone(),
            config: fresh.config,
        };
        for (changes, site) in fresh.changes.into_iter().zip(&filling.config.sites) {
            let mut table = match site.root {
                Root::Example => Site::example(),
                Root::Directory(_) | Root::Nowhere => Site::with(site.settings.clone()),
            };
            // Directories have two paths, and so have index documents.
            table.reserve(changes.len() + changes.len() / 8);
            filling.sites.push(table);
            filling.changes.push(changes.into_iter());
        }
        filling
    }

    /// Puts up to `most` documents into the tables; true when all are there.
    pub fn step(&mut self, most: usize) -> bool {
        let mut left = most;
        for (site, changes) in self.sites.iter_mut().zip(&mut self.changes) {
            let before = changes.len();
            changes
                .by_ref()
                .take(left)
                .for_each(|change| site.apply(change));
            left -= before - changes.len();
        }
        self.changes.iter().all(|changes| changes.len() == 0)
    }

    /// The sites, when all documents are there.
    pub fn finish(self) -> Sites {
        let names = self.config.sites.iter().map(|site| site.names.clone());
        let named = names.zip(self.sites).collect();
        let (default, unknown) = (self.config.default_site, self.config.unknown_hosts);
        Sites::new(named, default, unknown).in_cache(self.statistics)
    }
}

/// Tells all errors but the last, which is for the caller to tell.
pub(in crate::serve) fn tell_all(mut errors: Vec<Error>) -> Error {
    let last = errors.pop();
    for error in errors {
        exos_program::error!("exos serve: {error}");
    }
    last.unwrap_or_else(|| Error::new("nothing is served"))
}
