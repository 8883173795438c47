//! What the gate's programs mean: the same decisions from the same tables, in plain Rust.
//!
//! The programs are correct when they agree with this on every packet, counters and tables included
//! (`gate_agreement`). Only the kernel's outstanding work, checksums and segments, is not part of it: a
//! packet here is bytes.

mod batch;
mod buckets;
mod members;
mod packet;

use buckets::police;
use exos_filter::Filter;
use exos_filter::gate::layout::{LINK_RX, LINK_TX, address_bytes};
use exos_filter::gate::limits::{QUEUES_MAX, SLOTS};
use exos_filter::gate::{
    AddressFlags, Bucket, Config, Counter, FlowKey, FlowValue, FragmentKey, FragmentValue, Group,
    MemberFlow, OwnerKey, Shape, Slot, SlotKind, Verdict,
};
use exos_filter::layers::{ARP, IPV4, IPV6};
use packet::{Fault, Packet, Part};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// To the host's stack.
    Host,
    /// To a slot's interface.
    Slot(u32),
    /// To the socket of a queue.
    Socket(u32),
    /// Out of the device.
    Wire,
    /// Nowhere.
    Drop,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Where to.
    pub to: To,
    /// What is told about it.
    pub verdict: Verdict,
    /// The slot that it concerns; None for the host's.
    pub slot: Option<u32>,
}

/// The tables, and the decisions.
#[derive(Clone, Debug)]
pub struct Model {
    /// The value in `config`.
    pub config: Config,
    /// The grants.
    pub flows: HashMap<FlowKey, FlowValue>,
    /// Groups that grants lead to, by number.
    pub groups: HashMap<u32, Group>,
    /// Which member of a group a connection is with.
    pub member_flows: HashMap<FlowKey, MemberFlow>,
    /// Slots that alone have ports of an address.
    pub sole_owners: HashMap<OwnerKey, u32>,
    /// The addresses with a meaning.
    pub addresses: HashMap<[u8; 16], AddressFlags>,
    /// The slots, all of them.
    pub slots: Vec<Slot>,
    /// Slots by the index of their interface.
    pub by_ifindex: HashMap<u32, u32>,
    /// Slots that the device map has an entry for.
    pub ports: HashSet<u32>,
    /// Queues that have a socket.
    pub sockets: HashSet<u32>,
    /// Slots by queue; 0 is nobody.
    pub queue_owner: Vec<u32>,
    /// The link's buckets.
    pub link: [Bucket; 2],
    /// Grants by packets whose fragments are under way.
    pub fragments: HashMap<FragmentKey, FragmentValue>,
    /// General filters with their slots, in the order of their programs.
    pub generals: Vec<(Filter, u32)>,
    /// What slots may send beside what their exact grants cover: the filters of their own programs.
    pub sending: HashMap<u32, Filter>,
    /// Counters by slot.
    pub counters: Vec<[u64; Counter::COUNT]>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            config: Config::default(),
            flows: HashMap::new(),
            groups: HashMap::new(),
            member_flows: HashMap::new(),
            sole_owners: HashMap::new(),
            addresses: HashMap::new(),
            slots: vec![Slot::default(); SLOTS as usize],
            by_ifindex: HashMap::new(),
            ports: HashSet::new(),
            sockets: HashSet::new(),
            queue_owner: vec![0; QUEUES_MAX as usize],
            link: [Bucket::default(); 2],
            fragments: HashMap::new(),
            generals: Vec::new(),
            sending: HashMap::new(),
            counters: vec![[0; Counter::COUNT]; SLOTS as usize],
        }
    }
}

/// Dropped, and counted so for the slot.
struct Refusal {
    slot: u32,
    counter: Counter,
}

fn refuse<T>(slot: u32, counter: Counter) -> Result<T, Refusal> {
    Err(Refusal { slot, counter })
}

const fn decided(to: To, verdict: Verdict, slot: u32) -> Decision {
    Decision {
        to,
        verdict,
        slot: Some(slot),
    }
}

const HOSTS: Decision = Decision {
    to: To::Host,
    verdict: Verdict::Host,
    slot: None,
};

/// Which share of a slot.
#[derive(Clone, Copy)]
enum Direction {
    Rx,
    Tx,
}

impl Model {
    /// What the XDP program of the device does with a frame that came in on `queue`, at `now` (nanoseconds).
    pub fn handle_incoming(&mut self, frame: &[u8], queue: u32, now: u64) -> Decision {
        let decision = self.incoming(frame, Some(queue), now);
        self.settle(decision)
    }

