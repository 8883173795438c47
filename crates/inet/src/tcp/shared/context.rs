//! What the stack lends a connection to look at a segment or the time, and what becomes of the connection then.

use crate::counters::Counters;
use crate::tcp::shared::memory::Memory;
use crate::tcp::shared::reply::Replies;
use crate::tcp::values::event::Reason;
use crate::time::Instant;

/// What the stack lends a connection while it looks at a segment or the time.
pub struct Context<'a> {
    /// The time.
    pub now: Instant,
    /// Where drops and events are counted.
    pub counters: &'a mut Counters,
    /// Where answers that need no connection's state go.
    pub replies: &'a mut Replies,
    /// Where room for received data comes from.
    pub memory: &'a mut Memory,
}

/// What is to become of a connection after an event.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It goes on.
    Keep,
    /// It is over.
    Close(Reason),
    /// It is over for the program; a TIME-WAIT entry stays.
    TimeWait,
}
