//! An application's end of a link to a server.

use super::account::Account;
use super::event::Key;
use super::exchange::{Exchange, Taken};
use super::heads::Heads;
use super::request::Request;
use crate::limits::{
    ANSWER_SLOTS, LOOK_LEN_MAX, LOOK_RECORDS_MAX, OUTGOING_LEN_MAX, SAID_LEN_MAX, SPARES_MAX,
    VARIABLES_LEN_MAX,
};
use crate::outgoing::Outgoing;
use crate::record::{Decoder, Header, Kind, slot_of};
use exos_iolite::{Aggregate, Error, Options, Pool, Read, Receiver, Result, Sender, Trust};
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// What a server has said of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    Request(Key),
    Body(Key),
    Room(Key),
    Left(Key),
}

#[derive(Debug)]
pub(super) struct Link {
    requests: Receiver,
    answers: Sender,
    /// What was read and not looked at.
    rest: Aggregate,
    decoder: Decoder,
    begun: Vec<u8>,
    outgoing: Outgoing,
    heads: Heads,
    /// By what the server's numbers say of places.
    exchanges: Vec<Option<(Key, Box<Exchange>)>>,
    /// Of those that are over, for others.
    #[expect(clippy::vec_box, reason = "each moves into a place as it is")]
    spare: Vec<Box<Exchange>>,
    /// That of the next request.
    serial: u32,
    account: Account,
    /// Those with something to be sent, some perhaps twice.
    dirty: VecDeque<Key>,
    /// The server takes nothing any more.
    is_deaf: bool,
}

impl Link {
    /// The server has made its pipe, and this side makes its own.
    pub fn begin(
        requests: OwnedFd,
        answers: OwnedFd,
        pool: &Pool,
        account: Account,
    ) -> Result<Self> {
        let options = Options {
            slots: ANSWER_SLOTS,
            pools: 1,
            ..Options::default()
        };
        Ok(Self {
            // What is read is copied before anybody looks at it.
            requests: Receiver::accept(requests, Trust::Trusted)?.of_one_pool(),
            answers: Sender::connect(answers, pool, options)?,
            rest: Aggregate::new(),
            decoder: Decoder::default(),
            begun: Vec::new(),
            outgoing: Outgoing::new(pool.clone()),
            heads: Heads::default(),
            exchanges: Vec::new(),
            spare: Vec::new(),
            serial: 0,
            account,
            dirty: VecDeque::new(),
            is_deaf: false,
        })
    }

    pub fn exchange(&self, key: Key) -> Option<&Exchange> {
        let (known, exchange) = self.exchanges.get(slot_of(key.number)?)?.as_ref()?;
        (*known == key).then_some(exchange)
    }

    fn exchange_mut(&mut self, key: Key) -> Option<&mut Exchange> {
        let (known, exchange) = self.exchanges.get_mut(slot_of(key.number)?)?.as_mut()?;
        (*known == key).then_some(exchange)
    }

    /// The request that a server means, if it was not left.
    fn meant(&self, number: u32) -> Option<Key> {
        let (key, _) = self.exchanges.get(slot_of(number)?)?.as_ref()?;
        (key.number == number).then_some(*key)
    }

    /// It is over.
    fn remove(&mut self, key: Key) -> Option<Box<Exchange>> {
        let place = self.exchanges.get_mut(slot_of(key.number)?)?;
        let (_, exchange) = place.take_if(|(known, _)| *known == key)?;
        Some(exchange)
    }

    /// Does something with a request, which may have something to be sent then.
    pub fn with<R>(&mut self, key: Key, act: impl FnOnce(&mut Exchange) -> R) -> Option<R> {
        let exchange = self.exchange_mut(key)?;
        let was_dirty = exchange.is_dirty;
        let done = act(exchange);
        if exchange.is_dirty && !was_dirty {
            self.dirty.push_back(key);
        }
        Some(done)
    }

    /// Says something to the operator.
    pub fn say(&mut self, key: Key, line: &str) {
        // A server that takes nothing is told nothing.
        let has_room = self.outgoing.len() < OUTGOING_LEN_MAX;
        if has_room && self.exchange(key).is_some() {
            let end = line.floor_char_boundary(SAID_LEN_MAX - 1);
            let line = format!("{}\n", line[..end].trim_end());
            let header = Header::new(Kind::Said, key.number, line.len());
            self.outgoing.push(header, &[line.as_bytes()]);
        }
    }

    /// Tells the server to ask nothing more.
    pub fn say_stop(&mut self) {
        self.outgoing.push(Header::new(Kind::Stop, 0, 0), &[]);
    }

    /// Takes in what has come, as far as one look goes; false when there is nothing. What a server takes no answers to is not heard.
    pub fn look(&mut self, news: &mut Vec<News>) -> Result<bool> {
        if self.is_stuck() {
            return Ok(false);
        }
        if self.rest.is_empty() && self.decoder.is_at_end() {
            match self.requests.read(LOOK_LEN_MAX)? {
                Read::Data(data) => self.rest = data,
                Read::Nothing if !self.is_deaf => return Ok(false),
                Read::Nothing | Read::End => return Err(Error::PeerGone),
            }
        }
        for _ in 0..LOOK_RECORDS_MAX {
            let Some(piece) = self.decoder.next(&mut self.rest)? else {
                break;
            };
            let (header, is_end) = (piece.header, piece.is_end);
            piece.bytes.append_to(&mut self.begun, usize::MAX);
            self.hear(header, is_end, news)?;
        }
        Ok(true)
    }

