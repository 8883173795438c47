//! Responses that clients have not acknowledged when their connections come to the stack.

use exos_buf::{Buffer, Slice};
use exos_filter::handler::web::layout::{ENTRIES, Entries, copy, entry, slot};
use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use super::memory::Memory;
use super::reports::Named;

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

/// A copy of a response in the memory, and the first number that it was sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentCopy {
    pub(super) at: u64,
    pub(super) una: u32,
}

impl SentCopy {
    /// What the connection of a slot has sent, in a copy that is as long; `None` where all is acknowledged, or there is none any more.
    pub(super) fn of_slot(entries: Entries, memory: &Memory, at: u64) -> Option<Self> {
        let (_, nxt) = memory.halves(at + slot::RCV);
        let (una, _) = memory.halves(at + slot::UNA);
        let of = ENTRIES + u64::from(memory.half(at + slot::ENTRY));
        let state = memory.get(at + slot::STATE) as i32;
        let fin = u32::from(state != slot::OPEN);
        let len = nxt.wrapping_sub(una).wrapping_sub(fin);
        let is_same = memory.half(of + entry::GENERATION) == memory.half(at + slot::GENERATION);
        if len == 0 || !is_same {
            return None;
        }
        let latest = memory.get(of + entry::COPY) & 1;
        let copies = [latest, 1 - latest].map(|n| of + entry::COPIES + n * entries.copy_len());
        let mut copies = copies.into_iter().map(|at| Self { at, una });
        copies.find(|copy| {
            // Behind the peer's FIN ours follows any response.
            let closes = state == slot::LAST_ACK || copy.closes(memory) == (fin == 1);
            copy.len(memory) == len && closes
        })
    }

    pub(super) fn len(self, memory: &Memory) -> u32 {
        memory.get(self.at + copy::LEN) as u32
    }

    pub(super) fn closes(self, memory: &Memory) -> bool {
        memory.half(self.at + copy::CLOSES) == 1
    }

    pub(super) fn bytes(self, memory: &Memory) -> Slice {
        let bytes = memory.read(self.at + copy::BYTES, self.len(memory) as usize);
        Buffer::from(bytes).into()
    }
}
