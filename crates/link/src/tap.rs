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
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use exos_host::netlink::Netlink;
use exos_wire::Mac;

use crate::Error;
use crate::end::End;
use crate::limits::{GSO_FRAME_LEN_MAX, RX_BATCH, TAP_MTU_MAX};
use crate::meta::{Relay, RxMeta, TxMeta};
use crate::vnet;

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
    end: End,
    buffer: Box<[u8]>,
    /// The interface was deleted.
    gone: bool,
    rx_short: u64,
    tx_interface_down: u64,
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
        let mac = config.mac.unwrap_or_else(|| mac_from_name(&name));
        let mtu = config.mtu.unwrap_or(link.mtu as usize);
        Ok(Self {
            file,
            end: End::new(name, link.index, mac, mtu),
            buffer: vec![0; vnet::LEN + GSO_FRAME_LEN_MAX].into_boxed_slice(),
            gone: false,
            rx_short: 0,
            tx_interface_down: 0,
        })
    }

    /// The interface, and our end of it.
    pub fn end(&self) -> &End {
        &self.end
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
            self.rx_short += 1;
            return Some(None);
        };
        let Some(meta) = vnet::decode(header) else {
            self.end.account.rx_unknown_gso += 1;
            return Some(None);
        };
        self.end.account.received(frame, &meta);
        Some(Some((len, meta)))
    }

    fn note_read_error(&mut self, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => {}
            Some(libc::EBADFD | libc::EIO) => self.gone = true,
            _ => self.end.account.rx_errors += 1,
        }
    }

    /// How many frames may be sent now: all or none.
    pub fn room(&self) -> usize {
        self.end.room()
    }

    /// Sends one frame; false when the kernel takes no more for now. A frame
    /// that it refuses for other reasons is counted and gone.
    pub fn transmit(&mut self, head: &[u8], body: &[&[u8]], meta: TxMeta) -> bool {
        self.transmit_behind(&vnet::encode(meta), head, body)
    }

    fn transmit_behind(&mut self, header: &[u8; vnet::LEN], head: &[u8], body: &[&[u8]]) -> bool {
        let mut file = &self.file;
        let written = self.end.write(header, head, body, |pieces| {
            file.write_vectored(pieces).map(drop)
        });
        match written {
            Ok(()) => true,
            Err(error) => self.note_write_error(&error),
        }
    }

    /// True when the frame is done with all the same.
    fn note_write_error(&mut self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                self.end.account.tx_no_room += 1;
                self.end.full = true;
                return false;
            }
            Some(libc::EIO) => self.tx_interface_down += 1,
            Some(libc::EBADFD) => self.gone = true,
            _ => self.end.account.tx_refused += 1,
        }
        true
    }

    /// Tells of an interface that was deleted.
    ///
    /// # Errors
    ///
    /// ENODEV when it was.
    pub fn flush(&mut self) -> io::Result<()> {
        self.end.full = false;
        if self.gone {
            Err(io::Error::from_raw_os_error(libc::ENODEV))
        } else {
            Ok(())
        }
    }

    /// The kernel took no more when last asked: wait for writability too.
    pub fn wants_write(&self) -> bool {
        self.end.full
    }

    /// Events by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.end.account.with(&[
            ("rx_short", self.rx_short),
            ("tx_interface_down", self.tx_interface_down),
        ])
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
