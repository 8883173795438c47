//! The control block of one connection (RFC 9293 §3.3.1) and what a program may ask of it.
//!
//! A connection performs nothing. Segments enter through `handle_segment` (in `input`), time
//! through `handle_timeout`, the program through the commands here; then `poll_segment` (in
//! `output`) is asked for segments until it has none, `next_deadline` says when time must be given
//! to it again, and `take_events` what the program should hear of. Order does not matter for
//! correctness; asking for segments only after the program has seen the events lets
//! acknowledgements ride on its answers.

use std::num::NonZeroU64;
use std::ops::Range;

use exos_buf::{Aggregate, Slice};
use exos_wire::{Mac, SeqNumber};

use super::congestion::Congestion;
use super::ecn::EcnMode;
use super::event::{EventSet, Reason};
use super::flow::Flow;
use super::handover::{HandoverError, Wire, travel};
use super::ip::IpFields;
use super::listener::ListenerId;
use super::liveness::Liveness;
use super::loss::{Flight, Timer};
use super::memory::Memory;
use super::mtu::PathMtu;
use super::options::Options;
use super::receiver::Receiver;
use super::rtt::Rtt;
use super::state::{Action, Event, State};
use crate::limits::{MSS_DEFAULT_V4, MSS_DEFAULT_V6, MSS_MIN, SEND_QUEUE_BYTES_MAX};
use crate::time::Instant;

/// A deadline that never comes.
pub(super) const NEVER: Instant = Instant::from_micros(u64::MAX);

/// Bytes of a timestamps option with its padding (RFC 7323 appendix A).
pub(super) const TIMESTAMPS_BYTES: u16 = 12;

/// What both sides have agreed on with their SYNs; until the peer's has come, what we wish.
#[derive(Copy, Clone, Debug)]
pub(super) struct Agreed {
    /// Timestamps (RFC 7323 §3).
    pub timestamps: bool,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Window scaling (RFC 7323 §2).
    pub scaling: bool,
    /// What the clock of our timestamps is ahead of time by.
    pub ts_offset: u32,
}

impl Agreed {
    /// To or from another stack.
    pub fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Agreed {
            scaling: flag,
            timestamps: flag,
            sack: flag,
            ecn: flag,
            ts_offset: clock,
        } by_hand {} stay {});
        Ok(())
    }
}

/// The neighbour that segments go to, as last looked up.
#[derive(Copy, Clone)]
pub struct Path {
    /// Its link address.
    pub mac: Mac,
    /// The neighbour cache's generation at that look-up; another one means to look again.
    pub generation: NonZeroU64,
}

/// The control block.
///
/// The order of its fields is that of its memory: what every segment needs comes first, close together, so that a
/// segment of a connection that no cache holds reads four lines of it and not all eight.
#[repr(C)]
pub struct Connection {
    // What every segment needs: the first 192 bytes.
    pub(super) flow: Flow,
    pub(super) snd_una: SeqNumber,
    /// Behind the last sequence number sent.
    pub(super) snd_max: SeqNumber,
    pub(super) snd_wnd: u32,
    pub(super) snd_wnd_max: u32,
    pub(super) snd_wl1: SeqNumber,
    pub(super) snd_wl2: SeqNumber,
    pub(super) agreed: Agreed,
    /// Largest payload of a segment we send, options already taken off.
    pub(super) mss: u16,
    pub(super) state: State,
    pub(super) events: EventSet,
    /// The program opened it (a reset is then `Refused` before it stands).
    pub(super) active: bool,
    /// `finish` was asked for: a FIN follows the queued data.
    pub(super) finishing: bool,
    /// Send a probe into a closed window.
    pub(super) probe: bool,
    /// A probe is out: the byte it carried may have been thrown away.
    pub(super) probing: bool,
    pub(super) retries: u8,
    pub(super) snd_scale: u8,
    /// What `retransmit_at` is for.
    pub(super) timer: Timer,
    pub(super) nagle: bool,
    /// A SYN is to be sent.
    pub(super) syn_due: bool,
    /// Our SYN has left more than once: its acknowledgement measures nothing.
    pub(super) syn_again: bool,
    pub(super) ecn_mode: EcnMode,
    pub(super) ip: IpFields,
    pub(super) reason: Reason,
    /// Retransmission, or probing a closed window.
    pub(super) retransmit_at: Instant,
    pub(super) liveness: Liveness,
    pub(super) last_sent: Instant,
    pub(super) loss: Flight,
    pub(super) receiver: Receiver,

