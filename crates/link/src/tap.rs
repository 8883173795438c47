//! A TAP device as a link: for where XDP is not to be had.
//!
//! The kernel makes an interface whose wire ends in our descriptor: what the
//! host sends to the interface we read, what we write the host receives. So our
//! end has an address of its own, [`TapLink::mac`], other than the interface's.
//!
//! Every frame costs a system call, but may be large: the virtio-net header
//! (see `vnet.rs`) lets the host leave TCP segments of up to 64 KiB uncut
//! and checksums unfinished, and lets us do the same.
//!
//! Rules of the interface: frames are written by `transmit` at once, so that
//! nothing is copied in between; `flush` only tells of an interface that has
//! gone. A device made here goes with the link; one that existed and is
//! persistent stays.

mod device;

use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use exos_host::netlink::Netlink;
use exos_wire::Mac;

use crate::Error;
use crate::limits::{GSO_FRAME_LEN_MAX, RX_BATCH, TAP_MTU_MAX, TX_RING_SIZE};
use crate::meta::{Offload, Relay, RxMeta, TxMeta};
use crate::vnet;

/// Pieces of a frame that are written without being joined first: the two
/// headers and a body of up to this many slices less two.
const PIECES_MAX: usize = 34;

/// Which TAP device to open, and as which user.
#[derive(Clone, Debug)]
pub struct TapConfig {
    /// The interface. It is made when it does not exist.
    pub name: String,
    /// The address of our end; by default a local one derived from the name, so
    /// that the host's neighbour table stays right over a restart.
    pub mac: Option<Mac>,
    /// Largest IP packet in bytes, to be set on the interface; by default what
    /// it has.
    pub mtu: Option<usize>,
}

impl TapConfig {
    /// The interface `name`, all else by default.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            mac: None,
            mtu: None,
        }
    }
}

/// Our end of a TAP device.
#[derive(Debug)]
pub struct TapLink {
    file: File,
    name: String,
    interface: u32,
    mac: Mac,
    mtu: usize,
    buffer: Box<[u8]>,
    joined: Vec<u8>,
    /// The kernel took no more; cleared by `flush`.
    full: bool,
    gone: bool,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    rx_frames: u64,
    rx_bytes: u64,
    rx_gso_frames: u64,
    rx_short: u64,
    rx_unknown_gso: u64,
    rx_errors: u64,
    tx_frames: u64,
    tx_bytes: u64,
    tx_gso_frames: u64,
    tx_no_room: u64,
    tx_interface_down: u64,
    tx_refused: u64,
}

impl TapLink {
    /// Opens the device, makes it if need be, and sets it up.
    ///
    /// # Errors
    ///
    /// The driver is missing, the privilege is, or another program has it open.
    pub fn open(config: &TapConfig) -> Result<Self, Error> {
        let file = device::open_driver()?;
        let name = device::attach(&file, &config.name)?;
        device::set_offload(&file)
            .map_err(|source| Error::io(format!("the offloads of {name} cannot be set"), source))?;
        let netlink = Netlink::new()?;
        let link = netlink.link_by_name(&name)?;
        if let Some(mtu) = config.mtu {
            assert!(mtu <= TAP_MTU_MAX, "an MTU of {mtu} on a TAP device");
            netlink.set_mtu(link.index, mtu as u32)?;
        }
        if !link.up {
            netlink.set_up(link.index, true)?;
        }
        Ok(Self {
            file,
            mac: config.mac.unwrap_or_else(|| mac_from_name(&name)),
            mtu: config.mtu.unwrap_or(link.mtu as usize),
            interface: link.index,
            name,
            buffer: vec![0; vnet::LEN + GSO_FRAME_LEN_MAX].into_boxed_slice(),
            joined: Vec::new(),
            full: false,
            gone: false,
            counters: Counters::default(),
        })
    }

    /// The interface, as the kernel calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// The address of our end. The interface, the host's end, has another.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// Largest IP packet in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Checksums and segmentation, both ways.
    pub fn offload(&self) -> Offload {
        Offload {
            tx_checksum: true,
            tx_segmentation: Some(GSO_FRAME_LEN_MAX),
            rx_partial_checksum: true,
        }
    }

