//! One connection of the server: what it waits for, and its end.

use std::net::IpAddr;

use exos_inet::tcp::ConnectionId;
use exos_inet::tcp::alarms::Alarms;
use exos_inet::{Instant, Stack};

use super::super::bounds::Pace;
use super::super::wait::Wait;
use super::super::without::Unmerged;
use super::streaming::Stream;
use crate::http::ServerConnection;
use crate::log::Unfinished;

pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) http: ServerConnection,
    pub(super) wait: Wait,
    pub(super) deadline: Instant,
    /// When the first bytes of the present request came.
    pub(super) begun: Instant,
    /// Bytes queued so far, and how fast the client takes them.
    pub(super) given: u64,
    /// Bytes of these that were counted as taken.
    counted: u64,
    pub(super) pace: Pace,
    /// Who the client is.
    pub(super) peer: IpAddr,
    /// Lines of the log that wait for responses to be taken.
    pub(super) unfinished: Unfinished,
    /// Requests wait in the receive buffer for room in the send queue.
    pub(super) held: bool,
    /// The client has finished.
    pub(super) client_finished: bool,
    /// We have finished.
    pub(super) finished: bool,
    /// What it has of a long file, where it has anything.
    pub(super) stream: Option<Box<Stream>>,
}

impl Connection {
    /// A connection on which nothing has been received.
    pub(super) fn new(id: ConnectionId, peer: IpAddr, now: Instant) -> Connection {
        let wait = Wait::Request;
        Connection {
            id,
            http: ServerConnection::new(),
            wait,
            deadline: now + wait.time(),
            begun: now,
            given: 0,
            counted: 0,
            pace: Pace::new(now, 0),
            peer,
            unfinished: Unfinished::default(),
            held: false,
            client_finished: false,
            finished: false,
            stream: None,
        }
    }

    /// The client has taken this many bytes of all that it was given; gives how many are new.
    pub(super) fn taken(&mut self, bytes: u64) -> u64 {
        let new = bytes.saturating_sub(self.counted);
        self.counted += new;
        new
    }

    /// Requests wait in the receive buffer for room, for a document, or behind one that is read while it is sent.
    pub(super) fn waits_to_serve(&self) -> bool {
        self.held || self.wait == Wait::Fetching || self.is_streaming()
    }

    /// A response is under way of which not all is queued.
    #[inline]
    pub(super) fn is_streaming(&self) -> bool {
        self.stream.as_ref().is_some_and(|s| s.is_under_way())
    }

    pub(super) fn wait(&mut self, now: Instant, wait: Wait, alarms: &mut Alarms) {
        self.wait = wait;
        self.wait_until(now + wait.time(), alarms);
    }

    /// Wait on, but until then.
    pub(super) fn wait_until(&mut self, until: Instant, alarms: &mut Alarms) {
        self.deadline = until;
        alarms.arm(until, self.id.slot());
    }

    /// Nothing more will be sent, and nothing that comes is looked at.
    pub(super) fn finish(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        alarms: &mut Alarms,
        unmerged: &mut Option<Unmerged>,
    ) {
        if self.finished {
            return;
        }
        self.finished = true;
        self.held = false;
        match unmerged {
            None => stack.tcp.finish(self.id),
            Some(unmerged) => unmerged.finish(self.id),
        }
        stack.tcp.discard_received(self.id);
        self.wait_for_the_end(now, stack, alarms);
    }

    /// Finished: first the client takes what is sent, then it finishes too.
    pub(super) fn wait_for_the_end(&mut self, now: Instant, stack: &Stack, alarms: &mut Alarms) {
        let tcp = stack.tcp.connection(self.id);
        let wait = if tcp.is_some_and(|c| c.unacknowledged() > 0) {
            Wait::Sending
        } else {
            Wait::Lingering
        };
        self.wait(now, wait, alarms);
    }
}

/// The connection with an identity, if it is still there.
pub(super) fn find(
    connections: &mut [Option<Connection>],
    id: ConnectionId,
) -> Option<&mut Connection> {
    connections
        .get_mut(id.slot() as usize)?
        .as_mut()
        .filter(|c| c.id == id)
}
