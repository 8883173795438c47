//! The control block of one connection (RFC 9293 §3.3.1) and what a program may ask of it.
//!
//! A connection performs nothing. Segments enter through `handle_segment` (in `input`), time
//! through `handle_timeout`, the program through the commands here; then `poll_segment` (in
//! `output`) is asked for segments until it has none, `next_deadline` says when time must be given
//! to it again, and `take_events` what the program should hear of. Order does not matter for
//! correctness; asking for segments only after the program has seen the events lets
//! acknowledgements ride on its answers.
//!
//! It is made of the state, which follows the table of transitions, and of three parts that keep their own: the
//! sender, the receiver, and what is known of the peer's silence. What happens to them together stands in this folder.

pub mod info;
mod input;
mod marks;
mod output;
mod prediction;
mod text;
mod timeouts;
pub mod travel;

use std::num::NonZeroU64;

use exos_buf::{Aggregate, Slice};
use exos_wire::{Mac, SeqNumber};

use crate::limits::{MSS_DEFAULT_V4, MSS_DEFAULT_V6, MSS_MIN};
use crate::tcp::opening::listeners::ListenerId;
use crate::tcp::receiving::receiver::Receiver;
use crate::tcp::sending::sender::Sender;
use crate::tcp::shared::memory::Memory;
use crate::tcp::timers::liveness::Liveness;
use crate::tcp::values::agreed::Agreed;
use crate::tcp::values::ecn::EcnMode;
use crate::tcp::values::event::{EventSet, Reason};
use crate::tcp::values::flow::Flow;
use crate::tcp::values::ip::IpFields;
use crate::tcp::values::options::Options;
use crate::tcp::values::state::{Action, Event, State};
use crate::time::Instant;

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
    // What every segment needs, and what comes first of the sender and the receiver.
    flow: Flow,
    state: State,
    events: EventSet,
    /// The program opened it (a reset is then `Refused` before it stands).
    active: bool,
    /// Others had it first.
    taken_on: bool,
    ecn_mode: EcnMode,
    pub(in crate::tcp) ip: IpFields,
    reason: Reason,
    /// Whose connection it is, when a listener made it.
    listener: Option<ListenerId>,
    pub(in crate::tcp) liveness: Liveness,
    pub(in crate::tcp) sender: Sender,
    pub(in crate::tcp) receiver: Receiver,

    /// Where to send to; the stack's, not looked at here.
    pub path: Option<Path>,
    /// The program's own word for the connection.
    pub token: u64,
}

/// What a new connection begins with.
pub(in crate::tcp) struct Opening {
    pub flow: Flow,
    pub iss: SeqNumber,
    pub ts_offset: u32,
    pub mss_announced: u16,
    pub now: Instant,
}

impl Connection {
    /// A connection that is about to send its SYN.
    pub(in crate::tcp) fn open(opening: Opening, options: &Options) -> Self {
        let (state, _) = State::Closed
            .on(Event::ActiveOpen)
            .expect("a closed connection can be opened");
        Self::new(opening, options, state, true)
    }

    /// A connection in SYN-RECEIVED, made by this listener from a SYN.
    #[inline(always)]
    pub(in crate::tcp) fn accept(
        opening: Opening,
        options: &Options,
        listener: ListenerId,
    ) -> Self {
        let (state, _) = State::Listen
            .on(Event::Syn)
            .expect("a listener takes a SYN");
        let mut connection = Self::new(opening, options, state, false);
        connection.listener = Some(listener);
        connection
    }

    /// A connection in `state` whose other values the caller knows from elsewhere.
    pub(in crate::tcp) fn resumed(opening: Opening, options: &Options, state: State) -> Self {
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
        let agreed = Agreed {
            timestamps: true,
            sack: options.sack,
            ecn: active && options.ecn == EcnMode::Request,
            scaling: true,
            ts_offset,
        };
        Self {
            flow,
            state,
            events: EventSet::NONE,
            active,
            taken_on: false,
            ecn_mode: options.ecn,
            ip: options.ip,
            reason: Reason::Done,
            listener: None,
            liveness: Liveness::new(now, options),
            sender: Sender::new(now, iss, options, agreed, (mss, mss_announced)),
            receiver: Receiver::new(now, options, mss_announced, mss),
            path: None,
            token: 0,
        }
    }

    /// Others had it, and have received what the peer sent from there on.
    pub(in crate::tcp) fn begun_by_others(&mut self, first: SeqNumber) {
        self.taken_on = true;
        self.receiver.begun_at(first);
    }

    /// Others have sent this last, at `left`, and our FIN behind it where one is said to have left.
    pub(in crate::tcp) fn sent_by_others(
        &mut self,
        (now, left): (Instant, Instant),
        sent: Option<Slice>,
        closes: bool,
    ) {
        if sent.is_none() && !closes {
            return;
        }
        if !sent.is_none_or(|sent| self.send(sent)) {
            return;
        }
        if closes {
            self.finish();
        }
        self.sender.sent_by_others(now, left);
    }

    /// Whether others had it first ([`Stack::take_on`](crate::Stack::take_on)).
    pub fn is_taken_on(&self) -> bool {
        self.taken_on
    }

    /// Take over what the peer's SYN says (RFC 9293 §3.7.1, RFC 7323 §2.2 and §3.2).
    pub(in crate::tcp) fn learn_from_syn(
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
        let mut agreed = self.sender.agreed();
        agreed.scaling = scales;
        // RFC 2018 §2: only if both SYNs permit it.
        agreed.sack &= options.sack_permitted;
        agreed.timestamps = options.timestamps.is_some();
        self.sender.agree(agreed);
        let theirs = options.mss.unwrap_or(if self.flow.is_ipv6() {
            MSS_DEFAULT_V6
        } else {
            MSS_DEFAULT_V4
        });
        let mss = theirs.max(MSS_MIN).min(self.receiver.mss_announced());
        self.sender
            .syn_received(seq, window, options.window_scale, mss);
    }

