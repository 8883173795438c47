//! What must be so for an interface to be opened, and what a person can do where it is not. Nothing is changed by looking.

use std::time::Instant;

use exos_host::bpf::{ProgInfo, who_holds_xdp};
use exos_host::error::ErrorKind;
use exos_host::ethtool::{Ethtool, Feature};
use exos_host::kernel::{self, Version};
use exos_host::netlink::{LinkInfo, Netlink};
use exos_wire::Mac;

use super::interface::Interface;
use super::program::Mode;
use super::umem::{chunk_size_for, single_chunk_mtu_max};
use crate::Error;
use crate::limits::{
    DETACH_WAIT, FRAME_OVERHEAD_LEN, MULTI_BUFFER_KERNEL, NATIVE_MTU_MAX, QUEUE_RETRY_INTERVAL,
    QUEUES_MAX, TX_CHUNKS_MAX,
};
use crate::meta::RxChecksum;

/// Kinds of interfaces in netlink.
pub(super) const VETH: &str = "veth";
pub(super) const BOND: &str = "bond";

/// Drivers whose other end is the machine that ours runs on: virtio, Xen.
const PARAVIRTUAL_DRIVERS: [&str; 2] = ["virtio_net", "vif"];

/// What the interface is: up, and an Ethernet.
pub(super) fn check_interface(info: &LinkInfo) -> Result<Interface, Error> {
    let name = &info.name;
    let Some(mac) = info.mac else {
        return Err(Error::new(format!("{name} has no Ethernet address"))
            .mend("choose an Ethernet interface, or a TAP device (tap:NAME)"));
    };
    if !info.up {
        return Err(Error::new(format!("{name} is down")).mend(format!("ip link set {name} up")));
    }
    let queues = Ethtool::new()?.receive_queues(info).min(QUEUES_MAX);
    let rx_checksum = if leads_to_a_local_kernel(info) {
        RxChecksum::MaybePartial
    } else {
        RxChecksum::Unknown
    };
    Ok(Interface {
        queues,
        name: name.clone(),
        index: info.index,
        mac: Mac(mac),
        mtu: info.mtu as usize,
        rx_checksum,
        is_bond: info.kind.as_deref() == Some(BOND),
    })
}

/// The interface brings nothing by a queue that is not in use, though a socket may be bound to it.
pub(super) fn check_queue(interface: &Interface, queue: u32) -> Result<(), Error> {
    let Interface { name, queues, .. } = interface;
    if queue < *queues {
        return Ok(());
    }
    Err(Error::new(format!("{name} uses no queue {queue}")).mend(format!(
        "name one below {queues}, or none to have all that are in use (ethtool -l {name} shows them)"
    )))
}

/// A core without a queue would see nothing.
pub(super) fn check_cores(info: &LinkInfo, queues: u32, cores: u32) -> Result<(), Error> {
    if cores <= queues {
        return Ok(());
    }
    let name = &info.name;
    let made = format!("ip link add ... numrxqueues {cores} numtxqueues {cores}");
    let command = Ethtool::new()?.command_for_queues(name, cores);
    let command = command.or_else(|| (info.kind.as_deref() == Some(VETH)).then_some(made));
    let instead = format!("run on {queues} core(s)");
    Err(Error::new(format!(
        "{name} uses {queues} receive queue(s), fewer than the {cores} cores that are to run on them"
    ))
    .mend(match command {
        Some(command) => format!("have it use more ({command}), or {instead}"),
        None => instead,
    })
    .of_kind(ErrorKind::TooFewQueues { queues }))
}

/// Whether frames may come from a kernel of this machine, which leaves their
/// checksums to a device that is not there: from another namespace over a
/// virtual interface, from a guest's host over a paravirtual one.
pub fn leads_to_a_local_kernel(info: &LinkInfo) -> bool {
    let paravirtual = || {
        let driver = Ethtool::new().and_then(|ethtool| ethtool.driver(&info.name));
        driver.is_ok_and(|driver| PARAVIRTUAL_DRIVERS.contains(&driver.as_str()))
    };
    info.loopback || info.kind.is_some() || paravirtual()
}

/// Whether packets may span buffers, which is so above what native XDP puts into
/// one.
pub(super) fn multi_buffer(interface: &Interface, version: Version) -> Result<bool, Error> {
    let (name, mtu) = (&interface.name, interface.mtu);
    let single = NATIVE_MTU_MAX.min(single_chunk_mtu_max());
    if mtu <= single {
        return Ok(false);
    }
    let remedy = format!("ip link set {name} mtu {single}");
    if (version.major, version.minor) < MULTI_BUFFER_KERNEL {
        let (major, minor) = MULTI_BUFFER_KERNEL;
        return Err(Error::new(format!(
            "{name} has an MTU of {mtu}: before Linux {major}.{minor}, AF_XDP takes {single} at most"
        ))
        .mend(remedy));
    }
    let most = TX_CHUNKS_MAX * chunk_size_for(mtu) as usize - FRAME_OVERHEAD_LEN;
    if mtu > most {
        let what = format!("{name} has an MTU of {mtu}: AF_XDP sends {most} at most");
        return Err(Error::new(what).mend(remedy));
    }
    Ok(true)
}

/// An interface takes one XDP program. One that is about to go, because its link
/// was closed, is waited for.
pub(super) fn wait_until_unheld(interface: &Interface) -> Result<(), Error> {
    let deadline = Instant::now() + DETACH_WAIT;
    loop {
        let Some(holder) = holder(interface)? else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            return Err(holder);
        }
        std::thread::sleep(QUEUE_RETRY_INTERVAL);
    }
}

/// The error that names the program on the interface, when there is one.
fn holder(interface: &Interface) -> Result<Option<Error>, Error> {
    let name = &interface.name;
    let Some(xdp) = Netlink::new()?.link_by_name(name)?.xdp else {
        return Ok(None);
    };
    let id = xdp.prog_id;
    let program = ProgInfo::by_id(id).map_or_else(|_| String::from("unnamed"), |info| info.name);
    let error = Error::new(format!(
        "{name} has an XDP program already: {program} (program id {id})"
    ));
    let link = who_holds_xdp(interface.index)?;
    Ok(Some(match link {
        Some(held) => error.mend(format!(
            "end the process that holds BPF link {}",
            held.link_id
        )),
        None => error.mend(format!(
            "end the process that holds it, or, if it was attached for good, take it away with \
             `ip link set dev {name} xdp off`"
        )),
    }))
}

/// Whether frames longer than the MTU can be taken, in pieces: in generic mode, which sees what a device or a kernel at the
/// other end of a virtual interface has merged, or not cut yet.
pub(super) fn takes_large_frames(mode: Mode) -> Result<bool, Error> {
    let version = kernel::version()?;
    Ok(mode == Mode::Generic && (version.major, version.minor) >= MULTI_BUFFER_KERNEL)
}

/// Whether a device merges what it receives, and cannot be told not to.
pub(super) fn merges_for_good(interface: &str) -> Result<bool, Error> {
    let features = Ethtool::new()?.features(interface).unwrap_or_default();
    Ok(features.iter().any(Feature::merges_for_good))
}
