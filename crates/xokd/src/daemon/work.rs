//! What is done beside the loop for filters and places: begun here, ended here.
//!
//! A thing that takes long is a closure for the [`Worker`](crate::worker::Worker). It returns what the loop is to do with what
//! came of it ([`End`]), in a turn of the daemon. A user is charged for both.

use super::quotas::Charge;
use super::{Daemon, End};
use crate::clock::now;
use crate::server::User;
use crate::worker::{Job, own_time};

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

    /// Has something done that was counted as it was asked for, or for which time was reserved.
    pub(super) fn work_charged_as(&mut self, user: User, charge: Charge, job: Job<End>) {
        self.worker.ask(Some((user, charge)), job);
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
            let begun = own_time();
            (done.made)(self);
            if let Some((user, charge)) = done.owner {
                let here = own_time().saturating_sub(begun);
                self.rates.charge(user, done.took + here, charge);
            }
            self.forget_cut();
        }
        let (rates, now) = (&self.rates, now());
        self.worker.go_on(|(user, _)| rates.used(user, now));
    }
}
