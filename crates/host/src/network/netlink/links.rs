//! Interfaces: what there is, veth pairs, and the settings we change.

use super::exchange::Netlink;
use crate::error::{Error, Result};
use crate::limits::INTERFACE_NAME_LEN;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo as Info, LinkMessage, LinkXdp,
    XdpAttached,
};
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// One network interface, as it was when asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkInfo {
    /// The kernel's number for it, unique in its network namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address; `None` for interfaces without one, such as tunnels.
    pub mac: Option<[u8; 6]>,
    /// The longest IP packet that it carries, in bytes.
    pub mtu: u32,
    /// True when it is administratively up.
    pub up: bool,
    /// True when it is up and has a carrier.
    pub running: bool,
    /// True for the loopback interface.
    pub loopback: bool,
    /// The kind of a virtual interface ("veth", "bridge"); `None` for hardware.
    pub kind: Option<String>,
    /// The index of the interface that this one is tied to: the other end of a veth.
    pub peer_index: Option<u32>,
    /// The namespace that `peer_index` counts in, as this namespace numbers it; `None` is this namespace.
    pub peer_netns: Option<i32>,
    /// How many receive queues exist.
    pub rx_queues: u32,
    /// How many transmit queues exist.
    pub tx_queues: u32,
    /// The XDP program attached to it.
    pub xdp: Option<XdpInfo>,
}

/// An XDP program attached to an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XdpInfo {
    /// The program's identity, as `bpftool prog` lists it.
    pub prog_id: u32,
    /// Where it runs.
    pub mode: XdpMode,
}

/// Where an XDP program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// In the driver, before a socket buffer is made.
    Native,
    /// After the driver, on a socket buffer: works everywhere, slower.
    Generic,
    /// In the network card.
    Hardware,
    /// In more than one of these places.
    Several,
}

/// One end of a veth pair to be made.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Its name.
    pub name: &'a str,
    /// The namespace it is born in; `None` is the one of the [`Netlink`].
    pub netns: Option<BorrowedFd<'a>>,
    /// Its Ethernet address; `None` lets the kernel choose one at random.
    pub mac: Option<[u8; 6]>,
    /// Its MTU; `None` is the kernel's default of 1500.
    pub mtu: Option<u32>,
    /// How many queues it receives and sends by.
    pub queues: u32,
}

impl<'a> VethEnd<'a> {
    /// An end in the namespace of the [`Netlink`], with an address and MTU of the kernel's choosing. One queue: a
    /// packet that comes in on another queue than the one an AF_XDP socket is bound to is never seen by it.
    pub fn named(name: &'a str) -> Self {
        Self {
            name,
            netns: None,
            mac: None,
            mtu: None,
            queues: 1,
        }
    }

    fn message(&self) -> LinkMessage {
        let mut message = LinkMessage::default();
        let attributes = &mut message.attributes;
        attributes.push(LinkAttribute::IfName(self.name.to_owned()));
        attributes.push(LinkAttribute::NumTxQueues(self.queues));
        attributes.push(LinkAttribute::NumRxQueues(self.queues));
        attributes.extend(self.mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
        attributes.extend(self.mtu.map(LinkAttribute::Mtu));
        attributes.extend(self.netns.map(|ns| LinkAttribute::NetNsFd(ns.as_raw_fd())));
        message
    }
}

impl Netlink {
    /// All interfaces of the namespace, in the order of their indices.
    pub fn links(&self) -> Result<Vec<LinkInfo>> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.dump(request, || "cannot list the interfaces".to_owned())?;
        let mut links: Vec<_> = answers.iter().filter_map(new_link).collect();
        links.sort_by_key(|link| link.index);
        Ok(links)
    }

    /// The interface of this name. The error lists the names that there are.
    pub fn link_by_name(&self, name: &str) -> Result<LinkInfo> {
        self.find_link(name)?.ok_or_else(|| {
            let names: Vec<_> = self
                .links()
                .unwrap_or_default()
                .into_iter()
                .map(|link| link.name)
                .collect();
            Error::new(format!("there is no interface {name}"))
                .mend(format!("choose one of: {}", names.join(", ")))
        })
    }

