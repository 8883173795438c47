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
use crate::site::Tree;

pub(super) struct Upkeep {
    files: Files,
    /// `None` when nothing is to change any more.
    reload: Option<Reload>,
    /// Where threads may run, for the loop may have a core to itself.
    cores: Vec<usize>,
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

    /// True when the next turn has something to do.
    pub(super) fn is_busy(&self) -> bool {
        self.reload.as_ref().is_some_and(Reload::is_busy)
    }

    /// Does what there is to do between two turns.
    pub(super) fn turn(&mut self, exos: &mut Exos, cheetah: &mut Cheetah) {
        self.files.apply_changes(exos, cheetah);
        let Some(reload) = &mut self.reload else {
            return;
        };
        match reload.turn(cheetah.server_mut()) {
            Progress::None => {}
            Progress::Exchanged(trees) => {
                eprintln!("exos serve: read anew");
                cheetah.retry_all(exos.now(), &mut exos.stack);
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
