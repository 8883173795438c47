//! Requests of the server's own to upstreams, for which no client waits: what is kept is asked for again while clients are given it.
//!
//! Each has a connection to itself, beside those of clients' requests; a loop has [`REFRESHES_MAX`] of them at most.

use std::collections::{HashMap, VecDeque};

use exos_inet::tcp::ConnectionId;
use exos_inet::{Duration, Instant};
use rustix::io::Errno;

use super::upstreams::Upstreams;
use crate::applications::application::Address;
use crate::applications::head::Head;
use crate::applications::proxy::answer::{Answer, Question};
use crate::limits::{APPLICATION_READ_LEN, REFRESH_TIMES, REFRESHES_MAX};

/// The number of such a request.
pub type RefreshId = u64;

/// What has become of one.
#[derive(Debug)]
pub enum Refreshed {
    /// A part of the answer has come.
    Part {
        /// The head, if that is whole now.
        head: Option<Head>,
        /// Content behind that.
        content: Vec<u8>,
        /// It is whole, and nothing more is told.
        is_over: bool,
    },
    /// There is no answer, or not the rest: nothing more is told.
    Failed,
}

/// Those under way.
#[derive(Debug, Default)]
pub(super) struct Refreshes {
    all: HashMap<ConnectionId, UnderWay>,
    count: u64,
    news: VecDeque<(RefreshId, Refreshed)>,
}

#[derive(Debug)]
struct UnderWay {
    id: RefreshId,
    answer: Box<Answer>,
    /// When something has to have come.
    until: Instant,
    /// How long it may be silent.
    silence: Duration,
    /// Something has come since that was set.
    has_come: bool,
    /// When all has to have come.
    end: Instant,
}

impl UnderWay {
    /// It is given up. One that goes on has more time.
    fn is_late(&mut self, now: Instant) -> bool {
        if now < self.until {
            return false;
        }
        if !std::mem::take(&mut self.has_come) || now >= self.end {
            return true;
        }
        self.until = (now + self.silence).min(self.end);
        false
    }
}

impl Refreshes {
    /// Asks an upstream with these words.
    pub(super) fn begin(
        &mut self,
        address: &Address,
        words: Vec<u8>,
        question: Question,
        (silence, now): (Duration, Instant),
        upstreams: &mut Upstreams,
    ) -> Result<RefreshId, Errno> {
        if self.all.len() >= REFRESHES_MAX {
            return Err(Errno::AGAIN);
        }
        let connection = upstreams.connect_check(address)?;
        upstreams.send(connection, words);
        self.count += 1;
        let begun = UnderWay {
            id: self.count,
            answer: Box::new(Answer::to(question)),
            until: now + silence,
            silence,
            has_come: false,
            end: now + silence * REFRESH_TIMES,
        };
        self.all.insert(connection, begun);
        Ok(self.count)
    }

    /// Nobody wants the rest of an answer.
    pub(super) fn end(&mut self, id: RefreshId, upstreams: &mut Upstreams) {
        let is_it = |_: &ConnectionId, it: &mut UnderWay| it.id == id;
        for (connection, _) in self.all.extract_if(is_it) {
            upstreams.leave(connection);
        }
        self.news.retain(|(of, _)| *of != id);
    }

    /// Something has come on a connection, or it has ended. False where it is none of these.
    pub(super) fn hear(&mut self, connection: ConnectionId, upstreams: &mut Upstreams) -> bool {
        let Some(under_way) = self.all.get_mut(&connection) else {
            return false;
        };
        let bytes = upstreams.readable(connection);
        let bytes = bytes[..bytes.len().min(APPLICATION_READ_LEN)].to_vec();
        under_way.has_come |= !bytes.is_empty();
        let mut content = Vec::new();
        let taken = under_way.answer.take(&bytes, |_| false, &mut content);
        upstreams.consume(connection, bytes.len());
        let has_more = !upstreams.readable(connection).is_empty();
        let end = upstreams.end_of(connection).filter(|_| !has_more);
        let ends_well = end.is_some_and(|reason| under_way.answer.ends_with(reason));
        let is_over = under_way.answer.is_over() || ends_well;
        let id = under_way.id;
        let news = match taken {
            Ok(taken) => {
                let has_come = taken.head.is_some() || !content.is_empty();
                let part = Refreshed::Part {
                    head: taken.head,
                    content,
                    is_over,
                };
                (has_come || is_over).then_some(part)
            }
            Err(_) => Some(Refreshed::Failed),
        };
        let has_failed = matches!(news, Some(Refreshed::Failed));
        self.news.extend(news.map(|news| (id, news)));
        if end.is_some() && !is_over && !has_failed {
            self.news.push_back((id, Refreshed::Failed));
        }
        if is_over || has_failed || end.is_some() {
            self.all.remove(&connection);
            upstreams.leave(connection);
        } else if has_more {
            return self.hear(connection, upstreams);
        }
        true
    }

    /// Gives up what is late.
    pub(super) fn turn(&mut self, upstreams: &mut Upstreams, now: Instant) {
        let is_late = |_: &ConnectionId, it: &mut UnderWay| it.is_late(now);
        for (connection, late) in self.all.extract_if(is_late) {
            upstreams.leave(connection);
            self.news.push_back((late.id, Refreshed::Failed));
        }
    }

    /// When to take a turn at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.news.is_empty() {
            true => self.all.values().map(|it| it.until).min(),
            false => Some(Instant::START),
        }
    }

    /// The next news.
    pub(super) fn poll(&mut self) -> Option<(RefreshId, Refreshed)> {
        self.news.pop_front()
    }
}

impl super::Applications {
    /// Asks an upstream with these words, for nobody; [`poll_refreshed`](Self::poll_refreshed) tells of the answer. So long may it be
    /// silent, and some times as long may the whole take.
    ///
    /// # Errors
    ///
    /// There is no connection to be had, or there are too many of these.
    pub fn refresh(
        &mut self,
        address: &Address,
        words: Vec<u8>,
        question: Question,
        time: Duration,
        now: Instant,
    ) -> Result<RefreshId, Errno> {
        let upstreams = &mut self.carriers.upstreams;
        self.refreshes
            .begin(address, words, question, (time, now), upstreams)
    }

    /// Nobody wants the rest of such an answer.
    pub fn end_refresh(&mut self, id: RefreshId) {
        self.refreshes.end(id, &mut self.carriers.upstreams);
    }

    /// The next news of such requests, behind [`poll`](Self::poll).
    pub fn poll_refreshed(&mut self) -> Option<(RefreshId, Refreshed)> {
        self.refreshes.poll()
    }
}
