//! Making and removing a lab.
//!
//! Everything is a comparison with what is there: absent parts are made, different ones changed, half-made ones
//! replaced. When making a new lab fails, what was made of it goes again; a lab that was there before stays.

use crate::offloads;
use crate::settings::{INTERFACE, Settings, Side, WireKind, check_name};
use exos_host::caps::{self, CapabilitySet};
use exos_host::netlink::{LinkInfo, Netlink, VethEnd};
use exos_host::netns::NetNs;
use exos_host::{Error, Result, error::Context as _};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::Command;

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    name: String,
    sides: [NetNs; 2],
}

/// What [`up`] had to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// There was nothing of it.
    Made,
    /// It was there, exactly as wanted.
    Unchanged,
    /// It was there, but other than wanted, or damaged, and is now as wanted.
    Changed,
}

/// Takes a lab down when dropped: for tests and measurements.
#[derive(Debug)]
pub struct Guard(Lab);

impl Lab {
    /// Opens a lab that is up.
    pub fn open(name: &str) -> Result<Self> {
        check_name(name)?;
        match find_sides(name)? {
            [Some(a), Some(b)] => Ok(Self {
                name: name.to_owned(),
                sides: [a, b],
            }),
            _ => {
                let option = if name == Settings::default().name {
                    String::new()
                } else {
                    format!(" --name {name}")
                };
                Err(Error::new(format!("the lab {name} is not up"))
                    .mend(format!("make it with `exos lab up{option}`")))
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace of one side.
    pub fn netns(&self, side: Side) -> &NetNs {
        match side {
            Side::A => &self.sides[0],
            Side::B => &self.sides[1],
        }
    }

    /// The state of one side's end of the wire.
    pub fn link(&self, side: Side) -> Result<LinkInfo> {
        self.netns(side).netlink()?.link_by_name(INTERFACE)
    }

    /// A command that will start inside one side.
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Result<Command> {
        let mut command = Command::new(program);
        self.netns(side).place(&mut command)?;
        Ok(command)
    }

    /// Has the lab taken down when the returned value is dropped.
    pub fn guard(self) -> Guard {
        Guard(self)
    }
}

impl std::ops::Deref for Guard {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.0
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(e) = down(&self.0.name) {
            eprintln!("exos lab: {e}");
        }
    }
}

/// Makes a lab as wanted, or changes the one that is there until it is.
pub fn up(settings: &Settings) -> Result<(Lab, Outcome)> {
    settings.check()?;
    caps::require(
        CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN,
        "make network namespaces",
    )?;
    let _lock = lock()?;
    let before = find_sides(&settings.name)?;
    let is_new = before.iter().all(Option::is_none);
    let built = build(settings, before);
    if built.is_err() && is_new {
        let _ = remove(&settings.name);
    }
    let (lab, changed) = built?;
    let outcome = match (is_new, changed) {
        (true, _) => Outcome::Made,
        (false, true) => Outcome::Changed,
        (false, false) => Outcome::Unchanged,
    };
    Ok((lab, outcome))
}

/// Removes a lab, or what a crash left of it. Returns false when there was nothing. Processes still inside keep
/// running, without a wire.
pub fn down(name: &str) -> Result<bool> {
    check_name(name)?;
    if find_sides(name)?.iter().all(Option::is_none) && !leftover_files(name) {
        return Ok(false);
    }
    caps::require(
        CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN,
        "remove network namespaces",
    )?;
    let _lock = lock()?;
    remove(name)
}

/// The namespaces of a lab that are there.
pub(crate) fn find_sides(name: &str) -> Result<[Option<NetNs>; 2]> {
    let [a, b] = Side::BOTH.map(|side| NetNs::find(&side.namespace(name)));
    Ok([a?, b?])
}

/// True when a crash left files in the place of namespaces.
fn leftover_files(name: &str) -> bool {
    Side::BOTH
        .iter()
        .any(|side| Path::new("/run/netns").join(side.namespace(name)).exists())
}

/// Lets one command at a time make or remove labs. The lock goes with the process, whatever ends it.
fn lock() -> Result<OwnedFd> {
    let what = || "cannot wait for other commands that make or remove labs";
    std::fs::create_dir_all("/run/netns").context(what)?;
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, "/run/netns", directory, Mode::empty()).context(what)?;
    rustix::fs::flock(&fd, FlockOperation::LockExclusive).context(what)?;
    Ok(fd)
}

/// Deletes the wire first, so that it goes even when a process keeps a namespace alive.
fn remove(name: &str) -> Result<bool> {
    for netns in find_sides(name)?.iter().flatten() {
        delete_wire(&netns.netlink()?)?;
    }
    let mut was_there = false;
    for side in Side::BOTH {
        was_there |= NetNs::delete(&side.namespace(name))?;
    }
    Ok(was_there)
}

/// Deletes this end of the wire, and the other with it. The other end may be on its way out already.
fn delete_wire(netlink: &Netlink) -> Result<()> {
    let Some(link) = netlink.find_link(INTERFACE)? else {
        return Ok(());
    };
    match netlink.delete_link(link.index) {
        Err(e) if e.is(libc::ENODEV) => Ok(()),
        result => result,
    }
}

/// Brings everything to what is wanted; true when something had to be done.
fn build(settings: &Settings, before: [Option<NetNs>; 2]) -> Result<(Lab, bool)> {
    let mut changed = false;
    let mut open_or_create = |side: Side, found: Option<NetNs>| match found {
        Some(netns) => Ok(netns),
        None => {
            changed = true;
            NetNs::create(&side.namespace(&settings.name))
        }
    };
    let [a, b] = before;
    let sides = [open_or_create(Side::A, a)?, open_or_create(Side::B, b)?];
    let lab = Lab {
        name: settings.name.clone(),
        sides,
    };
    if !wire_fits(&lab, settings.wire)? {
        make_wire(&lab, settings)?;
        changed = true;
    }
    for side in Side::BOTH {
        changed |= settle(&lab, side, settings)?;
    }
    Ok((lab, changed))
}

/// True when the two ends are those of one veth pair with one queue each, and of the wanted kind or one that
/// can be made so in place. The kernel's defaults can only be had by making the pair anew.
fn wire_fits(lab: &Lab, wanted: WireKind) -> Result<bool> {
    let [a, b] = Side::BOTH.map(|side| {
        lab.netns(side)
            .netlink()
            .and_then(|n| n.find_link(INTERFACE))
    });
    let (Some(a), Some(b)) = (a?, b?) else {
        return Ok(false);
    };
    let tied = |from: &LinkInfo, to: &LinkInfo| {
        from.kind.as_deref() == Some("veth") && from.peer_index == Some(to.index)
    };
    let single = |link: &LinkInfo| (link.rx_queues, link.tx_queues) == (1, 1);
    if !(tied(&a, &b) && tied(&b, &a) && single(&a) && single(&b)) {
        return Ok(false);
    }
    for side in Side::BOTH {
        let kind = offloads::kind(&lab.netns(side).ethtool()?)?;
        if wanted == WireKind::Offload && kind != Some(WireKind::Offload) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes the pair, each end born in its namespace, in place of whatever has its name.
fn make_wire(lab: &Lab, settings: &Settings) -> Result<()> {
    for side in Side::BOTH {
        delete_wire(&lab.netns(side).netlink()?)?;
    }
    let end = |side| VethEnd {
        netns: Some(lab.netns(side).as_fd()),
        mtu: Some(settings.mtu),
        ..VethEnd::named(INTERFACE)
    };
    Netlink::new()?.create_veth_pair(&end(Side::A), &end(Side::B))
}

/// Brings one side's settings, addresses and interfaces to what is wanted; true when something had to be done.
fn settle(lab: &Lab, side: Side, settings: &Settings) -> Result<bool> {
    let netns = lab.netns(side);
    let netlink = netns.netlink()?;
    let link = netlink.link_by_name(INTERFACE)?;
    let mut changed = quiet_ipv6(netns)?;
    if link.mtu != settings.mtu {
        netlink.set_mtu(link.index, settings.mtu)?;
        changed = true;
    }
    let ethtool = netns.ethtool()?;
    if settings.wire == WireKind::Plain && offloads::kind(&ethtool)? != Some(WireKind::Plain) {
        offloads::make_plain(&ethtool)?;
        changed = true;
    }
    for name in ["lo", INTERFACE] {
        let link = netlink.link_by_name(name)?;
        if !link.up {
            netlink.set_up(link.index, true)?;
            changed = true;
        }
    }
    // After coming up: an interface that goes down loses its IPv6 addresses.
    let there = netlink.addresses(link.index)?;
    for (ip, prefix) in side.addresses().into_iter().filter(|a| !there.contains(a)) {
        add_address(&netlink, link.index, ip, prefix)?;
        changed = true;
    }
    Ok(changed)
}

/// Addresses can be used at once (no duplicate address detection), and the wire is quiet: nobody asks for
/// routers that cannot be there. True when something had to be changed.
fn quiet_ipv6(netns: &NetNs) -> Result<bool> {
    if !has_ipv6() {
        return Ok(false);
    }
    let mut changed = false;
    for (setting, value) in [
        ("disable_ipv6", "0"),
        ("accept_dad", "0"),
        ("accept_ra", "0"),
        ("router_solicitations", "0"),
    ] {
        let setting = format!("net/ipv6/conf/{INTERFACE}/{setting}");
        if netns.sysctl(&setting)? != value {
            netns.set_sysctl(&setting, value)?;
            changed = true;
        }
    }
    Ok(changed)
}

fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// A kernel without IPv6 gets a lab without it.
fn add_address(netlink: &Netlink, index: u32, ip: IpAddr, prefix: u8) -> Result<()> {
    if ip.is_ipv6() && !has_ipv6() {
        return Ok(());
    }
    netlink.add_address(index, ip, prefix)
}
