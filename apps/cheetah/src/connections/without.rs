//! The specialisations that can be turned off, to measure what each is worth (*Fast and Flexible*, section 5, Table 2).

use std::collections::VecDeque;

use exos_buf::{Buffer, Slice};
use exos_inet::Stack;
use exos_inet::tcp::{ConnectionId, Event, EventSet};

use crate::http::Server;

/// What the server does because it knows what it sends.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specialisation {
    /// Checksums of documents are computed once. Without: for every segment that is sent
    PrecomputedChecksums,
    /// Response headers are prepared once a second and once per document. Without: for each response
    PrecomputedHeaders,
    /// Acknowledgements and FINs are sent along with data. Without: each in a packet of its own
    PacketMerging,
    /// Retransmissions use the cached document. Without: each connection keeps a copy of what it sends
    MergedCache,
    /// Several segments are sent in one piece, where the link can cut it. Without: one by one
    SuperPackets,
}

/// What a server on a stack does without. At the beginning of each turn, [`Without::begin_turn`].
#[derive(Default)]
pub struct Without {
    /// Without packet merging.
    unmerged: Option<Unmerged>,
    /// Connections get copies of what they are sent.
    copies: bool,
}

impl Without {
    /// Does without these; before there are connections. Super-packets are the link's. Nothing where there are none.
    pub fn these(
        all: &[Specialisation],
        server: &mut Server,
        stack: &mut Stack,
    ) -> Option<Without> {
        let mut without = Without::default();
        for specialisation in all {
            match specialisation {
                Specialisation::PrecomputedChecksums => stack.sum_data_afresh(),
                Specialisation::PrecomputedHeaders => server.make_heads_afresh(),
                Specialisation::PacketMerging => without.unmerged = Some(Unmerged::default()),
                Specialisation::MergedCache => without.copies = true,
                Specialisation::SuperPackets => {}
            }
        }
        (without.copies || without.unmerged.is_some()).then_some(without)
    }

    /// Does what was put off in the last turn, and puts off what is new.
    pub fn begin_turn(&mut self, stack: &mut Stack) {
        if let Some(unmerged) = &mut self.unmerged {
            unmerged.begin_turn(stack);
        }
    }

    /// True when there is something to be done in the next turn.
    pub(crate) fn is_waiting(&self) -> bool {
        let unmerged = self.unmerged.as_ref();
        unmerged.is_some_and(|it| !it.heard.is_empty() || !it.finished.is_empty())
    }

    /// The next event to be answered in this turn.
    pub(super) fn poll_event(&mut self, stack: &mut Stack) -> Option<Event> {
        match &mut self.unmerged {
            None => stack.poll_event(),
            Some(unmerged) => unmerged.answered.pop_front(),
        }
    }

    /// What a connection gets of what it is sent.
    pub(super) fn kept(&self, bytes: Slice) -> Slice {
        match self.copies {
            true => {
                let mut copy = Vec::with_capacity(bytes.len());
                bytes.append_to(&mut copy);
                Buffer::from(copy).into()
            }
            false => bytes,
        }
    }

    /// Ends our side of a connection, in this turn or the next.
    pub(super) fn finish(&mut self, id: ConnectionId, stack: &mut Stack) {
        match &mut self.unmerged {
            None => stack.tcp.finish(id),
            Some(unmerged) => unmerged.finished.push(id),
        }
    }
}

/// What connections do without packet merging: what was heard is acknowledged in one turn, and answered in the next;
/// FINs leave a turn after the data.
#[derive(Default)]
struct Unmerged {
    /// Heard in this turn, to be answered in the next.
    heard: VecDeque<Event>,
    /// To be answered in this turn.
    answered: VecDeque<Event>,
    /// Connections whose last data was queued in the last turn.
    finished: Vec<ConnectionId>,
}

impl Unmerged {
    fn begin_turn(&mut self, stack: &mut Stack) {
        for id in self.finished.drain(..) {
            stack.tcp.finish(id);
        }
        self.answered.append(&mut self.heard);
        while let Some(event) = stack.poll_event() {
            if event.set.contains(EventSet::READABLE) {
                stack.tcp.acknowledge_now(event.connection);
            }
            self.heard.push_back(event);
        }
    }
}