    /// Hears a record, or a part of one, whose bytes have been put behind those that had come.
    fn hear(&mut self, header: Header, is_end: bool, news: &mut Vec<News>) -> Result<()> {
        let meant = self.meant(header.request);
        match (header.kind, meant) {
            (Kind::Request, _) => {
                if self.begun.len() > VARIABLES_LEN_MAX {
                    return Err(Error::PeerFault("its variables are longer than 256 KiB"));
                }
                if is_end {
                    self.begin_exchange(header, news)?;
                }
            }
            (Kind::Head | Kind::Content | Kind::Said | Kind::Stop, _) => {
                return Err(Error::PeerFault("it sends what applications send"));
            }
            // One that is answered already is nobody's.
            (Kind::Body, None) => self.begun = Vec::new(),
            (Kind::Leave | Kind::Room, None) => {}
            (Kind::Body, Some(key)) => self.hear_body(key, header.is_last && is_end, news)?,
            (Kind::Leave, Some(key)) => {
                let left = self.remove(key);
                if left.is_some_and(|exchange| !exchange.is_refused()) {
                    news.push(News::Left(key));
                }
            }
            (Kind::Room, Some(key)) => {
                self.with(key, |exchange| exchange.more_room(header.value as usize));
            }
        }
        Ok(())
    }

    fn begin_exchange(&mut self, header: Header, news: &mut Vec<News>) -> Result<()> {
        let number = header.request;
        let slot = slot_of(number).ok_or(Error::PeerFault("its request has no number"))?;
        if self.exchanges.len() <= slot {
            self.exchanges.resize_with(slot + 1, || None);
        }
        let place = &mut self.exchanges[slot];
        if place.is_some() {
            return Err(Error::PeerFault("it uses the number of another request"));
        }
        let has_body = !header.is_last;
        let exchange = match self.spare.pop() {
            Some(mut spare) => {
                spare.begin_again(&mut self.begun, has_body, &self.account);
                spare
            }
            None => {
                let request = Request::new(std::mem::take(&mut self.begun), has_body);
                Box::new(Exchange::new(request, &self.account))
            }
        };
        let serial = self.serial;
        self.serial = serial.wrapping_add(1);
        let key = Key { number, serial };
        match exchange.is_ended() {
            true => self.dirty.push_back(key),
            false => news.push(News::Request(key)),
        }
        *place = Some((key, exchange));
        Ok(())
    }

    fn hear_body(&mut self, key: Key, is_last: bool, news: &mut Vec<News>) -> Result<()> {
        let bytes = std::mem::take(&mut self.begun);
        let taken = self.with(key, |exchange| {
            let taken = exchange.take_body(&bytes);
            if is_last {
                exchange.end_body();
            }
            taken
        });
        let is_news = news.last() != Some(&News::Body(key));
        match taken {
            Some(Taken::BeyondRoom) => {
                return Err(Error::PeerFault(
                    "it sends more of a body than there is room for",
                ));
            }
            Some(Taken::Refused) => news.push(News::Left(key)),
            Some(Taken::Yes) if is_news => news.push(News::Body(key)),
            Some(Taken::Yes) | None => {}
        }
        Ok(())
    }

    /// Sends what may go.
    pub fn send(&mut self, news: &mut Vec<News>) -> Result<bool> {
        loop {
            while self.outgoing.len() < OUTGOING_LEN_MAX
                && let Some(key) = self.dirty.pop_front()
            {
                let place = slot_of(key.number).and_then(|slot| self.exchanges.get_mut(slot));
                let Some((_, exchange)) = place.and_then(Option::as_mut).filter(|it| it.0 == key)
                else {
                    continue;
                };
                if exchange.go_on(key.number, &mut self.heads, &mut self.outgoing) {
                    let has_place = self.spare.len() < SPARES_MAX;
                    if let Some(mut over) = self.remove(key).filter(|_| has_place) {
                        over.rest();
                        self.spare.push(over);
                    }
                } else if exchange.has_become_empty() {
                    news.push(News::Room(key));
                }
            }
            self.outgoing.write(&mut self.answers)?;
            if !self.outgoing.is_empty() || self.dirty.is_empty() {
                return Ok(self.outgoing.is_empty());
            }
        }
    }

    /// The server takes nothing of what was sent: nothing more is heard of it until it does.
    fn is_stuck(&self) -> bool {
        !self.outgoing.is_empty() && !self.outgoing.is_short()
    }

    /// Says that this side is about to sleep. True when there is something to do already.
    pub fn arm(&mut self, _: &mut Vec<News>) -> Result<bool> {
        match self.is_stuck() {
            true => self.answers.arm(),
            false => {
                let is_read = self.rest.is_empty() && self.decoder.is_at_end();
                Ok(self.requests.arm()? || !is_read)
            }
        }
    }

    /// What it has to send waits for buffers.
    pub fn is_short(&self) -> bool {
        self.outgoing.is_short()
    }

    /// The end of requests was woken.
    pub fn requests_woken(&mut self) {
        self.requests.woken();
    }

    /// The end of answers was woken.
    pub fn answers_woken(&mut self) {
        self.answers.woken();
        self.is_deaf |= self.answers.is_peer_gone();
    }

    /// What is readable when it is to be woken: the ends of requests and of answers.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.requests.as_fd(), self.answers.as_fd()]
    }

    /// Its requests that the application has something to do with.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let known = self.exchanges.iter().flatten();
        let known = known.filter(|(_, it)| !it.is_refused());
        known.map(|(key, _)| *key)
    }
}
