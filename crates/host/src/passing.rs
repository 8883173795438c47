//! Frames that pass to the host: for a program that is about to take them, and cannot yet.
//!
//! Who follows another program at an interface has a queue of it only when that one has given it up, and the kernel takes some 30 ms
//! for that. What comes meanwhile passes to the host, which drops what is for none of its addresses. A packet socket hears it on the
//! way. Since packet sockets come after XDP, it hears what no XDP program has taken, and nothing else: no frame twice.

use crate::error::{Context as _, Result};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Bytes of frames that wait to be read: 2,000 of Ethernet's longest, with what the kernel adds to each.
const WAITING_LEN: libc::c_int = 8 << 20;

/// Frames that come by an interface and pass, from when this was made.
#[derive(Debug)]
pub struct Passing {
    socket: OwnedFd,
}

impl Passing {
    /// Listens on the interface of this index, in the network namespace of the calling thread. Takes CAP_NET_RAW.
    pub fn listen(interface: u32) -> Result<Self> {
        let open = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            // No protocol yet: nothing comes before the filter is there.
            let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
            set_filter(&socket)?;
            // Without CAP_NET_ADMIN there is less room, not less function.
            let _ = set(
                &socket,
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                &WAITING_LEN,
            );
            bind(&socket, interface)?;
            Ok::<_, io::Error>(socket)
        };
        let socket = open().context(|| "cannot listen to what passes to the host")?;
        Ok(Self { socket })
    }

    /// The next frame, whole, and how long it is; `None` when there is none now. One that is longer than `frame` is left out.
    pub fn next<'a>(&self, frame: &'a mut [u8]) -> Option<&'a mut [u8]> {
        loop {
            let (_, len) = recv(&self.socket, &mut *frame, RecvFlags::TRUNC).ok()?;
            if len <= frame.len() {
                return Some(&mut frame[..len]);
            }
        }
    }
}

/// Lets in what the interface has received, but what is of a VLAN, of which the tag is not in the frame any more.
fn set_filter(socket: &OwnedFd) -> io::Result<()> {
    const OF_VLAN: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32;
    const KIND: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD, 0, 0, OF_VLAN),
        step(EQUAL, 0, 3, 0),
        step(LOAD, 0, 0, KIND),
        step(EQUAL, 1, 0, libc::PACKET_OUTGOING.into()),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn bind(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address lives through the call and is of the length given.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    done(result)
}

fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value, and what it points to, live through the call, and it is of the length given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            len,
        )
    };
    done(result)
}

fn done(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
