//! What is done beside the loop for filters: begun here, ended here.
//!
//! A thing that takes long is a closure for the [`Worker`]. It returns what the loop is to do with what came of it, in a turn
//! of the daemon: by then the one that it was for may have gone, and policy may say something else.

use super::Daemon;
use crate::clock::now;
use crate::server::User;
use crate::worker::{Job, Worker};

/// What the loop does when something is done.
pub(super) type End = Box<dyn FnOnce(&mut Daemon) + Send>;

/// Whether a user has asked for it, and so paid for the usual time; what is done for other reasons is charged whole.
type Paid = bool;

/// The thread that filters are read, compiled and verified on.
pub(super) type FilterWorker = Worker<(User, Paid), End>;

impl Daemon {
    /// Has something done for a user that has asked for it, or for the daemon itself.
    pub(super) fn work_for_filter(
        &mut self,
        user: Option<User>,
        job: impl FnOnce() -> End + Send + 'static,
    ) {
        self.worker
            .ask(user.map(|user| (user, true)), Box::new(job));
    }

    /// Has the worker do what a user has not asked for by itself.
    pub(super) fn work_beside(&mut self, user: User, job: Job<End>) {
        self.worker.ask(Some((user, false)), job);
    }

    /// Ends what is done, and goes on with what is next.
    pub(super) fn serve_worker(&mut self) {
        while let Some(done) = self.worker.done() {
            if let Some((user, paid)) = done.owner {
                self.rates.charge_filter(user, done.took, paid);
            }
            (done.made)(self);
            self.forget_cut();
        }
        let (rates, now) = (&self.rates, now());
        self.worker.go_on(|(user, _)| rates.filters_used(user, now));
    }
}
