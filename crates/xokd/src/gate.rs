//! The packet path of one interface, as far as the daemon leads it: the gate's maps and programs in the kernel.
//!
//! What the maps mean stands in `exos_filter::gate`; here they are made, filled, and kept. Everything has a name in
//! the BPF file system, so that packets flow on when the daemon is gone and its successor finds it all
//! ([`Gate::open`] takes over what is there and fits):
//!
//! ```text
//! /sys/fs/bpf/exos/<namespace>-<interface>/   config, flows, addresses, ... (the maps)
//!                                            in (XDP link), host (tcx link)
//!                                            live (program), guard<ID> (link), see [`LiveFrames`]
//!                                            slot<N>-out (tcx link), slot<N>-ring (XDP link in the slot),
//!                                            ingress (tcx link, once a handler has a second stage)
//! ```
//!
//! Before Linux 6.6 there are no tcx links: filters of classic traffic control stand in their places, which stay likewise
//! until they are removed, and need no names.
//!
//! Order matters where a packet could fall between two tables: a slot is complete before a grant leads to it, and no
//! grant leads to it any more before it goes.

pub mod bypass;
mod device;
mod general_table;
pub mod generals;
mod groups;
mod guards;
mod handler_tables;
pub mod handlers;
mod layouts;
mod live;
mod load;
mod owners;
mod pins;
mod remains;
pub mod shares;
mod slots;
pub mod taps;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use exos_filter::SlotCounters;
use exos_filter::gate::group::group_of;
use exos_filter::gate::{
    self, AddressFlags, Bucket, Checksum, Config, Counter, FlowKey, FlowValue, Maps, Namespace,
    Share, Slot,
};
use exos_host::bpf::{KernelTypes, Link, Map, Prog, TcxHook, XdpMode};
use exos_host::error::{Error, Result};
use exos_xok::Claim;

use crate::clock::now;
use crate::ledger::{Change, SlotId};
pub use device::Device;
pub use general_table::GeneralFilters;
use general_table::GeneralTable;
use groups::Groups;
use live::Live;
pub use live::LiveFrames;
use owners::Owners;
pub use pins::{TakenDown, are_private, folders, is_orphan, remove_folder};
use pins::{attach_incoming, attach_tc};
pub use remains::Remains;

/// The gate of one interface.
#[derive(Debug)]
pub struct Gate {
    folder: PathBuf,
    maps: Arc<Maps<Map>>,
    out: Prog,
    /// Where the kernel keeps what is left to do of checksums; none where it does not say.
    checksum: Option<Checksum>,
    /// The network namespace, as programs find it; none where the kernel does not say.
    namespace: Option<Namespace>,
    live: Live,
    incoming: Link,
    mode: XdpMode,
    config: Config,
    /// The places of taps that are taken, a bit for each.
    taps: u32,
    generals: GeneralTable,
    /// How many programs the kernel was to verify for general filters.
    filters_verified: u64,
    groups: Groups,
    owners: Owners,
}

impl Gate {
    /// Leaves the gate where it is when this is dropped: another daemon takes it over.
    pub fn keep(&mut self) {
        self.incoming.keep();
    }

    /// Whether there is a gate that [`Gate::open`] takes over. Where there is none it takes away what another version left,
    /// also the checks of what comes out of slots' pairs.
    pub fn can_be_taken_over(name: &str) -> Result<bool> {
        pins::has_maps(&pins::folder(name)?)
    }

    /// Puts the gate on an interface, or takes over the one that an earlier daemon left there. True when it did.
    pub fn open(name: &str, device: &Device<'_>, live: LiveFrames) -> Result<(Self, bool)> {
        let (ifindex, mac) = (device.index, device.mac);
        let folder = pins::folder(name)?;
        let (maps, adopted) = pins::maps(&folder)?;
        let fds = maps.map(|map| map.raw_fd());
        // None without `CONFIG_DEBUG_INFO_BTF`.
        let types = KernelTypes::load().ok();
        let checksum = types.as_ref().and_then(layouts::checksum);
        let namespace = types.as_ref().and_then(layouts::this_namespace);
        let load = |words: Vec<u64>, name: &str| Prog::load_classifier(&words, name);
        let out = load(gate::outgoing(&fds, checksum.as_ref()).words(), "exos_out")?;
        let from_host = load(gate::from_host(&fds).words(), "exos_host")?;
        Self::put_outcomes(&maps)?;
        let words = gate::incoming(&fds).words();
        let incoming = Prog::load(&words, "exos_in", true)?;
        let (incoming, mode) = attach_incoming(&folder.join("in"), ifindex, &incoming)?;
        attach_tc(&folder.join("host"), ifindex, &from_host, TcxHook::Egress)?;
        let maps = Arc::new(maps);
        let mut gate = Self {
            live: Live::open(&folder, device, &maps, types.as_ref(), live)?,
            folder,
            config: Config::default(),
            taps: 0,
            generals: GeneralTable::default(),
            filters_verified: 0,
            groups: Groups::new(&maps),
            owners: Owners::default(),
            out,
            checksum,
            namespace,
            incoming,
            mode,
            maps,
        };
        if adopted {
            gate.config = gate.read_config()?;
            // Entered again with the grants.
            for key in gate.maps.sole_owners.keys()? {
                gate.maps.sole_owners.delete(&key)?;
            }
            gate.groups.forget_others()?;
        }
        gate.config.ifindex = ifindex;
        gate.config.mac = mac.0;
        gate.write_config()?;
        // Those of an earlier daemon copy into rings that clients may have still, and that this one knows nothing of.
        gate.take_taps()?;
        gate.look_at_device();
        Ok((gate, adopted))
    }