    /// Readable when a frame is there.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Calls `take` for each frame that is there, up to a batch.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8], RxMeta)) -> usize {
        self.relay(|frame, meta| {
            take(frame, meta);
            Relay::Done
        })
    }

    /// Calls `take` for each frame that is there, up to a batch, which may change it and have it sent on.
    pub fn relay(&mut self, mut take: impl FnMut(&mut [u8], RxMeta) -> Relay) -> usize {
        let mut count = 0;
        for _ in 0..RX_BATCH {
            let Some(frame) = self.read() else {
                break;
            };
            let Some((len, meta)) = frame else {
                continue;
            };
            count += 1;
            if take(&mut self.buffer[vnet::LEN..len], meta) == Relay::Onward {
                self.send_on(len);
            }
        }
        count
    }

    /// Sends what is in the buffer, up to `len`, with what it came with undone.
    fn send_on(&mut self, len: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let (header, frame) = buffer[..len]
            .split_first_chunk_mut()
            .expect("it was read with one");
        vnet::make_onward(header, frame);
        self.transmit_behind(header, frame, &[]);
        self.buffer = buffer;
    }

    /// Reads a frame into the buffer: `None` when there is none, else where it ends and what is said of
    /// it, unless it is none that we understand.
    fn read(&mut self) -> Option<Option<(usize, RxMeta)>> {
        let len = match self.file.read(&mut self.buffer) {
            Ok(len) => len,
            Err(error) => {
                self.note_read_error(&error);
                return None;
            }
        };
        let Some((header, frame)) = self.buffer[..len].split_first_chunk() else {
            self.counters.rx_short += 1;
            return Some(None);
        };
        let Some(meta) = vnet::decode(header) else {
            self.counters.rx_unknown_gso += 1;
            return Some(None);
        };
        self.counters.rx_frames += 1;
        self.counters.rx_bytes += frame.len() as u64;
        self.counters.rx_gso_frames += u64::from(meta.gso_size.is_some());
        Some(Some((len, meta)))
    }

    fn note_read_error(&mut self, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => {}
            Some(libc::EBADFD | libc::EIO) => self.gone = true,
            _ => self.counters.rx_errors += 1,
        }
    }

    /// How many frames may be sent now. The kernel does not say; it is taken at
    /// its word when it refuses.
    pub fn room(&self) -> usize {
        if self.full { 0 } else { TX_RING_SIZE as usize }
    }

    /// Sends one frame; false when the kernel takes no more for now. A frame
    /// that it refuses for other reasons is counted and gone.
    pub fn transmit(&mut self, head: &[u8], body: &[&[u8]], meta: TxMeta) -> bool {
        self.transmit_behind(&vnet::encode(meta), head, body)
    }

    fn transmit_behind(&mut self, header: &[u8; vnet::LEN], head: &[u8], body: &[&[u8]]) -> bool {
        let is_cut = vnet::is_cut(header);
        let len = head.len() + body.iter().map(|part| part.len()).sum::<usize>();
        let len_max = if is_cut {
            GSO_FRAME_LEN_MAX
        } else {
            self.frame_len_max()
        };
        assert!(
            len <= len_max,
            "a frame of {len} bytes on a link that takes {len_max}"
        );
        match self.write(header, head, body) {
            Ok(_) => {
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += len as u64;
                self.counters.tx_gso_frames += u64::from(is_cut);
                true
            }
            Err(error) => self.note_write_error(&error),
        }
    }

    fn frame_len_max(&self) -> usize {
        self.mtu + crate::limits::FRAME_OVERHEAD_LEN
    }

    fn write(&mut self, header: &[u8], head: &[u8], body: &[&[u8]]) -> io::Result<usize> {
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        pieces[0] = IoSlice::new(header);
        pieces[1] = IoSlice::new(head);
        if body.len() + 2 <= PIECES_MAX {
            for (piece, part) in pieces[2..].iter_mut().zip(body) {
                *piece = IoSlice::new(part);
            }
            return self.file.write_vectored(&pieces[..2 + body.len()]);
        }
        self.joined.clear();
        body.iter()
            .for_each(|part| self.joined.extend_from_slice(part));
        pieces[2] = IoSlice::new(&self.joined);
        self.file.write_vectored(&pieces[..3])
    }

    /// True when the frame is done with all the same.
    fn note_write_error(&mut self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                self.counters.tx_no_room += 1;
                self.full = true;
                return false;
            }
            Some(libc::EIO) => self.counters.tx_interface_down += 1,
            Some(libc::EBADFD) => self.gone = true,
            _ => self.counters.tx_refused += 1,
        }
        true
    }

    /// Tells of an interface that was deleted.
    ///
    /// # Errors
    ///
    /// ENODEV when it was.
    pub fn flush(&mut self) -> io::Result<()> {
        self.full = false;
        if self.gone {
            Err(io::Error::from_raw_os_error(libc::ENODEV))
        } else {
            Ok(())
        }
    }

    /// The kernel took no more when last asked: wait for writability too.
    pub fn wants_write(&self) -> bool {
        self.full
    }

    /// Events by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        vec![
            ("rx_frames", c.rx_frames),
            ("rx_bytes", c.rx_bytes),
            ("rx_gso_frames", c.rx_gso_frames),
            ("rx_short", c.rx_short),
            ("rx_unknown_gso", c.rx_unknown_gso),
            ("rx_errors", c.rx_errors),
            ("tx_frames", c.tx_frames),
            ("tx_bytes", c.tx_bytes),
            ("tx_gso_frames", c.tx_gso_frames),
            ("tx_no_room", c.tx_no_room),
            ("tx_interface_down", c.tx_interface_down),
            ("tx_refused", c.tx_refused),
        ]
    }
}

/// A locally administered unicast address (IEEE 802c) that follows from the
/// name (FNV-1a).
fn mac_from_name(name: &str) -> Mac {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let [a, b, c, d, e, ..] = hash.to_le_bytes();
    Mac([0x02, a, b, c, d, e])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_from_names_are_local_unicast_and_differ() {
        let (a, b) = (mac_from_name("tap0"), mac_from_name("tap1"));
        assert_ne!(a, b);
        assert_eq!(a, mac_from_name("tap0"));
        assert_eq!([a.0[0] & 3, b.0[0] & 3], [2, 2]);
    }
}
