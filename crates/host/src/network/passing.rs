//! Frames that pass to the host: for a program that is about to take them, and cannot yet.
//!
//! A program that follows another at an interface has a queue of it only when that one has given it up, and the kernel takes some 30 ms
//! for that. What comes meanwhile passes to the host, which drops what is for none of its addresses. Packet sockets hear it on the
//! way. Since packet sockets come after XDP, they hear what no XDP program has taken, and nothing else: no frame twice.
//!
//! SYNs have a socket, and room, of their own: a segment that is lost is sent again after some round-trip times, a SYN after a second.

mod classic;

use super::sockets::{bind_packets, open_packets, set_option};
use crate::error::{Context as _, Result};
use classic::{Step, Which};
use rustix::net::{RecvFlags, recv};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

/// Bytes of frames that wait to be read, of each socket: 2,000 of Ethernet's longest or 10,000 of its shortest, with what the kernel
/// adds to each.
const WAITING_LEN: libc::c_int = 8 << 20;

/// Frames that come by an interface for our addresses and pass, from when this was made.
#[derive(Debug)]
pub struct Passing {
    /// SYNs, then all else.
    sockets: [OwnedFd; 2],
    too_long: u64,
}

impl Passing {
    /// Listens on the interface of this index for what is for these networks, in the network namespace of the calling thread. Takes
    /// CAP_NET_RAW.
    ///
    /// # Errors
    ///
    /// This process may not.
    pub fn listen(interface: u32, ours: &[(IpAddr, u8)]) -> Result<Self> {
        let open = |which| open(interface, &classic::program(ours, which));
        let what = || "cannot listen to what passes to the host";
        Ok(Self {
            sockets: [
                open(Which::Syns).context(what)?,
                open(Which::Others).context(what)?,
            ],
            too_long: 0,
        })
    }

    /// Hears nothing more; what was heard is still there. Takes no time, as it would to leave the interface.
    ///
    /// # Errors
    ///
    /// The kernel has no memory left.
    pub fn stop(&mut self) -> Result<()> {
        let stop = |socket| attach(socket, &classic::nothing());
        let stopped = self.sockets.iter().try_for_each(stop);
        stopped.context(|| "cannot stop to listen to what passes to the host")
    }

    /// The next frame, whole; `None` when there is none now. One that is longer than `frame` is left out.
    pub fn next<'a>(&mut self, frame: &'a mut [u8]) -> Option<&'a mut [u8]> {
        for socket in &self.sockets {
            while let Ok((_, len)) = recv(socket, &mut *frame, RecvFlags::TRUNC) {
                if len <= frame.len() {
                    return Some(&mut frame[..len]);
                }
                self.too_long += 1;
            }
        }
        None
    }

    /// Frames that were left out, or for which there was no room, since this was asked last.
    pub fn take_lost(&mut self) -> u64 {
        let no_room: u64 = self.sockets.iter().map(no_room).sum();
        std::mem::take(&mut self.too_long) + no_room
    }
}

fn open(interface: u32, program: &[Step]) -> io::Result<OwnedFd> {
    // No protocol yet: nothing comes before the filter is there.
    let socket = open_packets()?;
    attach(&socket, program)?;
    // Without CAP_NET_ADMIN there is less room, not less function.
    let room = libc::SO_RCVBUFFORCE;
    let _ = set_option(&socket, libc::SOL_SOCKET, room, &WAITING_LEN);
    bind_packets(&socket, interface, libc::ETH_P_ALL)?;
    Ok(socket)
}

/// Puts a filter in force.
fn attach(socket: &impl AsFd, program: &[Step]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Frames that a socket had no room for since it was asked last; 0 where the kernel does not say.
fn no_room(socket: &OwnedFd) -> u64 {
    // struct tpacket_stats (linux/if_packet.h): packets, and those of them that were dropped.
    let mut counts = [0u32; 2];
    let mut len = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the counts live through the call and are of the length given.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            counts.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result == 0 { counts[1].into() } else { 0 }
}
