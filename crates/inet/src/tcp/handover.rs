//! Connections as values: taken out of one stack, put into another.
//!
//! A [`DetachedConnection`] is plain data, owned and `Send`: what both sides have agreed on, the numbers,
//! the bytes queued and received, and what is known of the path. Times are told as ages, and the clock of
//! timestamps by what it showed, so that the stacks' clocks need not have the same start.
//!
//! What does not travel: when each segment in flight left (the whole flight counts as one that has left
//! just now and measures nothing), a repair in progress, the neighbour, the listener, the pacing of the
//! moment. The congestion window travels.
//!
//! **Between the stacks** the peer goes on sending. The old stack remembers the flow ([`HandedOver`])
//! and is silent about its segments for [`HANDED_OVER_HOLD`], and for as long again after each that still
//! comes. Until then the caller brings the flow's packets to the new stack; what is lost on the way is
//! sent again by its sender.

use std::collections::VecDeque;

use exos_buf::{Aggregate, Buffer};
use exos_wire::SeqNumber;
use hashbrown::HashTable;

use super::congestion::Congestion;
use super::connection::{Connection, NEVER, Opening, Owed, Received, TIMESTAMPS_BYTES};
use super::ecn::EcnMode;
use super::event::EventSet;
use super::flow::Flow;
use super::ip::IpFields;
use super::life::Rare;
use super::loss::{Flight, Timer};
use super::memory::Pressure;
use super::mtu::PathMtu;
use super::options::Options;
use super::receive::ReceiveQueue;
use super::rtt::Rtt;
use super::slab::ConnectionId;
use super::state::State;
use super::{Local, OpenError, Tcp};
use crate::limits::{HANDED_OVER_ENTRIES_MAX, HANDED_OVER_HOLD};
use crate::siphash::SipKey;
use crate::time::{Duration, Instant};

/// A connection without a stack.
pub struct DetachedConnection(Box<Image>);

/// Everything about it. The names are those of [`Connection`].
struct Image {
    flow: Flow,
    state: State,
    active: bool,
    finishing: bool,
    discarding: bool,
    nagle: bool,
    probing: bool,
    scaling: bool,
    timestamps: bool,
    sack: bool,
    ecn: bool,
    ecn_mode: EcnMode,
    ip: IpFields,
    ecn_echo: bool,
    retries: u8,
    snd_scale: u8,
    rcv_scale: u8,
    mss: u16,
    full_mss: u16,
    mss_announced: u16,
    rcv_mss: u16,
    snd_una: SeqNumber,
    snd_max: SeqNumber,
    snd_wnd: u32,
    snd_wnd_max: u32,
    snd_wl1: SeqNumber,
    snd_wl2: SeqNumber,
    iss: SeqNumber,
    rcv_nxt: SeqNumber,
    rcv_edge: SeqNumber,
    irs: SeqNumber,
    peer_fin: Option<SeqNumber>,
    rcv_buffer: u32,
    rcv_buffer_first: u32,
    rcv_buffer_most: u32,
    rcv_buffer_limit: u32,
    received: Received,
    ts_recent: u32,
    /// What the clock of timestamps showed.
    ts_value: u32,
    heard_age: Duration,
    sent_age: Duration,
    /// What is left of FIN-WAIT-2.
    life_left: Option<Duration>,
    congestion: Congestion,
    rtt: Rtt,
    rare: Option<Box<Rare>>,
    send: Vec<u8>,
    receive: ReceiveQueue,
    /// What the program has not heard.
    events: EventSet,
    token: u64,
}

impl DetachedConnection {
    /// The four-tuple.
    pub fn flow(&self) -> &Flow {
        &self.0.flow
    }

    /// The connection's state.
    pub fn state(&self) -> State {
        self.0.state
    }

    /// The program's own word for it.
    pub fn token(&self) -> u64 {
        self.0.token
    }

    /// Bytes queued and not acknowledged, sent or not.
    pub fn unacknowledged(&self) -> usize {
        self.0.send.len()
    }

    /// Bytes received and not taken by the program.
    pub fn readable(&self) -> &[u8] {
        self.0.receive.readable()
    }
}

