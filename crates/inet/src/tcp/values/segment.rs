//! A received segment, parsed once.

use exos_wire::SeqNumber;
use exos_wire::tcp::{TcpFlags, TcpOptions, TcpView};

use crate::tcp::values::ecn::Ecn;

/// Both bits of ECN.
const BOTH: u8 = TcpFlags::ECE.0 | TcpFlags::CWR.0;

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

    /// A SYN that asks for ECN (RFC 3168 §6.1.1). One that comes marked was marked by somebody who
    /// does not know what the bits mean: then neither may the path.
    pub(in crate::tcp) fn asks_for_ecn(&self) -> bool {
        self.flags.0 & BOTH == BOTH && self.ecn == Ecn::NotEct
    }

    /// A SYN-ACK that grants it. Both bits come from hosts that send back whatever they got.
    pub(in crate::tcp) fn grants_ecn(&self) -> bool {
        self.flags.0 & BOTH == TcpFlags::ECE.0
    }
}
