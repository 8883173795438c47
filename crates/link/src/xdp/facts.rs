//! What a daemon tells a program of the link that it offers: plain numbers.
//!
//! They travel beside the descriptors of [`Offer`](super::Offer), as a structure of the daemon's
//! protocol or as these bytes. The program believes none of them before
//! [`XdpLink::adopt`](super::XdpLink::adopt) has held them against the descriptors and each other.
//!
//! Bytes, all integers little-endian:
//!
//! ```text
//!  0    6      8    12     16      20          24      28       32       36         40
//!  mac  flags  mtu  queue  queues  chunk_size  chunks  rx_ring  tx_ring  fill_ring  completion_ring
//!  44                48         52
//!  super_packet_len  interface  zeros, to 64
//! ```

use exos_wire::Mac;

use super::calls::RingSizes;
use super::umem::{chunk_size_for, single_chunk_mtu_max};
use crate::Error;
use crate::limits::{
    CHUNK_SIZES, FRAME_OVERHEAD_LEN, GSO_FRAME_LEN_MAX, MTU_MIN, OFFER_CHUNKS_MAX,
    OFFER_CHUNKS_MIN, QUEUES_MAX, TX_CHUNKS_MAX,
};

/// The numbers of an offered link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The source address of everything that is sent, and where what is received was sent to.
    pub mac: Mac,
    /// [`NATIVE`](Self::NATIVE), [`ZERO_COPY`](Self::ZERO_COPY), ...
    pub flags: u16,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// The queue of the interface.
    pub queue: u32,
    /// How many queues the interface has.
    pub queues: u32,
    /// Bytes of a chunk of the memory.
    pub chunk_size: u32,
    /// Chunks of the memory.
    pub chunks: u32,
    /// Entries of the receive ring.
    pub rx_ring: u32,
    /// Entries of the transmit ring.
    pub tx_ring: u32,
    /// Entries of the fill ring.
    pub fill_ring: u32,
    /// Entries of the completion ring.
    pub completion_ring: u32,
    /// Longest frame that the packet socket beside the ring takes; 0 where there is none.
    pub super_packet_len: u32,
    /// The interface that the program is to bind the socket to, by its index in the socket's namespace; 0 for a socket that
    /// is bound.
    pub interface: u32,
}

impl Facts {
    /// XDP runs in the driver.
    pub const NATIVE: u16 = 1;
    /// Packets are not copied between the driver and the memory.
    pub const ZERO_COPY: u16 = 2;
    /// Packets may span chunks.
    pub const MULTI_BUFFER: u16 = 4;
    /// Frames may come from a kernel of this machine, with partial checksums.
    pub const RX_PARTIAL_CHECKSUM: u16 = 8;

    /// Bytes of the form that travels.
    pub const LEN: usize = 64;

    /// True when all of these flags are set.
    pub const fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// The form that travels.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..6].copy_from_slice(&self.mac.0);
        bytes[6..8].copy_from_slice(&self.flags.to_le_bytes());
        for (place, word) in bytes[8..].chunks_exact_mut(4).zip(self.words()) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// What travelled. Any bytes are some facts; whether they make sense is for
    /// [`check`](Self::check) to say.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let word = |i: usize| {
            let at = 8 + 4 * i;
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
        };
        Self {
            mac: Mac(bytes[..6].try_into().expect("six bytes")),
            flags: u16::from_le_bytes([bytes[6], bytes[7]]),
            mtu: word(0),
            queue: word(1),
            queues: word(2),
            chunk_size: word(3),
            chunks: word(4),
            rx_ring: word(5),
            tx_ring: word(6),
            fill_ring: word(7),
            completion_ring: word(8),
            super_packet_len: word(9),
            interface: word(10),
        }
    }

    /// In the order of their bytes.
    fn words(&self) -> [u32; 11] {
        [
            self.mtu,
            self.queue,
            self.queues,
            self.chunk_size,
            self.chunks,
            self.rx_ring,
            self.tx_ring,
            self.fill_ring,
            self.completion_ring,
            self.super_packet_len,
            self.interface,
        ]
    }

    /// Bytes of the memory.
    pub fn memory_len(&self) -> u64 {
        u64::from(self.chunks) * u64::from(self.chunk_size)
    }

    pub(super) fn ring_sizes(&self) -> RingSizes {
        RingSizes {
            rx: self.rx_ring,
            tx: self.tx_ring,
            fill: self.fill_ring,
            completion: self.completion_ring,
        }
    }

    /// Whether a link can be run with these numbers.
    ///
    /// # Errors
    ///
    /// The first number that does not fit the others, by name.
    pub fn check(&self) -> Result<(), Error> {
        let sound = [
            ("chunks", check_chunks(self.chunks).is_ok()),
            ("chunk_size", CHUNK_SIZES.contains(&self.chunk_size)),
            ("mtu", self.mtu_fits()),
            (
                "rings",
                self.ring_sizes() == RingSizes::for_chunks(self.chunks),
            ),
            (
                "queue",
                self.queue < self.queues && self.queues <= QUEUES_MAX,
            ),
            (
                "super_packet_len",
                self.super_packet_len as usize <= GSO_FRAME_LEN_MAX,
            ),
        ];
        match sound.iter().find(|(_, sound)| !sound) {
            None => Ok(()),
            Some((name, _)) => Err(Error::new(format!(
                "the daemon offers a link that cannot be: its {name} does not fit ({self:?})"
            ))
            .mend("use a daemon and a program of the same version of exos")),
        }
    }

    fn mtu_fits(&self) -> bool {
        let mtu = self.mtu as usize;
        let pieces_max = TX_CHUNKS_MAX * self.chunk_size as usize;
        let whole = mtu <= single_chunk_mtu_max() && self.chunk_size >= chunk_size_for(mtu);
        let in_pieces = self.has(Self::MULTI_BUFFER) && mtu + FRAME_OVERHEAD_LEN <= pieces_max;
        mtu >= MTU_MIN && (whole || in_pieces)
    }
}

