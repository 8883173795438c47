//! Opening packet sockets on an interface: every check, and what a person can do when one fails.
//!
//! The program is put on the interface last; until then its packets go to the host. An error at any point drops what was made.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;

use exos_filter::{Action, Rule};
use exos_host::caps::{self, CapabilitySet};
use exos_host::kernel;
use exos_host::limits::raise_memlock;
use exos_host::netlink::Netlink;
use exos_wire::Mac;

use super::program::{self, Program};
use super::socket::{self, Frames};
use super::{PacketLink, Protocol};
use crate::Error;
use crate::end::End;
use crate::xdp::super_packets;

/// Which interface, and what of its packets is ours.
#[derive(Clone, Debug)]
pub struct PacketConfig {
    /// The interface.
    pub interface: String,
    /// The first that matches decides.
    pub rules: Vec<Rule>,
    /// What becomes of packets that no rule matches.
    pub otherwise: Action,
}

impl PacketConfig {
    /// What the rules claim on this interface; the rest is the host's.
    pub fn new(interface: impl Into<String>, rules: Vec<Rule>) -> Self {
        Self {
            interface: interface.into(),
            rules,
            otherwise: Action::Pass,
        }
    }
}

impl PacketLink {
    /// Opens the sockets, then puts the program on the interface: until then its packets go to the host.
    ///
    /// # Errors
    ///
    /// There is no such interface, it is down, the privilege is missing, or the kernel is older than Linux 6.6.
    pub fn open(config: &PacketConfig) -> Result<Self, Error> {
        kernel::check()?;
        let needed = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW | CapabilitySet::BPF;
        let what = format!("open packet sockets on {}", config.interface);
        caps::require(needed, &what)?;
        let info = Netlink::new()?.link_by_name(&config.interface)?;
        let name = info.name;
        let mac = info.mac.ok_or_else(|| {
            Error::new(format!("{name} has no Ethernet address"))
                .mend("choose an Ethernet interface")
        })?;
        if !info.up {
            return Err(
                Error::new(format!("{name} is down")).mend(format!("ip link set {name} up"))
            );
        }
        // Without CAP_SYS_RESOURCE it stays.
        let _ = raise_memlock(None);
        let mark = program::draw_mark();
        let open = |protocol| socket::open(info.index, protocol, mark);
        let opened: io::Result<Vec<OwnedFd>> = socket::PROTOCOLS.map(open).into_iter().collect();
        let sockets = opened
            .map_err(|e| Error::io(format!("packet sockets on {name} cannot be opened"), e))?;
        let sender = super_packets::open_socket(info.index).map_err(super_packets::explain)?;
        let protocols = sockets.into_iter().map(|socket| Protocol {
            socket,
            rests: 0,
            dropped: Cell::new(0),
        });
        let protocols = protocols.collect();
        Ok(Self {
            program: Program::attach(info.index, mark, &config.rules, config.otherwise)?,
            protocols,
            sender,
            frames: Frames::new(),
            onward: Vec::new(),
            end: End::new(name, info.index, Mac(mac), info.mtu as usize),
            failed: false,
            rx_too_long: 0,
        })
    }
}
