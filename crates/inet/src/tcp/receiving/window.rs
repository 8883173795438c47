//! The window that we announce: how wide, and when it is worth a segment of its own.
//!
//! The right edge of the window never moves back (RFC 9293 §3.8.6), but by what rounding to the window's
//! scale makes of it when the buffer is full. Its width follows from the
//! receive buffer and what of it the program has not read. When the stack's memory is pressed
//! (`memory`), less is promised again: first only what the connection began with, then a few
//! segments. What was promised stays promised.

use exos_wire::SeqNumber;

use crate::limits::{WINDOW_BYTES_MAX, WINDOW_UNDER_PRESSURE_SEGMENTS};
use crate::tcp::receiving::window_scale::window_scale_for;
use crate::tcp::shared::memory::Pressure;
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::tcp::values::options::Options;

/// What the window depends on beside the buffer.
#[derive(Copy, Clone)]
pub(super) struct Filled {
    /// The sequence number expected next.
    pub next: SeqNumber,
    /// Bytes before it that the program has not read.
    pub unread: u32,
    /// The peer's full-sized segments.
    pub mss: u16,
}

/// The window of one connection, and the buffer behind it.
#[derive(Debug)]
pub(in crate::tcp) struct Window {
    /// The right edge that the peer has been told.
    edge: SeqNumber,
    /// Bytes that may be received and not taken by the program.
    buffer: u32,
    /// What it was at first.
    buffer_first: u32,
    /// The most that it has been: on so much a promise may still rest.
    buffer_most: u32,
    /// The buffer may grow to this. No more than it is: it is fixed.
    buffer_limit: u32,
    scale: u8,
    /// How hard the stack's memory is pressed, as last told.
    pressure: Pressure,
}

impl Window {
    /// Nothing is announced yet. The peer's segments are at least `mss_least` bytes.
    #[inline(always)]
    pub fn new(options: &Options, mss_least: u16) -> Self {
        // The most that a window with the greatest scale can say (RFC 7323 §2.3).
        let buffer = options
            .receive_buffer_bytes
            .clamp(u32::from(mss_least), WINDOW_BYTES_MAX);
        let limit = options
            .receive_buffer_max_bytes
            .clamp(buffer, WINDOW_BYTES_MAX);
        Self {
            edge: SeqNumber(0),
            buffer,
            buffer_first: buffer,
            buffer_most: buffer,
            buffer_limit: limit,
            scale: window_scale_for(limit),
            pressure: Pressure::None,
        }
    }

    // What happens.

    /// The peer's SYN has come, and says whether it scales windows: data begins at `next`.
    pub fn syn_received(&mut self, next: SeqNumber, scales: bool) {
        // The window field of a SYN is never scaled (RFC 7323 §2.2).
        self.edge = next + u32::from(self.syn_field());
        if !scales {
            self.scale = 0;
            self.buffer = self.buffer.min(u32::from(u16::MAX));
            self.buffer_limit = self.buffer_limit.min(u32::from(u16::MAX));
        }
    }

    /// The peer's FIN has come: `next` is behind it.
    pub fn fin_received(&mut self, next: SeqNumber) {
        self.edge = self.edge.max(next);
    }