    // What data needs.
    pub(super) send: Aggregate,
    /// Where to send to; the stack's, not looked at here.
    pub path: Option<Path>,
    pub(super) rtt: Rtt,
    pub(super) congestion: Congestion,
    /// The program's own word for the connection.
    pub token: u64,
    /// Of a path that does not carry full segments.
    pub(super) mtu: Option<Box<PathMtu>>,

    // What beginning and end need.
    /// Whose connection it is, when a listener made it.
    pub(super) listener: Option<ListenerId>,
    pub(super) iss: SeqNumber,
}

/// What a new connection begins with.
pub(super) struct Opening {
    pub flow: Flow,
    pub iss: SeqNumber,
    pub ts_offset: u32,
    pub mss_announced: u16,
    pub now: Instant,
}

impl Connection {
    /// A connection that is about to send its SYN.
    pub(super) fn open(opening: Opening, options: &Options) -> Self {
        let (state, _) = State::Closed
            .on(Event::ActiveOpen)
            .expect("a closed connection can be opened");
        Self::new(opening, options, state, true)
    }

    /// A connection in SYN-RECEIVED, made by a listener from a SYN.
    #[inline(always)]
    pub(super) fn accept(opening: Opening, options: &Options) -> Self {
        let (state, _) = State::Listen
            .on(Event::Syn)
            .expect("a listener takes a SYN");
        Self::new(opening, options, state, false)
    }

    /// A connection in `state` whose other values the caller knows from elsewhere.
    pub(super) fn resumed(opening: Opening, options: &Options, state: State) -> Self {
        Self::new(opening, options, state, false)
    }

    #[inline(always)]
    fn new(opening: Opening, options: &Options, state: State, active: bool) -> Self {
        let Opening {
            flow,
            iss,
            ts_offset,
            mss_announced,
            now,
        } = opening;
        let mss = if flow.is_ipv6() {
            MSS_DEFAULT_V6
        } else {
            MSS_DEFAULT_V4
        };
        Self {
            state,
            active,
            finishing: false,
            nagle: options.nagle,
            probe: false,
            probing: false,
            retries: 0,
            snd_scale: 0,
            agreed: Agreed {
                timestamps: true,
                sack: options.sack,
                ecn: active && options.ecn == EcnMode::Request,
                scaling: true,
                ts_offset,
            },
            ecn_mode: options.ecn,
            ip: options.ip,
            events: EventSet::NONE,
            reason: Reason::Done,
            flow,
            listener: None,
            mss: mss.min(mss_announced),
            snd_una: iss,
            syn_due: true,
            snd_max: iss,
            snd_wnd: 0,
            snd_wnd_max: 0,
            snd_wl1: SeqNumber(0),
            snd_wl2: SeqNumber(0),
            iss,
            receiver: Receiver::new(now, options, mss_announced, mss),
            last_sent: now,
            congestion: Congestion::new(options.congestion, u32::from(mss)),
            loss: Flight::default(),
            timer: Timer::Retransmit,
            syn_again: false,
            rtt: Rtt::new(),
            retransmit_at: NEVER,
            liveness: Liveness::new(now, options),
            mtu: None,
            send: Aggregate::new(),
            path: None,
            token: 0,
        }
    }

