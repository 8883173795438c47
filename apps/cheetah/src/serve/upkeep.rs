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
use crate::site::{Change, Tree};

/// A server whose documents change while it serves them.
pub(crate) trait Changing {
    /// What answers.
    fn http(&mut self) -> &mut Server;

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    fn change(&mut self, site: usize, change: Change);

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
        trees: Vec<(usize, Tree)>,
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

    /// Follows no more, and reads nothing anew.
    pub(super) fn end(&mut self) {
        self.files.end();
        self.reload = None;
    }
}
