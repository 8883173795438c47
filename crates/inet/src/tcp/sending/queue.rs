//! What is queued, sent and acknowledged: the numbers of RFC 9293 §3.3.1, and the bytes that they stand for.
//!
//! The bytes are slices of the program's buffers; the first is that of `una`, the SYN apart. Nothing ever goes back: `max` stands
//! in the place of SND.NXT, and what is sent again is found on the scoreboard.

use core::ops::Range;

use exos_buf::{Aggregate, Slice};
use exos_wire::SeqNumber;

use crate::limits::SEND_QUEUE_BYTES_MAX;
use crate::tcp::sending::acknowledgement::Acked;
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::tcp::values::segment::Segment;

/// What has become of our SYN.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Syn {
    /// It is to be sent.
    Due,
    Sent,
    Acknowledged,
}

/// What one connection sends. The numbers, which every segment needs, come first.
#[repr(C)]
pub(in crate::tcp) struct SendQueue {
    una: SeqNumber,
    /// Behind the last sequence number sent.
    max: SeqNumber,
    iss: SeqNumber,
    syn: Syn,
    /// Our SYN has left more than once: its acknowledgement measures nothing.
    syn_again: bool,
    /// A FIN follows the queued data.
    finishing: bool,
    /// It is acknowledged.
    finished: bool,
    bytes: Aggregate,
}

impl SendQueue {
    /// The numbers lie in this many first bytes.
    #[cfg(test)]
    pub const NUMBERS_BYTES: usize = core::mem::offset_of!(Self, bytes);

    /// Nothing has left.
    #[inline(always)]
    pub fn new(iss: SeqNumber) -> Self {
        Self {
            una: iss,
            max: iss,
            iss,
            syn: Syn::Due,
            syn_again: false,
            finishing: false,
            finished: false,
            bytes: Aggregate::new(),
        }
    }

    // Commands.

    /// Queue a slice to be sent; false when that is too much at once ([`SEND_QUEUE_BYTES_MAX`]), or a FIN is to follow
    /// what is there.
    pub fn push(&mut self, slice: Slice) -> bool {
        // Two sequence numbers tell which is the later one only within 2 GiB.
        let room = self.bytes.len() + slice.len() <= SEND_QUEUE_BYTES_MAX;
        let open = !self.finishing && room;
        if open && !slice.is_empty() {
            self.bytes.push(slice);
        }
        open
    }

    /// Nothing more will be sent: a FIN follows what is queued.
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// Let the SYN be sent, perhaps again.
    pub fn send_syn(&mut self) {
        self.syn = Syn::Due;
    }

    /// Take the places that another connection has left.
    pub fn furnish(&mut self, bytes: Aggregate) {
        debug_assert!(self.bytes.is_empty());
        self.bytes = bytes;
    }

    /// The connection has ended: its places.
    pub fn strip(&mut self) -> Aggregate {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes
    }

    /// Give back what memory is not needed.
    pub fn shrink(&mut self) {
        self.bytes.shrink();
    }

    // What happens.

    /// Our SYN leaves. Gives whether it did before: its round trip is measured if it left only once.
    pub fn syn_left(&mut self) -> bool {
        let again = self.max.gt(self.iss);
        self.syn = Syn::Sent;
        self.syn_again |= again;
        self.max = self.max.max(self.iss + 1);
        again
    }

    /// The SYN-ACK has left already, as a cookie: what is left to do is to see it acknowledged. When
    /// it left is forgotten, so nothing is measured.
    pub fn syn_ack_has_left(&mut self) {
        self.syn = Syn::Sent;
        self.max = self.iss + 1;
        self.syn_again = true;
    }

    /// Our SYN is acknowledged: data begins behind it.
    pub fn syn_acknowledged(&mut self) {
        self.syn = Syn::Acknowledged;
        self.una = self.iss + 1;
    }

    /// What was sent reaches up to `end`.
    #[inline]
    pub fn left(&mut self, end: SeqNumber) {
        self.max = self.max.max(end);
    }

    /// Move `una` to `ack` and let go of the data before it.
    #[inline]
    pub fn acknowledged(&mut self, ack: SeqNumber) -> Acked {
        let (queued, advanced) = (self.bytes.len(), (ack - self.una) as usize);
        let data = advanced.min(queued);
        if data > 0 {
            self.bytes.advance(data);
        }
        self.una = ack;
        let fin = advanced > queued && self.fin_is_due();
        self.finished |= fin;
        Acked {
            data: data > 0,
            fin,
        }
    }

