//! Making and removing a lab.
//!
//! Everything is a comparison with what is there: absent parts are made, different ones changed, half-made ones
//! replaced. When making a new lab fails, what was made of it goes again; a lab that was there before stays.

use crate::emulator::Statistics;
use crate::emulator::running::Running;
use crate::lab::{Lab, find_sides};
use crate::offloads;
use crate::settings::{INTERFACE, Settings, Side, WireKind, check_name, middle_namespace};
use crate::steering;
use crate::wiring;
use exos_host::caps::{self, CapabilitySet};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_host::{Result, error::Context as _};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

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

/// A lab whose wire is emulated by threads of this process. Dropped, the emulator stops and the lab is taken down.
#[derive(Debug)]
pub struct Emulated {
    // Before the lab: it is to stop before its interfaces go.
    running: Running,
    lab: Guard,
}

/// What [`take_down`] found.
pub(crate) struct Removed {
    /// There was something of the lab.
    pub(crate) was_there: bool,
    /// What the emulator did, if there was one.
    pub(crate) statistics: Option<Statistics>,
}

impl Lab {
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
            // Nobody may be reading.
            let _ = writeln!(std::io::stderr(), "exos lab: {e}");
        }
    }
}

impl Emulated {
    /// What the emulator has done so far.
    pub fn statistics(&self) -> Result<Statistics> {
        self.running.statistics()
    }

    /// True when the emulator has ended: it was stopped from elsewhere, or an interface has gone.
    pub fn is_over(&self) -> bool {
        self.running.is_over()
    }

    /// Stops the emulator and takes the lab down; the last statistics.
    pub fn finish(self) -> Result<Statistics> {
        self.running.stop()
    }
}

impl std::ops::Deref for Emulated {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

/// Makes a lab as wanted, or changes the one that is there until it is. An emulator that is asked for runs in the
/// background, in a process of its own, until [`down`]; that process is this program again, which therefore must
/// be `exos`. Other programs use [`emulate`].
pub fn up(settings: &Settings) -> Result<(Lab, Outcome)> {
    let start = |lab: &Lab| match &settings.emulation {
        Some(emulation) => wiring::run_emulator(lab, emulation),
        None => Ok(false),
    };
    let (lab, outcome, _) = up_with(settings, start, |changed| *changed)?;
    Ok((lab, outcome))
}

/// Sets up a lab with the emulator in this process: its threads start in this call and end with the value.
///
/// # Panics
///
/// If the settings ask for no emulation.
pub fn emulate(settings: &Settings) -> Result<Emulated> {
    let emulation = settings.emulation.as_ref();
    let emulation = emulation.expect("an emulation is asked for");
    let start = |lab: &Lab| {
        wiring::stop_emulator(lab.name())?;
        Running::start(lab.name(), emulation)
    };
    let (lab, _, running) = up_with(settings, start, |_| true)?;
    Ok(Emulated {
        running,
        lab: lab.guard(),
    })
}

/// Makes or changes a lab, then has `start` see to the emulator; `changed` says of its result whether that
/// changed something.
fn up_with<T>(
    settings: &Settings,
    start: impl FnOnce(&Lab) -> Result<T>,
    changed: impl FnOnce(&T) -> bool,
) -> Result<(Lab, Outcome, T)> {
    settings.check()?;
    caps::require(
        CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN,
        "make network namespaces",
    )?;
    let _lock = lock()?;
    let before = find_sides(&settings.name)?;
    let is_new = before.iter().all(Option::is_none);
    let made = build(settings, before)
        .and_then(|(lab, built)| start(&lab).map(|started| (lab, built, started)));
    if made.is_err() && is_new {
        let _ = remove(&settings.name);
    }
    let (lab, built, started) = made?;
    let outcome = match (is_new, built | changed(&started)) {
        (true, _) => Outcome::Made,
        (false, true) => Outcome::Changed,
        (false, false) => Outcome::Unchanged,
    };
    Ok((lab, outcome, started))
}

/// Removes a lab, or what a crash left of it. Returns false when there was nothing. Processes still inside keep
/// running, without a wire.
pub fn down(name: &str) -> Result<bool> {
    take_down(name).map(|removed| removed.was_there)
}

/// Removes a lab; also what its emulator did.
pub(crate) fn take_down(name: &str) -> Result<Removed> {
    check_name(name)?;
    if !is_anything_there(name) {
        return Ok(Removed {
            was_there: false,
            statistics: None,
        });
    }
    caps::require(
        CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN,
        "remove network namespaces",
    )?;
    let _lock = lock()?;
    remove(name)
}

/// True when there is a namespace of the lab, or a file that a crash left in the place of one.
fn is_anything_there(name: &str) -> bool {
    let [a, b] = Side::BOTH.map(|side| side.namespace(name));
    [a, b, middle_namespace(name)]
        .iter()
        .any(|namespace| Path::new("/run/netns").join(namespace).exists())
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
fn remove(name: &str) -> Result<Removed> {
    let (mut was_there, statistics) = wiring::remove_middle(name)?;
    for netns in find_sides(name)?.iter().flatten() {
        wiring::delete_interface(&netns.netlink()?, INTERFACE)?;
    }
    for side in Side::BOTH {
        was_there |= NetNs::delete(&side.namespace(name))?;
    }
    Ok(Removed {
        was_there,
        statistics,
    })
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
    changed |= wiring::join(&lab, settings)?;
    for side in Side::BOTH {
        changed |= settle(&lab, side, settings)?;
    }
    Ok((lab, changed))
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
    let core = settings.receive_cores.map(|cores| cores[side as usize]);
    changed |= steering::steer(netns, settings.queues, core)?;
    let ethtool = netns.ethtool()?;
    if settings.wire == WireKind::Plain && offloads::kind(&ethtool)? != Some(WireKind::Plain) {
        offloads::make_plain(&ethtool, INTERFACE)?;
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
