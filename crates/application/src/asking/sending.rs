//! What a link sends to an application: a bounded number of bytes that are put together for the pipe, and behind them a line of requests
//! whose records wait with them. A request that is left takes its records with it.

use crate::limits::OUTGOING_LEN_MAX;
use crate::outgoing::Outgoing;
use crate::record::Header;
use exos_iolite::{Pool, Result, Sender};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

/// The sending half of a link.
#[derive(Debug)]
pub(super) struct Sending {
    sender: Sender,
    outgoing: Outgoing,
    /// A request for each record that waits, in their order.
    waiting: VecDeque<u32>,
    written: u64,
}

impl Sending {
    pub fn new(sender: Sender, pool: Pool) -> Self {
        Self {
            sender,
            outgoing: Outgoing::new(pool),
            waiting: VecDeque::new(),
            written: 0,
        }
    }

    /// A record without bytes goes before all that wait.
    pub fn push(&mut self, header: Header) {
        self.outgoing.push(header, &[]);
    }

    /// A record of a request goes behind all that were put together, unless some wait, or there is no room; true when it does.
    pub fn push_now(&mut self, header: Header, bytes: &[u8]) -> bool {
        let has_room = self.waiting.is_empty() && self.outgoing.len() < OUTGOING_LEN_MAX;
        if has_room {
            self.outgoing.push(header, &[bytes]);
        }
        has_room
    }

    /// A record of a request waits with it.
    pub fn wait_in_line(&mut self, request: u32) {
        self.waiting.push_back(request);
    }

    /// No record of a request waits any more.
    pub fn forget(&mut self, request: u32) {
        self.waiting.retain(|waits| *waits != request);
    }

    /// The application is sent nothing any more, and has what it did not take no longer.
    pub fn abandon(self) {
        self.sender.give_up();
    }

    /// Writes as much as there is room for; `next_of` gives the next record of a request that waits. Has the descriptor be readable when there
    /// is room for more; true when there is already.
    pub fn write(
        &mut self,
        mut next_of: impl FnMut(u32) -> Option<(Header, Vec<u8>)>,
    ) -> Result<bool> {
        loop {
            while self.outgoing.len() < OUTGOING_LEN_MAX
                && let Some(request) = self.waiting.pop_front()
            {
                if let Some((header, bytes)) = next_of(request) {
                    self.outgoing.push(header, &[&bytes]);
                }
            }
            self.written += self.outgoing.write(&mut self.sender)? as u64;
            if self.outgoing.is_short() {
                return Ok(false);
            }
            if !self.outgoing.is_empty() {
                return self.sender.arm();
            }
            if self.waiting.is_empty() {
                return Ok(false);
            }
        }
    }

    /// The descriptor was readable; true when the application has gone.
    pub fn woken(&mut self) -> bool {
        self.sender.woken();
        self.sender.is_peer_gone()
    }

    /// Some requests wait with their records.
    pub fn has_line(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes that were put together and not written.
    pub fn len(&self) -> usize {
        self.outgoing.len()
    }

    /// Bytes that were written into the pipe.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Buffers are missing for what is next.
    pub fn is_short(&self) -> bool {
        self.outgoing.is_short()
    }
}

impl AsFd for Sending {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sender.as_fd()
    }
}