    /// Take over what the peer's SYN says (RFC 9293 §3.7.1, RFC 7323 §2.2 and §3.2).
    pub(super) fn learn_from_syn(
        &mut self,
        now: Instant,
        seq: SeqNumber,
        window: u16,
        options: &exos_wire::tcp::TcpOptions,
    ) {
        self.liveness.heard(now);
        let scales = options.window_scale.is_some();
        let stamp = options.timestamps.map(|t| t.value);
        self.receiver.syn_received(seq, scales, stamp);
        // The window field of a SYN is never scaled (RFC 7323 §2.2).
        self.set_window(seq, self.snd_una, u32::from(window));
        // RFC 7323 §2.3: a shift above 14 is taken as 14.
        self.snd_scale = options.window_scale.map_or(0, |shift| shift.min(14));
        self.agreed.scaling = scales;
        if let Some(option) = options.user_timeout {
            self.liveness.agree(option);
        }
        // RFC 2018 §2: only if both SYNs permit it.
        self.agreed.sack &= options.sack_permitted;
        self.agreed.timestamps = options.timestamps.is_some();
        let theirs = options.mss.unwrap_or(if self.flow.is_ipv6() {
            MSS_DEFAULT_V6
        } else {
            MSS_DEFAULT_V4
        });
        self.set_mss(theirs.max(MSS_MIN).min(self.receiver.mss_announced()));
    }

    /// The SYN-ACK has left already, as a cookie: what is left to do is to see it acknowledged. When
    /// it left is forgotten, so nothing is measured.
    pub(super) fn syn_ack_has_left(&mut self) {
        self.syn_due = false;
        self.snd_max = self.iss + 1;
        self.syn_again = true;
    }

    /// Use segments of `mss` bytes less the options that every segment carries (RFC 6691).
    pub(super) fn set_mss(&mut self, mss: u16) {
        self.mss = if self.agreed.timestamps {
            mss.saturating_sub(TIMESTAMPS_BYTES).max(MSS_MIN / 2)
        } else {
            mss
        };
        self.congestion.get_mut().set_mss(u32::from(self.mss));
    }

    /// Take over a window that the peer announced, already scaled.
    pub(super) fn set_window(&mut self, seq: SeqNumber, ack: SeqNumber, window: u32) {
        self.snd_wnd = window;
        self.snd_wnd_max = self.snd_wnd_max.max(window);
        self.snd_wl1 = seq;
        self.snd_wl2 = ack;
    }

    /// Follow the table of states; `None` where the event changes nothing.
    pub(super) fn follow(&mut self, event: Event) -> Option<Action> {
        let (state, action) = self.state.on(event)?;
        self.state = state;
        Some(action)
    }

    /// The program should hear of this.
    pub(super) fn tell(&mut self, event: EventSet) {
        self.events = self.events.with(event);
    }

    /// What the program has not heard yet; it is heard with this call.
    pub(super) fn take_events(&mut self) -> EventSet {
        std::mem::take(&mut self.events)
    }

    // Commands of the program.

    /// Queue a slice to be sent; false when the connection takes no more data, or not so much at
    /// once ([`SEND_QUEUE_BYTES_MAX`]).
    pub fn send(&mut self, slice: Slice) -> bool {
        // Two sequence numbers tell which is the later one only within 2 GiB.
        let room = self.send.len() + slice.len() <= SEND_QUEUE_BYTES_MAX;
        let open = self.state.can_send() && !self.finishing && room;
        if open && !slice.is_empty() {
            self.send.push(slice);
        }
        open
    }

    /// Nothing more will be sent: a FIN follows what is queued.
    pub fn finish(&mut self) {
        let action = self.follow(Event::Finish);
        self.finishing |= matches!(action, Some(Action::SendFin | Action::FinishLater));
    }

    /// Acknowledge and throw away all that still comes, and what is there unread.
    pub fn discard_received(&mut self, memory: &mut Memory) {
        self.receiver.discard();
        let unread = self.receiver.readable().len();
        self.consume(unread, memory);
    }

    /// The received bytes, in order, not yet taken.
    pub fn readable(&self) -> &[u8] {
        self.receiver.readable()
    }

    /// The program has taken `count` bytes: the window opens. Panics when there are not so many.
    pub fn consume(&mut self, count: usize, memory: &mut Memory) {
        if count == 0 {
            return;
        }
        self.receiver.queue_mut().consume(count, memory);
        self.receiver
            .consumed(count as u32, self.state.can_receive());
    }

    /// The same; the receive buffer is kept until the connection rests.
    #[inline]
    pub(super) fn consume_keeping(&mut self, count: usize, memory: &mut Memory) {
        if count == 0 {
            return;
        }
        self.receiver.queue_mut().consume_keeping(count, memory);
        self.receiver
            .consumed(count as u32, self.state.can_receive());
    }

