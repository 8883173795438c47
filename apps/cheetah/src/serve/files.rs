//! The files behind the sites, followed while the loop runs.

use std::io;
use std::os::fd::BorrowedFd;

use exos::Error;

use super::upkeep::Changing;
use crate::site::{Keeper, Omission, Tree};

/// The followers of the directories that are served, with the numbers of their sites.
pub(super) struct Files(Vec<(usize, Keeper)>);

impl Files {
    /// Follows what there is to follow, on these cores. It takes threads: a program that has several may
    /// enter no user namespace any more.
    pub(super) fn follow(trees: Vec<(usize, Tree)>, cores: &[usize]) -> Result<Files, Error> {
        let refused = |(_, tree): &(usize, Tree)| tree.watch().map_or(1, |watch| watch.refused());
        let refused: u64 = trees.iter().map(refused).sum();
        if refused > 0 {
            eprintln!(
                "exos serve: the kernel does not watch {refused} of the directories; all are looked through once a \
                 minute instead; raise the sysctls fs.inotify.max_user_watches and fs.inotify.max_user_instances"
            );
        }
        let say = |omission: &Omission| eprintln!("exos serve: left out: {omission}");
        let start = |(site, tree)| Ok((site, Keeper::start(tree, cores.to_vec(), say)?));
        let keepers = trees.into_iter().map(start).collect::<io::Result<_>>();
        keepers
            .map(Files)
            .map_err(|e| Error::io("cannot follow changes of files", e))
    }

    /// Readable when there are changes.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|(_, keeper)| keeper.fd())
    }

    /// Makes the changes that have come since the last turn.
    pub(super) fn apply_changes(&mut self, served: &mut impl Changing) {
        for (site, keeper) in &mut self.0 {
            for change in keeper.take() {
                served.change(*site, change);
            }
        }
    }

    /// Follows others instead. Those until now may be in the middle of a long file: they end by themselves.
    pub(super) fn exchange(
        &mut self,
        trees: Vec<(usize, Tree)>,
        cores: &[usize],
    ) -> Result<(), Error> {
        let old = std::mem::take(&mut self.0);
        let ending = std::thread::Builder::new().name("files-end".into());
        ending
            .spawn(move || drop(old))
            .map_err(|e| Error::io("cannot start a thread", e))?;
        *self = Files::follow(trees, cores)?;
        Ok(())
    }

    /// Follows no more.
    pub(super) fn end(&mut self) {
        self.0.clear();
    }
}
