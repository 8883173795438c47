//! A gate in the kernel, and packets for it: shared by the tests of the gate.
pub mod model;
pub mod packets;
pub mod sender;
pub mod wire;

use crate::common;
use exos_filter::gate::maps::SPECS;
use exos_filter::gate::{
    Counter, FlowKey, FlowValue, FragmentKey, FragmentValue, MapSpec, Maps, MemberFlow, Slot,
};
use exos_filter::{Filter, Program, gate};
use exos_host::bpf::{Map, MapKind, Prog, permitted};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_testing::ebpf::disassemble;
use model::Model;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP: u8 = 1;
pub const ICMPV6: u8 = 58;

/// The device's address, which slots share.
pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// The gate's maps, in the kernel.
pub struct Tables(pub Maps<Map>);

pub fn create() -> Tables {
    let maps = SPECS.try_map(|spec| {
        let kind = MapKind::from_number(spec.kind as u32).expect("known");
        if let Some(inner) = Maps::inner(spec.name) {
            return Map::array_of_maps(spec.name, spec.entries, &mappable(inner));
        }
        Map::create(
            kind,
            spec.name,
            spec.key_size,
            spec.value_size,
            spec.entries,
        )
    });
    Tables(maps.unwrap())
}

fn mappable(spec: &MapSpec) -> Map {
    Map::mappable_array(spec.name, spec.value_size, spec.entries).unwrap()
}

impl Tables {
    pub fn fds(&self) -> gate::MapFds {
        self.0.map(Map::raw_fd)
    }

    /// Takes all out of the tables that [`Self::fill`] does not write whole.
    pub fn empty(&self) {
        let maps = &self.0;
        for map in [
            &maps.flows,
            &maps.member_flows,
            &maps.sole_owners,
            &maps.addresses,
            &maps.fragments,
            &maps.by_ifindex,
        ] {
            for key in map.keys().unwrap() {
                map.delete(&key).unwrap();
            }
        }
    }

    /// Put the model's tables into the kernel's.
    pub fn fill(&self, model: &Model) {
        let maps = &self.0;
        let zero = 0u32.to_ne_bytes();
        maps.config.update(&zero, &model.config.to_bytes()).unwrap();
        for (key, value) in &model.flows {
            maps.flows
                .update(&key.to_bytes(), &value.to_bytes())
                .unwrap();
        }
        for (number, group) in &model.groups {
            let key = number.to_ne_bytes();
            maps.groups.update(&key, &group.to_bytes()).unwrap();
        }
        for (key, slot) in &model.sole_owners {
            let value = slot.to_ne_bytes();
            maps.sole_owners.update(&key.to_bytes(), &value).unwrap();
        }
        for (address, flags) in &model.addresses {
            maps.addresses.update(address, &flags.to_bytes()).unwrap();
        }
        for (number, slot) in model.slots.iter().enumerate() {
            let key = (number as u32).to_ne_bytes();
            maps.slots.update(&key, &slot.to_bytes()).unwrap();
        }
        if model.config.ifindex != 0 {
            let device = model.config.ifindex.to_ne_bytes();
            maps.wire.update(&zero, &device).unwrap();
        }
        for (ifindex, slot) in &model.by_ifindex {
            let (key, value) = (ifindex.to_ne_bytes(), slot.to_ne_bytes());
            maps.by_ifindex.update(&key, &value).unwrap();
        }
        for port in &model.ports {
            let ifindex = model.slots[*port as usize].ifindex;
            maps.ports
                .update(&port.to_ne_bytes(), &ifindex.to_ne_bytes())
                .unwrap();
        }
        for (queue, owner) in model.queue_owner.iter().enumerate() {
            let key = (queue as u32).to_ne_bytes();
            maps.queue_owner.update(&key, &owner.to_ne_bytes()).unwrap();
        }
        for (index, bucket) in model.link.iter().enumerate() {
            let key = (index as u32).to_ne_bytes();
            maps.link_buckets.update(&key, &bucket.to_bytes()).unwrap();
        }
    }

    pub fn counters(&self, slot: u32) -> Vec<u64> {
        self.0.counters.sum_percpu_u64(slot).unwrap()
    }

    pub fn slot(&self, slot: u32) -> Slot {
        let bytes = self.0.slots.lookup(&slot.to_ne_bytes()).unwrap().unwrap();
        Slot::from_bytes(&bytes).unwrap()
    }

    pub fn fragment(&self, key: &FragmentKey) -> Option<FragmentValue> {
        let value = self.0.fragments.lookup(&key.to_bytes()).unwrap()?;
        FragmentValue::from_bytes(&value)
    }

    pub fn member_flow(&self, key: &FlowKey) -> Option<MemberFlow> {
        let value = self.0.member_flows.lookup(&key.to_bytes()).unwrap()?;
        MemberFlow::from_bytes(&value)
    }

    pub fn link(&self, index: u32) -> gate::Bucket {
        let bytes = self
            .0
            .link_buckets
            .lookup(&index.to_ne_bytes())
            .unwrap()
            .unwrap();
        gate::Bucket::from_bytes(&bytes).unwrap()
    }
}

/// In a namespace of its own, where interfaces can be made; says so when that is not allowed.
pub fn in_namespace(test: &str, work: impl FnOnce() + Send) {
    if let Err(error) = permitted() {
        return common::skipped(&format!("{test}: {error}"));
    }
    match NetNs::anonymous() {
        Ok(namespace) => namespace.run(work).unwrap(),
        Err(error) => common::skipped(&format!("{test}: {error}")),
    }
}

pub fn load_xdp(program: &Program) -> Prog {
    Prog::load(&program.words(), "gate_in", false)
        .unwrap_or_else(|e| panic!("{}\n{}\n{e}", disassemble(&program.words()), tail(&e.log)))
}

pub fn load_tc(program: &Program) -> Prog {
    Prog::load_classifier(&program.words(), "gate_out")
        .unwrap_or_else(|e| panic!("{}\n{}\n{e}", disassemble(&program.words()), tail(&e.log)))
}

fn tail(log: &str) -> &str {
    let start = log.len().saturating_sub(6000);
    log.get(start..).unwrap_or(log)
}

/// Interfaces `xok0` … of a namespace of this test, by index.
pub fn interfaces(count: u32) -> Vec<u32> {
    let netlink = Netlink::new().unwrap();
    (0..count)
        .map(|i| {
            let name = format!("xok{i}");
            netlink.create_veth(&name, &format!("exos{i}")).unwrap();
            netlink.link_by_name(&name).unwrap().index
        })
        .collect()
}

pub fn v(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn sa(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub fn grant(model: &mut Model, key: FlowKey, slot: u32) {
    model.config.shapes |= key.shape() as u32;
    model.flows.insert(key, FlowValue { slot, grant: 7 });
}

pub fn set_generals(tables: &Tables, model: &Model) -> Vec<Prog> {
    let load = |(index, (filter, slot)): (usize, &(Filter, u32))| {
        let index = index as u32;
        let program = gate::general(&tables.fds(), index, filter, *slot).unwrap();
        let prog = load_xdp(&program);
        tables.0.generals.set_fd(index, prog.as_fd()).unwrap();
        prog
    };
    model.generals.iter().enumerate().map(load).collect()
}

/// Only those that are not zero, by name.
pub fn named(counters: &[u64]) -> String {
    let all = Counter::ALL.iter().zip(counters);
    let some = all.filter(|(_, n)| **n != 0);
    some.map(|((_, name), n)| format!("{name} {n} ")).collect()
}