    /// What the program of the device's egress does with a frame of the host. [`To::Host`]: it goes its way.
    pub fn handle_from_host(&mut self, frame: &[u8], now: u64) -> Decision {
        let decision = self.incoming(frame, None, now);
        self.settle(decision)
    }

    /// What the program of the interface `ifindex` does with a frame that its slot sends.
    pub fn handle_outgoing(&mut self, frame: &[u8], ifindex: u32, now: u64) -> Decision {
        let decision = self.outgoing(frame, ifindex, now);
        self.settle(decision)
    }

    fn settle(&mut self, decision: Result<Decision, Refusal>) -> Decision {
        decision.unwrap_or_else(|Refusal { slot, counter }| {
            self.count(slot, counter, 1);
            decided(To::Drop, Verdict::Dropped(counter), slot)
        })
    }

    fn count(&mut self, slot: u32, counter: Counter, amount: usize) {
        self.counters[slot as usize][counter as usize] += amount as u64;
    }

    fn has(&self, address: [u8; 16], flags: AddressFlags) -> bool {
        self.addresses
            .get(&address)
            .is_some_and(|have| have.contains(flags))
    }

    /// `queue` is None for the host's own packets.
    fn incoming(
        &mut self,
        frame: &[u8],
        queue: Option<u32>,
        now: u64,
    ) -> Result<Decision, Refusal> {
        let group = frame.first().is_some_and(|first| first & 1 != 0);
        if frame.len() < 34 || (queue.is_some() && !group && frame[..6] != self.config.mac) {
            return Ok(self.pass(queue));
        }
        let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
        let packet = match ethertype {
            ARP => return self.arp(frame, queue, now),
            IPV4 | IPV6 => match Packet::parse(frame, ethertype == IPV6, false) {
                Ok(packet) => packet,
                Err(_) if queue.is_none() => return Ok(HOSTS),
                Err(_) => {
                    self.count(0, Counter::Malformed, 1);
                    return Ok(HOSTS);
                }
            },
            _ => return self.unclaimed(frame, None, queue, now),
        };
        if packet.is_v6 && matches!(packet.icmp_type, Some(133..=137)) {
            return self.discovery(frame, &packet, queue, now);
        }
        match self.classify(&packet, None) {
            Some(slot) => self.deliver(frame, slot, queue, now),
            None => {
                let stray = self.stray_to(&packet);
                self.unclaimed(frame, stray, queue, now)
            }
        }
    }

    /// Whose a packet is that no grant covers: nobody's but the host's, unless the address is ours alone.
    fn stray_to(&self, packet: &Packet) -> Option<u32> {
        if !self.has(packet.destination, AddressFlags::OURS_ALONE) {
            return None;
        }
        let key = OwnerKey {
            address: packet.destination,
            protocol: packet.protocol,
        };
        let owner = self.sole_owners.get(&key);
        let owner = owner.filter(|_| packet.part == Part::Later);
        Some(owner.copied().unwrap_or(0))
    }

    fn pass(&mut self, queue: Option<u32>) -> Decision {
        if queue.is_some() {
            self.count(0, Counter::PassToHost, 1);
        }
        HOSTS
    }

    fn arp(&mut self, frame: &[u8], queue: Option<u32>, now: u64) -> Result<Decision, Refusal> {
        let ethernet_and_ipv4 = [0, 1, 8, 0, 6, 4];
        if frame.get(14..20) != Some(&ethernet_and_ipv4) || frame.len() < 42 {
            return self.unclaimed(frame, None, queue, now);
        }
        let target = Ipv4Addr::new(frame[38], frame[39], frame[40], frame[41]);
        if self.has(address_bytes(IpAddr::V4(target)), AddressFlags::OURS_ALONE) {
            return self.deliver(frame, 0, queue, now);
        }
        Ok(self.pass(queue))
    }

    fn discovery(
        &mut self,
        frame: &[u8],
        packet: &Packet,
        queue: Option<u32>,
        now: u64,
    ) -> Result<Decision, Refusal> {
        let at = packet.transport + 8;
        let target = matches!(packet.icmp_type, Some(135 | 136))
            .then(|| frame.get(..packet.end)?.get(at..)?.first_chunk::<16>())
            .flatten();
        let addresses = target.copied().into_iter().chain([packet.destination]);
        if { addresses }.any(|address| self.has(address, AddressFlags::OURS_ALONE)) {
            return self.deliver(frame, 0, queue, now);
        }
        Ok(self.pass(queue))
    }

