//! Multicast that an interface is to let in for a program, beside what it lets in for the host.
//!
//! A card drops what goes to groups that nobody on this host has joined, before any XDP program sees it. So a program with
//! IPv6 addresses of its own is found by nobody until somebody joins their solicited-node groups. [`Memberships`] does so
//! twice: at the card's filter, by a packet socket that receives nothing, which works whatever the host does with IPv6; and
//! at the host's IPv6 stack, where there is one, which tells switches that listen to such reports (MLD, RFC 4541).

use crate::error::{Context as _, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Groups of an interface, joined for as long as this lives; the kernel leaves them however the process ends.
#[derive(Debug)]
pub struct Memberships {
    interface: u32,
    filter: OwnedFd,
    /// Without IPv6 in the kernel nobody reports.
    reports: Option<OwnedFd>,
}

impl Memberships {
    /// None yet, on the interface of this index, in the network namespace of the calling thread. Takes CAP_NET_RAW.
    pub fn new(interface: u32) -> Result<Self> {
        let open = |family, kind| socket_with(family, kind, SocketFlags::CLOEXEC, None);
        let filter = open(AddressFamily::PACKET, SocketType::RAW)
            .context(|| "cannot open a packet socket to join multicast groups")?;
        Ok(Self {
            interface,
            filter,
            reports: open(AddressFamily::INET6, SocketType::DGRAM).ok(),
        })
    }

    /// Joins an IPv6 group.
    pub fn join(&self, group: Ipv6Addr) -> Result<()> {
        let [.., a, b, c, d] = group.octets();
        // RFC 2464 §7.
        let mac = [0x33, 0x33, a, b, c, d];
        self.add(libc::PACKET_MR_MULTICAST, mac)
            .context(|| format!("cannot join the multicast group {group}"))?;
        if let Some(socket) = &self.reports {
            // Where the interface has no IPv6 the host speaks for nobody, and the card's filter is open all the same.
            let _ = sockopt::set_ipv6_add_membership(socket, &group, self.interface);
        }
        Ok(())
    }

    /// Has the interface let in all groups, for groups that are too many to be named.
    pub fn join_all(&self) -> Result<()> {
        self.add(libc::PACKET_MR_ALLMULTI, [0; 6])
            .context(|| "cannot have the interface let in all multicast groups")
    }

    fn add(&self, kind: libc::c_int, mac: [u8; 6]) -> io::Result<()> {
        let mut request = libc::packet_mreq {
            mr_ifindex: self.interface as i32,
            mr_type: kind as u16,
            mr_alen: mac.len() as u16,
            mr_address: [0; 8],
        };
        request.mr_address[..mac.len()].copy_from_slice(&mac);
        // SAFETY: the request lives through the call and is of the length given.
        let result = unsafe {
            libc::setsockopt(
                self.filter.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const request).cast(),
                size_of_val(&request) as libc::socklen_t,
            )
        };
        if result == 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error())
    }
}
