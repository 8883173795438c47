//! A program's place in the kernel: a network namespace that holds nothing but one end of a virtual interface.
//!
//! The namespace is the wall. Anyone who holds a packet socket may bind it to any interface of the socket's namespace:
//! in there is only the program's own end, and what leaves it comes out at our end, where it is checked. The program
//! itself stays where it is, and never enters.
//!
//! The namespace has no name: what has one can be held by the one that opens it or copies its mount. It lives as long as this
//! daemon has its descriptor or the program a socket in it, so through the daemon's death for as long as the program does,
//! and nobody else can hold it. A successor needs our end of the pair alone, which has a name.

use std::os::fd::AsFd as _;
use std::time::Duration;

use exos_filter::SlotCounters;
use exos_filter::gate::limits::SEGMENT_SIZE_MIN;
use exos_host::Error;
use exos_host::error::Result;
use exos_host::netlink::{LinkInfo, Netlink, VethEnd};
use exos_host::netns::NetNs;
use exos_host::random::random;
use exos_inet::limits::CUT_MSS_MIN;
use exos_link::{Feed, Held, Offer, OfferConfig};
use exos_wire::Mac;

use crate::ledger::SlotId;
use crate::limits::PAIRS_DELETED_AT_ONCE;

/// The program's end.
pub const INNER: &str = "exos0";

/// The group of pairs that are about to be deleted: "xokd".
const GOING: u32 = u32::from_be_bytes(*b"xokd");

/// Namespaces of slots are numbered with this bit and random ones below it: the kernel numbers from 0, and a number of one
/// that has gone is not given again.
const NAMESPACE_NUMBERS: u32 = 1 << 30;

// What stacks leave to the link, the gate takes.
const _: () = assert!(CUT_MSS_MIN as i32 >= SEGMENT_SIZE_MIN);

/// What a place is made for.
#[derive(Clone, Copy, Debug)]
pub struct SlotPairConfig {
    /// Its slot.
    pub id: SlotId,
    /// The interface that it is a part of.
    pub ifindex: u32,
    /// That interface's address, which frames carry.
    pub mac: Mac,
    /// That interface's MTU.
    pub mtu: u32,
    /// Chunks of memory.
    pub chunks: u32,
    /// A packet socket for super-packets as well.
    pub super_packets: bool,
    /// Where the gate counts for its slot.
    pub counters: SlotCounters,
}

/// A program's place.
#[derive(Debug)]
pub struct SlotPair {
    /// Its namespace; none when an earlier daemon made it.
    pub namespace: Option<NetNs>,
    /// Its number in the interface's namespace; none when an earlier daemon gave it none.
    pub number: Option<u32>,
    /// Our end.
    pub ifindex: u32,
    /// What keeps the ring working while we live.
    pub held: Held,
}

/// The name of our end of a slot's pair.
pub fn outer_name(ifindex: u32, id: SlotId) -> String {
    format!("xok{ifindex}-{id}")
}

impl SlotPair {
    /// Makes the namespace and the pair in it, both ends up. What an earlier daemon left under the pair's name goes.
    pub fn make(netlink: &Netlink, config: &SlotPairConfig) -> Result<Self> {
        remove(netlink, config.ifindex, config.id)?;
        let inside = NetNs::anonymous()?;
        let number = NAMESPACE_NUMBERS | u32::from_le_bytes(random()) >> 2;
        // Before the kernel chooses one, which it does for the pair.
        let made = netlink
            .number_namespace(inside.as_fd(), number)
            .and_then(|()| build(netlink, config, &inside));
        if made.is_err() {
            let _ = remove(netlink, config.ifindex, config.id);
        }
        Ok(Self {
            namespace: Some(inside),
            number: Some(number),
            ifindex: made?,
            held: Held::default(),
        })
    }

    /// Makes the ring of this place.
    pub fn offer(&self, config: &SlotPairConfig, feed: Feed<'_>) -> Result<Offer, Error> {
        let namespace = self.namespace.as_ref();
        Offer::make(&OfferConfig {
            namespace: namespace.expect("rings are made for places that are new"),
            interface: INNER.to_owned(),
            queue: 0,
            chunks: config.chunks,
            mac: config.mac,
            // Another program's super-packets, and the host's packets, come with theirs unfinished.
            rx_partial_checksum: true,
            super_packets: config.super_packets,
            prefer_busy_poll: false,
            feed,
            queue_wait: Duration::ZERO,
        })
    }
}