    fn unclaimed(
        &mut self,
        frame: &[u8],
        stray: Option<u32>,
        queue: Option<u32>,
        now: u64,
    ) -> Result<Decision, Refusal> {
        let mut generals = self.generals.iter().filter(|_| queue.is_some());
        if let Some((_, slot)) = generals.find(|(filter, _)| filter.matches(frame)) {
            return self.deliver(frame, *slot, queue, now);
        }
        if let Some(slot) = stray {
            self.count(0, Counter::StrayToDaemon, usize::from(slot == 0));
            return self.deliver(frame, slot, queue, now);
        }
        Ok(self.pass(queue))
    }

    /// The slot whose grant covers the packet: of its sender, who claims to be that one, or of its receiver.
    fn classify(&mut self, packet: &Packet, sender: Option<u32>) -> Option<u32> {
        let sending = sender.is_some();
        let fragment = fragment_key(packet, sending);
        let mut whole = flow_key(packet, sending);
        let mut shapes = self.config.shapes;
        if packet.about_unknown {
            shapes &= Shape::Address as u32;
        }
        if packet.part == Part::Later {
            let first = self.fragments.get(&fragment);
            let now = first.and_then(|first| Some((*first, *self.flows.get(&first.flow)?)));
            if let Some((first, value)) = now.filter(|(first, value)| first.grant == value.grant) {
                (whole.local_port, whole.remote_port) = (first.flow.local_port, first.remote_port);
                return Some(self.member(value.slot, &whole, packet, sender));
            }
            shapes &= Shape::Protocol as u32 | Shape::Address as u32;
        }
        let mut shapes = Shape::ALL.into_iter().filter(|s| shapes & *s as u32 != 0);
        let (flow, FlowValue { slot, grant }) = shapes.find_map(|shape| {
            let flow = whole.masked(shape);
            Some((flow, *self.flows.get(&flow)?))
        })?;
        if packet.part == Part::First {
            let first = FragmentValue {
                flow,
                grant,
                remote_port: whole.remote_port,
            };
            self.fragments.insert(fragment, first);
        }
        Some(self.member(slot, &whole, packet, sender))
    }

    fn deliver(
        &mut self,
        frame: &[u8],
        slot: u32,
        queue: Option<u32>,
        now: u64,
    ) -> Result<Decision, Refusal> {
        let Slot { kind, ifindex, .. } = self.slots[slot as usize];
        if kind == SlotKind::None {
            return refuse(slot, Counter::NoRing);
        }
        self.police(slot, Direction::Rx, frame.len(), now)?;
        let to = match queue {
            None if ifindex == 0 => return refuse(slot, Counter::NoRing),
            None => To::Slot(slot),
            Some(queue) if kind == SlotKind::Direct => {
                if self.queue_owner.get(queue as usize) != Some(&slot) {
                    return refuse(slot, Counter::WrongQueue);
                }
                if !self.sockets.contains(&queue) {
                    return refuse(slot, Counter::NoRing);
                }
                To::Socket(queue)
            }
            Some(_) if !self.ports.contains(&slot) => return refuse(slot, Counter::NoRing),
            Some(_) => To::Slot(slot),
        };
        self.count(slot, Counter::RxPackets, 1);
        self.count(slot, Counter::RxBytes, frame.len());
        let verdict = if slot == 0 {
            Verdict::Daemon
        } else {
            Verdict::Slot
        };
        Ok(decided(to, verdict, slot))
    }

    fn police(
        &mut self,
        slot: u32,
        direction: Direction,
        bytes: usize,
        now: u64,
    ) -> Result<(), Refusal> {
        let own = &mut self.slots[slot as usize];
        let (share, link, over) = match direction {
            Direction::Rx => (&mut own.rx, LINK_RX, Counter::RxOverShare),
            Direction::Tx => (&mut own.tx, LINK_TX, Counter::TxOverShare),
        };
        if police(share, &mut self.link[link as usize], bytes as u64, now) {
            return Ok(());
        }
        refuse(slot, over)
    }

