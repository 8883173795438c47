//! Errors of ICMP about packets that went on: to the one that sent these.

use exos_inet::Instant;

use super::direction::{Direction, course};
use super::frames::Forwarder;
use super::verdict::Verdict;
use crate::flow::{FlowId, Key};
use crate::packets::icmp::Quote;
use crate::packets::packet::Packet;
use crate::packets::reach::Reach;
use crate::packets::rewrite::{Rewrite, Sums};

/// What an error is about.
enum About {
    /// A flow, if it is known, and where the error goes.
    Flow(Option<FlowId>, Direction),
    /// What a server has sent to this client by itself.
    Unheard(Key),
    /// Nothing that we sent on.
    Nobody,
}

impl Forwarder {
    /// An error about a packet that we sent on: to the one that sent it.
    pub(super) fn handle_icmp(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &mut [u8],
        sums: Sums,
    ) -> Verdict {
        if self.learn_path(now, packet, frame) {
            return Verdict::Drop;
        }
        let Some(quote) = Quote::read(packet, frame) else {
            return Verdict::Stack;
        };
        let (id, direction) = match self.about(&quote) {
            About::Flow(Some(id), direction) => (id, direction),
            About::Flow(None, _) => {
                self.counters.drop_icmp_unknown += 1;
                return Verdict::Drop;
            }
            About::Unheard(key) => return self.pass_error(now, packet, frame, sums, &key),
            About::Nobody => return Verdict::Stack,
        };
        if direction == Direction::ToClient
            && let Some(verdict) = self.unreachable(now, id, &quote, packet, frame)
        {
            return verdict;
        }
        if packet.hops <= 1 {
            return self.drop_last_hop();
        }
        self.send_error(packet, frame, &quote, (id, direction))
    }

    /// What went to a client came from a listener, and what we sent to a server from a port of ours, or from the client.
    fn about(&self, quote: &Quote) -> About {
        let (transport, src, dst) = (quote.transport, quote.src, quote.dst);
        if let Some(listener) = self.services.listener(transport, src) {
            let key = Key {
                client: dst,
                listener,
            };
            return match self.services.reach(listener).hears_servers() {
                true => About::Flow(self.flows.find(&key), Direction::ToServer),
                false => About::Unheard(key),
            };
        }
        match self.services.sender(transport, dst, src.address) {
            Some(server) => About::Flow(self.flow_back(server, src), Direction::ToClient),
            None => About::Nobody,
        }
    }

    /// Sends an error on in the direction of its flow, with what it quotes as its receiver sent it.
    fn send_error(
        &mut self,
        packet: &Packet,
        frame: &mut [u8],
        quote: &Quote,
        (id, direction): (FlowId, Direction),
    ) -> Verdict {
        let flow = *self.flows.get(id);
        let mut outer = self
            .services
            .rewrite(&flow, direction == Direction::ToServer);
        let inner = Rewrite {
            src: outer.dst,
            dst: outer.src,
            ident: 0,
        };
        if flow.reach == Reach::Transparent && direction == Direction::ToServer {
            // Towards servers nothing is changed but where packets go.
            outer.src.address = packet.src;
        }
        let to = outer.dst.address;
        if self.links.exceeded(packet.ip_len(), to).is_some() {
            self.counters.drop_too_big += 1;
            return Verdict::Drop;
        }
        quote.translate(packet, frame, &outer, &inner);
        self.counters.forwarded_icmp_errors += 1;
        self.sent(packet, course(&flow, direction));
        Verdict::Onward(to.into())
    }

    /// An error about what a server has sent to this client by itself: to the server, which has the address that it is for.
    #[cold]
    pub(super) fn pass_error(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &mut [u8],
        sums: Sums,
        key: &Key,
    ) -> Verdict {
        let server = match self.flows.find(key) {
            Some(id) => Some(self.flows.get(id).server),
            None => self.agreed_server(key),
        };
        let Some(server) = server else {
            self.counters.drop_icmp_unknown += 1;
            return Verdict::Drop;
        };
        self.counters.forwarded_icmp_errors += 1;
        let onward = self.onward_unknown(key, server);
        self.send(now, packet, frame, sums, &onward)
    }
}
