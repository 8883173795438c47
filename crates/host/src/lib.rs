//! What we ask the host kernel for: bpf(2), netlink, ethtool, namespaces, capabilities, files without waiting; and how a
//! program speaks to its operator ([`message`], [`units`]).
//!
//! Everything that changes or reads the state of the machine, rather than packets, goes through here, so that
//! the other crates hold no ioctl numbers and no netlink attributes. Rules of the interface:
//!
//! - Every fallible operation returns [`Error`], which says in one line what failed and how a person mends it.
//! - Handles ([`netlink::Netlink`], [`ethtool::Ethtool`], [`netns::NetNs`]) belong to the network namespace in
//!   which they were opened and keep meaning that one, whatever namespace the thread enters later.
//! - Nothing is remembered between calls: the kernel's state is the only state.
//!
//! Start reading at [`netlink`] for interfaces, addresses, routes and neighbours; [`netns`] for namespaces.

pub mod bpf;
pub mod error;
pub mod kernel;
pub mod lease;
pub mod limits;
mod mapping;
pub mod memory;
pub mod message;
mod network;
mod process;
pub mod random;
pub mod shared;
pub mod tcp_info;
pub mod units;
pub mod uring;
pub mod user_memory;
mod waker;

pub use network::{ethtool, multicast, netlink, netns, passing, ports, sockets, sysfs};
pub use process::{
    accounts, affinity, background, caps, children, holders, intercept, peer, priority, privilege,
    seccomp, signals,
};

pub use error::{Error, Result};
pub use waker::Waker;