    /// The grants that the packet path has.
    pub fn grants(&self) -> Result<Vec<FoundGrant>> {
        let mut grants = Vec::new();
        for key in self.maps.flows.keys()? {
            let value = self.maps.flows.lookup(&key)?;
            if let Some(value) = value.and_then(|v| FlowValue::from_bytes(&v))
                && let Some(key) = FlowKey::from_bytes(&key)
                && let Some(claim) = claim_of(&key, self.config.ifindex)
            {
                grants.push(self.found(value, claim)?);
            }
        }
        Ok(grants)
    }

    fn found(&self, value: FlowValue, claim: Claim) -> Result<FoundGrant> {
        let members = match group_of(value.slot) {
            None => vec![(value.slot, true)],
            // Of a group that is another grant's by now nobody is known.
            Some(number) => match self.groups.read(number)?.1 {
                group if group.grant == value.grant => groups::members_of(&group),
                _ => Vec::new(),
            },
        };
        Ok(FoundGrant {
            id: value.grant,
            claim,
            is_divided: group_of(value.slot).is_some(),
            members,
        })
    }

    /// Where the interface's program runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Whether it sees where in a packet the kernel is still to write a checksum: super-packets come with theirs unfinished.
    pub fn checks_checksums(&self) -> bool {
        self.checksum.is_some()
    }

    /// The folder of the names.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Why nobody is lent live frames; None where they are.
    pub fn lends_no_live_frames(&self) -> Option<&Error> {
        self.live.why_not()
    }

    /// Looks whether the device takes live frames: what is sent otherwise would be lost without a word.
    pub fn look_at_device(&mut self) {
        self.live.look_at_device();
    }

    /// What the table says of a slot.
    pub fn slot(&self, id: SlotId) -> Result<Slot> {
        let bytes = self.maps.slots.lookup(&id.to_ne_bytes())?;
        let slot = bytes.and_then(|bytes| Slot::from_bytes(&bytes));
        Ok(slot.unwrap_or_default())
    }

    /// Changes the share of a slot, both ways. What it has used counts on: nobody wins by a change.
    pub fn set_share(&self, id: SlotId, share: &Share) -> Result<()> {
        let mut slot = self.slot(id)?;
        // Not where it is the same: each newcomer has all looked at.
        let is_same = |way: &Share| {
            let bounds =
                |share: &Share| [share.guarantee, share.ceiling].map(|b| (b.rate, b.burst));
            bounds(way) == bounds(share) && way.part == share.part
        };
        if [&slot.rx, &slot.tx].into_iter().all(is_same) {
            return Ok(());
        }
        for way in [&mut slot.rx, &mut slot.tx] {
            *way = Share {
                guarantee: changed(&way.guarantee, share.guarantee),
                ceiling: changed(&way.ceiling, share.ceiling),
                part: share.part,
                ..*way
            };
        }
        self.maps.slots.update(&id.to_ne_bytes(), &slot.to_bytes())
    }

    /// What the link carries, both ways.
    pub fn set_link(&self, bucket: Bucket) -> Result<()> {
        for way in [gate::layout::LINK_RX, gate::layout::LINK_TX] {
            let key = way.to_ne_bytes();
            let bytes = self.maps.link_buckets.lookup(&key)?;
            let before = bytes.and_then(|bytes| Bucket::from_bytes(&bytes));
            let bytes = changed(&before.unwrap_or_default(), bucket).to_bytes();
            self.maps.link_buckets.update(&key, &bytes)?;
        }
        Ok(())
    }