/// Takes a place away, if it is there: the pair goes with either end, and the namespace with the last who has it.
pub fn remove(netlink: &Netlink, ifindex: u32, id: SlotId) -> Result<()> {
    match netlink.find_link(&outer_name(ifindex, id))? {
        Some(outer) => delete(netlink, outer.index),
        None => Ok(()),
    }
}

/// Takes several places away, of whichever are there: each interface by its number, and the slot.
pub fn remove_all(netlink: &Netlink, places: impl Iterator<Item = (u32, SlotId)>) -> Result<()> {
    let found =
        places.filter_map(|(ifindex, id)| netlink.find_link(&outer_name(ifindex, id)).transpose());
    delete_all(netlink, found.map(|link| Ok(link?.index)))
}

/// Takes all places of an interface away but these, also those of an earlier version that had more.
pub fn keep_only(netlink: &Netlink, ifindex: u32, kept: &[SlotId]) -> Result<()> {
    let prefix = format!("xok{ifindex}-");
    let of = |name: &str| name.strip_prefix(&prefix)?.parse::<SlotId>().ok();
    let is_other = |name: &str| of(name).is_some_and(|slot| !kept.contains(&slot));
    let links = netlink.links()?.into_iter();
    let is_pair = |link: &LinkInfo| link.kind.as_deref() == Some("veth");
    let others = links.filter(|link| is_pair(link) && is_other(&link.name));
    delete_all(netlink, others.map(|link| Ok(link.index)))
}

/// Deletes pairs, some at a time: the kernel waits once for all of them, in which no interface can be changed.
fn delete_all(netlink: &Netlink, outers: impl Iterator<Item = Result<u32>>) -> Result<()> {
    let outers: Vec<u32> = outers.collect::<Result<_>>()?;
    for some in outers.chunks(PAIRS_DELETED_AT_ONCE) {
        for outer in some {
            if_there(netlink.set_group(*outer, GOING))?;
        }
        netlink.delete_group(GOING)?;
    }
    Ok(())
}

/// Deletes a pair, if it has not gone with its namespace meanwhile.
fn delete(netlink: &Netlink, outer: u32) -> Result<()> {
    if_there(netlink.delete_link(outer))
}

/// What could not be done because the interface has gone meanwhile is done.
fn if_there(done: Result<()>) -> Result<()> {
    done.or_else(|error| match error.is(libc::ENODEV) {
        true => Ok(()),
        false => Err(error),
    })
}

/// Has all interfaces of a slot's namespace take what is for others and for all groups, which changes nothing: there is a
/// ring on the program's end, and nothing on the other. The holder of a packet socket can have that, too
/// (`PACKET_ADD_MEMBERSHIP`), and take it back, as often as it likes: each change would be two lines in the kernel's log and
/// in the audit's. It changes nothing when it is so already.
fn take_everything(inner: &Netlink) -> Result<()> {
    let all = inner.links()?;
    all.iter()
        .try_for_each(|link| inner.set_promiscuous(link.index))
}

fn build(netlink: &Netlink, config: &SlotPairConfig, inside: &NetNs) -> Result<u32> {
    // Nothing but programs' own packets shall ever leave by the pair: no router solicitations, no reports of groups.
    for which in ["all", "default"] {
        let _ = inside.set_sysctl(&format!("net/ipv6/conf/{which}/disable_ipv6"), "1");
    }
    let outer = outer_name(config.ifindex, config.id);
    let end = |name, netns| VethEnd {
        netns,
        mtu: Some(config.mtu),
        ..VethEnd::named(name)
    };
    netlink.create_veth_pair(&end(&outer, None), &end(INNER, Some(inside.as_fd())))?;
    let here = NetNs::current()?;
    // Without IPv6 in the kernel there is nothing to turn off.
    let _ = here.set_sysctl(&format!("net/ipv6/conf/{outer}/disable_ipv6"), "1");
    let index = netlink.link_by_name(&outer)?.index;
    let inner = inside.netlink()?;
    let inner_index = inner.link_by_name(INNER)?.index;
    if config.super_packets {
        take_everything(&inner)?;
    }
    inner.set_up(inner_index, true)?;
    netlink.set_up(index, true)?;
    Ok(index)
}