    /// Bytes that are to come and that the program has skipped.
    pub fn skipping(&self) -> u32 {
        self.receiver.queue().skipping()
    }

    /// Let this many bytes be received and not taken, from now on and whatever the path delivers. Never more than
    /// the window's scale, which was agreed on at the beginning, can tell. What was promised before
    /// stays promised.
    pub fn set_receive_buffer(&mut self, bytes: u32) {
        self.receiver.set_buffer(bytes, self.state.can_receive());
    }

    /// Other fields in the IP headers from now on (RFC 9293 §3.9.2, SHLD-21).
    pub fn set_ip_fields(&mut self, ip: IpFields) {
        self.ip = ip;
    }

    /// Send at once an acknowledgement that would otherwise wait.
    pub fn acknowledge_now(&mut self) {
        self.receiver.hurry();
    }

    // Sequence numbers.

    /// Sequence numbers sent and not acknowledged.
    pub(super) fn flight(&self) -> u32 {
        (self.snd_max - self.snd_una).max(0) as u32
    }

    /// The sequence number behind the last queued byte.
    pub(super) fn send_end(&self) -> SeqNumber {
        self.data_start() + self.send.len() as u32
    }

    /// The sequence number of the first queued byte: the first not acknowledged, the SYN apart.
    pub(super) fn data_start(&self) -> SeqNumber {
        if self.state.is_synchronized() {
            self.snd_una
        } else {
            self.iss + 1
        }
    }

    /// Where in the send queue `len` bytes from `seq` on lie; `None` when they are there no more.
    pub(super) fn find_queued(&self, seq: SeqNumber, len: usize) -> Option<Range<usize>> {
        let start = usize::try_from(seq - self.data_start()).ok()?;
        (start + len <= self.send.len()).then(|| start..start + len)
    }

    /// The clock of our timestamps: milliseconds from a start of its own for each connection.
    pub(super) fn ts_now(&self, now: Instant) -> u32 {
        (now.millis() as u32).wrapping_add(self.agreed.ts_offset)
    }

    /// Where no answer is waited for and none is owed, and nothing has happened for a retransmission
    /// timeout: give back what memory is not needed to wait. Gives when to ask again, if that is later.
    pub(super) fn rest(&mut self, now: Instant, memory: &mut Memory) -> Option<Instant> {
        let quiet = self.rests_at();
        if quiet <= now {
            self.receiver.cool(memory);
        }
        let waits = self.retransmit_at != NEVER || self.receiver.ack_at() != NEVER;
        if waits || !self.holds() || !self.state.is_synchronized() || self.snd_una != self.snd_max {
            return self.receiver.queue().is_warm().then_some(quiet);
        }
        if quiet > now {
            return Some(quiet);
        }
        self.loss.rest();
        self.receiver.rest();
        self.send.shrink();
        None
    }

    /// It has memory that it does not need when it rests.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.loss.is_at_work() || self.receiver.holds()
    }

    /// When it rests if nothing happens.
    pub(super) fn rests_at(&self) -> Instant {
        self.liveness.heard_at().max(self.last_sent) + self.rtt.timeout()
    }

    // Getters.

    /// The four-tuple.
    pub const fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The listener that made it, if one did.
    pub const fn listener(&self) -> Option<ListenerId> {
        self.listener
    }

    /// What is queued and not acknowledged.
    pub const fn queue(&self) -> &Aggregate {
        &self.send
    }

    /// The connection's state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Why the connection is over; meaningful once it is.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Bytes queued by the program and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.send.len()
    }

    /// Bytes queued by the program and not yet sent for the first time.
    pub fn unsent(&self) -> usize {
        (self.send_end() - self.snd_max).max(0) as usize
    }

    /// When time must be given to this connection.
    pub fn next_deadline(&self) -> Option<Instant> {
        let at = self.timer_deadline().min(self.loss.held_until);
        (at != NEVER).then_some(at)
    }

    /// The earliest of the protocol's timers: pacing apart, which needs a finer clock.
    pub(super) fn timer_deadline(&self) -> Instant {
        self.retransmit_at
            .min(self.receiver.ack_at())
            .min(self.liveness.deadline())
    }
}
