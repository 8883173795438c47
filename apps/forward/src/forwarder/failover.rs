//! Flows that their server refuses, or does not answer, go to another.
//!
//! A reset or an unreachable in answer to a SYN is not passed on while there is another server: that one is sent the client's SYN,
//! which was kept, at once. Nothing has been said to the client yet, so it cannot tell. A SYN that nobody has answered when the client
//! sends it again goes to another server too. What comes of the first server later finds no flow, and is answered with a reset.
//!
//! A SYN of a flow that was reset goes to its server, for both may be forged. If the server refuses it, there is no connection any more:
//! another server gets the SYN. That only the server can say; that it does not answer says nothing.
//!
//! This is for servers that are heard ([`Reach::hears_servers`](crate::packets::reach::Reach::hears_servers)): of others nobody knows here
//! whether they have answered.

use exos_inet::Instant;
use exos_wire::tcp::TcpFlags;

use super::direction::{Direction, course, tick_of};
use super::frames::Forwarder;
use super::verdict::Verdict;
use crate::flow::{Begun, End, FlowId, State, Tick};
use crate::limits::{ASKED_AGAIN_AFTER, ASKED_AGAIN_TIME, REFUSALS_MAX, SYN_LEN_MAX};
use crate::packets::fragments::Onward;
use crate::packets::icmp::Quote;
use crate::packets::packet::{Packet, Segment};
use crate::packets::rewrite::Sums;
use crate::service::Affinity;

impl Forwarder {
    /// A segment of a connection that was asked for and not answered, or was reset: the flow to go on with, or what becomes of a refusal.
    #[cold]
    pub(super) fn unanswered(
        &mut self,
        now: Instant,
        id: FlowId,
        direction: Direction,
        upper: &[u8],
    ) -> Result<FlowId, Verdict> {
        let segment = Segment::read(upper);
        match direction {
            Direction::ToServer
                if self.flows.get(id).state == State::SynSeen
                    && is_syn(&segment)
                    && self.is_asked_again(now, id) =>
            {
                let seen = self.flows.get(id).seen;
                self.fails(tick_of(now), id, seen);
                let stays = self.waits_for_its_server(id);
                let moved = if stays {
                    None
                } else {
                    self.move_on(now, id, false)
                };
                Ok(moved.unwrap_or(id))
            }
            Direction::ToClient if self.is_refusal(id, &segment) => {
                self.refused(now, id, true).map_or(Ok(id), Err)
            }
            Direction::ToServer | Direction::ToClient => Ok(id),
        }
    }

    /// An error of ICMP about a SYN that nobody has answered: what becomes of it, if its client does not get it.
    pub(super) fn unreachable(
        &mut self,
        now: Instant,
        id: FlowId,
        quote: &Quote,
        packet: &Packet,
        frame: &[u8],
    ) -> Option<Verdict> {
        let flow = self.flows.get(id);
        let is_about_it = flow.expects(End::Server) == Some(quote.seq.wrapping_add(1));
        let withheld =
            flow.state == State::SynSeen && is_about_it && Quote::says_unreachable(packet, frame);
        withheld.then(|| self.refused(now, id, false)).flatten()
    }

    /// Keeps the SYN of a flow that may go to another server.
    #[cold]
    pub(super) fn keep_syn(
        &mut self,
        now: Instant,
        id: FlowId,
        packet: &Packet,
        frame: &[u8],
        sums: Sums,
    ) {
        let flow = self.flows.get(id);
        let key = flow.key;
        let segment = Segment::read(&frame[packet.upper_range()]);
        let members = self.services.listeners[usize::from(key.listener)].members();
        let may_move = flow.reach.hears_servers() && members.len() > 1;
        if may_move && is_syn(&segment) && packet.fragment.is_none() {
            let next = segment.seq.0.wrapping_add(1);
            // What a flow that was reset expects is not for a SYN to say that may be forged.
            if flow.state == State::SynSeen {
                self.flows.note_expected(id, End::Server, next);
            }
            self.syns
                .keep(now, (id, key), (frame, next), sums.of_copy());
        }
    }

    /// True for a reset that answers the flow's SYN: a client would believe it (RFC 9293 §3.10.7.3).
    fn is_refusal(&self, id: FlowId, segment: &Segment) -> bool {
        let answers = TcpFlags(TcpFlags::RST.0 | TcpFlags::ACK.0);
        let flow = self.flows.get(id);
        let expected = match flow.state {
            State::SynSeen => flow.expects(End::Server),
            _ => self.syns.get(id, &flow.key).map(|syn| syn.next),
        };
        // What was sent with the SYN may be acknowledged too.
        let fits = |next: u32| segment.ack.0.wrapping_sub(next) <= SYN_LEN_MAX as u32;
        segment.flags.contains(answers) && expected.is_some_and(fits)
    }

