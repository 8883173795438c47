//! One core's part of the server: its connections, its tables of documents, and its loop, whatever carries them.
//!
//! All cores run this; the first does more between two turns ([`leader`](super::leader)). What comes from other cores and
//! threads is heard in [`ServerLoop::handle_asks`], between turns; in a turn nothing of theirs is touched.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use exos::{Error, clock};
use exos_inet::Instant;

use super::documents::Documents;
use super::statistics;
use super::worker::{Asks, Serving, Worker};
use crate::connections::Carried;
use crate::connections::Cheetah;
use crate::http::Server;
use crate::limits::{GOODBYE_TIME, LAST_CONNECTS_TIME};
use crate::serve::content::files::Feed;

pub(in crate::serve) struct ServerLoop<S> {
    pub(in crate::serve) served: S,
    pub(in crate::serve) worker: Worker,
    /// From its first turn until its connections have ended.
    serving: Option<Serving>,
    documents: Documents,
    /// How often the documents' descriptor had become another when it was looked at last.
    feeds: u64,
    /// How long a stop waits for responses under way.
    shutdown_time: Duration,
}

impl<S: Carried> ServerLoop<S> {
    /// Not begun yet; `feed` tells of changes of the documents.
    pub(in crate::serve) fn new(
        served: S,
        worker: Worker,
        feed: Feed,
        shutdown_time: Duration,
    ) -> Result<Self, Error> {
        served.watch(worker.fd())?;
        let mut new = ServerLoop {
            served,
            serving: None,
            worker,
            documents: Documents::new(feed),
            feeds: 0,
            shutdown_time,
        };
        new.watch_documents()?;
        Ok(new)
    }

    pub(in crate::serve) fn cheetah(&self) -> &Cheetah {
        self.served.cheetah()
    }

    pub(in crate::serve) fn http(&mut self) -> &mut Server {
        self.served.cheetah_mut().server_mut()
    }

    /// Between two turns: what others ask of this core, and documents that change. Gives what it was asked.
    pub(in crate::serve) fn handle_asks(&mut self) -> Result<Asks, Error> {
        let asks = self.worker.take_asks();
        if asks.contains(Asks::SHOW) {
            self.show();
            self.worker.shown();
        }
        self.documents.turn(asks, &self.worker, &mut self.served);
        self.watch_documents()?;
        Ok(asks)
    }

    /// Changes are told by a descriptor that becomes another now and then.
    fn watch_documents(&mut self) -> Result<(), Error> {
        if self.documents.feeds() == self.feeds {
            return Ok(());
        }
        self.feeds = self.documents.feeds();
        self.documents
            .fd()
            .map_or(Ok(()), |fd| self.served.watch(fd))
    }

    /// One turn: take in, answer, send. Then [`wait`](ServerLoop::wait).
    pub(in crate::serve) fn turn(&mut self) -> Result<(), Error> {
        let served = &mut self.served;
        served.receive();
        statistics::bring_pages_up_to_date(served, &self.worker);
        served.answer(clock::unix_secs());
        self.documents.ask(served);
        served.send()
    }

    /// Waits for something to do, until then at the latest. These descriptors wake it too.
    pub(in crate::serve) fn wait(
        &mut self,
        until: Option<Instant>,
        others: &[BorrowedFd<'_>],
    ) -> Result<(), Error> {
        let now = self.documents.is_busy().then(|| self.served.now());
        let mut fds = others.to_vec();
        fds.push(self.worker.fd());
        fds.extend(self.documents.fd());
        self.served
            .wait([until, now].into_iter().flatten().min(), &fds)
    }

    /// Shows the others its numbers as they are now.
    pub(in crate::serve) fn show(&self) {
        self.worker.show(statistics::row(&self.served));
    }

    /// Ends its connections, and waits for those of the other cores to end: what is theirs comes by this core's queues, too, as
    /// answers of neighbours. `each` is done in each turn, whose waits these descriptors end.
    pub(in crate::serve) fn end(
        &mut self,
        fds: &[BorrowedFd<'_>],
        mut each: impl FnMut(&mut Self, Asks),
    ) -> Result<(), Error> {
        let ended = self.end_connections(fds, &mut each);
        self.give_up();
        ended?;
        while self.worker.is_any_serving() {
            if let Err(error) = self.help_others(fds, &mut each) {
                exos_program::warn!("exos serve: other cores end without this one: {error}");
                return Ok(());
            }
        }
        // What began late, behind a proxy's header.
        self.served.abort_all()
    }

    /// A turn without connections of its own.
    fn help_others(
        &mut self,
        fds: &[BorrowedFd<'_>],
        each: &mut impl FnMut(&mut Self, Asks),
    ) -> Result<(), Error> {
        let asks = self.handle_asks()?;
        self.turn()?;
        each(self, asks);
        match self.worker.is_any_serving() {
            true => self.wait(None, fds),
            false => Ok(()),
        }
    }

    /// From now on others that end wait until its connections have ended.
    pub(in crate::serve) fn begin(&mut self) {
        self.serving = Some(self.worker.begin());
    }

    /// Others that end do not wait for what it has.
    pub(in crate::serve) fn give_up(&mut self) {
        self.serving = None;
    }

    /// Takes no new connections, lets responses under way end, says goodbye to idle clients, and resets who is left. Where other
    /// processes share the port, what has begun to connect here is let in before.
    fn end_connections(
        &mut self,
        fds: &[BorrowedFd<'_>],
        each: &mut impl FnMut(&mut Self, Asks),
    ) -> Result<(), Error> {
        if self.served.leave_to_others() {
            let until = clock::now() + LAST_CONNECTS_TIME;
            while clock::now() < until {
                let asks = self.handle_asks()?;
                self.turn()?;
                each(self, asks);
                self.wait(Some(until), fds)?;
            }
        }
        self.documents.end_exchanges();
        self.served.stop();
        let last = clock::now() + self.shutdown_time;
        let mut goodbye = clock::now() + GOODBYE_TIME;
        while !self.cheetah().is_alone() {
            let asks = self.handle_asks()?;
            self.turn()?;
            each(self, asks);
            let now = clock::now();
            let until = if self.cheetah().is_busy() {
                goodbye = now + GOODBYE_TIME;
                last
            } else {
                goodbye
            };
            if now >= until {
                break;
            }
            if !self.cheetah().is_alone() {
                self.wait(Some(until), fds)?;
            }
        }
        self.served.abort_all()
    }

    /// The last that it says: its numbers, and what is left of its log. That of the first core waits for the log's thread,
    /// which the others' must have left before.
    pub(in crate::serve) fn close(&mut self) {
        if let Some(log) = self.http().log_mut() {
            log.finish();
        }
        self.show();
    }
}
