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

use super::autotune::Tuning;
use super::congestion::Congestion;
use super::ecn::EcnMode;
use super::event::{EventSet, Reason};
use super::flow::Flow;
use super::ip::IpFields;
use super::life::{Rare, rare_for};
use super::listener::ListenerId;
use super::loss::{Flight, Timer};
use super::memory::{Memory, Pressure};
use super::mtu::PathMtu;
use super::options::Options;
use super::receive::ReceiveQueue;
use super::reply::Challenges;
use super::rtt::Rtt;
use super::state::{Action, Event, State};
use super::window::window_scale_for;
use crate::limits::{
    MSS_DEFAULT_V4, MSS_DEFAULT_V6, MSS_MIN, QUICK_ACKS, SEND_QUEUE_BYTES_MAX, WINDOW_BYTES_MAX,
};
use crate::time::Instant;

/// A deadline that never comes.
pub(super) const NEVER: Instant = Instant::from_micros(u64::MAX);

/// Bytes of a timestamps option with its padding (RFC 7323 appendix A).
pub(super) const TIMESTAMPS_BYTES: u16 = 12;

/// Whether an acknowledgement is owed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Owed {
    Nothing,
    /// By `ack_at`, or on the next segment that leaves anyway.
    Later,
    Now,
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
    /// Where sending goes on: at `iss` while a SYN is due, afterwards equal to `snd_max`.
    pub(super) snd_nxt: SeqNumber,
    /// Behind the last sequence number sent.
    pub(super) snd_max: SeqNumber,
    pub(super) snd_wnd: u32,
    pub(super) snd_wnd_max: u32,
    pub(super) snd_wl1: SeqNumber,
    pub(super) snd_wl2: SeqNumber,
    pub(super) rcv_nxt: SeqNumber,
    /// The right edge of the window that the peer has been told; it never moves back.
    pub(super) rcv_edge: SeqNumber,
    /// `rcv_nxt` in the last segment that left.
    pub(super) last_ack_sent: SeqNumber,
    pub(super) ts_recent: u32,
    pub(super) ts_offset: u32,
    /// Bytes that may be received and not taken by the program.
    pub(super) rcv_buffer: u32,
    /// Largest payload of a segment we send, options already taken off.
    pub(super) mss: u16,
    /// Largest payload received in one segment, as an estimate of the peer's segments.
    pub(super) rcv_mss: u16,
    pub(super) state: State,
    pub(super) ack_owed: Owed,
    pub(super) events: EventSet,
    /// The program opened it (a reset is then `Refused` before it stands).
    pub(super) active: bool,
    /// `finish` was asked for: a FIN follows the queued data.
    pub(super) finishing: bool,
    /// Received data is acknowledged and thrown away.
    pub(super) discarding: bool,
    /// Send a probe into a closed window.
    pub(super) probe: bool,
    /// A probe is out: the byte it carried may have been thrown away.
    pub(super) probing: bool,
    /// Acknowledgements still owed to segments that came out of order, one each: the peer counts
    /// them, also when they arrived in one batch (RFC 5681 §4.2).
    pub(super) duplicates_owed: u8,
    pub(super) retries: u8,
    pub(super) snd_scale: u8,
    pub(super) rcv_scale: u8,
    pub(super) timestamps: bool,
    /// Selective acknowledgements: wanted by us until the peer's SYN has come, then agreed on.
    pub(super) sack: bool,
    /// Explicit congestion notification: asked for by us until the peer's SYN has come, then agreed
    /// on.
    pub(super) ecn: bool,
    /// A packet came marked, and the peer has not said that it knows: ECE is set.
    pub(super) ecn_echo: bool,
    /// How hard the stack's memory is pressed, as last told.
    pub(super) pressure: Pressure,
    /// What `retransmit_at` is for.
    pub(super) timer: Timer,
    pub(super) nagle: bool,
    /// Retransmission, or probing a closed window.
    pub(super) retransmit_at: Instant,
    pub(super) ack_at: Instant,
    /// End of FIN-WAIT-2; before that, when keepalive or the user timeout may be due.
    pub(super) life_at: Instant,
    /// When the peer was last heard: an acceptable segment.
    pub(super) heard_at: Instant,
    pub(super) last_sent: Instant,
    pub(super) loss: Flight,
    /// How fast data comes and is taken, while it does.
    pub(super) tuning: Option<Box<Tuning>>,

    // What data needs.
    pub(super) receive: ReceiveQueue,
    pub(super) send: Aggregate,
    /// Where to send to; the stack's, not looked at here.
    pub path: Option<Path>,
    pub(super) rtt: Rtt,
    pub(super) congestion: Congestion,
    /// The program's own word for the connection.
    pub token: u64,
    /// When data came last.
    pub(super) received_at: Instant,
    pub(super) received: Received,
    /// Of a path that does not carry full segments.
    pub(super) mtu: Option<Box<PathMtu>>,
    /// What few connections need.
    pub(super) rare: Option<Box<Rare>>,

    // What beginning and end need.
    pub(super) scaling: bool,
    pub(super) ecn_mode: EcnMode,
    pub(super) ip: IpFields,
    pub(super) reason: Reason,
    /// Our SYN has left more than once: its acknowledgement measures nothing.
    pub(super) syn_again: bool,
    /// The MSS that we announce.
    pub(super) mss_announced: u16,
    /// Whose connection it is, when a listener made it.
    pub(super) listener: Option<ListenerId>,
    pub(super) iss: SeqNumber,
    pub(super) irs: SeqNumber,
    /// Where the peer's FIN stands, while data before it is missing.
    pub(super) peer_fin: Option<SeqNumber>,
    /// What it was at first.
    pub(super) rcv_buffer_first: u32,
    /// The most that it has been: on so much a promise may still rest.
    pub(super) rcv_buffer_most: u32,
    /// The buffer may grow to this. No more than it is: it is fixed.
    pub(super) rcv_buffer_limit: u32,
}

