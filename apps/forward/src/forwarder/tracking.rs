//! What a packet says of its flow, as it goes on.

use exos_wire::tcp::TcpFlags;

use super::direction::Direction;
use super::frames::Forwarder;
use crate::flow::state::Event;
use crate::flow::{End, Flow, FlowId, Reset, State, Tick};
use crate::limits::{ASKED_AGAIN_AFTER, PROOF_WINDOW};
use crate::packets::packet::{Segment, Transport};

impl Forwarder {
    /// Notes what a packet says of its flow.
    #[inline]
    pub(super) fn note(
        &mut self,
        now: Tick,
        id: FlowId,
        transport: Transport,
        direction: Direction,
        upper: &[u8],
    ) {
        let flow = self.flows.get(id);
        let (before, server, seen) = (flow.state, flow.server, flow.seen);
        let after = match transport {
            Transport::Udp => self.after_datagram(now, flow, direction),
            Transport::Tcp => match self.after_segment(now, id, direction, &Segment::read(upper)) {
                Some(state) => state,
                None => return,
            },
        };
        self.flows.see(now, id, after);
        if before != after {
            match (after, direction) {
                (State::SynAnswered | State::GoesOn, _) => self.services.flow_answered(server, now),
                (State::Refused, Direction::ToClient) => self.fails(now, id, seen),
                _ => {}
            }
            self.services.server_mut(server).changed(
                before,
                after,
                direction == Direction::ToClient,
            );
        }
    }

    /// How a flow of datagrams stands after one more.
    #[inline]
    fn after_datagram(&self, now: Tick, flow: &Flow, direction: Direction) -> State {
        match direction {
            // Whether it is answered is not heard; that the client goes on is.
            Direction::ToServer if !flow.reach.hears_servers() && now > flow.seen => {
                State::Repeated
            }
            Direction::ToServer => flow.state.on_question(),
            Direction::ToClient => {
                let listener = &self.services.listeners[usize::from(flow.key.listener)];
                flow.state.on_answer(listener.at.port)
            }
        }
    }

    /// How a connection stands after a segment; `None` where this says nothing of it.
    #[inline]
    fn after_segment(
        &mut self,
        now: Tick,
        id: FlowId,
        direction: Direction,
        segment: &Segment,
    ) -> Option<State> {
        let flow = self.flows.get(id);
        let (before, from) = (flow.state, direction.from());
        let mut state = before;
        if direction == Direction::ToServer && proves(flow, segment) {
            state = state.on(Event::Proof);
        }
        let event = event_of(segment, direction);
        match event {
            Event::Rst => return self.after_reset(id, state, from, segment),
            Event::Syn | Event::SynAck => self.note_syn(now, id, event, segment),
            _ if flow.has_reset(from.other()) && before == State::Reset => return Some(before),
            _ => self.note_numbers(id, from, segment),
        }
        // A SYN that comes again says nothing new of a connection that is asked for, or was reset.
        let is_old = event == Event::Syn && !before.begins_by_syn();
        (!is_old).then(|| state.on(event))
    }

    /// A reset says something where its sender shows that it knows the connection.
    #[cold]
    fn after_reset(
        &mut self,
        id: FlowId,
        state: State,
        from: End,
        segment: &Segment,
    ) -> Option<State> {
        let reset = self
            .flows
            .get(id)
            .reset(from, segment.seq.0, self.is_seen_elsewhere);
        if state.doubts_resets() && reset == Reset::Doubtful {
            self.counters.resets_doubted += 1;
            return None;
        }
        if state != State::Reset {
            self.flows.set_has_reset(id, from.other(), false);
        }
        self.flows.set_has_reset(id, from, reset == Reset::Exact);
        Some(state.on(Event::Rst))
    }

    /// A connection is asked for, perhaps again, or the server agrees.
    #[cold]
    fn note_syn(&mut self, now: Tick, id: FlowId, event: Event, segment: &Segment) {
        let flow = self.flows.get(id);
        let (state, seen, hears_servers) = (flow.state, flow.seen, flow.reach.hears_servers());
        if event == Event::SynAck {
            for end in [End::Client, End::Server] {
                self.flows.set_has_reset(id, end, false);
            }
            self.syns.forget(id, &self.flows.get(id).key);
            self.flows.note_expected(id, End::Server, segment.ack.0);
            self.flows.set_server_isn(id, segment.seq.0);
            return;
        }
        if state.begins_by_syn() {
            self.flows.forget_numbers(id);
        }
        if !hears_servers {
            self.flows.note_own(id, segment.seq.0);
        }
        // Nobody has answered the first one for a while.
        let has_asked = matches!(state, State::SynSeen | State::Asked);
        if has_asked && now >= seen.saturating_add(ASKED_AGAIN_AFTER) {
            self.fails(now, id, seen);
        }
    }

    /// What an ordinary segment says of sequence numbers.
    #[inline]
    fn note_numbers(&mut self, id: FlowId, from: End, segment: &Segment) {
        if !self.flows.get(id).reach.hears_servers() {
            self.flows.note_own(id, segment.seq.0);
        } else if segment.flags.contains(TcpFlags::ACK) {
            self.flows.note_expected(id, from, segment.ack.0);
        }
    }

    /// A flow has failed to begin, which counts once, and not if the server has answered anybody since.
    #[cold]
    pub(super) fn fails(&mut self, now: Tick, id: FlowId, since: Tick) {
        let flow = self.flows.get(id);
        if !flow.has_failed() {
            let server = flow.server;
            self.flows.set_failed(id);
            self.services.flow_failed(server, since, now);
        }
    }
}

/// True when a client's segment acknowledges the server's SYN, or somewhat more.
#[inline]
fn proves(flow: &Flow, segment: &Segment) -> bool {
    let beyond = segment.ack.0.wrapping_sub(flow.server_isn);
    let is_within = (1..=PROOF_WINDOW).contains(&beyond);
    is_within && segment.flags.contains(TcpFlags::ACK) && flow.is_answered()
}

#[inline]
fn event_of(segment: &Segment, direction: Direction) -> Event {
    let has = |flag: TcpFlags| segment.flags.contains(flag);
    match direction {
        _ if has(TcpFlags::RST) => Event::Rst,
        Direction::ToServer if has(TcpFlags::SYN) && !has(TcpFlags::ACK) => Event::Syn,
        Direction::ToClient if has(TcpFlags::SYN) && has(TcpFlags::ACK) => Event::SynAck,
        Direction::ToServer if has(TcpFlags::FIN) => Event::ClientFin,
        Direction::ToClient if has(TcpFlags::FIN) => Event::ServerFin,
        _ => Event::Other,
    }
}
