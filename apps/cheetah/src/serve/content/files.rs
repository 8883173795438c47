//! The files behind the sites, followed and read while the loops run.

use std::os::fd::BorrowedFd;
use std::thread::JoinHandle;

use exos::Error;

use crate::caching::keeping::Errand;
use crate::site::Wanted;
use crate::site::store::Requests;
use crate::site::{Change, Changes, Keeper, Omission, SharedCache, SitePath, Tree};

/// The follower of the directories that are served.
pub(in crate::serve) struct Files(Keeper);

/// What one loop hears from it, and where it asks.
pub(in crate::serve) struct Feed {
    changes: Changes,
    requests: Requests,
    /// A document that there was no room to ask for, and an errand.
    left: Option<(usize, SitePath)>,
    left_errand: Option<Errand>,
}

impl Files {
    /// Follows what there is to follow, whose documents are in this memory, on these cores, and tells as many as there are `listeners`. It takes a thread: a
    /// program that has several may enter no user namespace any more.
    pub(in crate::serve) fn follow(
        (trees, cache): (Vec<Tree>, SharedCache),
        cores: &[usize],
        listeners: usize,
    ) -> Result<(Files, Vec<Feed>), Error> {
        let refused = |tree: &Tree| tree.watch().map_or(1, |watch| watch.refused());
        let refused: u64 = trees.iter().map(refused).sum();
        if refused > 0 {
            exos_program::warn!(
                "exos serve: the kernel does not watch {refused} of the directories; all are looked through once a \
                 minute instead; raise the sysctls fs.inotify.max_user_watches and fs.inotify.max_user_instances"
            );
        }
        let say = |omission: &Omission| exos_program::warn!("exos serve: left out: {omission}");
        let started = Keeper::start(trees, cache, cores.to_vec(), listeners, say);
        let (keeper, changes) =
            started.map_err(|e| Error::io("cannot follow changes of files", e))?;
        let feed = |changes| Feed {
            changes,
            requests: keeper.requests().clone(),
            left: None,
            left_errand: None,
        };
        let feeds = changes.into_iter().map(feed).collect();
        Ok((Files(keeper), feeds))
    }

    /// Ends on a thread of its own, without being waited for: it may be in the middle of a long file.
    pub(in crate::serve) fn end_later(self) -> Result<JoinHandle<()>, Error> {
        let ending = std::thread::Builder::new().name("files-end".into());
        let ending = ending.spawn(move || drop(self.0));
        ending.map_err(|e| Error::io("cannot start a thread", e))
    }
}

impl Feed {
    /// Readable when there are changes.
    pub(in crate::serve) fn fd(&self) -> BorrowedFd<'_> {
        self.changes.fd()
    }

    /// The changes that have come since the last turn, each with the number of its site.
    pub(in crate::serve) fn take(&mut self) -> impl Iterator<Item = (usize, Change)> {
        self.changes.take()
    }

    /// Asks for these documents, which requests wait for. Those for which there is no room are asked for when changes
    /// have come, which make some.
    pub(in crate::serve) fn ask(&mut self, mut wanted: impl FnMut() -> Option<Wanted>) {
        while let Some((site, path)) = self.left.take().or_else(&mut wanted) {
            if let Err(document) = self.requests.ask(site, path) {
                self.left = Some(document);
                return;
            }
        }
    }

    /// Has these things done about answers that are kept, as far as there is room now.
    pub(in crate::serve) fn send(&mut self, mut errands: impl FnMut() -> Option<Errand>) {
        while let Some(errand) = self.left_errand.take().or_else(&mut errands) {
            if let Err(errand) = self.requests.send(errand) {
                self.left_errand = Some(errand);
                return;
            }
        }
    }
}
