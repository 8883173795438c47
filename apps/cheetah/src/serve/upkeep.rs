//! What keeps the documents up to date while the loop runs: their files are followed, and SIGHUP reads everything anew.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use exos::signals::{Ask, Signals};
use exos::{Error, Exos};

use super::ServeArgs;
use super::files::Files;
use super::program::Cheetah;
use super::reload::{Progress, Reload};
use super::sites::{Fresh, tell_all};
use crate::http::Server;
use crate::site::{Change, SitePath, Tree};

/// A server whose documents change while it serves them.
pub(crate) trait Changing {
    /// What answers.
    fn http(&mut self) -> &mut Server;

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    fn change(&mut self, site: usize, change: Change);

    /// The next document that a request waits for, by the number of its site and its path.
    fn poll_wanted(&mut self) -> Option<(usize, SitePath)>;

    /// Looks again for all that requests wait for, because everything is served anew.
    fn retry_all(&mut self);
}

/// The server on its stack.
pub(super) struct OnStack<'a> {
    pub(super) exos: &'a mut Exos,
    pub(super) cheetah: &'a mut Cheetah,
}

impl Changing for OnStack<'_> {
    fn http(&mut self) -> &mut Server {
        self.cheetah.server_mut()
    }

    fn change(&mut self, site: usize, change: Change) {
        let (now, stack) = (self.exos.now(), &mut self.exos.stack);
        self.cheetah.change(now, site, change, stack);
    }

    fn poll_wanted(&mut self) -> Option<(usize, SitePath)> {
        self.cheetah.poll_wanted()
    }

    fn retry_all(&mut self) {
        let (now, stack) = (self.exos.now(), &mut self.exos.stack);
        self.cheetah.retry_all(now, stack);
    }
}

pub(super) struct Upkeep {
    files: Files,
    /// `None` when nothing is to change any more.
    reload: Option<Reload>,
    /// Where threads may run, for the loop may have a core to itself.
    cores: Vec<usize>,
    /// How often everything was exchanged: the descriptors are others then.
    exchanges: u64,
}

impl Upkeep {
    /// Follows these files from now on. It is other threads: a program that has some may enter no user namespace
    /// any more.
    pub(super) fn start(
        args: &ServeArgs,
        trees: Vec<Tree>,
        cores: Vec<usize>,
        signals: &Signals,
    ) -> Result<Upkeep, Error> {
        signals.catch_also(Ask::Reload)?;
        let args = args.clone();
        let read = move || {
            let config = args.configuration().map_err(|e| vec![e])?;
            Fresh::read(config, true)
        };
        Ok(Upkeep {
            files: Files::follow(trees, &cores)?,
            reload: Some(Reload::new(Arc::new(read), cores.clone())?),
            cores,
            exchanges: 0,
        })
    }

    /// Asks for everything to be read anew.
    pub(super) fn request_reload(&mut self) {
        if let Some(reload) = &mut self.reload {
            reload.request();
        }
    }

    /// Each readable when there is something to do.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.files.fds().chain(self.reload.as_ref().map(Reload::fd))
    }

    /// How often the descriptors have become others.
    pub(super) fn exchanges(&self) -> u64 {
        self.exchanges
    }

    /// True when the next turn has something to do.
    pub(super) fn is_busy(&self) -> bool {
        self.reload.as_ref().is_some_and(Reload::is_busy)
    }

    /// Does what there is to do between two turns.
    pub(super) fn turn(&mut self, served: &mut impl Changing) {
        self.files.apply_changes(served);
        let Some(reload) = &mut self.reload else {
            return;
        };
        match reload.turn(served.http()) {
            Progress::None => {}
            Progress::Exchanged(trees) => {
                eprintln!("exos serve: read anew");
                served.retry_all();
                self.exchanges += 1;
                if let Err(e) = self.files.exchange(trees, &self.cores) {
                    eprintln!("exos serve: {e}; send SIGHUP when files have changed");
                }
            }
            Progress::Refused(errors) => {
                eprintln!("exos serve: {}; what was served goes on", tell_all(errors));
            }
        }
    }

    /// Asks for the documents that requests of this turn wait for.
    pub(super) fn ask_for_documents(&mut self, served: &mut impl Changing) {
        self.files.ask_for_documents(served);
    }

    /// Reads nothing anew from now on.
    pub(super) fn end_reloads(&mut self) {
        self.reload = None;
    }

    /// Follows and reads no more.
    pub(super) fn end(&mut self) {
        self.end_reloads();
        self.files.end();
    }
}
