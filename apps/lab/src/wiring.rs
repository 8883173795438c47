//! How the two sides are joined: by one veth pair, or by two with an emulator's namespace between them.
//!
//! ```text
//! exos-N-a          exos-N-b        exos-N-a     exos-N-wire      exos-N-b
//!    wire ──────────── wire            wire ──── a  emulator  b ──── wire
//! ```
//!
//! In both cases each side has one end, called `wire`. Everything here compares with what is there and changes
//! what differs.

use crate::emulator::control::{Request, ask};
use crate::emulator::{Emulation, Statistics, background};
use crate::lab::Lab;
use crate::offloads;
use crate::settings::{INTERFACE, Settings, Side, WireKind, middle_namespace};
use exos_host::Result;
use exos_host::netlink::{LinkInfo, Netlink, VethEnd};
use exos_host::netns::NetNs;
use std::os::fd::AsFd as _;
use std::path::Path;

/// The namespace in the middle of a lab, if there is one.
pub(crate) fn find_middle(lab: &str) -> Result<Option<NetNs>> {
    NetNs::find(&middle_namespace(lab))
}

/// Joins the two sides as wanted; true when something had to be done.
pub(crate) fn join(lab: &Lab, settings: &Settings) -> Result<bool> {
    if settings.emulation.is_none() {
        let was_emulated = remove_middle(lab.name())?.0;
        if !was_emulated && is_joined_directly(lab, settings)? {
            return Ok(false);
        }
        delete_wires(lab)?;
        make_wire(lab, settings)?;
        return Ok(true);
    }
    let middle = find_middle(lab.name())?;
    if let Some(middle) = &middle
        && is_joined_through(lab, middle, settings)?
    {
        return Ok(false);
    }
    remove_middle(lab.name())?;
    delete_wires(lab)?;
    make_emulated_wire(lab, settings)?;
    Ok(true)
}

/// Has an emulator as wanted run in the background; true when it did not.
pub(crate) fn run_emulator(lab: &Lab, emulation: &Emulation) -> Result<bool> {
    let middle = NetNs::open(&middle_namespace(lab.name()))?;
    // One that gives no sound answer is replaced like one of other settings.
    match ask(&middle, Request::Statistics) {
        Ok(Some(running)) if running.settings == *emulation => return Ok(false),
        Ok(None) => {}
        _ => drop(ask(&middle, Request::Stop)),
    }
    background::start(lab.name(), emulation)?;
    Ok(true)
}

/// Stops the emulator, if there is one.
pub(crate) fn stop_emulator(lab: &str) -> Result<Option<Statistics>> {
    match find_middle(lab)? {
        Some(middle) => ask(&middle, Request::Stop),
        None => Ok(None),
    }
}

/// Stops the emulator and removes its namespace: whether there was one, and the emulator's last statistics.
pub(crate) fn remove_middle(lab: &str) -> Result<(bool, Option<Statistics>)> {
    let mut statistics = None;
    if let Some(middle) = find_middle(lab)? {
        // One that does not answer ends when its interfaces go.
        statistics = ask(&middle, Request::Stop).ok().flatten();
        let netlink = middle.netlink()?;
        for side in Side::BOTH {
            delete_interface(&netlink, side.middle_interface())?;
        }
    }
    Ok((NetNs::delete(&middle_namespace(lab))?, statistics))
}

/// Deletes both ends' interfaces.
fn delete_wires(lab: &Lab) -> Result<()> {
    for side in Side::BOTH {
        delete_interface(&lab.netns(side).netlink()?, INTERFACE)?;
    }
    Ok(())
}

/// Deletes this end of a pair, and the other with it. The other end may be on its way out already.
pub(crate) fn delete_interface(netlink: &Netlink, name: &str) -> Result<()> {
    let Some(link) = netlink.find_link(name)? else {
        return Ok(());
    };
    match netlink.delete_link(link.index) {
        Err(e) if e.is(libc::ENODEV) => Ok(()),
        result => result,
    }
}

/// True when these are the ends of one veth pair with as many queues each way.
pub(crate) fn are_tied(one: &LinkInfo, other: &LinkInfo) -> bool {
    let points = |from: &LinkInfo, to: &LinkInfo| {
        from.kind.as_deref() == Some("veth") && from.peer_index == Some(to.index)
    };
    let queues = [
        one.rx_queues,
        one.tx_queues,
        other.rx_queues,
        other.tx_queues,
    ];
    let alike = queues.iter().all(|&count| count == queues[0]);
    points(one, other) && points(other, one) && alike
}

/// True when the two ends are those of one pair, and of the wanted kind or one that can be made so in place. The
/// kernel's defaults can only be had by making the pair again.
fn is_joined_directly(lab: &Lab, settings: &Settings) -> Result<bool> {
    let [a, b] = Side::BOTH.map(|side| find_interface(lab.netns(side), INTERFACE));
    let (Some(a), Some(b)) = (a?, b?) else {
        return Ok(false);
    };
    if !are_tied(&a, &b) || a.rx_queues != settings.queues {
        return Ok(false);
    }
    for side in Side::BOTH {
        let kind = offloads::kind(&lab.netns(side).ethtool()?)?;
        if settings.wire == WireKind::Offload && kind != Some(WireKind::Offload) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True when each side's end is tied to the middle's interface of its name, which is up and of the wanted MTU.
fn is_joined_through(lab: &Lab, middle: &NetNs, settings: &Settings) -> Result<bool> {
    for side in Side::BOTH {
        let outer = find_interface(lab.netns(side), INTERFACE)?;
        let inner = find_interface(middle, side.middle_interface())?;
        match (outer, inner) {
            (Some(outer), Some(inner)) if are_tied(&outer, &inner) => {
                if inner.mtu != settings.mtu || !inner.up {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}

pub(crate) fn find_interface(netns: &NetNs, name: &str) -> Result<Option<LinkInfo>> {
    netns.netlink()?.find_link(name)
}

/// Makes the pair, each end born in its namespace.
fn make_wire(lab: &Lab, settings: &Settings) -> Result<()> {
    let [a, b] = Side::BOTH.map(|side| end(lab.netns(side), INTERFACE, settings));
    Netlink::new()?.create_veth_pair(&a, &b)
}

/// Makes the namespace in the middle and a pair to each side. The middle's interfaces have no addresses and say
/// nothing of their own.
fn make_emulated_wire(lab: &Lab, settings: &Settings) -> Result<()> {
    let middle = NetNs::create(&middle_namespace(lab.name()))?;
    if Path::new("/proc/sys/net/ipv6").exists() {
        for scope in ["all", "default"] {
            middle.set_sysctl(&format!("net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
        }
    }
    let netlink = middle.netlink()?;
    for side in Side::BOTH {
        let outer = end(lab.netns(side), INTERFACE, settings);
        let inner = end(&middle, side.middle_interface(), settings);
        Netlink::new()?.create_veth_pair(&outer, &inner)?;
        let index = netlink.link_by_name(side.middle_interface())?.index;
        netlink.set_up(index, true)?;
    }
    Ok(())
}

fn end<'a>(netns: &'a NetNs, name: &'a str, settings: &Settings) -> VethEnd<'a> {
    VethEnd {
        netns: Some(netns.as_fd()),
        mtu: Some(settings.mtu),
        queues: settings.queues,
        ..VethEnd::named(name)
    }
}
