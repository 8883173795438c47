//! A client's place: its connection, and the request that is under way on it.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use super::behind::Behind;
use super::order::{Linked, Links};
use crate::expect::Summing;
use crate::response::Body;

/// What a slot is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing; it may have a connection.
    Idle,
    /// Its connection is being opened.
    Connecting,
    /// Its connection stands, and is being secured.
    Securing,
    /// A request was sent, and no head has come.
    Head,
    /// A body comes.
    Body(Body),
    /// The last response is whole; the server is to close the connection.
    Closing,
}

/// A place.
#[derive(Clone, Debug)]
pub struct Slot {
    pub(super) stage: Stage,
    pub(super) connection: Option<ConnectionId>,
    /// Counts connections, so that news of older ones are known.
    pub(super) generation: u32,
    /// Requests begun on the connection.
    pub(super) used: u32,
    /// The request, by its place in the driver's table.
    pub(super) request: u32,
    pub(super) status: u16,
    /// Its first connection is being opened.
    pub(super) is_new: bool,
    /// Its request has left with the client's hello, and the handshake is not over.
    pub(super) is_early: bool,
    /// The connection ends with the response.
    pub(super) is_last: bool,
    /// The server has finished.
    pub(super) is_finished: bool,
    pub(super) intended: Instant,
    pub(super) begun: Instant,
    /// When what it is at came to be what it is at: its deadline is counted from then.
    pub(super) since: Instant,
    pub(super) first: Instant,
    /// Bytes of heads and of the framing of content so far.
    pub(super) framing: u64,
    /// Bytes of content so far.
    pub(super) content: u64,
    /// Of the content that is still to come, bytes that are only counted.
    pub(super) skipping: u32,
    pub(super) summing: Summing,
    /// Requests sent behind this one.
    pub(super) behind: Behind,
    links: Links,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            stage: Stage::Idle,
            connection: None,
            generation: 0,
            used: 0,
            request: 0,
            status: 0,
            is_new: false,
            is_early: false,
            is_last: false,
            is_finished: false,
            intended: Instant::START,
            begun: Instant::START,
            since: Instant::START,
            first: Instant::START,
            framing: 0,
            content: 0,
            skipping: 0,
            summing: Summing::default(),
            behind: Behind::default(),
            links: Links::default(),
        }
    }
}

impl Slot {
    /// A request is under way.
    pub(super) fn is_busy(&self) -> bool {
        match self.stage {
            Stage::Connecting | Stage::Securing | Stage::Head | Stage::Body(_) => true,
            Stage::Idle | Stage::Closing => false,
        }
    }
}

impl Linked for Slot {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The word of a slot's connection, by which its events find the slot.
pub(super) fn token(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}

/// The slot and the generation of a token.
pub(super) fn of_token(token: u64) -> (u32, u32) {
    (token as u32, (token >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million of them have to fit, beside the stack's control blocks (`crates/inet/tests/all/allocations.rs`).
    #[test]
    fn a_slot_has_its_size() {
        assert_eq!(size_of::<Slot>(), 128);
    }
}
