//! The forwarder, and what it does with a frame that comes.

use std::net::IpAddr;

use exos_inet::route::Routes;
use exos_inet::siphash::SipKey;
use exos_inet::{Instant, RxChecksum};
use exos_wire::Mac;

use super::direction::{Direction, course, tick_of};
use super::ending::Ending;
use super::generated::Generated;
use super::links::Links;
use super::shown::{Prefetch, Whose};
use super::verdict::{NoFlow, NoServer, Verdict};
use crate::counters::Counters;
use crate::flow::{Flow, FlowId, FlowTable, Tick};
use crate::limits::{CHECK_PORTS, EXPIRED_AT_ONCE, LINK_MTU};
use crate::packets::endpoint::{Address, Endpoint};
use crate::packets::fragments::{Fragments, Onward};
use crate::packets::packet::{Packet, Transport, Upper};
use crate::packets::reach::Reach;
use crate::packets::refusal::Refusal;
use crate::packets::rewrite::{Sums, keep_ends};
use crate::packets::traffic::Course;
use crate::service::Services;
use crate::syns::Syns;

/// All that is known of flows, and what to do with others.
pub struct Forwarder {
    pub(super) services: Services,
    pub(super) flows: FlowTable,
    pub(super) fragments: Fragments,
    /// SYNs of flows that are not answered yet.
    pub(super) syns: Syns,
    pub(super) counters: Counters,
    pub(super) endings: Vec<Ending>,
    pub(super) no_server: NoServer,
    pub(super) links: Links,
    /// Packets of flows that stand go by without coming here.
    pub(super) is_seen_elsewhere: bool,
    /// Which server a client belongs to; the same for all forwarders.
    pub(super) spread: SipKey,
    /// Of the link by which frames come now.
    pub(super) mac: Mac,
    pub(super) prefetch: Prefetch,
    pub(super) generated: Generated,
}

impl Forwarder {
    /// A forwarder on a link with this address, for this many flows. `seed` must be secret.
    pub fn new(services: Services, mac: Mac, capacity: u32, seed: u64) -> Self {
        Self {
            services,
            flows: FlowTable::new(capacity, seed),
            fragments: Fragments::default(),
            syns: Syns::default(),
            counters: Counters::default(),
            endings: Vec::new(),
            no_server: NoServer::default(),
            links: Links::new(&[(mac, LINK_MTU)]),
            is_seen_elsewhere: false,
            spread: SipKey::from_seed(0),
            mac,
            prefetch: Prefetch::default(),
            generated: Generated::default(),
        }
    }

    /// Takes a frame in.
    #[inline]
    pub fn handle_frame(
        &mut self,
        now: Instant,
        frame: &mut [u8],
        checksum: RxChecksum,
    ) -> Verdict {
        let Some((packet, whose)) = self.read(frame) else {
            return Verdict::Stack;
        };
        let sums = match checksum {
            RxChecksum::Partial => Sums::Unfinished,
            RxChecksum::MaybePartial => Sums::MaybePartial,
            RxChecksum::Unknown | RxChecksum::Verified => Sums::Complete,
        };
        match packet.upper {
            Upper::Transport { transport, .. } => {
                let verdict = self.handle_packet(now, (&packet, transport), whose, frame, sums);
                if packet.fragment.is_some() && !verdict.goes_on() {
                    self.refuse_first(&packet);
                }
                verdict
            }
            Upper::Later(_) => self.handle_later(now, &packet, frame),
            Upper::Icmp => self.handle_icmp(now, &packet, frame, sums),
        }
    }