impl core::fmt::Debug for DetachedConnection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DetachedConnection")
            .field("flow", self.flow())
            .field("state", &self.state())
            .field("unacknowledged", &self.unacknowledged())
            .field("unread", &self.readable().len())
            .finish()
    }
}

impl Image {
    /// Every field of a connection is named here: a new one belongs into the image, or is said not to.
    fn of(connection: Connection, now: Instant) -> Self {
        let ts_value = connection.ts_now(now);
        let Connection {
            state,
            ack_owed: _,
            active,
            finishing,
            discarding,
            early: _,
            nagle,
            probe: _,
            probing,
            duplicates_owed: _,
            retries,
            snd_scale,
            rcv_scale,
            scaling,
            timestamps,
            sack,
            ecn,
            ecn_mode,
            ip,
            ecn_echo,
            pressure: _,
            events,
            reason: _,
            flow,
            listener: _,
            mss,
            mss_announced,
            rcv_mss,
            snd_una,
            snd_nxt: _,
            snd_max,
            snd_wnd,
            snd_wnd_max,
            snd_wl1,
            snd_wl2,
            iss,
            rcv_nxt,
            rcv_edge,
            last_ack_sent: _,
            irs,
            peer_fin,
            rcv_buffer,
            rcv_buffer_first,
            rcv_buffer_most,
            rcv_buffer_limit,
            tuning: _,
            received_at: _,
            received,
            ts_recent,
            ts_offset: _,
            last_sent,
            congestion,
            loss: _,
            timer: _,
            syn_again: _,
            rtt,
            retransmit_at: _,
            ack_at: _,
            life_at,
            heard_at,
            rare,
            mtu,
            send,
            receive,
            path: _,
            token,
        } = connection;
        Self {
            flow,
            state,
            active,
            finishing,
            discarding,
            nagle,
            probing,
            scaling,
            timestamps,
            sack,
            ecn,
            ecn_mode,
            ip,
            ecn_echo,
            retries,
            snd_scale,
            rcv_scale,
            mss,
            full_mss: mtu.map_or(mss, |path| path.full()),
            mss_announced,
            rcv_mss,
            snd_una,
            snd_max,
            snd_wnd,
            snd_wnd_max,
            snd_wl1,
            snd_wl2,
            iss,
            rcv_nxt,
            rcv_edge,
            irs,
            peer_fin,
            rcv_buffer,
            rcv_buffer_first,
            rcv_buffer_most,
            rcv_buffer_limit,
            received,
            ts_recent,
            ts_value,
            heard_age: now - heard_at,
            sent_age: now - last_sent,
            life_left: (state == State::FinWait2).then(|| life_at - now),
            congestion,
            rtt,
            rare,
            send: send.to_vec(0..send.len()),
            receive,
            events,
            token,
        }
    }

