//! The system calls on packet sockets: many frames at a time, each behind a virtio-net header.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use exos_host::sockets::{bind_packets, open_packets, set_option};

use crate::limits::{GSO_FRAME_LEN_MAX, PACKET_RECEIVE_BUFFER_LEN, RX_BATCH_MIN};
use crate::vnet;
use crate::xdp::calls::get_option;

/// Frames of one system call.
pub(super) const BATCH: usize = RX_BATCH_MIN as usize;

/// What is marked is one of these: the protocols of which a socket sees packets behind traffic control. A socket of all
/// protocols sees them before.
pub(super) const PROTOCOLS: [i32; 3] = [libc::ETH_P_IP, libc::ETH_P_IPV6, libc::ETH_P_ARP];

/// A place for a frame and its header, on a line of the cache.
const STRIDE: usize = (vnet::LEN + GSO_FRAME_LEN_MAX).next_multiple_of(64);

/// Where the frames of a batch are.
#[derive(Debug)]
pub(super) struct Frames {
    /// Pages are taken when they are first written to: 2 MiB where all frames are long.
    bytes: Box<[u8]>,
    /// Of each, with its header; `None` where it did not fit.
    lens: Box<[Option<usize>]>,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; BATCH * STRIDE].into_boxed_slice(),
            lens: Box::new([None; BATCH]),
        }
    }

    /// Reads what is there; how many frames.
    pub(super) fn receive(&mut self, socket: &OwnedFd) -> io::Result<usize> {
        let mut pieces = [NO_PIECE; BATCH];
        for (piece, place) in pieces.iter_mut().zip(self.bytes.chunks_exact_mut(STRIDE)) {
            *piece = libc::iovec {
                iov_base: place.as_mut_ptr().cast(),
                iov_len: STRIDE,
            };
        }
        let mut messages = messages_over(&mut pieces);
        // SAFETY: the messages, their pieces and the places that those name live through the call; places do not overlap.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (len, message) in self.lens.iter_mut().zip(&messages[..count]) {
            let whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            *len = whole.then_some(message.msg_len as usize);
        }
        Ok(count)
    }

    /// A frame of the batch and its header; `None` where it did not fit.
    pub(super) fn get_mut(&mut self, n: usize) -> Option<(&mut [u8; vnet::LEN], &mut [u8])> {
        let len = self.lens[n]?;
        self.bytes[n * STRIDE..][..len].split_first_chunk_mut()
    }

    /// The length of a frame of the batch, and whether it stands for several.
    pub(super) fn sent(&self, n: usize) -> (usize, bool) {
        let len = self.lens[n].unwrap_or(vnet::LEN) - vnet::LEN;
        (len, vnet::is_cut(&self.bytes[n * STRIDE..]))
    }

    /// Sends these frames of the batch with their headers, as many as the kernel takes; one at least.
    ///
    /// # Errors
    ///
    /// The kernel refuses the first.
    pub(super) fn send(&self, socket: &OwnedFd, which: &[usize]) -> io::Result<usize> {
        let mut pieces = [NO_PIECE; BATCH];
        for (piece, &n) in pieces.iter_mut().zip(which) {
            *piece = libc::iovec {
                iov_base: self.bytes[n * STRIDE..].as_ptr().cast_mut().cast(),
                iov_len: self.lens[n].unwrap_or(0),
            };
        }
        let mut messages = messages_over(&mut pieces);
        // SAFETY: the messages, their pieces and the places that those name live through the call, which reads the places.
        let count = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                which.len().min(BATCH) as u32,
                libc::MSG_DONTWAIT as _,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

const NO_PIECE: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// A message of each piece; to be used while the pieces are where they are.
fn messages_over(pieces: &mut [libc::iovec; BATCH]) -> [libc::mmsghdr; BATCH] {
    // SAFETY: all-zero is a valid mmsghdr.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for (message, piece) in messages.iter_mut().zip(pieces) {
        message.msg_hdr.msg_iov = std::ptr::from_mut(piece);
        message.msg_hdr.msg_iovlen = 1;
    }
    messages
}

/// A socket that receives what has this mark of the packets of a protocol, in the namespace of the calling thread.
pub(super) fn open(interface: u32, protocol: i32, mark: u32) -> io::Result<OwnedFd> {
    let socket = open_packets()?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
    let room = PACKET_RECEIVE_BUFFER_LEN;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &room)?;
    take_marked(&socket, mark)?;
    bind_packets(&socket, interface, protocol)?;
    Ok(socket)
}

/// A filter (linux/filter.h): the packet's mark is this, or it is left out.
fn take_marked(socket: &OwnedFd, mark: u32) -> io::Result<()> {
    let step = |code: u32, jf, k| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let mut steps = [
        step(
            libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
            0,
            (libc::SKF_AD_OFF + libc::SKF_AD_MARK) as u32,
        ),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, mark),
        step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Packets that a socket had no room for since this was asked last; 0 where the kernel does not say.
pub(super) fn dropped(socket: &OwnedFd) -> u64 {
    // struct tpacket_stats: packets, and those of them that were dropped.
    get_option::<[u32; 2]>(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)
        .map_or(0, |[_, dropped]| dropped.into())
}
