//! An application's links to servers: how they come about, what they wait for, and how they end.

use super::account::Account;
use super::event::{Event, RequestId};
use super::link::{Link, News};
use super::listener::Listener;
use super::watch::{Source, Watch};
use crate::limits::SHORT_PAUSE;
use exos_iolite::{Pool, Result};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// All links of an application.
#[derive(Debug)]
pub(super) struct Links {
    watch: Watch,
    listener: Listener,
    pool: Pool,
    account: Account,
    /// By number; there are few.
    all: Vec<(u64, Link)>,
    next: u64,
    /// Says that the application is to stop, and how long it may take then.
    stops_on: Option<(OwnedFd, Duration)>,
    /// It stops: no more requests are taken, and what is asked is over then at the latest.
    stops_until: Option<Instant>,
    news: Vec<News>,
}

impl Links {
    pub fn new(socket: OwnedFd, pool: Pool) -> Result<Self> {
        let watch = Watch::new()?;
        Ok(Self {
            listener: Listener::new(socket, &watch)?,
            watch,
            pool,
            account: Account::default(),
            all: Vec::new(),
            next: 0,
            stops_on: None,
            stops_until: None,
            news: Vec::new(),
        })
    }

    pub fn get(&self, id: u64) -> Option<&Link> {
        let mut all = self.all.iter();
        all.find(|it| it.0 == id).map(|(_, link)| link)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Link> {
        find(&mut self.all, id)
    }

    /// Does something with each link; true when one says so. One that fails is over.
    pub fn each(
        &mut self,
        events: &mut VecDeque<Event>,
        mut act: impl FnMut(&mut Link, &mut Vec<News>) -> Result<bool>,
    ) -> bool {
        let (watch, news, mut is_any) = (&self.watch, &mut self.news, false);
        self.all.retain_mut(|(id, link)| {
            let id = *id;
            let result = act(link, news);
            let of = |key| RequestId { link: id, key };
            events.extend(news.drain(..).map(|news| match news {
                News::Request(key) => Event::Request(of(key)),
                News::Body(key) => Event::Body(of(key)),
                News::Room(key) => Event::Room(of(key)),
                News::Left(key) => Event::Left(of(key)),
            }));
            if result.is_err() {
                end(watch, id, link, events);
            }
            is_any |= result.as_ref().is_ok_and(|is| *is);
            result.is_ok()
        });
        is_any
    }

    // Waiting.

    /// How long nothing happens that no descriptor tells of.
    pub fn quiet_time(&self, now: Instant) -> Option<Duration> {
        let untils = self.listener.until().into_iter().chain(self.stops_until);
        let left = untils
            .min()
            .map(|until| until.saturating_duration_since(now));
        let is_short = self.all.iter().any(|(_, link)| link.is_short());
        left.into_iter()
            .chain(is_short.then_some(SHORT_PAUSE))
            .min()
    }

    /// Sleeps until there is something to hear, or this long, and sees to all but what servers have said.
    pub fn sleep(&mut self, at_most: Option<Duration>, events: &mut VecDeque<Event>) -> Result<()> {
        let (mut connects, mut begins, mut stops) = (false, false, false);
        for &source in self.watch.sleep(at_most)? {
            match source {
                Source::Listener => connects = true,
                Source::Beginning => begins = true,
                Source::Stop => stops = true,
                Source::Requests(id) => {
                    find(&mut self.all, id).map(Link::requests_woken);
                }
                Source::Answers(id) => {
                    find(&mut self.all, id).map(Link::answers_woken);
                }
            }
        }
        let now = Instant::now();
        self.listener.see_to(&self.watch, now);
        if connects {
            self.listener.accept(&self.watch, self.all.len())?;
        }
        // What one says is there mostly when it has connected, as it says that at once.
        if connects || begins {
            self.begin();
        }
        if stops && let Some((_, at_most)) = self.stops_on {
            self.stop(at_most);
        }
        if self.stops_until.is_some_and(|until| until <= now) {
            self.end_all(events);
        }
        Ok(())
    }

    /// Makes links to those that have said all.
    fn begin(&mut self) {
        while let Some((requests, answers)) = self.listener.next(&self.watch) {
            let Ok(link) = Link::begin(requests, answers, &self.pool, self.account.clone()) else {
                continue;
            };
            let [requests, answers] = link.fds();
            let watched = (self.watch.add(requests, Source::Requests(self.next)))
                .and_then(|()| self.watch.add(answers, Source::Answers(self.next)));
            if watched.is_err() {
                self.watch.remove(requests);
                continue;
            }
            self.all.push((self.next, link));
            self.next += 1;
        }
    }

    // Stopping.

    /// Stops, in this time at most, when a descriptor is readable.
    pub fn stop_on(&mut self, fd: OwnedFd, at_most: Duration) -> Result<()> {
        self.watch.add(fd.as_fd(), Source::Stop)?;
        if let Some((before, _)) = self.stops_on.replace((fd, at_most)) {
            self.watch.remove(before.as_fd());
        }
        Ok(())
    }

    /// Takes no more requests. What is asked may be answered for this long.
    pub fn stop(&mut self, at_most: Duration) {
        if let Some((fd, _)) = self.stops_on.take() {
            self.watch.remove(fd.as_fd());
        }
        if self.stops_until.is_none() {
            self.listener.close(&self.watch);
            self.all.iter_mut().for_each(|(_, link)| link.say_stop());
        }
        // What is too long to be told is for good.
        let until = Instant::now() + at_most.min(Duration::from_secs(u32::MAX.into()));
        let before = self.stops_until.unwrap_or(until);
        self.stops_until = Some(before.min(until));
    }

    fn end_all(&mut self, events: &mut VecDeque<Event>) {
        for (id, link) in &mut self.all {
            end(&self.watch, *id, link, events);
        }
        self.all.clear();
    }

    /// It was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.stops_until.is_some()
    }

    /// It was told to stop, and all that was asked is over.
    pub fn is_over(&self) -> bool {
        self.is_stopping() && self.all.is_empty()
    }
}

impl AsFd for Links {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

fn find(all: &mut [(u64, Link)], id: u64) -> Option<&mut Link> {
    all.iter_mut().find(|it| it.0 == id).map(|(_, link)| link)
}

/// A link is over, with its requests. A peer may keep its descriptors open, so they are not waited for before they are closed.
fn end(watch: &Watch, id: u64, link: &Link, events: &mut VecDeque<Event>) {
    link.fds().into_iter().for_each(|fd| watch.remove(fd));
    let left = link.keys().map(|key| RequestId { link: id, key });
    events.extend(left.map(Event::Left));
}
