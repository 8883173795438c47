//! What a program must know of the ring that it is given, to use it.

use exos_wire::Mac;

use crate::bytes::{DecodeError, Reader, Writer};

/// How a packet's checksums are to be treated on this link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// They are whole, both ways.
    Whole,
    /// Received ones may hold the pseudo header's sum only: the other end is a kernel on the same machine. Sent
    /// ones are whole.
    PartialIn,
}

/// The ring and the link behind it. Sizes in bytes, rings in entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The real interface's index, in the host's namespace: that of the tables.
    pub interface: u32,
    /// The index of the interface that the sockets are bound to, in its own namespace.
    pub bound_to: u32,
    /// The queue that the ring is bound to.
    pub queue: u32,
    /// True for a queue of the real interface, false for a virtual interface of the slot's own.
    pub direct: bool,
    /// The Ethernet address to send from.
    pub mac: Mac,
    /// The longest IP packet.
    pub mtu: u32,
    /// Size of one chunk of the memory.
    pub chunk_bytes: u32,
    /// How many chunks the memory has.
    pub chunks: u32,
    /// Bytes before a received frame in its chunk.
    pub headroom: u32,
    /// Receive ring.
    pub receive_entries: u32,
    /// Transmit ring.
    pub transmit_entries: u32,
    /// Fill ring.
    pub fill_entries: u32,
    /// Completion ring.
    pub completion_entries: u32,
    /// The longest frame that the packet socket takes as a super-packet; 0 without a packet socket.
    pub super_packet_bytes: u32,
    /// True when the kernel sends from the chunks without copying.
    pub zero_copy: bool,
    /// True when packets of several descriptors are received and sent.
    pub fragments: bool,
    /// What to do about checksums.
    pub checksums: Checksums,
}

impl Facts {
    pub(super) fn write(&self, w: &mut Writer) {
        for word in [self.interface, self.bound_to, self.queue] {
            w.u32(word);
        }
        w.bool(self.direct);
        w.raw(&self.mac.0);
        for word in [
            self.mtu,
            self.chunk_bytes,
            self.chunks,
            self.headroom,
            self.receive_entries,
            self.transmit_entries,
            self.fill_entries,
            self.completion_entries,
            self.super_packet_bytes,
        ] {
            w.u32(word);
        }
        w.bool(self.zero_copy);
        w.bool(self.fragments);
        w.bool(self.checksums == Checksums::PartialIn);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            interface: r.u32()?,
            bound_to: r.u32()?,
            queue: r.u32()?,
            direct: r.bool("direct")?,
            mac: Mac(r.array()?),
            mtu: r.u32()?,
            chunk_bytes: r.u32()?,
            chunks: r.u32()?,
            headroom: r.u32()?,
            receive_entries: r.u32()?,
            transmit_entries: r.u32()?,
            fill_entries: r.u32()?,
            completion_entries: r.u32()?,
            super_packet_bytes: r.u32()?,
            zero_copy: r.bool("zero copy")?,
            fragments: r.bool("fragments")?,
            checksums: if r.bool("checksums")? {
                Checksums::PartialIn
            } else {
                Checksums::Whole
            },
        })
    }
}
