//! The packet path of one interface, as far as the daemon leads it: the gate's maps and programs in the kernel.
//!
//! What the maps mean stands in `exos_filter::gate`; here they are made, filled, and kept. Everything has a name in
//! the BPF file system, so that packets flow on when the daemon is gone and its successor finds it all
//! ([`Gate::open`] takes over what is there and fits):
//!
//! ```text
//! /sys/fs/bpf/exos/<namespace>-<interface>/   config, flows, addresses, ... (the maps)
//!                                            in (XDP link), host (tcx link)
//!                                            slot<N>-out (tcx link), slot<N>-ring (XDP link in the slot)
//! ```
//!
//! Order matters where a packet could fall between two tables: a slot is complete before a grant leads to it, and no
//! grant leads to it any more before it goes.

mod checksum;
mod taps;

use std::path::{Path, PathBuf};

use exos_filter::gate::maps::SPECS;
use exos_filter::gate::{
    self, AddressFlags, Bucket, Config, Counter, FlowKey, FlowValue, MapSpec, Maps, Slot,
};
use exos_host::bpf::{Link, Map, MapKind, Prog, TcxHook, TcxLink, XdpMode, require_bpffs};
use exos_host::error::{Context as _, Error, Result};
use exos_wire::Mac;
use exos_xok::Claim;

use crate::ledger::{Change, SlotId};

/// Where names are kept.
const BPFFS: &str = "/sys/fs/bpf";

/// The gate of one interface.
#[derive(Debug)]
pub struct Gate {
    folder: PathBuf,
    maps: Maps<Map>,
    out: Prog,
    _incoming: Link,
    _from_host: TcxLink,
    mode: XdpMode,
    config: Config,
    /// The places of taps that are taken, a bit for each.
    taps: u32,
}

impl Gate {
    /// Puts the gate on an interface, or takes over the one that an earlier daemon left there. True when it did.
    pub fn open(name: &str, ifindex: u32, mac: Mac) -> Result<(Self, bool)> {
        require_bpffs(Path::new(BPFFS))?;
        let folder = Path::new(BPFFS).join("exos").join(name);
        let found = find_maps(&folder);
        let adopted = found.is_some();
        let maps = match found {
            Some(maps) => maps,
            None => make_maps(&folder)?,
        };
        let fds = maps.map(|map| map.raw_fd());
        let checksum = checksum::of_this_kernel()?;
        let load = |words: Vec<u64>, name: &str| Prog::load_classifier(&words, name);
        let out = load(gate::outgoing(&fds, Some(&checksum)).words(), "exos_out")?;
        let from_host = load(gate::from_host(&fds).words(), "exos_host")?;
        let words = gate::incoming(&fds).words();
        let incoming = Prog::load(&words, "exos_in", true)?;
        let (incoming, mode) = attach_incoming(&folder.join("in"), ifindex, &incoming)?;
        let from_host = attach_tcx(&folder.join("host"), ifindex, &from_host, TcxHook::Egress)?;
        let mut gate = Self {
            folder,
            config: Config::default(),
            taps: 0,
            out,
            _incoming: incoming,
            _from_host: from_host,
            mode,
            maps,
        };
        if adopted {
            gate.config = gate.read_config()?;
        }
        gate.config.ifindex = ifindex;
        gate.config.mac = mac.0;
        gate.write_config()?;
        // Those of an earlier daemon copy into rings that went with it.
        gate.take_taps()?;
        Ok((gate, adopted))
    }

    /// The folders of all gates on this machine.
    pub fn folders() -> Vec<PathBuf> {
        let entries = std::fs::read_dir(Path::new(BPFFS).join("exos"));
        entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    }

