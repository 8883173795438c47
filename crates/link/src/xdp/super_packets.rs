//! Super-packets beside the ring: what is to be cut into segments goes through a packet socket with a
//! virtio-net header, and the kernel or the device cuts it.
//!
//! In copy mode each packet of the ring costs the kernel a buffer, a copy, and a round of soft
//! interrupts of its own, several times what the stack above spends on it. A packet socket takes up
//! to 64 KiB of TCP data at once (linux/if_packet.h, `PACKET_VNET_HDR`); the device cuts it where it
//! can, else the kernel right before the driver. On a veth whose other end takes segments uncut it
//! is never cut at all.
//!
//! Rules of the interface: a frame is handed to the kernel whole within `transmit`. It goes the way of
//! the host's own packets, queueing discipline included: past that (`PACKET_QDISC_BYPASS`) the kernel
//! does not cut what the device cannot, it drops it.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use exos_host::sockets::{bind_packets, open_packets, set_option};

use crate::Error;
use crate::limits::{GSO_FRAME_LEN_MAX, SUPER_PACKET_BUFFER_LEN, SUPER_PACKET_PIECES_MAX};
use crate::mapping::Mapping;
use crate::meta::TxMeta;
use crate::vnet;

/// A packet socket that sends and never receives.
#[derive(Debug)]
pub(super) struct SuperPackets {
    socket: OwnedFd,
    frames: u64,
    /// What these are cut into: segments, and bytes of segments with a header each.
    segments: u64,
    bytes: u64,
    no_room: u64,
    refused: u64,
    /// The kernel knows of no frames of several datagrams (before Linux 6.2).
    refuses_datagrams: bool,
}

impl SuperPackets {
    /// Opens a socket on the interface of this index, in the namespace of the calling thread.
    pub(super) fn open(interface: u32) -> Result<Self, Error> {
        open_socket(interface).map(Self::over).map_err(explain)
    }

    /// Sends through a socket that was opened by somebody else ([`open_locked`]).
    pub(super) fn over(socket: OwnedFd) -> Self {
        Self {
            socket,
            frames: 0,
            segments: 0,
            bytes: 0,
            no_room: 0,
            refused: 0,
            refuses_datagrams: false,
        }
    }

    /// Whether frames of several datagrams may be sent.
    pub(super) fn cuts_datagrams(&self) -> bool {
        !self.refuses_datagrams
    }

    /// Sends one frame; false when the kernel has no room for it now, or refuses it. Either is counted.
    pub(super) fn transmit(&mut self, head: &[u8], body: &[&[u8]], meta: TxMeta) -> bool {
        let header = vnet::encode(meta);
        let len = head.len() + body.iter().map(|part| part.len()).sum::<usize>();
        assert!(
            len <= GSO_FRAME_LEN_MAX && body.len() + 2 <= SUPER_PACKET_PIECES_MAX,
            "a frame of {len} bytes in {} pieces",
            body.len()
        );
        let mut pieces = [IoSlice::new(&[]); SUPER_PACKET_PIECES_MAX];
        pieces[0] = IoSlice::new(&header);
        pieces[1] = IoSlice::new(head);
        for (piece, part) in pieces[2..].iter_mut().zip(body) {
            *piece = IoSlice::new(part);
        }
        match send(&self.socket, &pieces[..2 + body.len()]) {
            Ok(()) => {
                let segments = segments_of(len, meta);
                self.frames += 1;
                self.segments += segments;
                self.bytes += len as u64 + (segments - 1) * u64::from(meta.header_len);
                true
            }
            Err(error) => {
                self.refuses_datagrams |= vnet::is_refusal(&header, &error);
                match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => self.no_room += 1,
                    // An interface that is down or gone shows at the next flush of the ring.
                    _ => self.refused += 1,
                }
                false
            }
        }
    }

    /// Events by name.
    pub(super) fn counters(&self) -> [(&'static str, u64); 5] {
        [
            ("tx_super_packets", self.frames),
            ("tx_super_packet_segments", self.segments),
            ("tx_super_packet_segment_bytes", self.bytes),
            ("tx_super_packet_no_room", self.no_room),
            ("tx_super_packet_refused", self.refused),
        ]
    }
}

/// What a frame of this length is cut into.
fn segments_of(len: usize, meta: TxMeta) -> u64 {
    let data = len.saturating_sub(usize::from(meta.header_len));
    let segments = meta
        .segment_size
        .map_or(1, |size| data.div_ceil(usize::from(size).max(1)));
    segments.max(1) as u64
}

/// The one page of a packet socket's ring, mapped. Meanwhile the kernel refuses anyone who has the
/// socket any other ring (EBUSY; `packet_set_ring` in net/packet/af_packet.c), which could take
/// gigabytes of the kernel's memory.
#[derive(Debug)]
pub struct RingLock {
    _page: Mapping,
}

/// A packet socket to be passed to somebody else, and what keeps its rings as they are.
pub(super) fn open_locked(interface: u32) -> Result<(OwnedFd, RingLock), Error> {
    let socket = open_socket(interface).map_err(explain)?;
    let lock = lock_rings(&socket).map_err(explain)?;
    Ok((socket, lock))
}

fn lock_rings(socket: &OwnedFd) -> io::Result<RingLock> {
    // SAFETY: a call without pointers; there always is an answer.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let ring = libc::tpacket_req {
        tp_block_size: page as u32,
        tp_block_nr: 1,
        tp_frame_size: page as u32,
        tp_frame_nr: 1,
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &ring)?;
    Ok(RingLock {
        _page: Mapping::shared(socket.as_fd(), page, 0)?,
    })
}

pub(crate) fn explain(source: io::Error) -> Error {
    Error::io(
        "a packet socket for large segments cannot be opened",
        source,
    )
    .mend("it needs CAP_NET_RAW; or do without large segments")
}

/// A packet socket that sends, and receives nothing.
pub(crate) fn open_socket(interface: u32) -> io::Result<OwnedFd> {
    let socket = open_packets()?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
    let room = SUPER_PACKET_BUFFER_LEN;
    // Without CAP_NET_ADMIN the system's limit bounds it: less room, not less function.
    if set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &room).is_err() {
        set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &room)?;
    }
    bind_packets(&socket, interface, 0)?;
    Ok(socket)
}

/// Sends what these pieces are together: a header, and the frame.
pub(crate) fn send(socket: &OwnedFd, pieces: &[IoSlice<'_>]) -> io::Result<()> {
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // IoSlice has the layout of iovec (its documentation promises so); the kernel only reads.
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len() as _;
    // SAFETY: the message and what it points at live through the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
