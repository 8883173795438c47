//! Requests that wait for a document: what becomes of them when the document has come, or will not.

use std::os::fd::OwnedFd;

use super::clients::{Clients, Id};
use crate::http::Wanted;
use crate::site::Change;

impl Clients {
    /// The next document that a request waits for.
    pub(super) fn poll_wanted(&mut self) -> Option<Wanted> {
        self.fetching.poll_wanted()
    }

    /// Requests that wait for a document.
    pub(crate) fn waiting(&self) -> usize {
        self.fetching.waiting()
    }

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    pub(super) fn change(&mut self, epoll: &OwnedFd, site: usize, change: Change) {
        let document = (site, change.path().clone());
        let has_failed = matches!(change, Change::Failed(_));
        self.server_mut().change_site(site, change);
        let ids = self.fetching.take(&document);
        let failed = has_failed.then_some(&document);
        for id in ids {
            let is_answered = self.resume(epoll, id, failed);
            self.counters.fetch_failures += u64::from(has_failed && is_answered);
        }
    }

    /// Looks again for all that requests wait for, because everything is served again.
    pub(super) fn retry_all(&mut self, epoll: &OwnedFd) {
        for id in self.fetching.take_all() {
            self.resume(epoll, id, None);
        }
    }

    /// Answers a request that waited, and those behind it; false when its client has gone or it was given up.
    fn resume(&mut self, epoll: &OwnedFd, id: Id, failed: Option<&Wanted>) -> bool {
        if !self.find(id).is_some_and(|client| client.is_fetching()) {
            return false;
        }
        let number = id.0 as usize;
        let Some((client, mut shared)) = self.client_and_shared(number) else {
            return false;
        };
        let goes_on = client.resume(failed, &mut shared);
        self.settle_or_close(epoll, number, goes_on);
        true
    }
}