    #[inline]
    fn handle_packet(
        &mut self,
        now: Instant,
        (packet, transport): (&Packet, Transport),
        whose: Whose,
        frame: &mut [u8],
        sums: Sums,
    ) -> Verdict {
        let upper = &frame[packet.upper_range()];
        let tick = tick_of(now);
        let (mut id, direction) = match whose {
            // What goes in circles ends, as with every router (RFC 1812 §5.3.1), and says nothing of its flow.
            Whose::Listener(..) if packet.hops <= 1 => {
                return self.answer(now, packet, frame, packet.dst, Refusal::HopsOver);
            }
            Whose::Listener(key, hash) => match self.flow_of(tick, transport, &key, hash, upper) {
                Ok(id) => (id, Direction::ToServer),
                Err(NoFlow::Becomes(verdict)) => return verdict,
                Err(NoFlow::To(server)) => {
                    return self.send_unknown(now, packet, frame, sums, &key, server);
                }
            },
            Whose::Server(server, to) => match self.flow_back(server, to) {
                Some(id) if packet.hops <= 1 => {
                    let from = self.known_as(id);
                    return self.answer(now, packet, frame, from, Refusal::HopsOver);
                }
                Some(id) => (id, Direction::ToClient),
                // An answer to a check of ours.
                None if CHECK_PORTS.contains(&to.port) => return Verdict::Stack,
                None => return self.unknown(),
            },
            Whose::Nobody => return Verdict::Stack,
        };
        if self.flows.get(id).state.may_be_refused() && packet.fragment.is_none() {
            id = match self.unanswered(now, id, direction, upper) {
                Ok(id) => id,
                Err(verdict) => return verdict,
            };
        }
        self.note(tick, id, transport, direction, upper);
        let flow = *self.flows.get(id);
        if flow.state.may_be_refused() && direction == Direction::ToServer {
            self.keep_syn(now, id, packet, frame, sums);
        }
        let course = course(&flow, direction);
        let onward = Onward {
            rewrite: self.services.rewrite(&flow, course.to_server),
            course,
            reach: flow.reach,
        };
        match packet.fragment {
            Some(_) => self.send_first(now, packet, frame, sums, onward),
            None => self.send(now, packet, frame, sums, &onward),
        }
    }

    /// The flow of a server's packet to this end: by the port of ours, or by the client's end.
    #[inline]
    pub(super) fn flow_back(&self, server: usize, to: Endpoint) -> Option<FlowId> {
        let there = &self.services.servers[server];
        match there.reach {
            Reach::Nat => there.ports.get(to.port),
            Reach::Transparent | Reach::Direct | Reach::Tunnel => {
                self.flows.find_back(to, server as u16)
            }
        }
    }

    #[inline]
    pub(super) fn send(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &mut [u8],
        sums: Sums,
        onward: &Onward,
    ) -> Verdict {
        if packet.hops <= 1 {
            return self.drop_last_hop();
        }
        let to = onward.rewrite.dst.address;
        if onward.reach != Reach::Tunnel
            && let Some(mtu) = self.links.exceeded(packet.ip_len(), to)
        {
            return self.send_long(now, packet, frame, sums, onward, mtu);
        }
        match onward.reach {
            Reach::Nat | Reach::Transparent => onward.rewrite.apply(packet, frame, sums),
            Reach::Direct => keep_ends(packet, frame, sums),
            Reach::Tunnel => return self.wrap(now, packet, frame, sums, onward.course),
        }
        self.sent(packet, onward.course);
        Verdict::Onward(to.into())
    }

    /// The address of ours that a flow's server sends to; or where that is the client's, the one that the client knows of.
    #[cold]
    pub(super) fn known_as(&self, id: FlowId) -> Address {
        let flow = self.flows.get(id);
        match flow.reach {
            Reach::Nat => self.services.servers[usize::from(flow.server)].ours,
            Reach::Transparent | Reach::Direct | Reach::Tunnel => {
                let listener = &self.services.listeners[usize::from(flow.key.listener)];
                listener.at.address
            }
        }
    }

    /// What has gone over as many hops as it may and is no packet of which its sender is told.
    #[cold]
    pub(super) fn drop_last_hop(&mut self) -> Verdict {
        self.counters.drop_hops += 1;
        Verdict::Drop
    }

    #[inline]
    pub(super) fn sent(&mut self, packet: &Packet, course: Course) {
        if course.to_server {
            self.counters.forwarded_to_servers += 1;
        } else {
            self.counters.forwarded_to_clients += 1;
        }
        self.services.note(course, packet.ip_len());
    }

