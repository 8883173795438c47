//! A stack in a namespace of the test's own.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use exos::OwnPair;
use exos_host::netns::NetNs;
use exos_tokio::Net;

/// How long to wait for what must happen, on a machine that may do other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A stack, its address, and the kernel's at the other end of its wire, in a namespace that the calling thread is in; none without
/// root.
pub fn attach(test: &str) -> Option<(Net, IpAddr, IpAddr)> {
    if !enter(test) {
        return None;
    }
    let net = Net::attach(OwnPair::new()).unwrap();
    let (ours, theirs) = net.with(|exos| {
        let pair = exos.pair().unwrap();
        (pair.addresses[0].ip, pair.host_addresses[0].ip)
    });
    Some((net, ours, theirs))
}

/// The calling thread enters a namespace of its own; false without root.
pub fn enter(test: &str) -> bool {
    let may = exos_host::caps::has(exos_host::caps::CapabilitySet::NET_ADMIN);
    match may {
        true => NetNs::anonymous().unwrap().enter().unwrap(),
        false => println!("SKIPPED {test}: needs root"),
    }
    may
}

/// All of our addresses, and any port.
pub const ANY: (Ipv4Addr, u16) = (Ipv4Addr::UNSPECIFIED, 0);