    /// How hard the stack's memory is pressed now.
    #[inline]
    pub fn set_pressure(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// Let this many bytes be received and not taken, and no more than the window's scale can tell: the buffer has this
    /// size from now on.
    pub fn fix_buffer(&mut self, bytes: u32, mss: u16) {
        let most = u32::from(u16::MAX) << self.scale;
        let bytes = bytes.clamp(u32::from(mss), most);
        (self.buffer, self.buffer_first, self.buffer_limit) = (bytes, bytes, bytes);
        self.buffer_most = self.buffer_most.max(bytes);
    }

    /// Widen the buffer to what is wanted, as far as it may grow.
    pub fn widen_buffer(&mut self, wanted: u32) {
        self.buffer = wanted.min(self.buffer_limit).max(self.buffer);
        self.buffer_most = self.buffer_most.max(self.buffer);
    }

    /// Others need the memory: let the buffer be what it was at first. What was promised stays so.
    pub fn narrow_buffer(&mut self) {
        self.buffer = self.buffer.min(self.buffer_first);
    }

    /// Promise what the buffer affords: the window field that says so.
    #[inline]
    pub(super) fn announce(&mut self, at: Filled) -> u16 {
        let window = (self.affordable_edge(at) - at.next) as u32;
        let scale = self.scale;
        // Round down, unless that would take back what was promised (RFC 9293 §3.8.6); but not beyond
        // one step more than the buffer holds: rounding up with every segment would add up.
        let kept = self.left(at.next).div_ceil(1 << scale);
        let free = i64::from(self.buffer_most) - i64::from(at.unread);
        let fits = i64::from(kept << scale) <= free + (1 << scale);
        let field = (window >> scale)
            .max(if fits { kept } else { 0 })
            .min(u32::from(u16::MAX));
        self.edge = if field == 0 {
            // Closed is closed: what rounding leaves, less than a step (RFC 7323 §2.4), would else be
            // taken byte by byte from the probes of a peer that was told of no room.
            at.next
        } else {
            self.edge.max(at.next + (field << scale))
        };
        field as u16
    }

    // What is known.

    /// The buffer on which the window is reckoned: what the stack's memory allows of ours.
    #[inline]
    fn promised_buffer(&self, mss: u16) -> u32 {
        match self.pressure {
            Pressure::None => self.buffer,
            Pressure::Moderate => self.buffer.min(self.buffer_first),
            Pressure::High | Pressure::Full => {
                let few = WINDOW_UNDER_PRESSURE_SEGMENTS * u32::from(mss);
                self.buffer.min(few)
            }
        }
    }

    /// The right edge that the receive buffer affords now; never left of what was announced.
    #[inline]
    fn affordable_edge(&self, at: Filled) -> SeqNumber {
        let free = self.promised_buffer(at.mss).saturating_sub(at.unread);
        self.edge.max(at.next + free)
    }

    /// Receiver's silly-window avoidance (RFC 9293 §3.8.6.2.2): a wider window is announced of
    /// itself only when it is wider by half the buffer, or by a segment where less than one fits.
    #[inline]
    pub(super) fn is_worth_announcing(&self, at: Filled) -> bool {
        let gain = (self.affordable_edge(at) - self.edge) as u32;
        let buffer = self.promised_buffer(at.mss);
        let segment = u32::from(at.mss).min(buffer / 2);
        gain >= buffer / 2 || (self.left(at.next) < segment && gain >= segment)
    }

    /// The window field of a SYN is not scaled (RFC 7323 §2.2).
    pub fn syn_field(&self) -> u16 {
        self.buffer.min(u32::from(u16::MAX)) as u16
    }

    /// The window field of a segment that promises nothing new, and acknowledges up to `ack`.
    pub fn promised_field(&self, ack: SeqNumber) -> u16 {
        let window = self.left(ack) >> self.scale;
        window.min(u32::from(u16::MAX)) as u16
    }

    /// How much of what was promised is left from `next` on.
    #[inline]
    pub fn left(&self, next: SeqNumber) -> u32 {
        (self.edge - next).max(0) as u32
    }

    #[inline]
    pub fn edge(&self) -> SeqNumber {
        self.edge
    }

    /// The shift of the window field.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// Bytes that may be received and not taken.
    pub fn buffer(&self) -> u32 {
        self.buffer
    }

    /// The furthest that the window can have reached beyond what came.
    pub fn widest(&self) -> u32 {
        self.buffer_most.max(1 << 16)
    }

    /// The buffer follows what the path delivers.
    #[inline]
    pub fn grows(&self) -> bool {
        self.buffer_limit > self.buffer_first
    }

    #[inline]
    pub fn is_under_pressure(&self) -> bool {
        self.pressure != Pressure::None
    }

    // Between stacks.

    /// To or from another stack.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Window {
            scale: u8,
            edge: seq,
            buffer: u32,
            buffer_first: u32,
            buffer_most: u32,
            buffer_limit: u32,
        } by_hand {} stay {
            pressure,
        });
        Ok(())
    }

    /// What the code relies on, where `next` is expected next; the name of what does not hold.
    pub fn check(&self, next: SeqNumber) -> Result<(), &'static str> {
        // A FIN at the very edge is taken.
        let edge = -1..=i64::from(WINDOW_BYTES_MAX);
        let sound = |bytes: u32| (1..=WINDOW_BYTES_MAX).contains(&bytes);
        let buffers = [self.buffer, self.buffer_first, self.buffer_limit];
        match () {
            () if !edge.contains(&i64::from(self.edge - next)) => Err("rcv_edge"),
            () if !buffers.into_iter().all(sound) => Err("rcv_buffer"),
            () if !sound(self.buffer_most) || self.buffer_most < self.buffer => {
                Err("rcv_buffer_most")
            }
            () if self.scale > 14 => Err("window scale"),
            () => Ok(()),
        }
    }
}