    /// The grants that the packet path has: number, slot, claim.
    pub fn grants(&self) -> Result<Vec<(u32, SlotId, Claim)>> {
        let mut grants = Vec::new();
        for key in self.maps.flows.keys()? {
            let value = self.maps.flows.lookup(&key)?;
            let value = value.and_then(|v| <[u8; FlowValue::LEN]>::try_from(v).ok());
            let Ok(key) = <[u8; FlowKey::LEN]>::try_from(key) else {
                continue;
            };
            if let Some(value) = value.map(|v| FlowValue::from_bytes(&v))
                && let Some(claim) = claim_of(&FlowKey::from_bytes(&key), self.config.ifindex)
            {
                grants.push((value.grant, value.slot, claim));
            }
        }
        Ok(grants)
    }

    /// Where the interface's program runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// The folder of the names.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Puts a slot in its place: its table entry, the way in and the check on the way out.
    pub fn add_slot(&self, id: SlotId, slot: &Slot) -> Result<()> {
        let key = id.to_ne_bytes();
        self.maps.slots.update(&key, &slot.to_bytes())?;
        let ifindex = slot.ifindex.to_ne_bytes();
        self.maps.by_ifindex.update(&ifindex, &key)?;
        let name = self.folder.join(format!("slot{id}-out"));
        // The check is there before anything can be sent: the program gets its sockets later.
        drop(attach_tcx(
            &name,
            slot.ifindex,
            &self.out,
            TcxHook::Ingress,
        )?);
        self.maps.ports.update(&key, &ifindex)
    }

    /// Where the XDP link of a slot's ring is to be pinned.
    pub fn ring_name(&self, id: SlotId) -> PathBuf {
        self.folder.join(format!("slot{id}-ring"))
    }

    /// What the table says of a slot.
    pub fn slot(&self, id: SlotId) -> Result<Slot> {
        let bytes = self.maps.slots.lookup(&id.to_ne_bytes())?;
        let bytes = bytes.and_then(|b| <[u8; Slot::LEN]>::try_from(b).ok());
        Ok(bytes.map_or_else(Slot::default, |b| Slot::from_bytes(&b)))
    }

    /// Changes the shares of a slot.
    pub fn set_shares(&self, id: SlotId, rx: Bucket, tx: Bucket, capped: bool) -> Result<()> {
        let mut slot = self.slot(id)?;
        (slot.rx, slot.tx) = (rx, tx);
        slot.flags = if capped { Slot::CAPPED } else { 0 };
        self.maps.slots.update(&id.to_ne_bytes(), &slot.to_bytes())
    }

    /// What the link carries, both ways.
    pub fn set_link(&self, bucket: Bucket) -> Result<()> {
        for way in [gate::layout::LINK_RX, gate::layout::LINK_TX] {
            let key = way.to_ne_bytes();
            self.maps.link_buckets.update(&key, &bucket.to_bytes())?;
        }
        Ok(())
    }

    /// Takes a slot out, whatever of it is there. Its grants must be gone.
    pub fn remove_slot(&self, id: SlotId, ifindex: u32) -> Result<()> {
        let key = id.to_ne_bytes();
        let done = [
            self.maps.ports.delete(&key).map(drop),
            self.maps.slots.update(&key, &Slot::default().to_bytes()),
            self.maps
                .by_ifindex
                .delete(&ifindex.to_ne_bytes())
                .map(drop),
        ];
        for name in ["out", "ring"] {
            let _ = std::fs::remove_file(self.folder.join(format!("slot{id}-{name}")));
        }
        done.into_iter().collect()
    }

