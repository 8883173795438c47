//! TCP (RFC 9293): the connections of one stack, found by their four-tuple and driven together.
//!
//! Each folder knows those above it in this table and none below:
//!
//! | room | what is in it |
//! |---|---|
//! | `values` | what all the rest is said in: [`State`] and its table of transitions, [`EventSet`], [`Segment`], [`Flow`], [`Options`], and the form in which a connection travels |
//! | [`congestion`] | how much may be in flight: CUBIC, NewReno, BBR, or a program's own |
//! | `shared` | what the connections of a stack share: room for them, memory for what they receive, answers that belong to none of them |
//! | `timers` | the wheel of all that is due, alarms in it, how long silence may last |
//! | `sending` | what is known of what is sent: what leaves next, what the peer has, what was lost and how that is repaired, round trips, pace, the path's MTU |
//! | `receiving` | what is known of what comes: bytes in order and beyond gaps, what is said of these, the window that we announce and how wide it should be |
//! | `connection` | [`Connection`], the control block: a sender, a receiver, a state; segments into it in the RFC's order, segments out of it, time |
//! | `opening` | who listens, from which ports we open, cookies |
//! | `table` | slots and index of connections, queues of those with work, TIME-WAIT |
//! | `handover` | a connection without a stack, on its way to another |
//! | `endpoint` | [`Tcp`]: all of them together, what happens when a segment arrives or time passes, and the program's commands |
//!
//! Polling order: `handle_segment` for all that arrived, `handle_timeout`, `poll_event` until there is
//! none (the program gives its commands), then `poll_output` until there is none.

pub mod congestion;
mod connection;
mod endpoint;
mod handover;
mod opening;
mod receiving;
mod sending;
mod shared;
mod table;
mod timers;
mod values;

pub use connection::info::Info;
pub use connection::{Connection, Path};
pub use endpoint::listing::Listening;
pub use endpoint::taking_on::BegunConnection;
pub use endpoint::tcp::Tcp;
pub use handover::detached::DetachedConnection;
pub use opening::listeners::{ListenOptions, ListenerId, Share, SynCookies};
pub use shared::memory::{MemoryInfo, Pressure};
pub use shared::reply::Reply;
pub use shared::room::{FreeRoom, SharedRoom};
pub use table::records::TIME_WAIT_RECORD_LEN;
pub use timers::alarms::Alarms;
pub use timers::wheel::Wheel;
pub use values::codec::HandoverError;
pub use values::ecn::{Ecn, EcnMode};
pub use values::event::{Event, EventSet, OpenError, Reason};
pub use values::flow::Flow;
pub(crate) use values::flow::FlowKey;
pub use values::id::ConnectionId;
pub use values::ip::IpFields;
pub use values::local::Local;
pub use values::options::{Keepalive, Options};
pub use values::outgoing::Outgoing;
pub use values::segment::Segment;
pub use values::state::State;
