//! A loop's documents: its tables change as their files do, and are exchanged when everything was read again.

use std::os::fd::BorrowedFd;

use exos::Exos;

use crate::http::Server;
use crate::serve::connections::{Cheetah, Packets};
use crate::serve::exchange::{Exchange, Step};
use crate::serve::files::Feed;
use crate::serve::without::Without;
use crate::serve::worker::{Asks, Worker};
use crate::site::{Change, SitePath};

/// A server whose documents change while it serves them.
pub(crate) trait Changing {
    /// What answers.
    fn http(&mut self) -> &mut Server;

    /// Changes what a site serves, by its number, and answers requests that waited for that.
    fn change(&mut self, site: usize, change: Change);

    /// The next document that a request waits for, by the number of its site and its path.
    fn poll_wanted(&mut self) -> Option<(usize, SitePath)>;

    /// Looks again for all that requests wait for, because everything is served again.
    fn retry_all(&mut self);
}

/// The server on its stack.
pub(in crate::serve) struct OnStack<'a> {
    pub(in crate::serve) exos: &'a mut Exos,
    pub(in crate::serve) cheetah: &'a mut Cheetah,
    pub(in crate::serve) without: Option<&'a mut Without>,
}

impl Changing for OnStack<'_> {
    fn http(&mut self) -> &mut Server {
        self.cheetah.server_mut()
    }

    fn change(&mut self, site: usize, change: Change) {
        let now = self.exos.now();
        let mut packets = Packets::without(&mut self.exos.stack, self.without.as_deref_mut());
        self.cheetah.change(now, site, change, &mut packets);
    }

    fn poll_wanted(&mut self) -> Option<(usize, SitePath)> {
        self.cheetah.poll_wanted()
    }

    fn retry_all(&mut self) {
        let now = self.exos.now();
        let mut packets = Packets::without(&mut self.exos.stack, self.without.as_deref_mut());
        self.cheetah.retry_all(now, &mut packets);
    }
}

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
        served: &mut impl Changing,
    ) {
        if asks.contains(Asks::MAIL) {
            let mail = worker.take_mail();
            if let Some(fresh) = mail.fresh.filter(|_| !self.is_ending) {
                self.exchange.begin(fresh);
            }
            if let Some(feed) = mail.feed {
                self.feed = Some(feed);
                self.feeds += 1;
            }
        }
        if let Some(feed) = &mut self.feed {
            feed.apply(served);
        }
        match self.exchange.turn(served.http()) {
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

    /// Asks for the documents that requests of this turn wait for, as soon as there is somebody to be asked.
    pub(in crate::serve) fn ask(&mut self, served: &mut impl Changing) {
        if let Some(feed) = &mut self.feed {
            feed.ask(served);
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