    /// The interface of this name, or `None` when there is none.
    pub fn find_link(&self, name: &str) -> Result<Option<LinkInfo>> {
        check_name(name)?;
        let mut message = LinkMessage::default();
        message
            .attributes
            .push(LinkAttribute::IfName(name.to_owned()));
        self.one_link(message, || format!("cannot look up the interface {name}"))
    }

    /// The interface of this index, or `None` when there is none.
    pub fn link_by_index(&self, index: u32) -> Result<Option<LinkInfo>> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.one_link(message, || {
            format!("cannot look up the interface with index {index}")
        })
    }

    fn one_link(
        &self,
        message: LinkMessage,
        what: impl Fn() -> String,
    ) -> Result<Option<LinkInfo>> {
        match self.get(RouteNetlinkMessage::GetLink(message), what) {
            Ok(answer) => Ok(new_link(&answer)),
            Err(e) if e.is(libc::ENODEV) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Makes a veth pair in this namespace, one queue each way.
    pub fn create_veth(&self, a: &str, b: &str) -> Result<()> {
        self.create_veth_pair(&VethEnd::named(a), &VethEnd::named(b))
    }

    /// Makes a veth pair, each end directly where it belongs: either both ends are made or none.
    pub fn create_veth_pair(&self, a: &VethEnd<'_>, b: &VethEnd<'_>) -> Result<()> {
        check_name(a.name)?;
        check_name(b.name)?;
        let mut message = a.message();
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            Info::Kind(InfoKind::Veth),
            Info::Data(InfoData::Veth(InfoVeth::Peer(b.message()))),
        ]));
        let what = || format!("cannot make the interface pair {} and {}", a.name, b.name);
        self.change(
            RouteNetlinkMessage::NewLink(message),
            NLM_F_CREATE | NLM_F_EXCL,
            what,
        )
    }

    /// Makes a bridge in this namespace, down as yet.
    pub fn create_bridge(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let mut message = LinkMessage::default();
        message.attributes.extend([
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![Info::Kind(InfoKind::Bridge)]),
        ]);
        self.change(
            RouteNetlinkMessage::NewLink(message),
            NLM_F_CREATE | NLM_F_EXCL,
            || format!("cannot make the bridge {name}"),
        )
    }

    /// Makes an interface a port of a bridge in the same namespace.
    pub fn set_controller(&self, index: u32, bridge: u32) -> Result<()> {
        self.set(index, LinkAttribute::Controller(bridge), || {
            format!("cannot add the interface with index {index} to the bridge with index {bridge}")
        })
    }

    /// Deletes an interface; of a veth pair both ends go.
    pub fn delete_link(&self, index: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.change(RouteNetlinkMessage::DelLink(message), 0, || {
            format!("cannot delete the interface with index {index}")
        })
    }

    /// Makes an interface one of a group; by default they are of group 0.
    pub fn set_group(&self, index: u32, group: u32) -> Result<()> {
        self.set(index, LinkAttribute::Group(group), || {
            format!("cannot put the interface with index {index} into a group")
        })
    }

    /// Deletes all interfaces of a group; of veth pairs both ends go. The kernel waits once for all of them. False when there
    /// are none.
    pub fn delete_group(&self, group: u32) -> Result<bool> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::Group(group));
        let deleted = self.change(RouteNetlinkMessage::DelLink(message), 0, || {
            format!("cannot delete the interfaces of group {group}")
        });
        match deleted {
            Ok(()) => Ok(true),
            Err(e) if e.is(libc::ENODEV) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Brings an interface up or down.
    pub fn set_up(&self, index: u32, up: bool) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = if up {
            LinkFlags::Up
        } else {
            LinkFlags::empty()
        };
        message.header.change_mask = LinkFlags::Up;
        let direction = if up { "up" } else { "down" };
        self.change(RouteNetlinkMessage::SetLink(message), 0, || {
            format!("cannot bring the interface with index {index} {direction}")
        })
    }

    /// Has an interface take frames that are for others, and those for groups that nobody has joined.
    pub fn set_promiscuous(&self, index: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Promisc | LinkFlags::Allmulti;
        message.header.change_mask = message.header.flags;
        self.change(RouteNetlinkMessage::SetLink(message), 0, || {
            format!("cannot have the interface with index {index} take all frames")
        })
    }

    /// Sets the longest IP packet that an interface carries, in bytes.
    pub fn set_mtu(&self, index: u32, mtu: u32) -> Result<()> {
        self.set(index, LinkAttribute::Mtu(mtu), || {
            format!("cannot set the MTU of the interface with index {index} to {mtu}")
        })
    }

    /// Sets an interface's Ethernet address.
    pub fn set_mac(&self, index: u32, mac: [u8; 6]) -> Result<()> {
        self.set(index, LinkAttribute::Address(mac.to_vec()), || {
            format!("cannot set the Ethernet address of the interface with index {index}")
        })
    }

    fn set(&self, index: u32, attribute: LinkAttribute, what: impl Fn() -> String) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(attribute);
        self.change(RouteNetlinkMessage::SetLink(message), 0, what)
    }
}

