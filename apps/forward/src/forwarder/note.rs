//! What a packet says of its flow, as it goes on.

use exos_wire::tcp::TcpFlags;

use super::{Forwarder, Way};
use crate::flow::state::Event;
use crate::flow::{FlowId, State, Tick};
use crate::limits::PROOF_WINDOW;
use crate::packet::{Segment, Transport};

impl Forwarder {
    /// Notes what a packet says of its flow.
    #[inline]
    pub(super) fn note(
        &mut self,
        now: Tick,
        id: FlowId,
        transport: Transport,
        way: Way,
        upper: &[u8],
    ) {
        let flow = self.flows.get(id);
        let (mut state, isn) = (flow.state, flow.server_isn);
        let (before, server, seen) = (state, flow.server, flow.seen);
        match (transport, way) {
            // Whether it is answered is not heard; that the client goes on is.
            (Transport::Udp, Way::ToServer) if !flow.reach.hears_servers() && now > seen => {
                state = State::Repeated;
            }
            (Transport::Udp, Way::ToServer) => {}
            (Transport::Udp, Way::ToClient) => state = State::BothWays,
            (Transport::Tcp, _) => {
                let segment = Segment::read(upper);
                if way == Way::ToServer && proves(&segment, isn) {
                    state = state.on(Event::Proof);
                }
                let event = event_of(&segment, way);
                // Nobody has answered the first one for a while.
                let has_asked = matches!(before, State::SynSeen | State::Asked);
                if has_asked && event == Event::Syn && now > seen {
                    self.services.flow_failed(server, now);
                }
                state = state.on(event);
                if event == Event::SynAck {
                    self.flows.set_server_isn(id, segment.seq.0);
                }
            }
        }
        self.flows.see(now, id, state);
        if before != state {
            match (state, way) {
                (State::SynAnswered | State::GoesOn, _) => self.services.flow_answered(server),
                (State::Refused, Way::ToClient) => self.services.flow_failed(server, now),
                _ => {}
            }
            self.services
                .server_mut(server)
                .changed(before, state, way == Way::ToClient);
        }
    }
}

/// True when a client's segment acknowledges the server's SYN, or somewhat more.
#[inline]
fn proves(segment: &Segment, server_isn: u32) -> bool {
    let beyond = segment.ack.0.wrapping_sub(server_isn);
    segment.flags.contains(TcpFlags::ACK) && (1..=PROOF_WINDOW).contains(&beyond)
}

#[inline]
fn event_of(segment: &Segment, way: Way) -> Event {
    let has = |flag: TcpFlags| segment.flags.contains(flag);
    match way {
        _ if has(TcpFlags::RST) => Event::Rst,
        Way::ToServer if has(TcpFlags::SYN) && !has(TcpFlags::ACK) => Event::Syn,
        Way::ToClient if has(TcpFlags::SYN) && has(TcpFlags::ACK) => Event::SynAck,
        Way::ToServer if has(TcpFlags::FIN) => Event::ClientFin,
        Way::ToClient if has(TcpFlags::FIN) => Event::ServerFin,
        _ => Event::Other,
    }
}
