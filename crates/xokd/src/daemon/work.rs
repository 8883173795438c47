//! What is done beside the loop for filters and places: begun here, ended here.
//!
//! A thing that takes long is a closure for the [`Worker`]. It returns what the loop is to do with what came of it, in a turn
//! of the daemon: by then the one that it was for may have gone, and policy may say something else.

use super::Daemon;
use crate::clock::now;
use crate::server::User;
use crate::worker::{Job, Worker};

/// What the loop does when something is done.
pub(super) type End = Box<dyn FnOnce(&mut Daemon) + Send>;

/// How a user is charged for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charge {
    /// For a filter that was asked for, and so paid for the usual time: for what it took beyond that.
    Beyond,
    /// For a filter, for other reasons: for all of it.
    Whole,
    /// For a place: how many of these a user has is counted as it attaches.
    Nothing,
}

/// The thread that filters are read on, and that programs for users are compiled and verified on.
pub(super) type FilterWorker = Worker<(User, Charge), End>;

impl Daemon {
    /// Has something done for a user that has asked for it, or for the daemon itself.
    pub(super) fn work_for_filter(
        &mut self,
        user: Option<User>,
        job: impl FnOnce() -> End + Send + 'static,
    ) {
        self.worker
            .ask(user.map(|user| (user, Charge::Beyond)), Box::new(job));
    }

    /// Has the worker do what a user has not asked for by itself.
    pub(super) fn work_beside(&mut self, user: User, job: Job<End>) {
        self.worker.ask(Some((user, Charge::Whole)), job);
    }

    /// Has the worker do what belongs to a user's attachment.
    pub(super) fn work_for_place(
        &mut self,
        user: User,
        job: impl FnOnce() -> End + Send + 'static,
    ) {
        self.worker
            .ask(Some((user, Charge::Nothing)), Box::new(job));
    }

    /// Ends what is done, and goes on with what is next.
    pub(super) fn serve_worker(&mut self) {
        while let Some(done) = self.worker.done() {
            if let Some((user, charge)) = done.owner
                && charge != Charge::Nothing
            {
                let is_paid = charge == Charge::Beyond;
                self.rates.charge_filter(user, done.took, is_paid);
            }
            (done.made)(self);
            self.forget_cut();
        }
        let (rates, now) = (&self.rates, now());
        self.worker.go_on(|(user, _)| rates.used(user, now));
    }
}
