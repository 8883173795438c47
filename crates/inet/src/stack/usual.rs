//! The head that nearly all segments have: no VLAN, no IP options, and of TCP's options timestamps alone.
//!
//! The way out's counterpart of [`fast`](super::fast): all words stand at fixed places, so the head is made of
//! values and written once, and its sums are made of the same values. What differs in anything is written by
//! [`segments`](super::segments), which knows every option; both write the same bytes, as the tests here check.
//!
//! Segments leave in runs of one connection, and their heads differ in a few words only: the last head is kept
//! ([`LastHead`]), and the next one of that connection is made of it.

use std::num::NonZeroU64;

use exos_wire::tcp::Timestamps;
use exos_wire::{Mac, SeqNumber, Sum, protocol};

use super::TxChecksum;
use super::segments::Head;
use super::words::{self, ATOMIC, Before, CHECKSUM, ETHERNET, V6, put, wide};
use crate::tcp::{ConnectionId, Flow, IpFields, Plain};

const TCP: usize = 32;

/// Bytes of the longest.
pub(super) const LONGEST: usize = V6 + TCP;

/// Two no-operations and the head of a timestamps option (RFC 7323 appendix A).
const TIMESTAMPS: u32 = 0x0101_080a;

/// Write the head of a segment. `sum` is the data's; `None` leaves the checksum to the link.
#[inline]
pub(super) fn write(
    out: &mut [u8; LONGEST],
    (from, to): (Mac, Mac),
    flow: &Flow,
    segment: &Plain,
    sum: Option<Sum>,
) -> Head {
    let before = Before {
        from,
        to,
        flow,
        ip: segment.ip,
        ect: segment.ect,
        length: (TCP + segment.len) as u32,
    };
    let words = [
        u32::from(flow.local_port()) << 16 | u32::from(flow.remote_port()),
        segment.seq.0,
        segment.ack.0,
        flags_and_window(segment),
        0,
        TIMESTAMPS,
        segment.timestamps.value,
        segment.timestamps.echo,
    ];
    words::write(out, &before, words, sum)
}

/// Eight words of header, the flags, the window.
#[inline(always)]
fn flags_and_window(segment: &Plain) -> u32 {
    0x8000_0000 | u32::from(segment.flags.0) << 16 | u32::from(segment.window)
}

/// The head that was written last, and whose it is.
pub(super) struct LastHead {
    bytes: [u8; LONGEST],
    len: usize,
    /// What the IP header says of length and class.
    shape: (u32, u32),
    /// The connection, and the generation of the path to which the link addresses belong.
    of: Option<(ConnectionId, NonZeroU64)>,
    ip: IpFields,
    /// Sums of the words that stay: of the pseudo header but its length, of that and the TCP header, of the
    /// IPv4 header.
    pseudo: u64,
    header: u64,
    ipv4: u64,
    /// The sum of all that the TCP checksum covers but the sequence number and the data.
    alike: u64,
}

