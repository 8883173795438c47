//! Segments to be built: their headers' values, and where their data lies.

use core::ops::Range;

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpOptions};

use crate::tcp::values::ip::IpFields;

/// How much may leave in one piece.
#[derive(Copy, Clone, Debug)]
pub enum Burst {
    /// Segments with up to this many bytes of data, which the link cuts up; zero: a maximum segment size each.
    Bytes(u32),
    /// Up to this many segments that differ in their numbers alone, which the stack cuts up.
    Frames(usize),
}

impl Burst {
    /// The most data that the link takes in one segment.
    pub(in crate::tcp) const fn bytes(self) -> u32 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Frames(_) => 0,
        }
    }
}

/// A segment to be built: its header's values, and where in the send queue its data lies.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Sequence number.
    pub seq: SeqNumber,
    /// Acknowledgement number.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: TcpFlags,
    /// The window field.
    pub window: u16,
    /// Options.
    pub options: TcpOptions,
    /// The data, as a range of the connection's send queue.
    pub data: Range<usize>,
    /// Largest payload of one segment: data longer than this must be cut up.
    pub mss: u16,
    /// True when all of it was sent before.
    pub again: bool,
    /// Routers may mark it instead of dropping it (RFC 3168 §5): never a SYN, a bare acknowledgement
    /// or what was sent before (§6.1.1, §6.1.4, §6.1.5).
    pub ect: bool,
    /// What the program said of the IP header.
    pub ip: IpFields,
}

impl Outgoing {
    /// None: what segments are written into.
    pub const NONE: Self = Self {
        seq: SeqNumber(0),
        ack: SeqNumber(0),
        flags: TcpFlags::ACK,
        window: 0,
        options: TcpOptions::NONE,
        data: 0..0,
        mss: 1,
        again: false,
        ect: false,
        ip: IpFields::DEFAULT,
    };

    /// The data of the first segment.
    #[inline]
    pub fn first(&self) -> Range<usize> {
        let len = self.data.len().min(usize::from(self.mss));
        self.data.start..self.data.start + len
    }

    /// The first segment has left: go on to the next, if there is one.
    pub fn advance(&mut self) -> bool {
        let first = self.first();
        self.seq += first.len() as u32;
        self.data.start = first.end;
        !self.data.is_empty()
    }

    /// How many segments the wire will see.
    #[inline]
    pub fn segments(&self) -> usize {
        match self.data.len() <= usize::from(self.mss) {
            true => 1,
            false => self.data.len().div_ceil(usize::from(self.mss)),
        }
    }
}
