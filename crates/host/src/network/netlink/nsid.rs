//! Numbers of network namespaces, as one namespace knows another (`RTM_NEWNSID`, `RTM_GETNSID`).
//!
//! A number keeps nothing alive: it goes with the namespace, and that goes with the last process, name, descriptor and
//! **socket** of it. So anyone who has numbered a namespace can tell later, without holding it, whether anybody has a
//! socket of it still.

use super::exchange::Netlink;
use crate::error::{Error, Result};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use std::os::fd::{AsRawFd as _, BorrowedFd};

impl Netlink {
    /// Gives a namespace a number that no other has here. It has one already, chosen by the kernel, when an interface
    /// here has its other end there: then this is refused (EEXIST).
    pub fn number_namespace(&self, namespace: BorrowedFd<'_>, number: u32) -> Result<()> {
        let fd = namespace.as_raw_fd().cast_unsigned();
        let message = message(vec![NsidAttribute::Fd(fd), id(number)?]);
        self.change(RouteNetlinkMessage::NewNsId(message), 0, || {
            format!("cannot give a network namespace the number {number}")
        })
    }

    /// Whether the namespace of this number is there.
    pub fn has_namespace(&self, number: u32) -> Result<bool> {
        let message = message(vec![id(number)?]);
        let what = || format!("cannot look for the network namespace of number {number}");
        match self.get(RouteNetlinkMessage::GetNsId(message), what) {
            Ok(_) => Ok(true),
            Err(e) if e.is(libc::ENOENT) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

fn message(attributes: Vec<NsidAttribute>) -> NsidMessage {
    let mut message = NsidMessage::default();
    message.attributes = attributes;
    message
}

fn id(number: u32) -> Result<NsidAttribute> {
    let number = i32::try_from(number);
    let number = number.map_err(|_| Error::new("numbers of network namespaces have 31 bits"))?;
    Ok(NsidAttribute::Id(number))
}