    /// True when the client sends its SYN once more because nobody has answered; a copy that the network made comes sooner.
    fn is_asked_again(&self, now: Instant, id: FlowId) -> bool {
        let flow = self.flows.get(id);
        match self.syns.get(id, &flow.key) {
            Some(syn) => now >= syn.at + ASKED_AGAIN_TIME,
            None => tick_of(now) >= flow.seen.saturating_add(ASKED_AGAIN_AFTER),
        }
    }

    /// A server refuses a flow, itself or by a router's word; `None` where nobody else can have it, and the client is to know.
    fn refused(&mut self, now: Instant, id: FlowId, by_server: bool) -> Option<Verdict> {
        let tick = tick_of(now);
        if self.flows.get(id).state == State::Reset {
            self.flows.forget_numbers(id);
        }
        let before = *self.flows.get(id);
        self.fails(tick, id, before.seen);
        self.next_server(id)?;
        if by_server {
            self.flows.see(tick, id, State::Refused);
            let server = self.services.server_mut(before.server);
            server.changed(before.state, State::Refused, true);
        }
        let syn = self.syns.take(id, &before.key);
        let moved = self.move_on(now, id, true);
        self.counters.refusals_withheld += 1;
        let again = moved.zip(syn).and_then(|(id, (syn, mut frame))| {
            let sent = self.ask(now, id, &mut frame, syn.sums);
            sent.then_some(frame)
        });
        match (moved, again) {
            (Some(id), Some(frame)) => {
                let to = self.services.rewrite(self.flows.get(id), true).dst;
                self.generated.push(to.address.into(), frame);
                Some(Verdict::Generated)
            }
            // The client sends it again.
            _ => Some(Verdict::Drop),
        }
    }

    /// Sends a flow's SYN on, which was kept; false where it cannot be.
    fn ask(&mut self, now: Instant, id: FlowId, frame: &mut [u8], sums: Sums) -> bool {
        let Some(packet) = Packet::read_again(frame) else {
            return false;
        };
        self.keep_syn(now, id, &packet, frame, sums);
        let flow = *self.flows.get(id);
        let course = course(&flow, Direction::ToServer);
        let onward = Onward {
            rewrite: self.services.rewrite(&flow, true),
            course,
            reach: flow.reach,
        };
        self.send(now, &packet, frame, sums, &onward).goes_on()
    }

    /// The server that a flow goes to if the one that it has does not take it. Where all others have refused it, and this one has only
    /// not answered yet, it stays.
    fn next_server(&self, id: FlowId) -> Option<usize> {
        let flow = self.flows.get(id);
        let (listener, refusals) = (flow.key.listener, flow.refusals());
        let may_move = refusals < REFUSALS_MAX && self.services.is_open(listener);
        if !may_move || !flow.reach.hears_servers() {
            return None;
        }
        let hash = self.hash_of(&flow.key);
        self.services.another(listener, flow.server, hash, refusals)
    }

    /// Whether a flow that is not answered stays where it is: its client's others are there, and new ones would come there too.
    fn waits_for_its_server(&self, id: FlowId) -> bool {
        let flow = self.flows.get(id);
        let is_in_use = self.services.is_in_use(flow.key.listener, flow.server);
        self.services.affinity() == Affinity::Client && is_in_use
    }

    /// Gives a flow that nobody has answered to another server: the flow that it is now.
    fn move_on(&mut self, now: Instant, id: FlowId, is_refused: bool) -> Option<FlowId> {
        let server = self.next_server(id)?;
        let before = *self.flows.get(id);
        let our_port = self.way_back(before.reach, &before.key, server)?;
        self.remove(id);
        let begun = Begun {
            key: before.key,
            server: server as u16,
            our_port,
            reach: before.reach,
        };
        let moved = self.insert(tick_of(now), begun, State::SynSeen);
        self.flows.set_moved(moved, &before, is_refused);
        self.counters.flows_moved += 1;
        Some(moved)
    }

    /// Takes in a flow that is given to a server now.
    pub(super) fn insert(&mut self, now: Tick, begun: Begun, state: State) -> FlowId {
        let id = self.flows.insert(now, begun, state);
        self.services.flow_begins(id, self.flows.get(id));
        self.services.server_mut(begun.server).begun += 1;
        id
    }
}

/// True for what asks for a connection.
fn is_syn(segment: &Segment) -> bool {
    const CONTROLS: u8 = TcpFlags::SYN.0 | TcpFlags::ACK.0 | TcpFlags::RST.0 | TcpFlags::FIN.0;
    segment.flags.0 & CONTROLS == TcpFlags::SYN.0
}
