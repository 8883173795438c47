//! One core's part of the server: its connections, its tables of documents, and its loop, whatever carries them.
//!
//! All cores run this; the first does more between two turns ([`lead`](crate::serve::lead)). What comes from other cores and
//! threads is heard in [`ServerLoop::heed`], between turns; in a turn nothing of theirs is touched.

use std::os::fd::BorrowedFd;

use exos::{Error, clock};
use exos_inet::Instant;

use crate::http::Server;
use crate::limits::{GOODBYE_TIME, STOP_TIME};
use crate::serve::connections::Cheetah;
use crate::serve::documents::Documents;
use crate::serve::files::Feed;
use crate::serve::statistics;
use crate::serve::worker::{Asks, Worker};
use crate::site::Change;

/// The server on what carries its connections: a stack of its own, or the kernel's sockets.
pub(in crate::serve) trait Carried {
    fn cheetah(&self) -> &Cheetah;

    fn cheetah_mut(&mut self) -> &mut Cheetah;

    /// The time of this turn.
    fn now(&self) -> Instant;

    // A turn, in this order.

    /// Takes in what has come.
    fn receive(&mut self) {}

    /// Answers it.
    fn answer(&mut self, unix_secs: u64);

    /// Sends the answers.
    fn send(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Waits for something to do, until then; what comes on these descriptors ends it.
    fn wait(&mut self, until: Option<Instant>, fds: &[BorrowedFd<'_>]) -> Result<(), Error>;

    /// What comes on this descriptor ends each wait from now on, where a wait itself cannot be told.
    fn watch(&self, _fd: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(())
    }

    // Between turns.

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    fn change(&mut self, site: usize, change: Change);

    /// Looks again for all that requests wait for, because everything is served again.
    fn retry_all(&mut self);

    // The end.

    /// Takes no new connections and no new requests.
    fn stop(&mut self);

    /// Resets those that are left, if they would not end by themselves.
    fn abort_all(&mut self) -> Result<(), Error> {
        Ok(())
    }

    // What it says of itself.

    /// What carries it, for people.
    fn describe(&self) -> String;

    /// Connections that are remembered in TIME-WAIT.
    fn time_wait(&self) -> usize {
        0
    }

    /// What that counts, by name.
    fn counters(&self) -> Vec<(String, u64)>;
}

pub(in crate::serve) struct ServerLoop<S> {
    pub(in crate::serve) served: S,
    pub(in crate::serve) worker: Worker,
    documents: Documents,
    /// How often the documents' descriptor had become another when it was looked at last.
    feeds: u64,
}

impl<S: Carried> ServerLoop<S> {
    /// Not begun yet; `feed` tells of changes of the documents.
    pub(in crate::serve) fn new(served: S, worker: Worker, feed: Feed) -> Result<Self, Error> {
        served.watch(worker.fd())?;
        let mut new = ServerLoop {
            served,
            worker,
            documents: Documents::new(feed),
            feeds: 0,
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
    pub(in crate::serve) fn heed(&mut self) -> Result<Asks, Error> {
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

    /// Waits for something to do; not when `is_busy`. These descriptors wake it too.
    pub(in crate::serve) fn wait(
        &mut self,
        is_busy: bool,
        others: &[BorrowedFd<'_>],
    ) -> Result<(), Error> {
        let is_busy = is_busy || self.documents.is_busy();
        let now = is_busy.then(|| self.served.now());
        let mut fds = others.to_vec();
        fds.push(self.worker.fd());
        fds.extend(self.documents.fd());
        self.served.wait(now, &fds)
    }

    /// Shows the others its numbers as they are now.
    pub(in crate::serve) fn show(&self) {
        self.worker.show(statistics::row(&self.served));
    }

    /// Takes no new connections, lets responses under way end, says goodbye to idle clients, and resets who is left.
    /// `each` is done in each turn, whose waits these descriptors end.
    pub(in crate::serve) fn end(
        &mut self,
        fds: &[BorrowedFd<'_>],
        mut each: impl FnMut(&mut Self, Asks),
    ) -> Result<(), Error> {
        self.documents.end_exchanges();
        self.served.stop();
        let (busy_until, until) = (clock::now() + STOP_TIME, clock::now() + GOODBYE_TIME);
        while (self.cheetah().is_busy() && clock::now() < busy_until)
            || (self.cheetah().connections() > 0 && clock::now() < until)
        {
            let asks = self.heed()?;
            self.turn()?;
            each(self, asks);
            self.wait(false, fds)?;
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
