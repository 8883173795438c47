//! What the gate's programs mean: the same decisions from the same tables, in plain Rust.
//!
//! The programs are correct when they agree with this on every packet, counters and tables included
//! (`tests/all/gate_agreement.rs`). Only the kernel's outstanding work, checksums and segments, is not part of it: a
//! packet here is bytes.

use super::counter::Counter;
use super::layout::{
    AddressFlags, Bucket, Config, FlowKey, FlowValue, FragmentKey, FragmentValue, LINK_RX, LINK_TX,
    OwnerKey, Shape, Share, Slot, SlotKind, address_bytes,
};
use super::limits::{FADE_NS, FADE_SHIFT, QUEUES_MAX, REFILL_NS_MAX, REFILL_NS_MIN, SLOTS};
use super::packet::{Fault, Packet, Part};
use super::tap::Verdict;
use crate::filter::Filter;
use crate::layers::{ARP, IPV4, IPV6};
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
enum Way {
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
        match self.classify(&packet, false) {
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

    /// The slot whose grant covers the packet: of its sender, or of its receiver.
    fn classify(&mut self, packet: &Packet, sending: bool) -> Option<u32> {
        let fragment = fragment_key(packet, sending);
        let mut shapes = self.config.shapes;
        if packet.about_unknown {
            shapes &= Shape::Address as u32;
        }
        if packet.part == Part::Later {
            let first = self.fragments.get(&fragment);
            let now = first.and_then(|first| Some((first.grant, self.flows.get(&first.flow)?)));
            if let Some((_, value)) = now.filter(|(grant, value)| *grant == value.grant) {
                return Some(value.slot);
            }
            shapes &= Shape::Protocol as u32 | Shape::Address as u32;
        }
        let whole = flow_key(packet, sending);
        let mut shapes = Shape::ALL.into_iter().filter(|s| shapes & *s as u32 != 0);
        let (flow, FlowValue { slot, grant }) = shapes.find_map(|shape| {
            let flow = whole.masked(shape);
            Some((flow, *self.flows.get(&flow)?))
        })?;
        if packet.part == Part::First {
            let first = FragmentValue { flow, grant };
            self.fragments.insert(fragment, first);
        }
        Some(slot)
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
        self.police(slot, Way::Rx, frame.len(), now)?;
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

    fn police(&mut self, slot: u32, way: Way, bytes: usize, now: u64) -> Result<(), Refusal> {
        let own = &mut self.slots[slot as usize];
        let (share, link, over) = match way {
            Way::Rx => (&mut own.rx, LINK_RX, Counter::RxOverShare),
            Way::Tx => (&mut own.tx, LINK_TX, Counter::TxOverShare),
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

    fn check(&mut self, frame: &[u8], packet: &Packet, sender: u32) -> Result<(), Refusal> {
        if packet.odd {
            return refuse(sender, Counter::TxBadHeader);
        }
        let forbidden = match (packet.is_v6, packet.icmp_type) {
            (true, Some(130..=137 | 143)) | (false, Some(5 | 9)) => true,
            (true, _) => false,
            (false, _) => packet.protocol == 2,
        };
        if forbidden {
            return refuse(sender, Counter::TxNdp);
        }
        match (self.classify(packet, true), packet.part) {
            (Some(slot), _) if slot == sender => Ok(()),
            (None, _) if self.sending.get(&sender).is_some_and(|f| f.matches(frame)) => Ok(()),
            (_, Part::Later) => refuse(sender, Counter::TxFragment),
            (_, Part::Whole | Part::First) => refuse(sender, Counter::TxBadSource),
        }
    }

    fn route(&mut self, packet: &Packet) -> To {
        if let Some(slot) = self.classify(packet, false) {
            To::Slot(slot)
        } else if self.has(packet.destination, AddressFlags::HOST) {
            To::Host
        } else {
            self.stray_to(packet).map_or(To::Wire, To::Slot)
        }
    }

    fn send(&mut self, frame: &[u8], sender: u32, to: To, now: u64) -> Result<Decision, Refusal> {
        self.police(sender, Way::Tx, frame.len(), now)?;
        let verdict = match to {
            To::Slot(slot) => {
                let Slot { kind, ifindex, .. } = self.slots[slot as usize];
                if kind == SlotKind::None || ifindex == 0 {
                    return refuse(slot, Counter::NoRing);
                }
                self.police(slot, Way::Rx, frame.len(), now)?;
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

/// Whether a packet of `bytes` may go: nothing beyond the ceiling; within the guarantee always; else from what others
/// leave unused, of which a slot has the less the more it has used of it lately, measured by its part and by what is
/// there. So it is divided by parts between those who want it, and all of it goes to one who wants it alone.
///
/// Buckets without a rate do not limit: a link without one is not divided.
pub fn police(share: &mut Share, link: &mut Bucket, bytes: u64, now: u64) -> bool {
    if share.ceiling.rate == 0 && link.rate == 0 {
        return true;
    }
    if share.ceiling.rate != 0 {
        refill(&mut share.ceiling, now);
        if share.ceiling.tokens <= 0 {
            return false;
        }
    }
    if link.rate != 0 {
        refill(link, now);
        if !is_guaranteed(&mut share.guarantee, bytes, now) && !may_use(share, link, bytes, now) {
            return false;
        }
        link.tokens -= bytes as i64;
    }
    if share.ceiling.rate != 0 {
        share.ceiling.tokens -= bytes as i64;
    }
    true
}

fn is_guaranteed(guarantee: &mut Bucket, bytes: u64, now: u64) -> bool {
    if guarantee.rate == 0 {
        return false;
    }
    refill(guarantee, now);
    let go = guarantee.tokens > 0;
    if go {
        guarantee.tokens -= bytes as i64;
    }
    go
}

/// Whether a packet may go from what others leave unused.
fn may_use(share: &mut Share, link: &Bucket, bytes: u64, now: u64) -> bool {
    let elapsed = now.wrapping_sub(share.since) as i64;
    if elapsed >= REFILL_NS_MIN as i64 {
        share.since = now;
        share.used = share.used.max(0);
        share.used -= (share.used * elapsed.min(FADE_NS as i64)) >> FADE_SHIFT;
    }
    if link.tokens <= 0 || share.used * 16 > link.tokens * share.part as i64 {
        return false;
    }
    share.used += bytes as i64;
    true
}

fn refill(bucket: &mut Bucket, now: u64) {
    let elapsed = now.wrapping_sub(bucket.last) as i64;
    if elapsed < REFILL_NS_MIN as i64 {
        return;
    }
    bucket.last = now;
    let room = bucket.burst as i64 - bucket.tokens;
    if room <= 0 {
        return;
    }
    let earned = if elapsed > REFILL_NS_MAX as i64 {
        u64::MAX
    } else {
        bucket.rate * elapsed as u64 / 1_000_000_000
    };
    bucket.tokens += earned.min(room as u64) as i64;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A bucket of 4 ms.
    fn rate(bytes_per_second: u64) -> Bucket {
        Bucket {
            last: 1000 * MS,
            ..Bucket::new(bytes_per_second, bytes_per_second / 250)
        }
    }

    fn share(guarantee: u64, part: u64) -> Share {
        Share {
            guarantee: rate(guarantee),
            part: 16 * part,
            ..Share::default()
        }
    }

    /// Sends 1000 bytes as often as told; the bytes that may go in a second.
    fn throughput(shares: &mut [Share], link: &mut Bucket, every_us: &[u64]) -> Vec<u64> {
        let mut bytes = vec![0; shares.len()];
        for us in 0..1_000_000u64 {
            let now = 1000 * MS + us * 1000;
            for (i, share) in shares.iter_mut().enumerate() {
                let due = every_us[i] != 0 && us.is_multiple_of(every_us[i]);
                if due && police(share, link, 1000, now) {
                    bytes[i] += 1000;
                }
            }
        }
        bytes
    }

    fn assert_close(have: &[u64], want: &[u64]) {
        let close = |(have, want): (&u64, &u64)| have.abs_diff(*want) * 10 <= *want;
        assert!(have.iter().zip(want).all(close), "{have:?} is not {want:?}");
    }

    /// 100 MB/s shared 1:1, one sends ten times what there is: both have their half.
    #[test]
    fn a_flood_takes_only_its_share() {
        let (mut shares, mut link) = ([share(50_000_000, 1); 2], rate(100_000_000));
        let bytes = throughput(&mut shares, &mut link, &[1, 10]);
        assert_close(&bytes, &[50_000_000, 50_000_000]);
    }

    /// What one leaves unused goes to the other, and comes back at once.
    #[test]
    fn an_idle_share_goes_to_others() {
        let (mut shares, mut link) = ([share(50_000_000, 1); 2], rate(100_000_000));
        let bytes = throughput(&mut shares, &mut link, &[1, 100]);
        assert_close(&bytes, &[90_000_000, 10_000_000]);
        let (mut shares, mut link) = ([share(50_000_000, 1); 2], rate(100_000_000));
        let bytes = throughput(&mut shares, &mut link, &[1, 0]);
        assert_close(&bytes, &[100_000_000, 0]);
    }

    #[test]
    fn weights_three_to_one() {
        let mut shares = [share(75_000_000, 3), share(25_000_000, 1)];
        let bytes = throughput(&mut shares, &mut rate(100_000_000), &[2, 2]);
        assert_close(&bytes, &[75_000_000, 25_000_000]);
    }

    /// Half of the link is nobody's: two who want it have it in equal parts, though one asks ten times as often.
    #[test]
    fn what_is_unused_is_divided_by_parts_and_not_by_who_asks_most() {
        let mut shares = [share(25_000_000, 1); 4];
        let bytes = throughput(&mut shares, &mut rate(100_000_000), &[1, 10, 0, 0]);
        assert_close(&bytes, &[50_000_000, 50_000_000, 0, 0]);
        let mut shares = [
            share(10_000_000, 1),
            share(30_000_000, 3),
            share(60_000_000, 6),
        ];
        let bytes = throughput(&mut shares, &mut rate(100_000_000), &[1, 2, 0]);
        assert_close(&bytes, &[25_000_000, 75_000_000, 0]);
    }

    /// Anyone who is alone has the whole link, also the least of very many.
    #[test]
    fn one_of_255_programs_alone_has_the_link() {
        let mut shares = [share(400_000, 1); 255];
        let mut every = [0; 255];
        every[7] = 5;
        let bytes = throughput(&mut shares, &mut rate(100_000_000), &every);
        assert_close(&bytes[7..8], &[100_000_000]);
    }

    /// A ceiling above the guarantee lets a program have what is spare, up to it.
    #[test]
    fn a_ceiling_holds_whatever_is_spare() {
        let capped = Share {
            ceiling: rate(70_000_000),
            ..share(50_000_000, 1)
        };
        let with = |link: Bucket, every: &[u64]| {
            throughput(&mut [capped, share(50_000_000, 1)], &mut { link }, every)
        };
        assert_close(&with(rate(100_000_000), &[1, 0]), &[70_000_000, 0]);
        assert_close(&with(rate(100_000_000), &[1, 5]), &[50_000_000, 50_000_000]);
        let unknown = Bucket::default();
        assert_close(&with(unknown, &[1, 1]), &[70_000_000, 1_000_000_000]);
    }

    /// Two CPUs that fade at once may take more than there is.
    #[test]
    fn less_than_nothing_used_is_nothing() {
        let mut share = Share {
            used: -5000,
            since: 1000 * MS,
            ..share(0, 1)
        };
        let link = &mut rate(100_000_000);
        assert!(police(&mut share, link, 1000, 1000 * MS));
        assert_eq!(share.used, -4000);
        assert!(police(&mut share, link, 1000, 1001 * MS));
        assert_eq!(share.used, 1000);
    }

    #[test]
    fn without_a_rate_nothing_is_limited() {
        let (mut share, mut link) = (Share::default(), Bucket::default());
        assert!(police(&mut share, &mut link, 1 << 30, 5));
        assert_eq!((share, link), Default::default());
    }
}