    // What is known.

    #[inline]
    pub fn una(&self) -> SeqNumber {
        self.una
    }

    #[inline]
    pub fn max(&self) -> SeqNumber {
        self.max
    }

    /// Our initial sequence number.
    pub fn iss(&self) -> SeqNumber {
        self.iss
    }

    /// Our SYN is to be sent.
    #[inline]
    pub fn syn_is_due(&self) -> bool {
        self.syn == Syn::Due
    }

    #[inline]
    pub fn syn_is_acknowledged(&self) -> bool {
        self.syn == Syn::Acknowledged
    }

    /// It left more than once, or nobody knows when.
    pub fn syn_is_ambiguous(&self) -> bool {
        self.syn_again
    }

    /// What a segment acknowledges, if it does, is our SYN.
    pub fn is_answered_by(&self, seg: &Segment<'_>) -> bool {
        seg.ack.gt(self.iss) && seg.ack.le(self.max)
    }

    /// It was sent, and is not acknowledged.
    pub fn is_in_flight(&self, seq: SeqNumber) -> bool {
        seq.ge(self.una) && seq.lt(self.max)
    }

    /// Sequence numbers sent and not acknowledged.
    #[inline]
    pub fn flight(&self) -> u32 {
        (self.max - self.una).max(0) as u32
    }

    /// Sent data waits for its acknowledgement, or more for being sent.
    pub fn is_busy(&self) -> bool {
        self.max != self.una || !self.bytes.is_empty()
    }

    /// What is queued and not acknowledged.
    #[inline]
    pub const fn bytes(&self) -> &Aggregate {
        &self.bytes
    }

    /// Bytes queued and not yet sent for the first time.
    #[inline]
    pub fn unsent(&self) -> u32 {
        (self.end() - self.max).max(0) as u32
    }

    /// Something was never sent, data or the FIN.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        let end = self.end();
        self.max.lt(end) || (self.max == end && self.fin_is_due())
    }

    /// The sequence number behind the last queued byte.
    #[inline]
    pub fn end(&self) -> SeqNumber {
        self.start() + self.bytes.len() as u32
    }

    /// The sequence number of the first queued byte: the first not acknowledged, the SYN apart.
    #[inline]
    pub fn start(&self) -> SeqNumber {
        match self.syn {
            Syn::Acknowledged => self.una,
            Syn::Due | Syn::Sent => self.iss + 1,
        }
    }

    /// Where the byte of this number lies among those queued.
    #[inline]
    pub fn place(&self, seq: SeqNumber) -> usize {
        (seq - self.start()) as usize
    }

    /// Where `len` bytes from `seq` on lie; `None` when they are there no more.
    pub fn find(&self, seq: SeqNumber, len: usize) -> Option<Range<usize>> {
        let start = usize::try_from(seq - self.start()).ok()?;
        (start + len <= self.bytes.len()).then(|| start..start + len)
    }

    /// A FIN of ours is queued or unacknowledged.
    #[inline]
    pub fn fin_is_due(&self) -> bool {
        self.finishing && !self.finished && self.syn == Syn::Acknowledged
    }

    #[inline]
    pub fn is_finishing(&self) -> bool {
        self.finishing
    }

    // Between stacks.

    /// To or from another stack; [`Self::stands`] there.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => SendQueue {
            finishing: flag,
            iss: seq,
            una: seq,
            max: seq,
        } by_hand { bytes, } stay {
            // Of the handshake, and of the end.
            syn, syn_again, finished,
        });
        wire.aggregate(bytes)
    }

    /// Its state in another stack is that of a connection that stands; our FIN may be acknowledged.
    pub fn stands(&mut self, awaits_ack_of_fin: bool) {
        self.syn = Syn::Acknowledged;
        self.finished = self.finishing && !awaits_ack_of_fin;
    }

    /// What the code relies on; the name of what does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        let flight = self.max - self.una;
        let most = self.bytes.len() + usize::from(self.fin_is_due());
        match () {
            () if self.bytes.len() > SEND_QUEUE_BYTES_MAX => Err("send"),
            () if flight < 0 || flight as usize > most => Err("snd_max"),
            () => Ok(()),
        }
    }
}
