//! A received segment, what the stack lends a connection to look at it, and what becomes of the connection then.

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpOptions, TcpView};

use super::ecn::Ecn;
use super::event::Reason;
use super::memory::Memory;
use super::reply::Replies;
use crate::counters::Counters;
use crate::time::Instant;

/// A received segment, parsed once.
#[derive(Clone)]
pub struct Segment<'a> {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: SeqNumber,
    /// Acknowledgement number, meaningful with ACK.
    pub ack: SeqNumber,
    /// The control bits.
    pub flags: TcpFlags,
    /// The window field as it stands.
    pub window: u16,
    /// The options.
    pub options: TcpOptions,
    /// What its IP header says of congestion.
    pub ecn: Ecn,
    /// The data.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// What a parsed header says; nothing of congestion, which the IP header tells.
    pub fn from_view(view: &TcpView<'a>) -> Self {
        Self {
            seq: view.seq(),
            ack: view.ack(),
            flags: view.flags(),
            window: view.window(),
            options: view.options(),
            ecn: Ecn::NotEct,
            payload: view.payload(),
        }
    }

    /// True when any of `flags` is set.
    pub fn has(&self, flags: TcpFlags) -> bool {
        self.flags.0 & flags.0 != 0
    }

    /// True when it asks for a connection.
    pub fn opens(&self) -> bool {
        self.has(TcpFlags::SYN) && !self.has(TcpFlags::ACK) && !self.has(TcpFlags::RST)
    }

    /// The sequence numbers it takes: data, SYN and FIN.
    pub fn len(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.has(TcpFlags::SYN))
            + u32::from(self.has(TcpFlags::FIN))
    }

    /// True when it takes no sequence number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(in crate::tcp) fn end(&self) -> SeqNumber {
        self.seq + self.len()
    }
}

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
