//! What keeps the documents up to date while the loops run: their files are followed, and SIGHUP reads everything again.
//!
//! The first core does this for all. What was read goes to every core, each of which exchanges its sites between its own
//! turns. When all have, those who followed the old files end, and others begin: the kernel keeps its notices until then.
//!
//! When nothing is left of the old documents, their memory goes back to the kernel: the allocator would keep it, in pieces that
//! the next reload does not fill, so that memory grew with each. Only then the next reload is served.

use std::os::fd::BorrowedFd;
use std::thread::JoinHandle;

use exos::Error;
use exos::signals::{Ask, Signals};
use exos_host::affinity;

use super::worker::{Asks, Worker};
use crate::serve::content::files::{Feed, Files};
use crate::serve::content::reload::{Read, Reload};
use crate::serve::content::sites::tell_all;
use crate::site::{SharedCache, Tree};

pub(in crate::serve) struct Upkeep {
    /// `None` when they could not be followed.
    files: Option<Files>,
    reload: Reload,
    /// Of what was read and is not yet served by all cores.
    coming: Option<(Vec<Tree>, SharedCache)>,
    /// Something may be left of what was served before.
    is_emptying: bool,
    /// The end of those who followed the old files.
    ending: Option<JoinHandle<()>>,
    /// Where threads may run, for the loops may have their cores to themselves.
    cores: Vec<usize>,
}

impl Upkeep {
    /// Follows these files from now on; gives what each of this many loops hears of them. Other threads do that: a program that
    /// has some may enter no user namespace any more. `read` is what a reload reads.
    pub(in crate::serve) fn start(
        read: Read,
        trees: (Vec<Tree>, SharedCache),
        cores: Vec<usize>,
        loops: usize,
        signals: &Signals,
    ) -> Result<(Upkeep, Vec<Feed>), Error> {
        signals.catch_also(Ask::Reload)?;
        let (files, feeds) = Files::follow(trees, &cores, loops)?;
        let upkeep = Upkeep {
            files: Some(files),
            reload: Reload::new(read, cores.clone())?,
            coming: None,
            is_emptying: false,
            ending: None,
            cores,
        };
        Ok((upkeep, feeds))
    }

    /// Asks for everything to be read again.
    pub(in crate::serve) fn request_reload(&mut self) {
        self.reload.request();
    }

    /// Readable when there is something to do.
    pub(in crate::serve) fn fd(&self) -> BorrowedFd<'_> {
        self.reload.fd()
    }

    /// True when the next turn has something to do.
    pub(in crate::serve) fn is_busy(&self) -> bool {
        !self.is_exchanging() && self.reload.is_busy()
    }

    /// Does what there is to do between two turns; `asks` is what the first core was told.
    pub(in crate::serve) fn turn(&mut self, asks: Asks, worker: &Worker) {
        if asks.contains(Asks::ALL_EXCHANGED)
            && let Some(trees) = self.coming.take()
        {
            exos_program::info!("exos serve: read again");
            if let Err(e) = self.follow_others(trees, worker) {
                exos_program::warn!("exos serve: {e}; send SIGHUP when files have changed");
            }
        }
        if asks.contains(Asks::ALL_EMPTIED) {
            self.is_emptying = false;
            self.give_back_memory();
        }
        if self.is_exchanging() {
            return; // One after the other.
        }
        match self.reload.turn() {
            None => {}
            Some(Ok((fresh, trees))) => {
                let trees = (trees, fresh.cache().clone());
                (self.coming, self.is_emptying) = (Some(trees), true);
                worker.send_fresh(fresh);
            }
            Some(Err(errors)) => {
                exos_program::warn!("exos serve: {}; what was served goes on", tell_all(errors));
                self.give_back_memory();
            }
        }
    }

    fn is_exchanging(&self) -> bool {
        self.coming.is_some() || self.is_emptying
    }

    /// Gives back what was freed, on a thread of its own, when those who followed the old files have ended. Without a thread it
    /// is used again later.
    fn give_back_memory(&mut self) {
        let ending = self.ending.take();
        let _ = affinity::spawn("memory", &self.cores, move || {
            if let Some(ending) = ending {
                let _ = ending.join();
            }
            exos_host::memory::give_back();
        });
    }

    fn follow_others(
        &mut self,
        trees: (Vec<Tree>, SharedCache),
        worker: &Worker,
    ) -> Result<(), Error> {
        let ending = self.files.take().map(Files::end_later);
        self.ending = ending.transpose()?;
        let (files, feeds) = Files::follow(trees, &self.cores, worker.count())?;
        self.files = Some(files);
        worker.send_feeds(feeds);
        Ok(())
    }
}
