//! A wire in memory: two ends in one thread, joined by bounded queues.
//!
//! For tests and for the simulator: what one end sends, the other receives, in
//! order, at once, whole. Nothing is lost but what the receiver's queue has no
//! room for, and that is refused at the sender ([`MemoryLink::room`]), not
//! dropped. Frames become visible to the other end by `flush`, as on the links
//! to the outside, so that a forgotten flush shows in tests.
//!
//! Offloads are passed on as they are: a frame sent with a partial checksum is
//! received as partial, one sent for segmentation is received uncut. So a stack
//! can be tested with every combination.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use exos_wire::Mac;

use crate::limits::{FRAME_OVERHEAD_LEN, GSO_FRAME_LEN_MAX, MEMORY_LINK_FRAMES, RX_BATCH};
use crate::meta::{Offload, Relay, RxChecksum, RxMeta, TxChecksum, TxMeta};

/// One direction.
#[derive(Debug, Default)]
struct Wire {
    frames: VecDeque<(Vec<u8>, RxMeta)>,
    /// Frames taken, kept to be filled again: a steady exchange allocates nothing.
    spare: Vec<Vec<u8>>,
}

/// What both ends of a memory link have in common.
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    /// Largest IP packet in bytes.
    pub mtu: usize,
    /// Frames under way in one direction at most.
    pub capacity: usize,
    /// What both ends offer.
    pub offload: Offload,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            capacity: MEMORY_LINK_FRAMES,
            offload: Offload::default(),
        }
    }
}

/// One end of a wire in memory.
#[derive(Debug)]
pub struct MemoryLink {
    mac: Mac,
    config: MemoryConfig,
    incoming: Rc<RefCell<Wire>>,
    outgoing: Rc<RefCell<Wire>>,
    unflushed: Vec<(Vec<u8>, RxMeta)>,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    rx_frames: u64,
    rx_bytes: u64,
    tx_frames: u64,
    tx_bytes: u64,
    tx_no_room: u64,
}

impl MemoryLink {
    /// Makes a wire and returns its ends, which have the addresses given.
    pub fn pair(macs: [Mac; 2], config: MemoryConfig) -> [MemoryLink; 2] {
        let wires = [Rc::<RefCell<Wire>>::default(), Rc::default()];
        let end = |mac, incoming: &Rc<_>, outgoing: &Rc<_>| MemoryLink {
            mac,
            config,
            incoming: Rc::clone(incoming),
            outgoing: Rc::clone(outgoing),
            unflushed: Vec::new(),
            counters: Counters::default(),
        };
        [
            end(macs[0], &wires[0], &wires[1]),
            end(macs[1], &wires[1], &wires[0]),
        ]
    }

    /// The address of this end.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// Largest IP packet in bytes.
    pub fn mtu(&self) -> usize {
        self.config.mtu
    }

    /// What this end offers.
    pub fn offload(&self) -> Offload {
        self.config.offload
    }

    /// Calls `take` for each frame that has arrived, up to a batch.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8], RxMeta)) -> usize {
        self.relay(|frame, meta| {
            take(frame, meta);
            Relay::Done
        })
    }

    /// Shows up to `count` frames that have arrived and stay.
    pub fn look(&self, count: u32, each: &mut impl FnMut(&[u8])) {
        let incoming = self.incoming.borrow();
        let shown = incoming.frames.iter().take(count as usize);
        shown.for_each(|(frame, _)| each(frame));
    }

    /// Calls `take` for each frame that has arrived, up to a batch, which may change it and have it sent on.
    pub fn relay(&mut self, mut take: impl FnMut(&mut [u8], RxMeta) -> Relay) -> usize {
        let mut count = 0;
        while count < RX_BATCH as usize {
            let Some((mut frame, meta)) = self.incoming.borrow_mut().frames.pop_front() else {
                break;
            };
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += frame.len() as u64;
            if take(&mut frame, meta) == Relay::Onward {
                self.transmit(&frame, &[], relayed(meta));
            }
            self.incoming.borrow_mut().spare.push(frame);
            count += 1;
        }
        count
    }

    /// How many frames may be queued now.
    pub fn room(&self) -> usize {
        let under_way = self.outgoing.borrow().frames.len() + self.unflushed.len();
        self.config.capacity.saturating_sub(under_way)
    }

    /// Queues one frame; false when there is no room.
    ///
    /// # Panics
    ///
    /// If the frame is longer than the link takes or asks for an offload that
    /// it does not have.
    pub fn transmit(&mut self, head: &[u8], body: &[&[u8]], meta: TxMeta) -> bool {
        if self.room() == 0 {
            self.counters.tx_no_room += 1;
            return false;
        }
        let mut frame = self.outgoing.borrow_mut().spare.pop().unwrap_or_default();
        frame.clear();
        frame.extend_from_slice(head);
        body.iter().for_each(|part| frame.extend_from_slice(part));
        self.check(frame.len(), meta);
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += frame.len() as u64;
        self.unflushed.push((frame, seen_by_receiver(meta)));
        true
    }

    /// Shows the other end what was queued.
    pub fn flush(&mut self) {
        self.outgoing
            .borrow_mut()
            .frames
            .extend(self.unflushed.drain(..));
    }

    /// False when a frame is there already.
    pub fn prepare_wait(&self) -> bool {
        self.incoming.borrow().frames.is_empty()
    }

    /// Events by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        vec![
            ("rx_frames", c.rx_frames),
            ("rx_bytes", c.rx_bytes),
            ("tx_frames", c.tx_frames),
            ("tx_bytes", c.tx_bytes),
            ("tx_no_room", c.tx_no_room),
        ]
    }

    fn check(&self, len: usize, meta: TxMeta) {
        let offload = self.config.offload;
        assert!(
            offload.tx_checksum || meta.checksum == TxChecksum::Complete,
            "a partial checksum on a link without checksum offload"
        );
        let len_max = match meta.segment_size {
            None => self.config.mtu + FRAME_OVERHEAD_LEN,
            Some(_) => offload
                .tx_segmentation
                .expect("a frame to be cut on a link without segmentation offload")
                .min(GSO_FRAME_LEN_MAX),
        };
        assert!(
            len <= len_max,
            "a frame of {len} bytes on a link that takes {len_max}"
        );
    }
}

/// What is undone of a frame that came so is undone when it leaves. On this wire nobody looks where.
fn relayed(meta: RxMeta) -> TxMeta {
    TxMeta {
        checksum: match meta.checksum {
            RxChecksum::Partial => TxChecksum::Partial {
                start: 0,
                offset: 0,
            },
            _ => TxChecksum::Complete,
        },
        segment_size: meta.gso_size,
        datagrams: meta.datagrams,
        ..TxMeta::default()
    }
}

/// What was left undone by the sender is undone at the receiver.
fn seen_by_receiver(meta: TxMeta) -> RxMeta {
    let checksum = match meta.checksum {
        TxChecksum::Complete => RxChecksum::Unknown,
        TxChecksum::Partial { .. } => RxChecksum::Partial,
    };
    RxMeta {
        checksum,
        gso_size: meta.segment_size,
        datagrams: meta.datagrams,
        arrived_ns: None,
    }
}
