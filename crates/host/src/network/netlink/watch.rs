//! Notices of changes.
//!
//! A [`Watch`] is a nonblocking socket: poll its descriptor for reading, then call [`Watch::next`] until it
//! gives `None`. When more changed than the kernel keeps for us, it says [`Change::Missed`] and the tables must
//! be read again.

use super::exchange::messages;
use super::links::{LinkInfo, link_info};
use super::neighbours::{Neighbour, neighbour};
use crate::error::{Context as _, Error, Result};
use netlink_packet_core::ParseableParametrized as _;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, protocols::NETLINK_ROUTE};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Something that changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A neighbour is new or changed its state or address.
    Neighbour(Neighbour),
    /// The host forgot a neighbour.
    NeighbourGone(Neighbour),
    /// An interface is new or changed.
    Link(LinkInfo),
    /// An interface is gone.
    LinkGone(LinkInfo),
    /// A route came or went: what was learned from [`Netlink::route_to`](super::Netlink::route_to) may no longer hold.
    Routes,
    /// An address came or went.
    Addresses,
    /// Changes were lost; read again what you keep.
    Missed,
}

/// A subscription to changes of the namespace in which it was opened.
pub struct Watch {
    socket: Socket,
    pending: VecDeque<Change>,
}

// linux/rtnetlink.h, enum rtnetlink_groups.
const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_NEIGH: u32 = 3;
const RTNLGRP_IPV4_IFADDR: u32 = 5;
const RTNLGRP_IPV4_ROUTE: u32 = 7;
const RTNLGRP_IPV6_IFADDR: u32 = 9;
const RTNLGRP_IPV6_ROUTE: u32 = 11;

impl Watch {
    /// Watches the neighbours of all interfaces.
    pub fn neighbours() -> Result<Self> {
        Self::of(&[RTNLGRP_NEIGH])
    }

    /// Watches everything that matters to where packets go: interfaces, addresses, routes, neighbours.
    pub fn everything() -> Result<Self> {
        Self::of(&[
            RTNLGRP_LINK,
            RTNLGRP_NEIGH,
            RTNLGRP_IPV4_IFADDR,
            RTNLGRP_IPV4_ROUTE,
            RTNLGRP_IPV6_IFADDR,
            RTNLGRP_IPV6_ROUTE,
        ])
    }

    fn of(groups: &[u32]) -> Result<Self> {
        let what = || "cannot watch the host's tables for changes";
        let mut socket = Socket::new(NETLINK_ROUTE).context(what)?;
        socket.bind_auto().context(what)?;
        for &group in groups {
            socket.add_membership(group).context(what)?;
        }
        socket.set_non_blocking(true).context(what)?;
        Ok(Self {
            socket,
            pending: VecDeque::new(),
        })
    }

    /// The next change, or `None` when there is none now. Never blocks.
    #[allow(
        clippy::should_implement_trait,
        reason = "it can fail, and gives more after None"
    )]
    pub fn next(&mut self) -> Result<Option<Change>> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Ok(Some(change));
            }
            match self.socket.recv_from_full() {
                // Not from the kernel: any process may send to our port.
                Ok((_, from)) if from.port_number() != 0 => {}
                Ok((datagram, _)) => self.pending.extend(messages(&datagram).filter_map(|m| {
                    change(RouteNetlinkMessage::parse_with_param(m.payload, m.kind).ok()?)
                })),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                    return Ok(Some(Change::Missed));
                }
                Err(e) => return Err(Error::io("cannot read changes of the host's tables", e)),
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What a notification means to us.
fn change(message: RouteNetlinkMessage) -> Option<Change> {
    match message {
        RouteNetlinkMessage::NewNeighbour(m) => neighbour(&m).map(Change::Neighbour),
        RouteNetlinkMessage::DelNeighbour(m) => neighbour(&m).map(Change::NeighbourGone),
        RouteNetlinkMessage::NewLink(m) => Some(Change::Link(link_info(&m))),
        RouteNetlinkMessage::DelLink(m) => Some(Change::LinkGone(link_info(&m))),
        RouteNetlinkMessage::NewRoute(_) | RouteNetlinkMessage::DelRoute(_) => Some(Change::Routes),
        RouteNetlinkMessage::NewAddress(_) | RouteNetlinkMessage::DelAddress(_) => {
            Some(Change::Addresses)
        }
        _ => None,
    }
}
