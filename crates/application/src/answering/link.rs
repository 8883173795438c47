//! An application's end of a link to a server.

use super::exchange::Exchange;
use super::request::Request;
use crate::limits::{ANSWER_SLOTS, SAID_LEN_MAX, VARIABLES_LEN_MAX};
use crate::outgoing::Outgoing;
use crate::record::{Decoder, Kind, Piece};
use exos_iolite::{Error, Options, Pool, Read, Receiver, Result, Sender, Trust};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// What a server has said of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    Request(u32),
    Body(u32),
    Room(u32),
    Left(u32),
}

#[derive(Debug)]
pub(super) struct Link {
    requests: Receiver,
    answers: Sender,
    decoder: Decoder,
    begun: Vec<u8>,
    outgoing: Outgoing,
    exchanges: HashMap<u32, Exchange>,
    /// Those with something to be sent, some perhaps twice.
    dirty: Vec<u32>,
    /// The server takes nothing any more.
    is_deaf: bool,
}

impl Link {
    /// The server has made its pipe, and this side makes its own.
    pub fn begin(requests: OwnedFd, answers: OwnedFd, pool: &Pool) -> Result<Self> {
        let options = Options {
            slots: ANSWER_SLOTS,
            pools: 1,
            ..Options::default()
        };
        Ok(Self {
            // What is read is copied before anybody looks at it.
            requests: Receiver::accept(requests, Trust::Trusted)?.of_one_pool(),
            answers: Sender::connect(answers, pool, options)?,
            decoder: Decoder::default(),
            begun: Vec::new(),
            outgoing: Outgoing::new(pool.clone()),
            exchanges: HashMap::new(),
            dirty: Vec::new(),
            is_deaf: false,
        })
    }

    pub fn exchange(&self, number: u32) -> Option<&Exchange> {
        self.exchanges.get(&number)
    }

    /// Does something with a request, which may have something to be sent then.
    pub fn with<R>(&mut self, number: u32, act: impl FnOnce(&mut Exchange) -> R) -> Option<R> {
        let exchange = self.exchanges.get_mut(&number)?;
        let was_dirty = exchange.is_dirty;
        let done = act(exchange);
        if exchange.is_dirty && !was_dirty {
            self.dirty.push(number);
        }
        Some(done)
    }

    /// Says something to the operator.
    pub fn say(&mut self, number: u32, line: &str) {
        if self.exchanges.contains_key(&number) {
            let end = line.floor_char_boundary(SAID_LEN_MAX - 1);
            let line = format!("{}\n", line[..end].trim_end());
            let header = crate::record::Header::new(Kind::Said, number, line.len());
            self.outgoing.push(header, line.as_bytes());
        }
    }

    /// Takes in what has come; false when there is nothing.
    pub fn look(&mut self, news: &mut Vec<News>) -> Result<bool> {
        match self.requests.read(usize::MAX)? {
            Read::Data(mut data) => {
                while let Some(piece) = self.decoder.next(&mut data)? {
                    self.hear(piece, news)?;
                }
                Ok(true)
            }
            Read::Nothing if !self.is_deaf => Ok(false),
            Read::Nothing | Read::End => Err(Error::PeerGone),
        }
    }

    fn hear(&mut self, piece: Piece, news: &mut Vec<News>) -> Result<()> {
        let Piece {
            header,
            bytes,
            is_end,
        } = piece;
        let number = header.request;
        if let Some(slice) = bytes {
            slice.for_each_block(|block| self.begun.extend_from_slice(block));
        }
        match header.kind {
            Kind::Request => {
                if self.begun.len() > VARIABLES_LEN_MAX {
                    return Err(Error::PeerFault("its variables are longer than 256 KiB"));
                }
                if is_end {
                    let Entry::Vacant(place) = self.exchanges.entry(number) else {
                        return Err(Error::PeerFault("it uses the number of another request"));
                    };
                    let variables = std::mem::take(&mut self.begun);
                    place.insert(Exchange::new(Request::new(variables, !header.is_last)));
                    news.push(News::Request(number));
                }
            }
            Kind::Body => {
                let bytes = std::mem::take(&mut self.begun);
                // One that is answered already is nobody's.
                let Some(exchange) = self.exchanges.get_mut(&number) else {
                    return Ok(());
                };
                if !exchange.take_body(&bytes) {
                    return Err(Error::PeerFault(
                        "it sends more of a body than there is room for",
                    ));
                }
                if is_end && header.is_last {
                    exchange.end_body();
                }
                if !news.contains(&News::Body(number)) {
                    news.push(News::Body(number));
                }
            }
            Kind::Leave => {
                if self.exchanges.remove(&number).is_some() {
                    news.push(News::Left(number));
                }
            }
            Kind::Room => {
                self.with(number, |exchange| exchange.more_room(header.value as usize));
            }
            Kind::Head | Kind::Content | Kind::Said => {
                return Err(Error::PeerFault("it sends what applications send"));
            }
        }
        Ok(())
    }

    /// Sends what may go.
    pub fn send(&mut self, news: &mut Vec<News>) -> Result<bool> {
        for number in std::mem::take(&mut self.dirty) {
            let Some(exchange) = self.exchanges.get_mut(&number) else {
                continue;
            };
            if exchange.go_on(number, &mut self.outgoing) {
                self.exchanges.remove(&number);
            } else if exchange.has_become_empty() {
                news.push(News::Room(number));
            }
        }
        self.outgoing.write(&mut self.answers)?;
        Ok(self.outgoing.is_empty())
    }

    /// Says that this side is about to sleep. True when there is something to do already.
    pub fn arm(&mut self, _: &mut Vec<News>) -> Result<bool> {
        let waits_for_room = !self.outgoing.is_empty() && !self.outgoing.is_short();
        let has_room = waits_for_room && self.answers.arm()?;
        Ok(self.requests.arm()? || has_room)
    }

    /// What it has to send waits for buffers.
    pub fn is_short(&self) -> bool {
        self.outgoing.is_short()
    }

    /// These ends were woken: that of requests, and that of answers.
    pub fn woken(&mut self, [requests, answers]: [bool; 2]) {
        if requests {
            self.requests.woken();
        }
        if answers {
            self.answers.woken();
            self.is_deaf |= self.answers.is_peer_gone();
        }
    }

    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.requests.as_fd(), self.answers.as_fd()]
    }

    /// Its requests, all of which are over.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.exchanges.keys().copied()
    }
}
