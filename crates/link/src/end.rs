//! What packet sockets and a TAP device have in common: our end of one interface, each frame of which is read and written
//! behind a virtio-net header (see `vnet.rs`), and an account of what came and went.

use std::io::{self, IoSlice};

use exos_wire::Mac;

use crate::limits::{FRAME_OVERHEAD_LEN, GSO_FRAME_LEN_MAX, SUPER_PACKET_PIECES_MAX, TX_RING_SIZE};
use crate::meta::{Offload, RxMeta};
use crate::vnet;

/// Our end of an interface.
#[derive(Debug)]
pub struct End {
    pub(crate) name: String,
    pub(crate) interface: u32,
    pub(crate) mac: Mac,
    pub(crate) mtu: usize,
    /// The kernel took no more; cleared by a flush.
    pub(crate) full: bool,
    /// The kernel knows of no frames of several datagrams (before Linux 6.2).
    refuses_datagrams: bool,
    pub(crate) account: Account,
    joined: Vec<u8>,
}

/// What came and went, and what did not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    rx_frames: u64,
    rx_bytes: u64,
    rx_gso_frames: u64,
    pub(crate) rx_unknown_gso: u64,
    pub(crate) rx_errors: u64,
    tx_frames: u64,
    tx_bytes: u64,
    tx_gso_frames: u64,
    pub(crate) tx_no_room: u64,
    pub(crate) tx_refused: u64,
}

impl End {
    pub(crate) fn new(name: String, interface: u32, mac: Mac, mtu: usize) -> Self {
        Self {
            name,
            interface,
            mac,
            mtu,
            full: false,
            refuses_datagrams: false,
            account: Account::default(),
            joined: Vec::new(),
        }
    }

    /// The interface, as the kernel calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// Our address: the interface's by packet sockets; a TAP device's interface, the host's end, has another.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// Largest IP packet in bytes, but for those that stand for several.
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

    /// Whether frames of several datagrams may be sent, to be cut.
    pub fn cuts_datagrams(&self) -> bool {
        !self.refuses_datagrams
    }

    /// How many frames may be sent now. The kernel does not say; it is taken at its word when it refuses.
    pub(crate) fn room(&self) -> usize {
        if self.full { 0 } else { TX_RING_SIZE as usize }
    }

    /// Writes one frame behind its header as one message, and enters it into the account.
    ///
    /// # Panics
    ///
    /// If the frame is longer than the interface takes.
    pub(crate) fn write(
        &mut self,
        header: &[u8; vnet::LEN],
        head: &[u8],
        body: &[&[u8]],
        write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<()>,
    ) -> io::Result<()> {
        let is_cut = vnet::is_cut(header);
        let len = head.len() + body.iter().map(|part| part.len()).sum::<usize>();
        let len_max = match is_cut {
            true => GSO_FRAME_LEN_MAX,
            false => self.mtu + FRAME_OVERHEAD_LEN,
        };
        assert!(
            len <= len_max,
            "a frame of {len} bytes on a link that takes {len_max}"
        );
        let mut pieces = [IoSlice::new(&[]); SUPER_PACKET_PIECES_MAX];
        pieces[0] = IoSlice::new(header);
        pieces[1] = IoSlice::new(head);
        let count = if body.len() + 2 <= SUPER_PACKET_PIECES_MAX {
            for (piece, part) in pieces[2..].iter_mut().zip(body) {
                *piece = IoSlice::new(part);
            }
            2 + body.len()
        } else {
            self.joined.clear();
            body.iter()
                .for_each(|part| self.joined.extend_from_slice(part));
            pieces[2] = IoSlice::new(&self.joined);
            3
        };
        write(&pieces[..count]).inspect_err(|error| {
            self.refuses_datagrams |= vnet::is_refusal(header, error);
        })?;
        self.account.sent(len, is_cut);
        Ok(())
    }
}

impl Account {
    pub(crate) fn received(&mut self, frame: &[u8], meta: &RxMeta) {
        self.rx_frames += 1;
        self.rx_bytes += frame.len() as u64;
        self.rx_gso_frames += u64::from(meta.gso_size.is_some());
    }

    /// A frame left that stands for several where it `is_cut`.
    pub(crate) fn sent(&mut self, len: usize, is_cut: bool) {
        self.tx_frames += 1;
        self.tx_bytes += len as u64;
        self.tx_gso_frames += u64::from(is_cut);
    }

    /// Events by name, with others of the link.
    pub(crate) fn with(&self, others: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
        let mut all = vec![
            ("rx_frames", self.rx_frames),
            ("rx_bytes", self.rx_bytes),
            ("rx_gso_frames", self.rx_gso_frames),
            ("rx_unknown_gso", self.rx_unknown_gso),
            ("rx_errors", self.rx_errors),
            ("tx_frames", self.tx_frames),
            ("tx_bytes", self.tx_bytes),
            ("tx_gso_frames", self.tx_gso_frames),
            ("tx_no_room", self.tx_no_room),
            ("tx_refused", self.tx_refused),
        ];
        all.extend_from_slice(others);
        all
    }
}
