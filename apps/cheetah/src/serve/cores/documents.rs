//! A loop's documents: its tables change as their files do, and are exchanged when everything was read again.

use std::os::fd::BorrowedFd;

use super::worker::{Asks, Worker};
use crate::connections::Carried;
use crate::serve::content::exchange::{Exchange, Step};
use crate::serve::content::files::Feed;

pub(in crate::serve) struct Documents {
    /// `None` between an exchange and the feed that tells of changes of the new documents.
    feed: Option<Feed>,
    exchange: Exchange,
    /// Nothing is exchanged any more.
    is_ending: bool,
    /// Feeds so far: the descriptor is another then.
    feeds: u64,
}

impl Documents {
    /// Of which this tells.
    pub(in crate::serve) fn new(feed: Feed) -> Documents {
        Documents {
            feed: Some(feed),
            exchange: Exchange::default(),
            is_ending: false,
            feeds: 1,
        }
    }

    /// Does what there is to do between two turns; `asks` is what this loop was asked.
    pub(in crate::serve) fn turn(
        &mut self,
        asks: Asks,
        worker: &Worker,
        served: &mut impl Carried,
    ) {
        if asks.contains(Asks::INBOX) {
            let inbox = worker.take_inbox();
            if let Some(fresh) = inbox.fresh.filter(|_| !self.is_ending) {
                self.exchange.begin(fresh);
            }
            if let Some(feed) = inbox.feed {
                self.feed = Some(feed);
                self.feeds += 1;
            }
        }
        if let Some(feed) = &mut self.feed {
            for (site, change) in feed.take() {
                served.change(site, change);
            }
        }
        match self.exchange.turn(served.cheetah_mut().server_mut()) {
            None => {}
            Some(Step::Exchanged) => {
                // What it tells from now on is of tables that are gone.
                self.feed = None;
                served.retry_all();
                worker.exchanged();
            }
            Some(Step::Emptied) => worker.emptied(),
        }
    }

    /// Asks for the documents that requests of this turn wait for, and has done what it wants done about answers, as soon as there is
    /// somebody to be asked.
    pub(in crate::serve) fn ask(&mut self, served: &mut impl Carried) {
        if let Some(feed) = &mut self.feed {
            feed.ask(|| served.cheetah_mut().poll_wanted());
            feed.send(|| {
                served
                    .cheetah_mut()
                    .server_mut()
                    .answers_mut()
                    .poll_errand()
            });
        }
    }

    /// Readable when there are changes.
    pub(in crate::serve) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.feed.as_ref().map(Feed::fd)
    }

    /// How often the descriptor has become another.
    pub(in crate::serve) fn feeds(&self) -> u64 {
        self.feeds
    }

    /// True when the next turn has something to do.
    pub(in crate::serve) fn is_busy(&self) -> bool {
        self.exchange.is_busy()
    }

    /// Exchanges nothing any more. Documents that requests wait for still come.
    pub(in crate::serve) fn end_exchanges(&mut self) {
        self.exchange = Exchange::default();
        self.is_ending = true;
    }
}
