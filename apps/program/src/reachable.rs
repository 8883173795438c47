//! Telling a person where a program is to be found.

use std::net::IpAddr;

use exos::Exos;

/// The stack's addresses that can be written down for others: not the link-local ones, which mean
/// something on their link only.
pub fn reachable_addresses(exos: &Exos) -> Vec<IpAddr> {
    reachable(exos.stack.addresses().iter().map(|a| a.addr))
}

/// Those of these addresses that can be written down for others.
pub fn reachable(all: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    all.filter(|ip| !link_local(ip)).collect()
}

/// How to reach, from another terminal of the same user, a program in a user namespace of its own.
pub fn inside_hint(command: &str) -> String {
    let pid = std::process::id();
    format!("nsenter --preserve-credentials -U -n -t {pid} {command}")
}
