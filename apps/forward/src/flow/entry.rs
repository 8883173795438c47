//! A flow, what it is found by, and its place in the table.

use super::state::State;
use crate::packets::endpoint::Endpoint;
use crate::packets::reach::Reach;

/// Seconds since a start that the caller chose.
pub type Tick = u32;

/// Where a flow is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub(crate) u32);

impl FlowId {
    /// Which place of the table it is, counted from 0.
    pub const fn place(self) -> usize {
        self.0 as usize
    }
}

/// What packets from a client are looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The client's end.
    pub client: Endpoint,
    /// Which listener it speaks to.
    pub listener: u16,
}

/// A flow.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Flow {
    /// Its client and listener.
    pub key: Key,
    /// The server that it was given to.
    pub server: u16,
    /// The port of ours that the server sees it come from; 0 where it sees the client's.
    pub our_port: u16,
    /// What is done with its packets.
    pub reach: Reach,
    /// How it stands.
    pub state: State,
    /// The sequence number of the server's SYN.
    pub server_isn: u32,
    /// The sequence numbers that client and server expect next, as far as they were heard.
    pub(super) expected: [u32; 2],
    /// What is known of it beside these.
    pub(super) marks: Marks,
    /// When a packet of it was last seen that says something of it.
    pub seen: Tick,
    /// False for a place that no flow has.
    pub is_there: bool,
    /// Its neighbours in the list of its class. Of a free place `older` is the next free one.
    pub(super) older: u32,
    pub(super) newer: u32,
}

// A line of the cache, which is what the table's speed and size rest on.
const _: () = assert!(size_of::<Flow>() == 64);

/// What is known of a flow beside the numbers themselves: for each end, whether its acknowledgement was heard, and whether it has
/// reset the connection with the exact number; whether the server's SYN was seen, and the flow has failed to begin; and how many servers have refused it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(pub(super) u8);

/// What a flow is from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// Its client and listener.
    pub key: Key,
    /// The server that it is given to.
    pub server: u16,
    /// The port of ours that the server sees, 0 for none.
    pub our_port: u16,
    /// What is done with its packets.
    pub reach: Reach,
}

impl Flow {
    /// Its place in the list of its class would be as good had it been put there now.
    #[inline]
    pub(super) const fn is_listed_at(&self, now: Tick) -> bool {
        let period = self.state.class().period();
        self.seen / period == now / period
    }
}
