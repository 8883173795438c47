//! The connections that slots share, and which slot is on which.

use std::collections::VecDeque;

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use super::super::slot::{of_token, token};
use crate::http2::Connection;
use crate::multiplexed::Multiplexed;
use crate::transport::Transport;

/// No connection.
const NONE: u32 = u32::MAX;

/// A connection.
#[derive(Debug)]
pub(super) struct Shared {
    /// Where it is; `None` of one that is over.
    pub(super) id: Option<ConnectionId>,
    /// Counts those that were in this place, so that news of older ones are known.
    generation: u32,
    pub(super) group: u32,
    pub(super) stage: Stage,
    pub(super) begun: Instant,
    /// When something last came.
    pub(super) heard: Instant,
    /// Requests asked on it.
    pub(super) used: u32,
    /// What is asked leaves before it is secured: anybody may send it again.
    pub(super) is_early: bool,
    /// Nothing more is asked on it.
    pub(super) is_retired: bool,
    /// The server has finished.
    pub(super) is_finished: bool,
    /// The server has gone away because something was wrong.
    pub(super) is_refused: bool,
    /// Slots whose requests have yet to be asked.
    pub(super) waiting: VecDeque<u32>,
    /// It stands among those that something is to be done for at the end of the turn.
    is_touched: bool,
}

/// What it is at.
#[derive(Debug)]
pub(super) enum Stage {
    /// It is being opened.
    Opening,
    /// It stands, and is being secured.
    Securing,
    /// Requests may be asked.
    Open(Spoken),
}

/// What is spoken on one.
#[derive(Debug)]
pub(super) enum Spoken {
    /// Frames, in bytes that a connection carries.
    Http2(Box<Connection>),
    /// Streams, which the transport has.
    Http3,
}

impl Shared {
    /// What of it is there of HTTP/2, once requests may be asked.
    pub(super) fn http2(&mut self) -> Option<&mut Connection> {
        match &mut self.stage {
            Stage::Open(Spoken::Http2(http)) => Some(http),
            Stage::Open(Spoken::Http3) | Stage::Opening | Stage::Securing => None,
        }
    }

    /// Its requests, once they may be asked.
    pub(super) fn requests<'a>(
        &'a mut self,
        transport: &'a mut impl Transport,
    ) -> Option<&'a mut dyn Multiplexed> {
        match &mut self.stage {
            Stage::Open(Spoken::Http2(http)) => Some(&mut **http),
            Stage::Open(Spoken::Http3) => {
                let http = transport.http3(self.id?)?;
                Some(http)
            }
            Stage::Opening | Stage::Securing => None,
        }
    }

    /// Nothing is under way on it, and nothing will be.
    pub(super) fn is_done(&mut self, transport: &mut impl Transport) -> bool {
        self.is_retired && self.waiting.is_empty() && self.is_idle(transport)
    }

    /// Nothing is under way on it.
    pub(super) fn is_idle(&mut self, transport: &mut impl Transport) -> bool {
        let requests = self.requests(transport);
        requests.is_none_or(|requests| requests.streams() == 0)
    }
}

/// Where a slot's request is.
#[derive(Clone, Copy, Debug)]
struct Place {
    connection: u32,
    /// A server that went away without doing anything at all has left it before.
    was_asked: bool,
}

/// All of them.
#[derive(Debug)]
pub(in super::super) struct SharedConnections {
    /// Slots of a connection.
    streams: u32,
    /// Connections over which slots are dealt out one by one, of a load in which as many slots are used as are needed.
    dealt_to: Option<u32>,
    all: Vec<Shared>,
    /// Places of those that are over.
    free: Vec<u32>,
    /// The connection of each group.
    groups: Vec<u32>,
    /// Of each slot.
    places: Vec<Place>,
    touched: Vec<u32>,
}

