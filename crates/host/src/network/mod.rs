//! The host's network: interfaces and what drivers do, namespaces, ports, frames that pass to the host.

pub mod ethtool;
pub mod multicast;
pub mod netlink;
pub mod netns;
pub mod passing;
pub mod ports;
pub mod sockets;
pub mod sysfs;