    /// Does what the ledger says.
    pub fn apply(&mut self, change: &Change) -> Result<()> {
        let key = flow_key(&change.claim);
        let Some(slot) = change.slot else {
            return self.maps.flows.delete(&key.to_bytes()).map(drop);
        };
        let shape = key.shape() as u32;
        if self.config.shapes & shape == 0 {
            self.config.shapes |= shape;
            self.write_config()?;
        }
        let value = FlowValue {
            slot,
            grant: change.grant,
        };
        self.maps.flows.update(&key.to_bytes(), &value.to_bytes())
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

    /// What was counted for a slot, in the order of [`Counter::ALL`].
    pub fn counters(&self, id: SlotId) -> Result<Vec<u64>> {
        let mut counters = self.maps.counters.sum_percpu_u64(id)?;
        counters.resize(Counter::COUNT, 0);
        Ok(counters)
    }

    /// Takes the gate off: packets are the host's again.
    pub fn close(self) -> Result<()> {
        remove_folder(&self.folder)
    }

    fn read_config(&self) -> Result<Config> {
        let bytes = self.maps.config.lookup(&[0; 4])?;
        let bytes = bytes.and_then(|b| <[u8; Config::LEN]>::try_from(b).ok());
        Ok(bytes.map_or_else(Config::default, |b| Config::from_bytes(&b)))
    }

    fn write_config(&self) -> Result<()> {
        self.maps.config.update(&[0; 4], &self.config.to_bytes())
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

/// True for a gate whose interface is gone.
pub fn is_orphan(folder: &Path) -> bool {
    Link::open_pinned(&folder.join("in")).is_ok_and(|link| link.ifindex() == 0)
}

/// Takes the names of a gate away, and with them the gate.
pub fn remove_folder(folder: &Path) -> Result<()> {
    let what = || format!("cannot remove {}", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.context(what)?,
    };
    // The links first: without them no packet meets a table that is half gone.
    let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort_by_key(|name| !is_link(name));
    for name in names {
        std::fs::remove_file(&name).context(what)?;
    }
    std::fs::remove_dir(folder).context(what)
}

fn is_link(name: &Path) -> bool {
    let name = name.file_name().and_then(|n| n.to_str()).unwrap_or("");
    name == "in" || name == "host" || name.starts_with("slot") && name.contains('-')
}

fn kind_of(spec: &MapSpec) -> Result<MapKind> {
    MapKind::from_number(spec.kind as u32)
        .ok_or_else(|| Error::new(format!("the map {} is of an unknown kind", spec.name)))
}

/// All maps of an earlier daemon, when they are what this one would make.
fn find_maps(folder: &Path) -> Option<Maps<Map>> {
    let maps = SPECS.try_map(|spec| -> Result<Map> {
        let map = Map::open_pinned(&folder.join(spec.name))?;
        let fits = map.is_like(kind_of(spec)?, spec.key_size, spec.value_size, spec.entries);
        fits.then_some(map)
            .ok_or_else(|| Error::new(format!("the map {} is of another version", spec.name)))
    });
    maps.ok()
}

fn make_maps(folder: &Path) -> Result<Maps<Map>> {
    remove_folder(folder)?; // What another version left, or half of something.
    std::fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
    SPECS.try_map(|spec| {
        let kind = kind_of(spec)?;
        let map = Map::create(
            kind,
            spec.name,
            spec.key_size,
            spec.value_size,
            spec.entries,
        )?;
        map.pin(&folder.join(spec.name))?;
        Ok(map)
    })
}

/// The interface's XDP link: the one that is there, with our program in it, or a new one.
fn attach_incoming(name: &Path, ifindex: u32, prog: &Prog) -> Result<(Link, XdpMode)> {
    if let Ok(link) = Link::open_pinned(name) {
        if link.ifindex() == ifindex {
            link.update(prog)?;
            let mode = link.mode();
            return Ok((link, mode));
        }
        let _ = std::fs::remove_file(name);
    }
    let native = Link::attach_xdp(ifindex, prog, XdpMode::Native);
    let link = native.or_else(|_| Link::attach_xdp(ifindex, prog, XdpMode::Generic))?;
    link.pin(name)?;
    let mode = link.mode();
    Ok((link, mode))
}

fn attach_tcx(name: &Path, ifindex: u32, prog: &Prog, hook: TcxHook) -> Result<TcxLink> {
    if let Ok(link) = TcxLink::open_pinned(name) {
        if link.ifindex() == ifindex {
            link.update(prog)?;
            return Ok(link);
        }
        let _ = std::fs::remove_file(name);
    }
    let link = TcxLink::attach(ifindex, prog, hook)?;
    link.pin(name)?;
    Ok(link)
}