impl LastHead {
    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; LONGEST],
            len: 0,
            shape: (0, 0),
            of: None,
            ip: IpFields {
                hop_limit: 0,
                dscp: 0,
            },
            pseudo: 0,
            header: 0,
            ipv4: 0,
            alike: 0,
        }
    }

    /// The bytes as last written.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// True when the packet is IPv6.
    #[inline]
    pub(super) fn is_ipv6(&self) -> bool {
        self.len == LONGEST
    }

    /// Write the head of a segment of the connection that had the last one; false when that was another.
    #[inline]
    pub(super) fn write_next(
        &mut self,
        id: ConnectionId,
        generation: NonZeroU64,
        segment: &Plain,
        sum: Option<Sum>,
    ) -> Option<TxChecksum> {
        if self.of != Some((id, generation)) || self.ip != segment.ip {
            return None;
        }
        let shape = (
            (TCP + segment.len) as u32,
            words::class(segment.ip, segment.ect),
        );
        if shape != self.shape {
            self.reshape(shape);
        }
        Some(self.write_tcp(segment, shape.0, sum))
    }

    /// Write another length and class into the IP header.
    fn reshape(&mut self, shape: (u32, u32)) {
        let (length, class) = shape;
        self.shape = shape;
        if self.is_ipv6() {
            let length = words::length_v6(length) as u16;
            put(&mut self.bytes, ETHERNET, [0x6000_0000 | class << 20]);
            self.bytes[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&length.to_be_bytes());
        } else {
            let first = 0x4500_0000 | class << 16 | words::total_v4(length);
            put(&mut self.bytes, ETHERNET, [first]);
            let ip = Sum::from_wide(self.ipv4 + u64::from(first)).finish();
            self.bytes[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&ip.to_be_bytes());
        }
    }

    #[inline]
    fn write_tcp(&mut self, segment: &Plain, length: u32, sum: Option<Sum>) -> TxChecksum {
        let (ack, flags) = (segment.ack.0, flags_and_window(segment));
        let Timestamps { value, echo } = segment.timestamps;
        self.keep_alike(segment, length);
        let bytes = self.tcp();
        put(bytes, 8, [ack, flags]);
        put(bytes, 24, [value, echo]);
        match sum {
            Some(data) => self.write_alike(segment.seq, data),
            None => {
                let pseudo = Sum::from_wide(self.pseudo + u64::from(length));
                self.put_changing(segment.seq, pseudo.value());
                words::partial(self.len - TCP)
            }
        }
    }

    /// Write the head of a segment that differs from the last one in its number and the sum of its data alone.
    #[inline]
    pub(super) fn write_alike(&mut self, seq: SeqNumber, data: Sum) -> TxChecksum {
        let all = self.alike + u64::from(seq.0) + u64::from(data.value());
        self.put_changing(seq, Sum::from_wide(all).finish());
        TxChecksum::Complete
    }

    #[inline]
    fn keep_alike(&mut self, segment: &Plain, length: u32) {
        let (ack, flags) = (segment.ack.0, flags_and_window(segment));
        let Timestamps { value, echo } = segment.timestamps;
        self.alike = self.header + wide(&[length, ack, flags, value, echo]);
    }

    /// The sequence number, and the checksum's field.
    #[inline]
    fn put_changing(&mut self, seq: SeqNumber, field: u16) {
        let bytes = self.tcp();
        put(bytes, 4, [seq.0]);
        bytes[CHECKSUM..CHECKSUM + 2].copy_from_slice(&field.to_be_bytes());
    }

    #[inline]
    fn tcp(&mut self) -> &mut [u8; TCP] {
        self.bytes[..self.len]
            .last_chunk_mut()
            .expect("the TCP header is the last part of the head")
    }

    /// Write the head of a segment of any connection, to be the last one from now on.
    #[inline(never)]
    pub(super) fn write_first(
        &mut self,
        (id, generation): (ConnectionId, NonZeroU64),
        macs: (Mac, Mac),
        flow: &Flow,
        segment: &Plain,
        sum: Option<Sum>,
    ) -> TxChecksum {
        let head = write(&mut self.bytes, macs, flow, segment, sum);
        let addresses = match flow.v4() {
            Some((local, remote)) => wide(&[local, remote]),
            None => {
                let (local, remote) = flow.v6();
                wide(&local) + wide(&remote)
            }
        };
        let ports = u64::from(flow.local_port()) + u64::from(flow.remote_port());
        let hops = u32::from(segment.ip.hop_limit) << 24 | u32::from(protocol::TCP) << 16;
        self.len = head.len;
        self.shape = (
            (TCP + segment.len) as u32,
            words::class(segment.ip, segment.ect),
        );
        self.of = Some((id, generation));
        self.ip = segment.ip;
        self.pseudo = addresses + u64::from(protocol::TCP);
        self.header = self.pseudo + ports + u64::from(TIMESTAMPS);
        self.ipv4 = addresses + u64::from(hops) + u64::from(ATOMIC);
        self.keep_alike(segment, self.shape.0);
        head.checksum
    }
}

