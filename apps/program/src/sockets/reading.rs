//! What is to be read of a connection, and what epoll says is behind it.

use exos::ConnectionId;
use rustix::event::epoll::EventFlags;

/// Reads of one connection before others have their turn: a megabyte.
pub(super) const READS_MAX: u32 = 16;

/// A connection that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) id: ConnectionId,
    /// Reads that it may have before the others' turn.
    pub(super) left: u32,
    pub(super) end: End,
    /// A read may stop before urgent data.
    pub(super) is_urgent: bool,
}

/// What is behind the bytes that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// More may come.
    Open,
    /// The peer has finished.
    Finished,
    /// An error.
    Failed,
}

impl Reading {
    /// What epoll tells of a connection is to be read.
    pub(super) fn new(id: ConnectionId, flags: EventFlags) -> Reading {
        let end = match () {
            () if flags.contains(EventFlags::ERR) => End::Failed,
            () if flags.contains(EventFlags::RDHUP) => End::Finished,
            () => End::Open,
        };
        Reading {
            id,
            left: READS_MAX,
            end,
            is_urgent: flags.contains(EventFlags::PRI),
        }
    }
}
