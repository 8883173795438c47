//! Claims in an order in which what may overlap lies together: by address, protocol, port and remote end. So a claim
//! costs the same with ten and with ten thousand.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use exos_xok::message::GrantId;
use exos_xok::{Claim, Endpoint, Protocol};

pub(super) type Key = (u32, IpAddr, Protocol, u16, Option<Endpoint>);

pub(super) fn key(claim: &Claim) -> Key {
    (
        claim.interface,
        claim.local,
        claim.protocol,
        claim.port,
        claim.remote,
    )
}

/// Behind every other in the order of endpoints.
const LAST_ENDPOINT: Endpoint = Endpoint {
    ip: IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)),
    port: u16::MAX,
};

/// Which grant a claim is.
#[derive(Default)]
pub(super) struct Index(BTreeMap<Key, (Claim, GrantId)>);

impl Index {
    pub(super) fn get(&self, claim: &Claim) -> Option<GrantId> {
        self.0.get(&key(claim)).map(|(_, id)| *id)
    }

    pub(super) fn insert(&mut self, claim: &Claim, id: GrantId) {
        self.0.insert(key(claim), (*claim, id));
    }

    pub(super) fn remove(&mut self, claim: &Claim) {
        self.0.remove(&key(claim));
    }

    /// True when there is a claim on this port, or on a connection at it.
    pub(super) fn has_at(&self, port: &Claim) -> bool {
        let last = Claim {
            remote: Some(LAST_ENDPOINT),
            ..*port
        };
        self.0.range(key(port)..=key(&last)).next().is_some()
    }

    /// The grants whose packets could match a claim too, but for single connections: however many a port has, they are
    /// not looked at.
    pub(super) fn overlapping_ports(&self, claim: &Claim) -> impl Iterator<Item = GrantId> {
        let claim = *claim;
        let protocols = match claim.protocol {
            Protocol::Any => Protocol::ALL.to_vec(),
            protocol => vec![Protocol::Any, protocol],
        };
        // Of one port: those of that port, and those of all ports.
        let ports = match claim.port {
            0 => vec![(0, u16::MAX)],
            port => vec![(0, 0), (port, port)],
        };
        let spans = protocols.into_iter().flat_map(move |protocol| {
            let place = move |port| (claim.interface, claim.local, protocol, port, None);
            let ports = ports.clone().into_iter();
            ports.map(move |(first, last)| place(first)..=place(last))
        });
        let near = spans.flat_map(|span| self.0.range(span));
        let overlaps = move |other: &Claim| other.remote.is_none() && other.overlaps(&claim);
        near.filter_map(move |(_, (other, id))| overlaps(other).then_some(*id))
    }
}
