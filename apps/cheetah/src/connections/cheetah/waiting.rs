//! Requests that wait: for documents, for parts of long files, for applications; and those that are answered when these come.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use super::Cheetah;
use crate::caching::is_answer;
use crate::connections::connection::Task;
use crate::connections::shared::Shared;
use crate::connections::transport::Transport;
use crate::http::Missing;
use crate::site::{Change, Wanted};
use crate::stream::Done;

impl Cheetah {
    /// Has what a connection waits for read or opened, once however many wait for it.
    pub(super) fn fetch(&mut self, id: ConnectionId, missing: Missing) {
        let Missing { document, unopened } = missing;
        let tables = &mut self.tables;
        let is_waiting = |id: &ConnectionId| tables.is_fetching(*id);
        let is_new = self.fetching.add(document.clone(), id, is_waiting);
        match unopened {
            Some(long) => self.shared.streams.open(document, long),
            // One of those who asked for it first is asking for an answer.
            None if is_new && !is_answer(&document.1) => self.fetching.want(document),
            None => {}
        }
    }

    /// The next document that a request waits for, by the number of its site and its path. What
    /// becomes of it is told by [`Cheetah::change`].
    pub fn poll_wanted(&mut self) -> Option<Wanted> {
        self.fetching.poll_wanted()
    }

    /// Requests that wait for a document.
    pub fn waiting(&self) -> usize {
        self.fetching.waiting()
    }

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    pub fn change<T: Transport>(
        &mut self,
        now: Instant,
        unix_secs: u64,
        site: usize,
        change: Change,
        transport: &mut T,
    ) {
        self.set_time(now, unix_secs);
        let document = (site, change.path().clone());
        let has_failed = matches!(change, Change::Failed(_));
        self.shared.server.change_site(site, change);
        let failed = has_failed.then_some(&document);
        for id in self.fetching.take(&document) {
            self.resume(now, id, failed, transport);
        }
    }

    /// Looks again for all that requests wait for, because everything is served again.
    pub fn retry_all(&mut self, now: Instant, unix_secs: u64, transport: &mut impl Transport) {
        self.set_time(now, unix_secs);
        let Shared {
            server,
            applications,
            ..
        } = &mut self.shared;
        let rules = || {
            let sites = server.sites().iter();
            sites.map(|site| &site.settings().applications)
        };
        applications.follow(rules());
        applications.check(rules(), now);
        for id in self.fetching.take_all() {
            self.resume(now, id, None, transport);
        }
    }

    /// Answers a request that waited, and those behind it; `failed` is what could not be read.
    fn resume<T: Transport>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        failed: Option<&Wanted>,
        transport: &mut T,
    ) {
        if !self.tables.is_fetching(id) {
            return; // Its client has gone, or it was given up.
        }
        self.shared.counters.fetch_failures += u64::from(failed.is_some());
        self.run(now, id, &Task::Resume(failed), transport);
    }

    /// Takes in what has been read of long files, gives it to those who wait, and starts what they want next.
    pub(super) fn turn_streams(&mut self, now: Instant, transport: &mut impl Transport) {
        if self.shared.streams.is_idle() {
            return;
        }
        self.take_read(now, transport);
        for _ in 0..self.shared.streams.hungry() {
            let Some(id) = self.shared.streams.feed() else {
                break;
            };
            self.send_on(now, id, true, transport);
        }
        self.shared.streams.submit();
        // What was in memory is there already.
        self.take_read(now, transport);
    }

    fn take_read<T: Transport>(&mut self, now: Instant, transport: &mut T) {
        while let Some(done) = self.shared.streams.poll() {
            match done {
                Done::Opened(place, file) => {
                    for id in self.fetching.take(&place) {
                        self.resume(now, id, None, transport);
                    }
                    self.shared.streams.put_away(file);
                }
                Done::Failed(place) => {
                    for id in self.fetching.take(&place) {
                        self.resume(now, id, Some(&place), transport);
                    }
                }
                Done::Filled(ids) => {
                    for id in ids {
                        self.send_on(now, id, false, transport);
                    }
                }
                Done::Lost(ids) => {
                    for id in ids {
                        self.run(now, id, &Task::BreakOff, transport);
                    }
                }
            }
        }
    }

    fn send_on<T: Transport>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        is_first: bool,
        transport: &mut T,
    ) {
        self.run(now, id, &Task::SendOn { is_first }, transport);
    }

    /// Hears what applications say, and gives it to those who wait. So what they gave back carries the requests of this turn.
    pub(super) fn hear_applications<T: Transport>(&mut self, now: Instant, transport: &mut T) {
        self.shared.applications.turn(now);
        self.tell_of_applications(now, transport);
        self.shared.hear_refreshes(now);
    }

    /// Sends applications what is asked of them.
    pub(super) fn ask_applications<T: Transport>(&mut self, now: Instant, transport: &mut T) {
        self.shared.begin_refreshes(now);
        self.tell_of_applications(now, transport);
        self.release_answers(now, transport);
        self.shared.applications.flush();
    }

    fn tell_of_applications<T: Transport>(&mut self, now: Instant, transport: &mut T) {
        while let Some(client) = self.shared.applications.poll() {
            self.run(now, client, &Task::GoOnAnswering, transport);
        }
    }

    /// Has those go on who waited for an answer that does not come to them.
    fn release_answers<T: Transport>(&mut self, now: Instant, transport: &mut T) {
        while let Some(wanted) = self.shared.server.answers_mut().poll_released() {
            for id in self.fetching.take(&wanted) {
                self.resume(now, id, None, transport);
            }
        }
    }
}
