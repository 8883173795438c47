//! The files behind the sites, followed and read while the loop runs.

use std::os::fd::BorrowedFd;

use exos::Error;

use super::upkeep::Changing;
use crate::site::{Keeper, Omission, SitePath, Tree};

/// The follower of the directories that are served.
pub(super) struct Files {
    /// `None` when nothing is to change or to be read any more.
    keeper: Option<Keeper>,
    /// A document that there was no room to ask for.
    left: Option<(usize, SitePath)>,
}

impl Files {
    /// Follows what there is to follow, on these cores. It takes a thread: a program that has several may
    /// enter no user namespace any more.
    pub(super) fn follow(trees: Vec<Tree>, cores: &[usize]) -> Result<Files, Error> {
        let refused = |tree: &Tree| tree.watch().map_or(1, |watch| watch.refused());
        let refused: u64 = trees.iter().map(refused).sum();
        if refused > 0 {
            eprintln!(
                "exos serve: the kernel does not watch {refused} of the directories; all are looked through once a \
                 minute instead; raise the sysctls fs.inotify.max_user_watches and fs.inotify.max_user_instances"
            );
        }
        let say = |omission: &Omission| eprintln!("exos serve: left out: {omission}");
        let keeper = Keeper::start(trees, cores.to_vec(), say);
        let keeper = keeper.map_err(|e| Error::io("cannot follow changes of files", e))?;
        Ok(Files {
            keeper: Some(keeper),
            left: None,
        })
    }

    /// Readable when there are changes.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.keeper.iter().map(Keeper::fd)
    }

    /// Makes the changes that have come since the last turn.
    pub(super) fn apply_changes(&mut self, served: &mut impl Changing) {
        let changes = self.keeper.as_mut().into_iter().flat_map(Keeper::take);
        for (site, change) in changes {
            served.change(site, change);
        }
    }

    /// Asks for the documents that requests wait for. Those for which there is no room are asked for when changes have
    /// come, which make some.
    pub(super) fn ask_for_documents(&mut self, served: &mut impl Changing) {
        let Some(keeper) = &self.keeper else {
            return;
        };
        while let Some((site, path)) = self.left.take().or_else(|| served.poll_wanted()) {
            if let Err(document) = keeper.requests().ask(site, path) {
                self.left = Some(document);
                return;
            }
        }
    }

    /// Follows others instead. Those until now may be in the middle of a long file: they end by themselves.
    pub(super) fn exchange(&mut self, trees: Vec<Tree>, cores: &[usize]) -> Result<(), Error> {
        self.left = None; // Whoever waits for it asks again.
        let old = self.keeper.take();
        let ending = std::thread::Builder::new().name("files-end".into());
        ending
            .spawn(move || drop(old))
            .map_err(|e| Error::io("cannot start a thread", e))?;
        *self = Files::follow(trees, cores)?;
        Ok(())
    }

    /// Follows no more.
    pub(super) fn end(&mut self) {
        self.keeper = None;
    }
}