    /// Forgets flows that were silent for too long, and goes on with what changes; each up to a bound.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout_unless(now, |_| None);
    }

    /// Does what [`handle_timeout`](Self::handle_timeout) does where packets of flows are also seen elsewhere: `seen` says when
    /// the last packet of a flow was.
    pub fn handle_timeout_unless(&mut self, now: Instant, seen: impl Fn(FlowId) -> Option<Tick>) {
        if self.is_changing() {
            self.change();
        }
        self.services.wake(tick_of(now));
        self.counters.drop_fragment += self.fragments.give_up(now);
        for _ in 0..EXPIRED_AT_ONCE {
            let Some(id) = self.flows.expired(tick_of(now)) else {
                return;
            };
            let before = self.flows.get(id).seen;
            if let Some(tick) = seen(id).filter(|tick| *tick > before) {
                self.note_seen(id, tick);
                continue;
            }
            self.counters.flows_expired += 1;
            self.remove(id);
        }
    }

    /// Packets of this many bytes together were forwarded elsewhere.
    pub fn note_forwarded(&mut self, course: Course, packets: u64, bytes: u64) {
        self.services.note_many(course, packets, bytes);
    }

    /// A packet of a flow was seen elsewhere then, which changes nothing of how it stands.
    pub fn note_seen(&mut self, id: FlowId, tick: Tick) {
        let Flow {
            state,
            seen,
            is_there,
            ..
        } = *self.flows.get(id);
        if is_there && tick > seen {
            self.flows.see(tick, id, state);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_changing() {
            return Some(Instant::START);
        }
        let next = [self.flows.next_expiry(), self.services.next_wake()];
        let next = next.into_iter().flatten().min();
        let next = next.map(|at| Instant::from_millis(u64::from(at) * 1000));
        next.into_iter().chain(self.fragments.poll_timeout()).min()
    }

    /// A packet that was sent on had to wait for its neighbour.
    pub fn note_late(&mut self) {
        self.counters.forwarded_late += 1;
    }

    /// A packet that stands for several could not wait for its neighbour: it is sent again.
    #[cold]
    pub fn note_uncut(&mut self) {
        self.counters.drop_uncut += 1;
    }

    /// Remembers from now on which flows change.
    pub fn watch(&mut self) {
        self.flows.watch();
    }

    /// A place of which the flow has begun, changed how it stands, or ended.
    pub fn poll_changed(&mut self) -> Option<FlowId> {
        self.flows.poll_changed()
    }

    /// What becomes of first packets while no server is to have any.
    pub fn set_no_server(&mut self, no_server: NoServer) {
        self.no_server = no_server;
    }

    /// The links, by their link addresses, each with how long packets may be there, from the IP header on. Frames come by the
    /// first.
    pub fn set_links(&mut self, links: &[(Mac, usize)]) {
        self.links = Links::new(links);
        self.generated.set_mtu(self.links.mtu_max());
        self.frames_come_by(0);
    }

    /// By which link the frames come that are shown and handled next.
    pub fn frames_come_by(&mut self, link: usize) {
        self.mac = self.links.mac(link);
    }

    /// Who may send, and where packets leave, as the stack on a link knows it: addresses of ours and those of everybody are
    /// nobody's. Costs nothing where the generation is that of before.
    pub fn set_routes(&mut self, link: usize, generation: u64, routes: &Routes) {
        self.links.set_routes(link, generation, routes);
    }

    /// The link by which packets to this host leave.
    #[inline]
    pub fn link_to(&self, host: IpAddr) -> usize {
        self.links.to(host)
    }

    /// Packets of flows that stand go by without coming here from now on.
    pub fn set_seen_elsewhere(&mut self) {
        self.is_seen_elsewhere = true;
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The flows.
    pub fn flows(&self) -> &FlowTable {
        &self.flows
    }

    /// Listeners and servers.
    pub fn services(&self) -> &Services {
        &self.services
    }
}
