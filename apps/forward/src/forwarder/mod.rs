//! The forwarder itself: takes a frame, changes it, and says where it goes on to.
//!
//! It performs nothing: frames, time and what is known of the link are given to it, and what becomes of a frame is said
//! ([`Verdict`]). One call, [`Forwarder::handle_frame`], does for a packet all that is done: read it, find its flow, note how
//! that stands, rewrite it.
//!
//! ```text
//!                         to a listener                       from a server to a port of ours
//! Packet::read ──> FlowTable::find by client and listener     Ports::get by server and port
//!                    │ none, and it begins a flow                │
//!                    └─ Maglev ── Ports::find ── insert          │
//!                         │                                      │
//!                  client -> listener                     server -> ours
//!                     becomes ours -> server                 becomes listener -> client
//! ```
//!
//! `begin` is how flows begin, and which end for others; `change` what follows when servers change; `ahead` has memory read
//! before it is needed.
//!
//! What is for neither is the stack's: it answers echo requests and neighbours, and resets what belongs to no flow.

mod ahead;
mod begin;
mod change;

use std::net::IpAddr;

use exos_inet::siphash::SipKey;
use exos_inet::{Instant, RxChecksum};
use exos_wire::Mac;
use exos_wire::tcp::TcpFlags;

use crate::counters::Counters;
use crate::flow::state::Event;
use crate::flow::{Flow, FlowId, FlowTable, Key, State, Tick};
use crate::fragments::Fragments;
use crate::icmp::Quote;
use crate::limits::{CHECK_PORTS, EXPIRED_AT_ONCE, PROOF_WINDOW};
use crate::packet::{Packet, Segment, Transport, Upper};
use crate::rewrite::{Rewrite, Sums};
use crate::service::Services;
use crate::traffic::Course;
use ahead::{Ahead, Whose};

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is rewritten but for the link addresses, and goes to this host.
    Onward(IpAddr),
    /// It is not the forwarder's: unchanged, for the stack.
    Stack,
    /// It is dropped, and counted.
    Drop,
}

/// What becomes of first packets while no server is to have any.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoServer {
    /// They are answered with a reset, or an error of ICMP: the client knows at once
    #[default]
    Reset,
    /// They are dropped: the client asks again for a while
    Hold,
}

/// All that is known of flows, and what to do with others.
pub struct Forwarder {
    services: Services,
    flows: FlowTable,
    fragments: Fragments,
    counters: Counters,
    endings: Vec<change::Ending>,
    no_server: NoServer,
    /// Which server a client belongs to; the same for all forwarders.
    spread: SipKey,
    mac: Mac,
    ahead: Ahead,
}