/// Names that the kernel would refuse, or worse, cut, are refused with the reason.
fn check_name(name: &str) -> Result<()> {
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c == '\0';
    if name.is_empty()
        || name.len() > INTERFACE_NAME_LEN
        || name.contains(bad)
        || name == "."
        || name == ".."
    {
        return Err(
            Error::new(format!("{name:?} cannot be the name of an interface")).mend(format!(
                "use 1 to {INTERFACE_NAME_LEN} characters without spaces, slashes and colons"
            )),
        );
    }
    Ok(())
}

/// The interface that an `RTM_NEWLINK` describes.
fn new_link(message: &RouteNetlinkMessage) -> Option<LinkInfo> {
    match message {
        RouteNetlinkMessage::NewLink(message) => Some(link_info(message)),
        _ => None,
    }
}

/// Reads what we want to know of an interface.
pub(super) fn link_info(message: &LinkMessage) -> LinkInfo {
    let flags = message.header.flags;
    let mut link = LinkInfo {
        index: message.header.index,
        name: String::new(),
        mac: None,
        mtu: 0,
        up: flags.contains(LinkFlags::Up),
        running: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        loopback: flags.contains(LinkFlags::Loopback),
        kind: None,
        peer_index: None,
        peer_netns: None,
        rx_queues: 1,
        tx_queues: 1,
        xdp: None,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(mac) => link.mac = mac.as_slice().try_into().ok(),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Link(index) => link.peer_index = Some(*index),
            LinkAttribute::LinkNetNsId(id) => link.peer_netns = Some(*id),
            LinkAttribute::NumRxQueues(n) => link.rx_queues = *n,
            LinkAttribute::NumTxQueues(n) => link.tx_queues = *n,
            LinkAttribute::LinkInfo(infos) => link.kind = kind_of(infos),
            LinkAttribute::Xdp(xdp) => link.xdp = xdp_info(xdp),
            _ => {}
        }
    }
    link
}

fn kind_of(infos: &[Info]) -> Option<String> {
    infos.iter().find_map(|info| match info {
        Info::Kind(kind) => Some(kind.to_string()),
        _ => None,
    })
}

/// With several programs attached the kernel gives no common identity, only one for each place.
fn xdp_info(attributes: &[LinkXdp]) -> Option<XdpInfo> {
    let mode = attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::Attached(XdpAttached::Driver) => Some(XdpMode::Native),
        LinkXdp::Attached(XdpAttached::SocketBuffer) => Some(XdpMode::Generic),
        LinkXdp::Attached(XdpAttached::Hardware) => Some(XdpMode::Hardware),
        LinkXdp::Attached(XdpAttached::Multiple) => Some(XdpMode::Several),
        _ => None,
    })?;
    let prog_id = attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::ProgId(id)
        | LinkXdp::DrvProgId(id)
        | LinkXdp::SkbProgId(id)
        | LinkXdp::HwProgId(id) => Some(*id),
        _ => None,
    })?;
    Some(XdpInfo { prog_id, mode })
}