    /// Does what the ledger says. Where it is divided, `members` has the slots that get packets, and whether each gets new flows.
    pub fn apply(&mut self, change: &Change, members: &[(SlotId, bool)]) -> Result<()> {
        let key = flow_key(&change.claim);
        let Some(first) = change.slot else {
            let group = self.groups.of_flow(&key)?;
            self.note_owner(key, None)?;
            self.maps.flows.delete(&key.to_bytes())?;
            return group.map_or(Ok(()), |(number, _)| self.groups.forget(number));
        };
        let slot = match members {
            [] => first,
            members => self.groups.set_members(&key, change.grant, members)?,
        };
        self.note_owner(key, Some(slot))?;
        let shape = key.shape() as u32;
        if self.config.shapes & shape == 0 {
            self.config.shapes |= shape;
            let written = self.write_config();
            written.inspect_err(|_| self.config.shapes &= !shape)?;
        }
        let value = FlowValue {
            slot,
            grant: change.grant,
        };
        self.maps.flows.update(&key.to_bytes(), &value.to_bytes())
    }

    /// Before the flow itself changes: fragments go to nobody rather than to somebody else.
    fn note_owner(&mut self, flow: FlowKey, slot: Option<SlotId>) -> Result<()> {
        let sole_owners = &self.maps.sole_owners;
        match self.owners.note(flow, slot) {
            None => Ok(()),
            Some((key, None)) => sole_owners.delete(&key.to_bytes()).map(drop),
            // Fragments name no port by which a member could be found.
            Some((key, Some(sole))) if group_of(sole).is_some() => {
                sole_owners.delete(&key.to_bytes()).map(drop)
            }
            Some((key, Some(sole))) => sole_owners.update(&key.to_bytes(), &sole.to_ne_bytes()),
        }
    }

    /// What these addresses mean, and no others.
    pub fn set_addresses(&self, addresses: &[(std::net::IpAddr, AddressFlags)]) -> Result<()> {
        let bytes = |ip| gate::layout::address_bytes(ip);
        for (ip, flags) in addresses {
            self.maps.addresses.update(&bytes(*ip), &flags.to_bytes())?;
        }
        for key in self.maps.addresses.keys()? {
            if !addresses.iter().any(|(ip, _)| bytes(*ip)[..] == key[..]) {
                self.maps.addresses.delete(&key)?;
            }
        }
        Ok(())
    }

    /// Where a slot's own program counts what it drops.
    pub fn slot_counters(&self, slot: SlotId) -> SlotCounters {
        SlotCounters {
            map_fd: self.maps.counters.raw_fd(),
            slot,
        }
    }

    /// What was counted for a slot, in the order of [`Counter::ALL`].
    pub fn counters(&self, id: SlotId) -> Result<Vec<u64>> {
        let mut counters = self.maps.counters.sum_percpu_u64(id)?;
        counters.resize(Counter::COUNT, 0);
        Ok(counters)
    }

    /// Takes the gate off: packets are the host's again.
    pub fn close(self) -> Result<()> {
        // A program that only the daemon has is to be gone before its guard.
        drop(self.live);
        remove_folder(&self.folder).map(drop)
    }

    fn read_config(&self) -> Result<Config> {
        let bytes = self.maps.config.lookup(&[0; 4])?;
        let config = bytes.and_then(|bytes| Config::from_bytes(&bytes));
        Ok(config.unwrap_or_default())
    }

    fn write_config(&self) -> Result<()> {
        self.maps.config.update(&[0; 4], &self.config.to_bytes())
    }
}

/// A grant as the packet path has it.
#[derive(Clone, Debug)]
pub struct FoundGrant {
    /// The daemon's number of it.
    pub id: u32,
    /// What it covers.
    pub claim: Claim,
    /// The slots share its packets.
    pub is_divided: bool,
    /// The slots that get packets of it, and whether they get new flows. None where there is no sense in it.
    pub members: Vec<(SlotId, bool)>,
}

/// A bucket of another rate, as full as it was. A new one has enough for a packet: a full one could be had again and again
/// by attaching again.
fn changed(before: &Bucket, bucket: Bucket) -> Bucket {
    let (tokens, last) = match before.rate {
        0 => (1, now().as_nanos() as u64),
        _ => (before.tokens.min(bucket.tokens), before.last),
    };
    Bucket {
        tokens,
        last,
        ..bucket
    }
}

/// The claim that an entry of `flows` stands for.
fn claim_of(key: &FlowKey, interface: u32) -> Option<Claim> {
    let exact = key.shape() == gate::Shape::Exact;
    Some(Claim {
        interface,
        protocol: exos_xok::Protocol::from_number(key.protocol)?,
        local: gate::layout::address_from_bytes(key.local),
        port: key.local_port,
        remote: exact.then(|| exos_xok::Endpoint {
            ip: gate::layout::address_from_bytes(key.remote),
            port: key.remote_port,
        }),
    })
}

/// The entry of `flows` for a claim.
fn flow_key(claim: &Claim) -> FlowKey {
    let local = std::net::SocketAddr::new(claim.local, claim.port);
    let protocol = claim.protocol.number();
    match claim.remote {
        Some(remote) => {
            let remote = std::net::SocketAddr::new(remote.ip, remote.port);
            FlowKey::exact(protocol, local, remote)
        }
        None => FlowKey::port(protocol, local),
    }
}