    /// The connection in a stack whose clock shows `now`.
    fn into_connection(self, now: Instant, local: Local) -> Connection {
        let ago = |age: Duration| {
            let micros = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
            Instant::from_micros(now.micros().saturating_sub(micros))
        };
        let opening = Opening {
            flow: self.flow,
            iss: self.iss,
            ts_offset: self.ts_value.wrapping_sub(now.millis() as u32),
            mss_announced: self.mss_announced,
            now,
        };
        let options = if self.timestamps { TIMESTAMPS_BYTES } else { 0 };
        let most = local.mss.saturating_sub(options);
        let mut send = Aggregate::new();
        send.push(Buffer::from(self.send).into());
        let mut connection = Connection {
            active: self.active,
            finishing: self.finishing,
            discarding: self.discarding,
            nagle: self.nagle,
            probing: self.probing,
            scaling: self.scaling,
            timestamps: self.timestamps,
            sack: self.sack,
            ecn: self.ecn,
            ecn_mode: self.ecn_mode,
            ip: self.ip,
            ecn_echo: self.ecn_echo,
            retries: self.retries,
            snd_scale: self.snd_scale,
            rcv_scale: self.rcv_scale,
            // The new stack's link may be narrower.
            mss: self.mss.min(most),
            mtu: PathMtu::resumed(self.mss, self.full_mss.min(most), now),
            rcv_mss: self.rcv_mss,
            snd_una: self.snd_una,
            snd_nxt: self.snd_max,
            snd_max: self.snd_max,
            snd_wnd: self.snd_wnd,
            snd_wnd_max: self.snd_wnd_max,
            snd_wl1: self.snd_wl1,
            snd_wl2: self.snd_wl2,
            rcv_nxt: self.rcv_nxt,
            rcv_edge: self.rcv_edge,
            last_ack_sent: self.rcv_nxt,
            irs: self.irs,
            peer_fin: self.peer_fin,
            rcv_buffer: self.rcv_buffer,
            rcv_buffer_first: self.rcv_buffer_first,
            rcv_buffer_most: self.rcv_buffer_most,
            rcv_buffer_limit: self.rcv_buffer_limit,
            tuning: None,
            received_at: now,
            received: self.received,
            ts_recent: self.ts_recent,
            heard_at: ago(self.heard_age),
            last_sent: ago(self.sent_age),
            life_at: self.life_left.map_or(NEVER, |left| now + left),
            congestion: self.congestion,
            rtt: self.rtt,
            rare: self.rare,
            send,
            receive: self.receive,
            events: self.events,
            token: self.token,
            // What was owed is paid at once: the peer may have waited, and learns that we are here.
            ack_owed: Owed::Now,
            loss: Flight::default(),
            timer: Timer::Retransmit,
            ..Connection::resumed(opening, &Options::default(), self.state)
        };
        connection.congestion.get_mut().taken_over(now);
        connection.resume_flight(now);
        connection.resume_life(now);
        connection
    }
}

impl Connection {
    /// What had left another stack is in flight here, and measures nothing.
    pub(super) fn resume_flight(&mut self, now: Instant) {
        if self.snd_max == self.snd_una {
            return;
        }
        self.loss.begin(self.snd_una, now);
        let departure = self.loss.departure(now);
        self.loss.board.sent(self.snd_max, departure);
        self.loss.board.first_is_ambiguous();
        self.retransmit_at = now + self.rtt.timeout();
    }
}

impl Tcp {
    /// Take a connection out of this stack: nothing of it is left but the memory that its segments are
    /// to be met with silence. The program hears nothing more of it here.
    ///
    /// `None` when it is gone, or does not stand yet.
    pub fn take_out(&mut self, now: Instant, id: ConnectionId) -> Option<DetachedConnection> {
        let connection = self.slab.get(id)?;
        if !connection.state().is_synchronized() {
            return None;
        }
        let flow = *connection.flow();
        self.unindex(id);
        let connection = self.slab.take(id)?;
        self.memory.adjust(connection.receive.held(), 0);
        self.handed_over.insert(now, flow);
        Some(DetachedConnection(Box::new(Image::of(connection, now))))
    }

    /// Put a connection into this stack, where it goes on. On failure it is given back.
    ///
    /// News that its program had not heard come out of `poll_event`, as do bytes that it had not read.
    pub fn put_in(
        &mut self,
        now: Instant,
        connection: DetachedConnection,
        local: Local,
    ) -> Result<ConnectionId, (OpenError, DetachedConnection)> {
        let flow = *connection.flow();
        let full = self.index.len() >= self.connections_max;
        if full || self.memory.pressure() == Pressure::Full {
            return Err((OpenError::Full, connection));
        }
        if self.is_taken(&flow) {
            return Err((OpenError::FlowTaken, connection));
        }
        self.handed_over.remove(&flow);
        let mut connection = connection.0.into_connection(now, local);
        self.memory.adjust(0, connection.receive.held());
        connection.pressure = self.memory.pressure();
        let has_gap = connection.receive.has_gap();
        if !connection.readable().is_empty() {
            connection.tell(EventSet::READABLE);
        }
        let id = self.insert(connection, flow.table_hash(&self.key));
        if let Some(entry) = self.slab.entry_mut(id) {
            // Its program knows it, and is to hear of its end.
            entry.announced = true;
        }
        if has_gap {
            self.note_holding(id);
        }
        self.settle(id);
        Ok(id)
    }
}

