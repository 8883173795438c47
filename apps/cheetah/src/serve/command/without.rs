//! The specialisations that can be turned off, to measure what each is worth (*Fast and Flexible*, section 5, Table 2).

use exos_buf::{Buffer, Slice};
use exos_inet::Stack;
use exos_inet::tcp::{ConnectionId, Event, EventSet};

/// What the server does because it knows what it sends.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specialisation {
    /// The sums of documents' bytes are kept with them. Without: each segment is summed when it leaves
    PrecomputedChecksums,
    /// Response heads are made once a second, and fields with their document. Without: for each response
    PrecomputedHeaders,
    /// Acknowledgements and FINs ride on data. Without: each leaves in a packet of its own
    PacketMerging,
    /// Documents are what is sent again when it is lost. Without: each connection has a copy of what it is sent
    MergedCache,
    /// Several segments leave at once, where the link can cut them. Without: one by one
    SuperPackets,
}

/// What connections do without packet merging: what was heard is acknowledged in one turn, and answered in the next;
/// FINs leave a turn after the data.
#[derive(Default)]
pub(in crate::serve) struct Unmerged {
    /// Heard in the last turn, to be answered in this one.
    events: Vec<Event>,
    /// Connections whose last data was queued in the last turn.
    finished: Vec<ConnectionId>,
}

impl Unmerged {
    /// Ends what the last turn has finished, and takes the events to be answered now; acknowledges what those after
    /// them brought.
    pub(in crate::serve) fn turn(&mut self, stack: &mut Stack) -> Vec<Event> {
        for id in self.finished.drain(..) {
            stack.tcp.finish(id);
        }
        let answered = std::mem::take(&mut self.events);
        while let Some(event) = stack.poll_event() {
            if event.set.contains(EventSet::READABLE) {
                stack.tcp.acknowledge_now(event.connection);
            }
            self.events.push(event);
        }
        answered
    }

    /// The FIN of a connection is to follow in the next turn.
    pub(in crate::serve) fn finish(&mut self, id: ConnectionId) {
        self.finished.push(id);
    }

    /// True when there is something to be done in the next turn.
    pub(in crate::serve) fn is_waiting(&self) -> bool {
        !self.events.is_empty() || !self.finished.is_empty()
    }
}

/// A copy of these bytes in memory of its own.
pub(in crate::serve) fn copy(slice: &Slice) -> Slice {
    Buffer::from(slice.as_bytes()).into()
}
