//! The peer's window: how far it reaches, when it is worth a segment, and asking for one that is closed (RFC 9293 §3.8.6).

use exos_wire::SeqNumber;

use crate::limits::WINDOW_BYTES_MAX;
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::tcp::values::segment::Segment;

/// The window that the peer has told.
#[derive(Debug)]
pub(in crate::tcp) struct PeerWindow {
    /// SND.WND.
    bytes: u32,
    /// The most that it has been.
    most: u32,
    /// SND.WL1 and SND.WL2: the segment that told it.
    seq: SeqNumber,
    ack: SeqNumber,
    scale: u8,
    /// A probe is to be sent into it, for it is closed.
    probe_due: bool,
    /// A probe is out: the byte it carried may have been thrown away.
    probing: bool,
    /// Wait with less than a full segment while data is in flight.
    nagle: bool,
}

impl PeerWindow {
    /// Nothing is known of it.
    pub const fn new(nagle: bool) -> Self {
        Self {
            bytes: 0,
            most: 0,
            seq: SeqNumber(0),
            ack: SeqNumber(0),
            scale: 0,
            probe_due: false,
            probing: false,
            nagle,
        }
    }

    // What happens.

    /// The peer's SYN has come; its window is not scaled (RFC 7323 §2.2).
    pub fn syn_received(&mut self, seq: SeqNumber, ack: SeqNumber, window: u16, shift: Option<u8>) {
        self.set(seq, ack, u32::from(window));
        // RFC 7323 §2.3: a shift above 14 is taken as 14.
        self.scale = shift.map_or(0, |shift| shift.min(14));
    }

    /// Take over a window that the peer announced, already scaled.
    #[inline]
    pub fn set(&mut self, seq: SeqNumber, ack: SeqNumber, window: u32) {
        self.bytes = window;
        self.most = self.most.max(window);
        self.seq = seq;
        self.ack = ack;
    }

    /// Take over a segment's window if it is newer, where `una` was acknowledged before (RFC 9293 §3.10.7.4, fifth).
    /// `None` if it is older; else whether it opens a closed one.
    pub fn update(&mut self, seg: &Segment<'_>, una: SeqNumber) -> Option<bool> {
        // One that acknowledges more is newer than all before, whatever its number: else a window that
        // came with data beyond a gap would move on with SND.UNA, and be more than the peer offered.
        let newer = seg.ack.gt(una)
            || self.seq.lt(seg.seq)
            || (self.seq == seg.seq && self.ack.le(seg.ack));
        if !newer || seg.ack.lt(una) {
            return None;
        }
        let window = self.of(seg);
        let opened = window > 0 && self.bytes == 0;
        self.set(seg.seq, seg.ack, window);
        Some(opened)
    }

    /// A predicted segment repeats the acknowledgement and the window.
    #[inline]
    pub fn repeated(&mut self, seg: &Segment<'_>) {
        if self.seq.le(seg.seq) {
            // Else what came beyond a gap has said something newer of the window.
            (self.seq, self.ack) = (seg.seq, seg.ack);
        }
    }

    /// Wait with less than a full segment while data is in flight, or no more.
    pub fn set_nagle(&mut self, waits: bool) {
        self.nagle = waits;
    }

    /// Ask with a probe whether it has opened.
    pub fn ask(&mut self) {
        self.probe_due = true;
    }

    /// A probe leaves, if it is to carry something.
    pub fn probe_left(&mut self, carries: bool) {
        self.probe_due = false;
        if carries {
            self.probing = self.bytes == 0;
        }
    }

    /// No probe is waited for any more. True when one was out.
    pub fn end_probe(&mut self) -> bool {
        std::mem::take(&mut self.probing)
    }

    /// It has opened: nothing is to be asked.
    pub fn opened(&mut self) {
        (self.probing, self.probe_due) = (false, false);
    }

    // What is known.

    #[inline]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The shift of the peer's windows.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    #[inline]
    pub fn probe_is_due(&self) -> bool {
        self.probe_due
    }

    #[inline]
    pub fn is_probing(&self) -> bool {
        self.probing
    }

    /// The window that a segment brings.
    #[inline]
    pub fn of(&self, seg: &Segment<'_>) -> u32 {
        u32::from(seg.window) << self.scale
    }

    /// What of it is left beyond `flight` bytes.
    #[inline]
    pub fn room(&self, flight: u32) -> u32 {
        self.bytes.saturating_sub(flight)
    }

    /// False when the peer has taken back a window that was used (RFC 9293 §3.8.6): what lies beyond it, the
    /// tail above all, is not sent again until it opens.
    #[inline]
    pub fn holds(&self, flight: u32) -> bool {
        flight <= self.bytes
    }

    /// RFC 5961 §5.2: the oldest number that an acknowledgement may repeat.
    pub fn oldest_ack(&self, una: SeqNumber) -> SeqNumber {
        una - self.most
    }

    /// Sender's silly-window avoidance (RFC 9293 §3.8.6.2.1): whether `len` bytes of new data are worth a segment, `all` that
    /// there is or not, with `flight` bytes out. Nothing may follow what is queued (`last`).
    #[inline]
    pub fn is_worth_sending(&self, len: u32, all: bool, flight: u32, mss: u16, last: bool) -> bool {
        len > 0
            && (len >= u32::from(mss)
                || (all && (!self.nagle || flight == 0 || last))
                || len >= self.most / 2)
    }

    // Between stacks.

    /// To or from another stack.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => PeerWindow {
            nagle: flag,
            probing: flag,
            scale: u8,
            seq: seq,
            ack: seq,
            bytes: u32,
            most: u32,
        } by_hand {} stay {
            // It waits for its timer.
            probe_due,
        });
        Ok(())
    }

    /// What the code relies on, where `flight` bytes are out; the name of what does not hold.
    pub fn check(&self, flight: u32) -> Result<(), &'static str> {
        let sound = self.bytes <= self.most && self.most <= WINDOW_BYTES_MAX;
        match () {
            // Only a shut window is probed; while it is, nothing else is sent again.
            () if self.probing && (flight == 0 || self.bytes != 0) => Err("probing"),
            () if !sound => Err("snd_wnd"),
            () if self.scale > 14 => Err("window scale"),
            () => Ok(()),
        }
    }
}
