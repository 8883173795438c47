//! Answers to echo requests of ours, until the program takes them.

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::limits::CONTROL_FRAMES_MAX;

/// An answer to an echo request of ours.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct EchoReply {
    /// Who answered.
    pub from: IpAddr,
    /// The identifier of the request.
    pub ident: u16,
    /// The sequence number of the request.
    pub seq: u16,
}

/// Answers that the program has not taken yet, a bounded number.
#[derive(Debug, Default)]
pub(super) struct Pings(VecDeque<EchoReply>);

impl Pings {
    /// Keeps an answer, while there is room.
    pub(super) fn heard(&mut self, reply: EchoReply) {
        if self.0.len() < CONTROL_FRAMES_MAX {
            self.0.push_back(reply);
        }
    }

    /// The oldest.
    pub(super) fn take(&mut self) -> Option<EchoReply> {
        self.0.pop_front()
    }
}