/// Whether an [`Offer`](super::Offer) can have this many chunks: a power of two within bounds, which the error names.
pub fn check_chunks(chunks: u32) -> Result<(), Error> {
    let allowed = OFFER_CHUNKS_MIN..=OFFER_CHUNKS_MAX;
    if chunks.is_power_of_two() && allowed.contains(&chunks) {
        return Ok(());
    }
    Err(
        Error::new(format!("a link cannot have {chunks} chunks")).mend(format!(
            "ask for a power of two from {OFFER_CHUNKS_MIN} to {OFFER_CHUNKS_MAX}"
        )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts() -> Facts {
        let sizes = RingSizes::for_chunks(1024);
        Facts {
            mac: Mac([2, 0, 0, 0, 0, 7]),
            flags: Facts::NATIVE | Facts::RX_PARTIAL_CHECKSUM,
            mtu: 1500,
            queue: 0,
            queues: 1,
            chunk_size: 2048,
            chunks: 1024,
            rx_ring: sizes.rx,
            tx_ring: sizes.tx,
            fill_ring: sizes.fill,
            completion_ring: sizes.completion,
            super_packet_len: GSO_FRAME_LEN_MAX as u32,
            interface: 3,
        }
    }

    #[test]
    fn sound_facts_are_sound_and_every_lie_is_named() {
        facts().check().unwrap();
        type Lie = fn(&mut Facts);
        let lies: [(&str, Lie); 14] = [
            ("chunks", |f| f.chunks = 1000),
            ("chunks", |f| f.chunks = 64),
            ("chunks", |f| f.chunks = 1 << 31),
            ("chunk_size", |f| f.chunk_size = 1024),
            ("mtu", |f| f.mtu = 9000),
            ("mtu", |f| f.mtu = 1800),
            ("mtu", |f| f.mtu = 60),
            ("rings", |f| f.rx_ring = 1024),
            ("rings", |f| f.tx_ring = 0),
            ("rings", |f| f.fill_ring = 512),
            ("rings", |f| f.completion_ring = 512),
            ("queue", |f| f.queue = 1),
            ("queue", |f| f.queues = u32::MAX),
            ("super_packet_len", |f| f.super_packet_len = 70_000),
        ];
        for (name, lie) in lies {
            let mut told = facts();
            lie(&mut told);
            let error = told.check().unwrap_err().to_string();
            assert!(error.contains(&format!("its {name} ")), "{error}");
        }
    }

    #[test]
    fn jumbo_packets_need_several_chunks() {
        let jumbo = Facts {
            mtu: 9000,
            chunk_size: 4096,
            flags: Facts::MULTI_BUFFER,
            ..facts()
        };
        jumbo.check().unwrap();
        assert!(Facts { flags: 0, ..jumbo }.check().is_err());
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let bytes = facts().to_bytes();
        assert_eq!(bytes[..8], [2, 0, 0, 0, 0, 7, 9, 0]);
        assert_eq!(bytes[8..12], 1500_u32.to_le_bytes());
        assert_eq!(bytes[24..28], 1024_u32.to_le_bytes(), "chunks");
        assert_eq!(bytes[44..48], (GSO_FRAME_LEN_MAX as u32).to_le_bytes());
        assert_eq!(bytes[48..52], 3_u32.to_le_bytes(), "interface");
        assert_eq!(bytes[52..], [0; 12]);
        assert_eq!(Facts::from_bytes(&bytes), facts());
    }

    proptest! {
        /// Whatever is said is understood as something, checked without a panic, and said the same way.
        #[test]
        fn any_bytes_are_some_facts(bytes in proptest::array::uniform32(any::<u8>()), more in proptest::array::uniform16(any::<u8>())) {
            let mut all = [0; Facts::LEN];
            all[..32].copy_from_slice(&bytes);
            all[32..48].copy_from_slice(&more);
            let facts = Facts::from_bytes(&all);
            let _ = facts.check();
            prop_assert_eq!(facts.to_bytes(), all);
        }
    }
}