/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Forwarder {
    /// A forwarder on a link with this address, for so many flows. `seed` must be secret.
    pub fn new(services: Services, mac: Mac, capacity: u32, seed: u64) -> Self {
        Self {
            services,
            flows: FlowTable::new(capacity, seed),
            fragments: Fragments::default(),
            counters: Counters::default(),
            endings: Vec::new(),
            no_server: NoServer::default(),
            spread: SipKey::from_seed(0),
            mac,
            ahead: Ahead::default(),
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
            RxChecksum::MaybePartial => Sums::MaybePartial,
            RxChecksum::Unknown | RxChecksum::Verified => Sums::Complete,
        };
        match packet.upper {
            Upper::Transport { transport, .. } => {
                self.handle_packet(now, (&packet, transport), whose, frame, sums)
            }
            Upper::Later(_) => self.handle_later(now, &packet, frame),
            Upper::Icmp => self.handle_icmp(&packet, frame),
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
        let (id, way) = match whose {
            Whose::Listener(key, hash) => match self.flow_of(tick, transport, &key, hash, upper) {
                Ok(id) => (id, Way::ToServer),
                Err(verdict) => return verdict,
            },
            Whose::Server(server, port) => match self.services.servers[server].ports.get(port) {
                Some(id) => (id, Way::ToClient),
                // An answer to a check of ours.
                None if CHECK_PORTS.contains(&port) => return Verdict::Stack,
                None => return self.unknown(),
            },
            Whose::Nobody => return Verdict::Stack,
        };
        self.note(tick, id, transport, way, upper);
        let flow = *self.flows.get(id);
        let course = course(&flow, way);
        let mut rewrite = self.services.rewrite(&flow, course.to_server);
        if packet.fragment.is_some() {
            self.counters.forwarded_fragments += 1;
            rewrite = self.fragments.begin(now, packet, rewrite, course);
        }
        self.send(packet, frame, sums, &rewrite, course)
    }

    /// A later fragment goes where its first one went.
    fn handle_later(&mut self, now: Instant, packet: &Packet, frame: &mut [u8]) -> Verdict {
        let Some((rewrite, course)) = self.fragments.follow(now, packet) else {
            self.counters.drop_fragment += 1;
            return Verdict::Drop;
        };
        self.counters.forwarded_fragments += 1;
        self.send(packet, frame, Sums::Complete, &rewrite, course)
    }

    /// An error about a packet that we sent on: to whoever sent it.
    fn handle_icmp(&mut self, packet: &Packet, frame: &mut [u8]) -> Verdict {
        let Some(quote) = Quote::read(packet, frame) else {
            return Verdict::Stack;
        };
        let Quote {
            transport,
            src,
            dst,
            ..
        } = quote;
        // What we sent to a client came from a listener, and what we sent to a server from a port of ours.
        let (id, way) = if let Some(listener) = self.services.listener(transport, src) {
            let key = Key {
                client: dst,
                listener,
            };
            (self.flows.find(&key), Way::ToServer)
        } else if let Some(server) = self.services.server(transport, dst, src.address) {
            let ports = &self.services.servers[server].ports;
            (ports.get(src.port), Way::ToClient)
        } else {
            return Verdict::Stack;
        };
        let Some(id) = id else {
            self.counters.drop_icmp_unknown += 1;
            return Verdict::Drop;
        };
        if packet.hops <= 1 {
            self.counters.drop_hops += 1;
            return Verdict::Drop;
        }
        let flow = *self.flows.get(id);
        let outer = self.services.rewrite(&flow, way == Way::ToServer);
        let inner = Rewrite {
            src: outer.dst,
            dst: outer.src,
            ident: 0,
        };
        quote.translate(packet, frame, &outer, &inner);
        self.counters.forwarded_icmp_errors += 1;
        self.sent(packet, course(&flow, way));
        Verdict::Onward(outer.dst.address.into())
    }

    #[inline]
    fn send(
        &mut self,
        packet: &Packet,
        frame: &mut [u8],
        sums: Sums,
        rewrite: &Rewrite,
        course: Course,
    ) -> Verdict {
        // What goes in circles ends, as with every router (RFC 1812 §5.3.1).
        if packet.hops <= 1 {
            self.counters.drop_hops += 1;
            return Verdict::Drop;
        }
        rewrite.apply(packet, frame, sums);
        self.sent(packet, course);
        Verdict::Onward(rewrite.dst.address.into())
    }

    #[inline]
    fn sent(&mut self, packet: &Packet, course: Course) {
        if course.to_server {
            self.counters.forwarded_to_servers += 1;
        } else {
            self.counters.forwarded_to_clients += 1;
        }
        self.services.note(course, packet.ip_len());
    }

    /// Notes what a packet says of its flow.
    #[inline]
    fn note(&mut self, now: Tick, id: FlowId, transport: Transport, way: Way, upper: &[u8]) {
        let flow = self.flows.get(id);
        let (mut state, isn) = (flow.state, flow.server_isn);
        let (before, server, seen) = (state, flow.server, flow.seen);
        match (transport, way) {
            (Transport::Udp, Way::ToServer) => {}
            (Transport::Udp, Way::ToClient) => state = State::BothWays,
            (Transport::Tcp, _) => {
                let segment = Segment::read(upper);
                if way == Way::ToServer && proves(&segment, isn) {
                    state = state.on(Event::Proof);
                }
                let event = event_of(&segment, way);
                // Nobody has answered the first one for a while.
                if (before, event) == (State::SynSeen, Event::Syn) && now > seen {
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
                (State::SynAnswered, _) => self.services.flow_answered(server),
                (State::Refused, Way::ToClient) => self.services.flow_failed(server, now),
                _ => {}
            }
            self.services
                .server_mut(server)
                .changed(before, state, way == Way::ToClient);
        }
    }

    /// Forgets flows that were silent for too long, and goes on with what changes; each up to a bound.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout_unless(now, |_, _| None);
    }

    /// The same where packets of flows are also seen elsewhere: `seen` says when a packet of a flow was.
    pub fn handle_timeout_unless(
        &mut self,
        now: Instant,
        seen: impl Fn(&Services, FlowId) -> Option<Tick>,
    ) {
        if self.is_changing() {
            self.change();
        }
        self.services.wake(tick_of(now));
        for _ in 0..EXPIRED_AT_ONCE {
            let Some(id) = self.flows.expired(tick_of(now)) else {
                return;
            };
            let before = self.flows.get(id).seen;
            if let Some(tick) = seen(&self.services, id).filter(|tick| *tick > before) {
                self.note_seen(id, tick);
                continue;
            }
            self.counters.flows_expired += 1;
            self.remove(id);
        }
    }

    /// Packets of so many bytes together were forwarded elsewhere.
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
        let at = next.into_iter().flatten().min()?;
        Some(Instant::from_millis(u64::from(at) * 1000))
    }

    /// A packet that was sent on had to wait for its neighbour.
    pub fn note_late(&mut self) {
        self.counters.forwarded_late += 1;
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

/// Whose a flow's packet is that goes this way.
#[inline]
fn course(flow: &Flow, way: Way) -> Course {
    Course {
        listener: flow.key.listener,
        server: flow.server,
        to_server: way == Way::ToServer,
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

fn tick_of(now: Instant) -> Tick {
    (now.millis() / 1000) as Tick
}