#[cfg(test)]
mod tests {
    use super::super::segments::{Addresses, write_tcp};
    use super::*;
    use crate::limits::HEAD_BYTES;
    use crate::siphash::Random;
    use crate::tcp::Outgoing;
    use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};

    fn flows() -> [Flow; 2] {
        let flow =
            |local: &str, remote: &str| Flow::new(local.parse().unwrap(), remote.parse().unwrap());
        [
            flow("10.1.255.3:80", "192.168.4.5:65535"),
            flow("[fd10::1]:443", "[2001:db8:ffff::7]:40000"),
        ]
    }

    fn outgoing(random: &mut Random) -> Outgoing {
        let mut number = || random.next_u64() as u32;
        Outgoing {
            seq: SeqNumber(number()),
            ack: SeqNumber(number()),
            flags: TcpFlags(number() as u8),
            window: number() as u16,
            options: TcpOptions::with_timestamps(number(), number()),
            data: 7..7 + number() as usize % 1449,
            mss: 1448,
            again: false,
            ect: number() % 2 == 0,
            ip: IpFields {
                hop_limit: number() as u8,
                dscp: number() as u8 & 63,
            },
        }
    }

    /// The ordinary way writes the same bytes.
    #[test]
    fn as_the_ordinary_way_writes_it() {
        let mut random = Random::new(5);
        let (from, to) = (Mac([2, 3, 4, 5, 6, 7]), Mac([8, 9, 10, 11, 12, 13]));
        for n in 0..2000 {
            let segment = outgoing(&mut random);
            let flow = &flows()[n % 2];
            let sum = (n % 3 > 0).then(|| Sum::from_value(random.next_u64() as u16));
            let (mut ours, mut theirs) = ([0xaa; LONGEST], [0xbb; HEAD_BYTES]);
            let plain = Plain::of(&segment).expect("a usual segment");
            let head = write(&mut ours, (from, to), flow, &plain, sum);
            let at = Addresses::of(from, to, flow, &segment);
            let header = TcpHeader {
                src_port: flow.local_port(),
                dst_port: flow.remote_port(),
                seq: segment.seq,
                ack: segment.ack,
                flags: segment.flags,
                window: segment.window,
                urgent: 0,
            };
            let other = write_tcp(
                &mut theirs,
                &at,
                &header,
                &segment.options,
                segment.data.len(),
                sum,
            );
            assert_eq!(ours[..head.len], theirs[..other.len], "{segment:?}");
            assert_eq!(head.checksum, other.checksum);
        }
    }

    /// The head that is made of the last one is the same too.
    #[test]
    fn the_next_head_is_made_of_the_last() {
        let mut random = Random::new(7);
        let (from, to) = (Mac([2, 3, 4, 5, 6, 7]), Mac([8, 9, 10, 11, 12, 13]));
        let (id, generation) = (ConnectionId::default(), NonZeroU64::MIN);
        for flow in &flows() {
            let mut last = LastHead::new();
            let first = Plain::of(&outgoing(&mut random)).expect("a usual segment");
            assert!(last.write_next(id, generation, &first, None).is_none());
            last.write_first((id, generation), (from, to), flow, &first, None);
            for n in 0..1000 {
                let mut segment = Plain::of(&outgoing(&mut random)).expect("a usual segment");
                segment.ip = first.ip;
                let sum = (n % 3 > 0).then(|| Sum::from_value(random.next_u64() as u16));
                let mut whole = [0xaa; LONGEST];
                let head = write(&mut whole, (from, to), flow, &segment, sum);
                let checksum = last.write_next(id, generation, &segment, sum);
                assert_eq!(last.bytes(), &whole[..head.len], "{segment:?}");
                assert_eq!(checksum, Some(head.checksum));
                assert_eq!(last.is_ipv6(), flow.is_ipv6());
                // Another of a run behind it.
                segment.seq += segment.len as u32;
                let data = Sum::from_value(random.next_u64() as u16);
                let head = write(&mut whole, (from, to), flow, &segment, Some(data));
                assert_eq!(last.write_alike(segment.seq, data), head.checksum);
                assert_eq!(last.bytes(), &whole[..head.len], "behind it: {segment:?}");
            }
            let mut other = first;
            other.ip.hop_limit = other.ip.hop_limit.wrapping_add(1);
            assert!(last.write_next(id, generation, &other, None).is_none());
        }
    }

    #[test]
    fn other_options_go_the_ordinary_way() {
        let mut random = Random::new(6);
        let mut segment = outgoing(&mut random);
        segment.options = TcpOptions::NONE;
        assert!(Plain::of(&segment).is_none());
        segment.options = TcpOptions {
            mss: Some(1460),
            ..TcpOptions::with_timestamps(1, 2)
        };
        assert!(Plain::of(&segment).is_none());
    }
}