    /// Follow the table of states; `None` where the event changes nothing.
    pub(in crate::tcp) fn follow(&mut self, event: Event) -> Option<Action> {
        let (state, action) = self.state.on(event)?;
        self.state = state;
        Some(action)
    }

    /// The program should hear of this.
    pub(in crate::tcp) fn tell(&mut self, event: EventSet) {
        self.events = self.events.with(event);
    }

    /// It is over. The program is to hear of that if it opened the connection, was told of it (`announced`), or is about to be;
    /// else this is false.
    pub(in crate::tcp) fn close(&mut self, reason: Reason, announced: bool) -> bool {
        self.reason = reason;
        let heard = self.active || announced || self.events.contains(EventSet::ACCEPTED);
        if heard {
            self.tell(EventSet::CLOSED);
        }
        heard
    }

    /// The program has something to hear.
    #[inline]
    pub(in crate::tcp) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What the program has not heard yet; it is heard with this call.
    pub(in crate::tcp) fn take_events(&mut self) -> EventSet {
        std::mem::take(&mut self.events)
    }

    // Commands of the program.

    /// Queue a slice to be sent; false when the connection takes no more data, or not so much at
    /// once ([`SEND_QUEUE_BYTES_MAX`](crate::limits::SEND_QUEUE_BYTES_MAX)).
    pub fn send(&mut self, slice: Slice) -> bool {
        self.state.can_send() && self.sender.push(slice)
    }

    /// Whether it takes more data to be sent.
    pub(in crate::tcp) fn takes_data(&self) -> bool {
        self.state.can_send() && !self.sender.queue().is_finishing()
    }

    /// Nothing more will be sent: a FIN follows what is queued.
    pub fn finish(&mut self) {
        let action = self.follow(Event::Finish);
        if matches!(action, Some(Action::SendFin | Action::FinishLater)) {
            self.sender.finish();
        }
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

    /// The program has taken `count` bytes: the window opens. Panics when there are fewer.
    pub fn consume(&mut self, count: usize, memory: &mut Memory) {
        if count == 0 {
            return;
        }
        self.receiver.queue_mut().consume(count, memory);
        self.receiver
            .consumed(count as u32, self.state.can_receive());
    }

    /// The program has read this many bytes; the receive buffer is kept until the connection rests.
    #[inline]
    pub(in crate::tcp) fn consume_keeping(&mut self, count: usize, memory: &mut Memory) {
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

    /// What the IP headers of its segments say.
    pub fn ip_fields(&self) -> IpFields {
        self.ip
    }

    /// Other fields in the IP headers from now on (RFC 9293 §3.9.2, SHLD-21).
    pub fn set_ip_fields(&mut self, ip: IpFields) {
        self.ip = ip;
    }

    /// Wait with less than a full segment while data is in flight, or no more.
    pub fn set_nagle(&mut self, waits: bool) {
        self.sender.set_nagle(waits);
    }

    /// Send at once an acknowledgement that would otherwise wait.
    pub fn acknowledge_now(&mut self) {
        self.receiver.acks_mut().hurry();
    }

    /// Where no answer is waited for and none is owed, and nothing has happened for a retransmission
    /// timeout: give back what memory is not needed to wait. Gives when to ask again, if that is later.
    pub(in crate::tcp) fn rest(&mut self, now: Instant, memory: &mut Memory) -> Option<Instant> {
        let quiet = self.rests_at();
        if quiet <= now {
            self.receiver.cool(memory);
        }
        let waits = self.sender.retransmit_at() != Instant::NEVER
            || self.receiver.acks().at() != Instant::NEVER;
        if waits
            || !self.holds()
            || !self.state.is_synchronized()
            || self.sender.queue().flight() > 0
        {
            return self.receiver.queue().is_warm().then_some(quiet);
        }
        if quiet > now {
            return Some(quiet);
        }
        self.sender.rest();
        self.receiver.rest();
        None
    }

    /// It has memory that it does not need when it rests.
    #[inline]
    pub(in crate::tcp) fn holds(&self) -> bool {
        self.sender.holds() || self.receiver.holds()
    }

    /// When it rests if nothing happens.
    pub(in crate::tcp) fn rests_at(&self) -> Instant {
        self.liveness.heard_at().max(self.sender.last_sent()) + self.sender.timeout()
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
        self.sender.queue().bytes()
    }

    /// The connection's state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Our program opened it.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// A peer opens it, and the handshake is not complete: it counts against its listener's backlog.
    pub(in crate::tcp) fn is_half_open(&self) -> bool {
        self.state == State::SynReceived && !self.active
    }

    /// Why the connection is over; meaningful once it is.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Bytes queued by the program and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.queue().len()
    }

    /// Bytes that may be under way.
    pub fn congestion_window(&self) -> u32 {
        self.sender.congestion_window()
    }

    /// Bytes queued by the program and not yet sent for the first time.
    pub fn unsent(&self) -> usize {
        self.sender.queue().unsent() as usize
    }

    /// When time must be given to this connection.
    pub fn next_deadline(&self) -> Option<Instant> {
        let at = self.timer_deadline().min(self.sender.pacer().held_until());
        (at != Instant::NEVER).then_some(at)
    }

    /// The earliest of the protocol's timers: pacing apart, which needs a finer clock.
    pub(in crate::tcp) fn timer_deadline(&self) -> Instant {
        self.sender
            .retransmit_at()
            .min(self.receiver.acks().at())
            .min(self.liveness.deadline())
    }
}