impl SharedConnections {
    /// None yet; slots are dealt out to this many of them one by one, or the first of them to the first.
    pub(in super::super) fn new(streams: u32, dealt_to: Option<u32>) -> Self {
        Self {
            streams,
            dealt_to,
            all: Vec::new(),
            free: Vec::new(),
            groups: Vec::new(),
            places: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Requests that are to be under way on a connection at most.
    pub(super) fn streams(&self) -> u32 {
        self.streams
    }

    pub(super) fn group_of(&self, slot: u32) -> u32 {
        match self.dealt_to {
            Some(connections) => slot % connections,
            None => slot / self.streams,
        }
    }

    pub(super) fn get(&self, at: u32) -> &Shared {
        &self.all[at as usize]
    }

    pub(super) fn get_mut(&mut self, at: u32) -> &mut Shared {
        &mut self.all[at as usize]
    }

    /// The connection on which a group asks.
    pub(super) fn of_group(&self, group: u32) -> Option<u32> {
        let at = self.groups.get(group as usize).copied();
        at.filter(|at| *at != NONE)
    }

    /// Whether the slot's group has a connection to ask on.
    pub(in super::super) fn has(&self, slot: u32) -> bool {
        self.of_group(self.group_of(slot)).is_some()
    }

    /// One of them is being opened.
    pub(in super::super) fn is_opening(&self) -> bool {
        let mut all = self.all.iter();
        all.any(|it| it.id.is_some() && matches!(it.stage, Stage::Opening))
    }

    /// The connection of a token, unless it is over.
    pub(super) fn of_token(&self, token: u64) -> Option<u32> {
        let (at, generation) = of_token(token);
        let it = self.all.get(at as usize)?;
        (it.generation == generation && it.id.is_some()).then_some(at)
    }

    /// A place for a connection of a group, which is to be opened, and its token.
    pub(super) fn reserve(&mut self, group: u32, now: Instant) -> (u32, u64) {
        let at = self.free.pop().unwrap_or(self.all.len() as u32);
        let generation = self.all.get(at as usize).map_or(0, |it| it.generation);
        let it = Shared {
            id: None,
            generation,
            group,
            stage: Stage::Opening,
            begun: now,
            heard: now,
            used: 0,
            is_retired: false,
            is_early: false,
            is_finished: false,
            is_refused: false,
            waiting: VecDeque::new(),
            is_touched: false,
        };
        match self.all.get_mut(at as usize) {
            Some(place) => *place = it,
            None => self.all.push(it),
        }
        (at, token(at, generation))
    }

    /// It is being opened: its group asks on it.
    pub(super) fn opens(&mut self, at: u32, id: ConnectionId) {
        let it = &mut self.all[at as usize];
        it.id = Some(id);
        let group = it.group as usize;
        if self.groups.len() <= group {
            self.groups.resize(group + 1, NONE);
        }
        self.groups[group] = at;
    }

    /// Its group asks on it no more. Gives the slots that wait to ask.
    pub(super) fn retire(&mut self, at: u32) -> VecDeque<u32> {
        let it = &mut self.all[at as usize];
        it.is_retired = true;
        let group = &mut self.groups[it.group as usize];
        if *group == at {
            *group = NONE;
        }
        std::mem::take(&mut it.waiting)
    }

    /// It is over, or was never opened: its place is free. Gives where it was.
    pub(super) fn remove(&mut self, at: u32) -> Option<ConnectionId> {
        let it = &mut self.all[at as usize];
        it.generation = it.generation.wrapping_add(1);
        it.stage = Stage::Opening;
        it.waiting = VecDeque::new();
        self.free.push(at);
        it.id.take()
    }

    /// All that there are places for, those that are over too.
    pub(super) fn places(&self) -> u32 {
        self.all.len() as u32
    }

    // Slots.

    /// The connection that a slot's request is on.
    pub(super) fn of_slot(&self, slot: u32) -> Option<u32> {
        let place = self.places.get(slot as usize)?;
        (place.connection != NONE).then_some(place.connection)
    }

    /// A slot's request is to be asked on this connection.
    pub(super) fn set_slot(&mut self, slot: u32, at: u32) {
        let nowhere = Place {
            connection: NONE,
            was_asked: false,
        };
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, nowhere);
        }
        self.places[slot as usize].connection = at;
    }

    /// A slot's request is on no connection.
    pub(super) fn clear_slot(&mut self, slot: u32) {
        if let Some(place) = self.places.get_mut(slot as usize) {
            place.connection = NONE;
        }
    }

    /// A slot has a request that was asked nowhere.
    pub(in super::super) fn is_fresh(&mut self, slot: u32) {
        if let Some(place) = self.places.get_mut(slot as usize) {
            place.was_asked = false;
        }
    }

    /// A server that goes away has done nothing about a slot's request, nor any other. True when that is the first time.
    pub(super) fn may_ask_again(&mut self, slot: u32) -> bool {
        let place = &mut self.places[slot as usize];
        !std::mem::replace(&mut place.was_asked, true)
    }

    // The end of a turn.

    /// Something is to be done for a connection at the end of the turn.
    pub(super) fn touch(&mut self, at: u32) {
        let it = &mut self.all[at as usize];
        if !std::mem::replace(&mut it.is_touched, true) {
            self.touched.push(at);
        }
    }

    /// The next one for which something is to be done.
    pub(super) fn poll_touched(&mut self) -> Option<u32> {
        loop {
            let at = self.touched.pop()?;
            let it = &mut self.all[at as usize];
            it.is_touched = false;
            if it.id.is_some() {
                return Some(at);
            }
        }
    }
}