/// What has come, as far as it says how to acknowledge.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Received {
    /// Segments beyond a gap, for people to look at.
    pub out_of_order: u32,
    /// Length of the last segment, to notice that the peer sends smaller ones now.
    pub last_len: u16,
    /// Full segments that are still to be acknowledged at once.
    pub quick: u8,
    /// How often what has come was challenged.
    pub challenges: Challenges,
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
        // The most that a window with the greatest scale can say (RFC 7323 §2.3).
        let rcv_buffer = options
            .receive_buffer_bytes
            .clamp(u32::from(mss), WINDOW_BYTES_MAX);
        let rcv_buffer_max = options
            .receive_buffer_max_bytes
            .clamp(rcv_buffer, WINDOW_BYTES_MAX);
        Self {
            state,
            ack_owed: Owed::Nothing,
            active,
            finishing: false,
            discarding: false,
            nagle: options.nagle,
            probe: false,
            probing: false,
            duplicates_owed: 0,
            retries: 0,
            snd_scale: 0,
            rcv_scale: window_scale_for(rcv_buffer_max),
            scaling: true,
            timestamps: true,
            sack: options.sack,
            ecn: active && options.ecn == EcnMode::Request,
            ecn_mode: options.ecn,
            ip: options.ip,
            ecn_echo: false,
            pressure: Pressure::None,
            events: EventSet::NONE,
            reason: Reason::Done,
            flow,
            listener: None,
            mss: mss.min(mss_announced),
            mss_announced,
            // Until a longer one has come: the field's default, over IPv6 too.
            rcv_mss: MSS_DEFAULT_V4,
            snd_una: iss,
            snd_nxt: iss,
            snd_max: iss,
            snd_wnd: 0,
            snd_wnd_max: 0,
            snd_wl1: SeqNumber(0),
            snd_wl2: SeqNumber(0),
            iss,
            rcv_nxt: SeqNumber(0),
            rcv_edge: SeqNumber(0),
            last_ack_sent: SeqNumber(0),
            irs: SeqNumber(0),
            peer_fin: None,
            rcv_buffer,
            rcv_buffer_first: rcv_buffer,
            rcv_buffer_most: rcv_buffer,
            rcv_buffer_limit: rcv_buffer_max,
            tuning: None,
            received_at: now,
            received: Received {
                quick: QUICK_ACKS,
                ..Received::default()
            },
            ts_recent: 0,
            ts_offset,
            last_sent: now,
            congestion: Congestion::new(options.congestion, u32::from(mss)),
            loss: Flight::default(),
            timer: Timer::Retransmit,
            syn_again: false,
            rtt: Rtt::new(),
            retransmit_at: NEVER,
            ack_at: NEVER,
            life_at: NEVER,
            heard_at: now,
            rare: rare_for(options),
            mtu: None,
            send: Aggregate::new(),
            receive: ReceiveQueue::default(),
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
        self.heard_at = now;
        self.irs = seq;
        self.rcv_nxt = seq + 1;
        self.last_ack_sent = self.rcv_nxt;
        // The window field of a SYN is never scaled (RFC 7323 §2.2).
        self.rcv_edge = self.rcv_nxt + self.rcv_buffer.min(u32::from(u16::MAX));
        self.set_window(seq, self.snd_una, u32::from(window));
        match options.window_scale {
            // RFC 7323 §2.3: a shift above 14 is taken as 14.
            Some(shift) => self.snd_scale = shift.min(14),
            None => {
                self.scaling = false;
                self.rcv_scale = 0;
                self.rcv_buffer = self.rcv_buffer.min(u32::from(u16::MAX));
                self.rcv_buffer_limit = self.rcv_buffer_limit.min(u32::from(u16::MAX));
            }
        }
        if let Some(option) = options.user_timeout {
            self.heed_user_timeout(option);
        }
        // RFC 2018 §2: only if both SYNs permit it.
        self.sack &= options.sack_permitted;
        self.timestamps = options.timestamps.is_some();
        if let Some(t) = options.timestamps {
            self.ts_recent = t.value;
        }
        let theirs = options.mss.unwrap_or(if self.flow.is_ipv6() {
            MSS_DEFAULT_V6
        } else {
            MSS_DEFAULT_V4
        });
        self.set_mss(theirs.max(MSS_MIN).min(self.mss_announced));
    }

    /// The SYN-ACK has left already, as a cookie: what is left to do is to see it acknowledged. When
    /// it left is forgotten, so nothing is measured.
    pub(super) fn syn_ack_has_left(&mut self) {
        self.snd_nxt = self.iss + 1;
        self.snd_max = self.snd_nxt;
        self.syn_again = true;
    }

    /// Use segments of `mss` bytes less the options that every segment carries (RFC 6691).
    pub(super) fn set_mss(&mut self, mss: u16) {
        self.mss = if self.timestamps {
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
        self.discarding = true;
        let unread = self.receive.readable().len();
        self.consume(unread, memory);
    }

    /// The received bytes, in order, not yet taken.
    pub fn readable(&self) -> &[u8] {
        self.receive.readable()
    }

    /// The program has taken `count` bytes: the window opens. Panics when there are not so many.
    pub fn consume(&mut self, count: usize, memory: &mut Memory) {
        if count == 0 {
            return;
        }
        self.receive.consume(count, memory);
        self.consumed(count);
    }

    /// The same; the receive buffer is kept until the connection rests.
    #[inline]
    pub(super) fn consume_keeping(&mut self, count: usize, memory: &mut Memory) {
        if count == 0 {
            return;
        }
        self.receive.consume_keeping(count, memory);
        self.consumed(count);
    }

    /// Bytes that are to come and that the program has skipped.
    pub fn skipping(&self) -> u32 {
        self.receive.skipping()
    }

    /// The program takes bytes, or they came and it has skipped them.
    #[inline]
    pub(super) fn consumed(&mut self, count: usize) {
        if let Some(tuning) = &mut self.tuning {
            tuning.taken = tuning.taken.saturating_add(count as u32);
        }
        self.owe_window();
    }

    /// Other fields in the IP headers from now on (RFC 9293 §3.9.2, SHLD-21).
    pub fn set_ip_fields(&mut self, ip: IpFields) {
        self.ip = ip;
    }

    /// Send at once an acknowledgement that would otherwise wait.
    pub fn acknowledge_now(&mut self) {
        if self.ack_owed == Owed::Later {
            self.ack_owed = Owed::Now;
        }
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
        (now.millis() as u32).wrapping_add(self.ts_offset)
    }

    /// Where no answer is waited for and none is owed, and nothing has happened for a retransmission
    /// timeout: give back what memory is not needed to wait. Gives when to ask again, if that is later.
    pub(super) fn rest(&mut self, now: Instant, memory: &mut Memory) -> Option<Instant> {
        let quiet = self.rests_at();
        if self.receive.is_warm() && quiet <= now {
            self.receive.cool(memory);
        }
        let waits = self.retransmit_at != NEVER || self.ack_at != NEVER;
        if waits || !self.holds() || !self.state.is_synchronized() || self.snd_una != self.snd_max {
            return self.receive.is_warm().then_some(quiet);
        }
        if quiet > now {
            return Some(quiet);
        }
        self.loss.rest();
        // The buffer stays as wide as it has become.
        self.tuning = None;
        self.send.shrink();
        None
    }

    /// It has memory that it does not need when it rests.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.loss.is_at_work() || self.tuning.is_some() || self.receive.is_warm()
    }

    /// When it rests if nothing happens.
    pub(super) fn rests_at(&self) -> Instant {
        self.heard_at.max(self.last_sent) + self.rtt.timeout()
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
        self.retransmit_at.min(self.ack_at).min(self.life_at)
    }
}
