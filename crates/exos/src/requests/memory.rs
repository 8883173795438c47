//! The memory that the kernel's part has, too.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use exos_host::bpf::MappedArray;

/// All of it, in words of eight bytes, which stand at multiples of eight ([`exos_filter::handler::web::layout`]).
#[derive(Debug)]
pub(super) enum Memory {
    Shared(MappedArray),
    #[cfg(test)]
    Plain(Box<[AtomicU64]>),
}

impl Memory {
    fn words(&self) -> &[AtomicU64] {
        match self {
            Self::Shared(array) => array.words(),
            #[cfg(test)]
            Self::Plain(words) => words,
        }
    }

    pub(super) fn word(&self, at: u64) -> &AtomicU64 {
        &self.words()[(at / 8) as usize]
    }

    pub(super) fn get(&self, at: u64) -> u64 {
        self.word(at).load(Acquire)
    }

    pub(super) fn set(&self, at: u64, value: u64) {
        self.word(at).store(value, Release);
    }

    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        for (n, part) in (0..).zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.set(at + 8 * n, u64::from_ne_bytes(word));
        }
    }

    /// In place of what is there.
    pub(super) fn read(&self, at: u64, len: usize, into: &mut Vec<u8>) {
        let words = (0..len as u64).step_by(8);
        into.clear();
        into.extend(words.flat_map(|word| self.get(at + word).to_ne_bytes()));
        into.truncate(len);
    }

    /// Two numbers of four bytes that stand in a word, the first at its beginning.
    pub(super) fn halves(&self, at: u64) -> (u32, u32) {
        let [a, b, c, d, e, f, g, h] = self.get(at).to_ne_bytes();
        (
            u32::from_ne_bytes([a, b, c, d]),
            u32::from_ne_bytes([e, f, g, h]),
        )
    }

    pub(super) fn set_halves(&self, at: u64, first: u32, second: u32) {
        let mut word = [0; 8];
        word[..4].copy_from_slice(&first.to_ne_bytes());
        word[4..].copy_from_slice(&second.to_ne_bytes());
        self.set(at, u64::from_ne_bytes(word));
    }

    /// Four bytes, wherever in a word they stand.
    pub(super) fn half(&self, at: u64) -> u32 {
        let (first, second) = self.halves(at & !7);
        if at & 4 == 0 { first } else { second }
    }

    /// An address in IPv6's form.
    pub(super) fn address(&self, at: u64) -> std::net::IpAddr {
        let bits = u128::from(self.get(at)) << 64 | u128::from(self.get(at + 8));
        std::net::Ipv6Addr::from_bits(bits).to_canonical()
    }
}
