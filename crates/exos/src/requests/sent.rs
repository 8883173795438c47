//! Responses that clients have not acknowledged when their connections come to the stack.

use exos_filter::handler::web::layout::slot;
use exos_inet::tcp::ConnectionId;
use exos_inet::{Duration, Instant};

use super::memory::Memory;
use super::reports::Named;

/// A connection whose peer neither acknowledges nor ends it is reset then, and what was sent on it forgotten.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(60);

/// A response of the kernel's that is under way on a connection which the stack has taken on: it is in the connection's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The connection.
    pub connection: ConnectionId,
    /// Bytes of the response.
    pub len: usize,
    /// The connection is to end behind it, which the program sees to.
    pub closes: bool,
    /// Where answers are reported, which it is and when the request came: of this there is no [`Report`](super::Report).
    pub reported: Option<(Named, Instant)>,
}

/// Which response it is, and the first number that it was sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentResponse {
    /// Its entry's place, and its version.
    pub(super) response: (u32, u32),
    pub(super) una: u32,
}

impl SentResponse {
    /// What the connection of a slot has sent, which is not acknowledged.
    pub(super) fn of_slot(memory: &Memory, at: u64) -> Self {
        Self {
            response: (
                memory.half(at + slot::ENTRY),
                memory.half(at + slot::VERSION),
            ),
            una: memory.half(at + slot::UNA),
        }
    }
}