    fn outgoing(&mut self, frame: &[u8], ifindex: u32, now: u64) -> Result<Decision, Refusal> {
        let Some(sender) = self.by_ifindex.get(&ifindex).copied() else {
            return refuse(0, Counter::NoRing);
        };
        let Slot { kind, mac, .. } = self.slots[sender as usize];
        if kind == SlotKind::None {
            return refuse(sender, Counter::NoRing);
        }
        let checked = kind != SlotKind::Daemon;
        if frame.len() < 34 {
            return refuse(sender, Counter::TxBadHeader);
        }
        if checked && frame[6..12] != mac {
            return refuse(sender, Counter::TxBadMac);
        }
        let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
        if ethertype != IPV4 && ethertype != IPV6 {
            if checked {
                return refuse(sender, Counter::TxBadEthertype);
            }
            let own = frame[..6] == self.config.mac;
            let to = if own { To::Host } else { To::Wire };
            return self.send(frame, sender, to, now);
        }
        let packet = match Packet::parse(frame, ethertype == IPV6, true) {
            Ok(packet) => packet,
            Err(Fault::Header) => return refuse(sender, Counter::TxBadHeader),
            Err(Fault::Fragment) => return refuse(sender, Counter::TxFragment),
        };
        if checked {
            self.check(frame, &packet, sender)?;
        }
        let to = self.route(&packet);
        let sent = self.send(frame, sender, to, now);
        if sent.is_err() && packet.part == Part::First {
            // What nobody gets opens no way for later ones.
            for sending in [true, false] {
                self.fragments.remove(&fragment_key(&packet, sending));
            }
        }
        sent
    }

    /// What nobody but the daemon may send.
    fn forbidden(packet: &Packet) -> Option<Counter> {
        if packet.odd {
            return Some(Counter::TxBadHeader);
        }
        let forbidden = match (packet.is_v6, packet.icmp_type) {
            (true, Some(130..=137 | 143)) | (false, Some(5 | 9)) => true,
            (true, _) => false,
            (false, _) => packet.protocol == 2,
        };
        forbidden.then_some(Counter::TxNdp)
    }

    fn check(&mut self, frame: &[u8], packet: &Packet, sender: u32) -> Result<(), Refusal> {
        if let Some(counter) = Self::forbidden(packet) {
            return refuse(sender, counter);
        }
        match (self.classify(packet, Some(sender)), packet.part) {
            (Some(slot), _) if slot == sender => Ok(()),
            (None, _) if self.sending.get(&sender).is_some_and(|f| f.matches(frame)) => Ok(()),
            (_, Part::Later) => refuse(sender, Counter::TxFragment),
            (_, Part::Whole | Part::First) => refuse(sender, Counter::TxBadSource),
        }
    }

    fn route(&mut self, packet: &Packet) -> To {
        if let Some(slot) = self.classify(packet, None) {
            To::Slot(slot)
        } else if self.has(packet.destination, AddressFlags::HOST) {
            To::Host
        } else {
            self.stray_to(packet).map_or(To::Wire, To::Slot)
        }
    }

    fn send(&mut self, frame: &[u8], sender: u32, to: To, now: u64) -> Result<Decision, Refusal> {
        self.police(sender, Direction::Tx, frame.len(), now)?;
        let verdict = match to {
            To::Slot(slot) => {
                let Slot { kind, ifindex, .. } = self.slots[slot as usize];
                if kind == SlotKind::None || ifindex == 0 {
                    return refuse(slot, Counter::NoRing);
                }
                self.police(slot, Direction::Rx, frame.len(), now)?;
                self.count(slot, Counter::RxPackets, 1);
                self.count(slot, Counter::RxBytes, frame.len());
                self.count(sender, Counter::TxToSlot, 1);
                Verdict::Slot
            }
            To::Host => {
                self.count(sender, Counter::TxToHost, 1);
                Verdict::Host
            }
            To::Wire | To::Socket(_) | To::Drop => Verdict::Wire,
        };
        self.count(sender, Counter::TxPackets, 1);
        self.count(sender, Counter::TxBytes, frame.len());
        Ok(decided(to, verdict, sender))
    }
}

fn fragment_key(packet: &Packet, sending: bool) -> FragmentKey {
    FragmentKey {
        source: packet.source,
        destination: packet.destination,
        identifier: packet.identifier,
        protocol: packet.protocol,
        sending,
        station: packet.station,
        hops: if sending { packet.hops } else { 0 },
    }
}

/// The packet as the key of a grant that names all of it.
fn flow_key(packet: &Packet, sending: bool) -> FlowKey {
    let (local, remote, local_port, remote_port) = if sending {
        let ports = (packet.source_port, packet.destination_port);
        (packet.source, packet.destination, ports.0, ports.1)
    } else {
        let ports = (packet.destination_port, packet.source_port);
        (packet.destination, packet.source, ports.0, ports.1)
    };
    FlowKey {
        local,
        remote,
        local_port,
        remote_port,
        protocol: packet.protocol,
    }
}
