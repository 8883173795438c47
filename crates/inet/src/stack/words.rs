//! Headers made of words: Ethernet and IP before a TCP header whose words are known.
//!
//! All words stand at fixed places, so they are written once, and the sums are made of the same values. Who writes
//! a whole head ([`usual`](super::usual), [`syn`](super::syn)) makes the words of its TCP header and leaves the rest to
//! these.

use exos_wire::{Mac, Sum, protocol};

use super::TxChecksum;
use super::segments::Head;
use crate::tcp::{Ecn, Flow, IpFields};

pub(super) const ETHERNET: usize = 14;
pub(super) const V4: usize = ETHERNET + 20;
pub(super) const V6: usize = ETHERNET + 40;

/// Where the checksum lies in the TCP header.
pub(super) const CHECKSUM: usize = 16;

/// Don't Fragment, identification 0 (RFC 6864 §4.1: of an atomic packet it means nothing).
pub(super) const ATOMIC: u32 = 0x4000;

/// What stands before a TCP header.
pub(super) struct Before<'a> {
    pub from: Mac,
    pub to: Mac,
    pub flow: &'a Flow,
    pub ip: IpFields,
    pub ect: bool,
    /// Bytes of TCP header and data.
    pub length: u32,
}

impl Before<'_> {
    /// The type-of-service byte, or traffic class.
    #[inline(always)]
    fn class(&self) -> u32 {
        class(self.ip, self.ect)
    }

    /// Write the headers; gives where the next begins, and the sum of the pseudo header.
    #[inline(always)]
    fn write(&self, out: &mut [u8; V6]) -> (usize, u64) {
        let length = u64::from(self.length) + u64::from(protocol::TCP);
        match self.flow.v4() {
            Some((local, remote)) => {
                let out = out.first_chunk_mut().expect("IPv6 headers are longer");
                self.write_v4(out, local, remote);
                (V4, u64::from(local) + u64::from(remote) + length)
            }
            None => {
                let (local, remote) = self.flow.v6();
                self.write_v6(out, &local, &remote);
                (V6, wide(&local) + wide(&remote) + length)
            }
        }
    }

    #[inline(always)]
    fn write_v4(&self, out: &mut [u8; V4], local: u32, remote: u32) {
        ethernet(out, self.from, self.to, 0x0800);
        let total = total_v4(self.length);
        let first = 0x4500_0000 | self.class() << 16 | total;
        let hops = u32::from(self.ip.hop_limit) << 24 | u32::from(protocol::TCP) << 16;
        let sum = wide(&[first, ATOMIC, hops, local, remote]);
        let hops = hops | u32::from(Sum::from_wide(sum).finish());
        put(out, ETHERNET, [first, ATOMIC, hops, local, remote]);
    }

    #[inline(always)]
    fn write_v6(&self, out: &mut [u8; V6], local: &[u32; 4], remote: &[u32; 4]) {
        ethernet(out, self.from, self.to, 0x86dd);
        let length = length_v6(self.length);
        let hops = u32::from(self.ip.hop_limit);
        let second = length << 16 | u32::from(protocol::TCP) << 8 | hops;
        put(out, ETHERNET, [0x6000_0000 | self.class() << 20, second]);
        put(out, ETHERNET + 8, *local);
        put(out, ETHERNET + 24, *remote);
    }
}

/// Write a head. `words` are those of the TCP header, its checksum zero; `sum` is the data's, `None` leaves the
/// checksum to the link.
#[inline(always)]
pub(super) fn write<const N: usize, const W: usize>(
    out: &mut [u8; N],
    before: &Before<'_>,
    words: [u32; W],
    sum: Option<Sum>,
) -> Head {
    let start = out.first_chunk_mut().expect("room for the longest head");
    let (at, pseudo) = before.write(start);
    let tcp = &mut out[at..at + 4 * W];
    for (place, word) in tcp.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
    let (field, checksum) = match sum {
        Some(data) => {
            let all = pseudo + wide(&words) + u64::from(data.value());
            (Sum::from_wide(all).finish(), TxChecksum::Complete)
        }
        None => (Sum::from_wide(pseudo).value(), partial(at)),
    };
    tcp[CHECKSUM..CHECKSUM + 2].copy_from_slice(&field.to_be_bytes());
    Head {
        len: at + 4 * W,
        checksum,
    }
}

/// The type-of-service byte, or traffic class.
#[inline(always)]
pub(super) fn class(ip: IpFields, ect: bool) -> u32 {
    let ecn = if ect { Ecn::Ect0 } else { Ecn::NotEct };
    u32::from(ip.traffic_class(ecn.bits()))
}

/// The length of an IPv4 packet with this many bytes of TCP.
#[inline(always)]
pub(super) fn total_v4(length: u32) -> u32 {
    assert!(length <= 0xffff - 20, "an IPv4 packet within 64 KiB");
    length + 20
}

/// What stands for it in an IPv6 header.
#[inline(always)]
pub(super) fn length_v6(length: u32) -> u32 {
    assert!(length <= 0xffff, "an IPv6 packet within 64 KiB");
    length
}

/// The checksum of the TCP header that begins at `at` is left to the link.
#[inline(always)]
pub(super) fn partial(at: usize) -> TxChecksum {
    TxChecksum::Partial {
        start: at as u16,
        offset: CHECKSUM as u16,
    }
}

#[inline(always)]
fn ethernet<const N: usize>(head: &mut [u8; N], from: Mac, to: Mac, ethertype: u16) {
    head[..6].copy_from_slice(&to.0);
    head[6..12].copy_from_slice(&from.0);
    head[12..14].copy_from_slice(&ethertype.to_be_bytes());
}

/// Write words from `at` on.
#[inline(always)]
pub(super) fn put<const N: usize, const W: usize>(head: &mut [u8; N], at: usize, words: [u32; W]) {
    for (n, word) in words.into_iter().enumerate() {
        head[at + 4 * n..at + 4 * n + 4].copy_from_slice(&word.to_be_bytes());
    }
}

/// The sum of words, not folded.
#[inline(always)]
pub(super) fn wide(words: &[u32]) -> u64 {
    words.iter().map(|&word| u64::from(word)).sum()
}