/// Flows that have been handed over lately: what still comes of them is nobody's here, and not denied.
pub(super) struct HandedOver {
    entries: HashTable<(Flow, Instant)>,
    /// In the order in which they may end; those renewed since come again at its end.
    ends: VecDeque<(Instant, Flow)>,
    key: SipKey,
}

/// Salt of the hash of this table.
const SALT_HANDED_OVER: u32 = 18;

impl HandedOver {
    pub fn new(key: SipKey) -> Self {
        Self {
            entries: HashTable::new(),
            ends: VecDeque::new(),
            key,
        }
    }

    fn hash(&self, flow: &Flow) -> u64 {
        flow.hash(&self.key, SALT_HANDED_OVER)
    }

    fn insert(&mut self, now: Instant, flow: Flow) {
        self.remove(&flow);
        self.expire(now);
        while self.ends.len() >= HANDED_OVER_ENTRIES_MAX {
            if let Some((_, oldest)) = self.ends.pop_front() {
                self.remove(&oldest);
            }
        }
        let (hash, key, end) = (self.hash(&flow), self.key, now + HANDED_OVER_HOLD);
        let rehash = |e: &(Flow, Instant)| e.0.hash(&key, SALT_HANDED_OVER);
        self.entries.insert_unique(hash, (flow, end), rehash);
        self.ends.push_back((end, flow));
    }

    fn remove(&mut self, flow: &Flow) {
        let hash = self.hash(flow);
        if let Ok(found) = self.entries.find_entry(hash, |e| e.0 == *flow) {
            found.remove();
        }
    }

    /// Let go of those that nothing has come of for long enough.
    fn expire(&mut self, now: Instant) {
        while let Some(&(end, flow)) = self.ends.front().filter(|e| e.0 <= now) {
            self.ends.pop_front();
            let hash = self.hash(&flow);
            let Ok(found) = self.entries.find_entry(hash, |e| e.0 == flow) else {
                continue;
            };
            let renewed = found.get().1;
            if renewed > end {
                self.ends.push_back((renewed, flow));
            } else {
                found.remove();
            }
        }
    }

    /// True when `flow` has been handed over; a segment of it (`renew`) prolongs the memory.
    pub fn has(&mut self, now: Instant, flow: &Flow, renew: bool) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let hash = self.hash(flow);
        let Some(entry) = self.entries.find_mut(hash, |e| e.0 == *flow) else {
            return false;
        };
        if entry.1 <= now {
            self.expire(now);
            return false;
        }
        if renew {
            entry.1 = now + HANDED_OVER_HOLD;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detached_connection_may_cross_threads() {
        fn is_send<T: Send>() {}
        is_send::<DetachedConnection>();
    }

    fn flow(n: u32) -> Flow {
        let remote = std::net::SocketAddr::new(std::net::Ipv4Addr::from(n).into(), 9);
        Flow::new("10.0.0.1:80".parse().unwrap(), remote)
    }

    #[test]
    fn a_flow_is_remembered_as_long_as_something_comes() {
        let mut table = HandedOver::new(SipKey::from_seed(1));
        let at = |secs| Instant::START + Duration::from_secs(secs);
        let hold = HANDED_OVER_HOLD.as_secs();
        table.insert(at(0), flow(1));
        table.insert(at(0), flow(2));
        assert!(table.has(at(hold - 1), &flow(1), true));
        assert!(table.has(at(hold - 1), &flow(2), false));
        assert!(table.has(at(hold + 1), &flow(1), false));
        assert!(!table.has(at(hold + 1), &flow(2), true));
        table.insert(at(hold + 2), flow(3));
        assert_eq!((table.entries.len(), table.ends.len()), (2, 2));
        table.remove(&flow(1));
        assert!(!table.has(at(hold + 2), &flow(1), true));
        table.expire(at(10 * hold));
        assert!(table.entries.is_empty() && table.ends.is_empty());
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut table = HandedOver::new(SipKey::from_seed(1));
        for n in 0..HANDED_OVER_ENTRIES_MAX as u32 + 10 {
            table.insert(Instant::START, flow(n));
        }
        assert_eq!(table.entries.len(), HANDED_OVER_ENTRIES_MAX);
        assert!(!table.has(Instant::START, &flow(9), false));
        assert!(table.has(Instant::START, &flow(10), false));
    }
}
