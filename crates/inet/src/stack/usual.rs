//! The head that nearly all segments have: no VLAN, no IP options, and of TCP's options timestamps alone.
//!
//! The way out's counterpart of [`fast`](super::fast): all words stand at fixed places, so the head is made of
//! values and written once, and its sums are made of the same values. What differs in anything is written by
//! [`segments`](super::segments), which knows every option; both write the same bytes, as the tests here check.

use exos_wire::tcp::{TcpOptions, Timestamps};
use exos_wire::{Mac, Sum, protocol};

use super::TxChecksum;
use super::segments::Head;
use crate::limits::HEAD_BYTES;
use crate::tcp::{Ecn, Flow, Outgoing};

const ETHERNET: usize = 14;
const TCP: usize = 32;
const V4: usize = ETHERNET + 20 + TCP;
const V6: usize = ETHERNET + 40 + TCP;

/// Where the checksum lies in the TCP header.
const CHECKSUM: usize = 16;

/// Two no-operations and the head of a timestamps option (RFC 7323 appendix A).
const TIMESTAMPS: u32 = 0x0101_080a;

/// Don't Fragment, identification 0 (RFC 6864 §4.1: of an atomic packet it means nothing).
const ATOMIC: u32 = 0x4000;

/// The timestamps of a segment that carries no other option.
#[inline]
fn only_timestamps(options: &TcpOptions) -> Option<Timestamps> {
    let others = options.mss.is_some()
        | options.window_scale.is_some()
        | options.sack_permitted
        | !options.sack.is_empty()
        | options.fast_open.is_some()
        | options.user_timeout.is_some();
    if others { None } else { options.timestamps }
}

/// Write the head of a segment if it is a usual one. `sum` is the data's; `None` leaves the checksum to the link.
#[inline]
pub(super) fn write(
    out: &mut [u8; HEAD_BYTES],
    from: Mac,
    to: Mac,
    flow: &Flow,
    segment: &Outgoing,
    sum: Option<Sum>,
) -> Option<Head> {
    let timestamps = only_timestamps(&segment.options)?;
    let tcp_len = TCP + segment.data.len();
    let ecn = if segment.ect { Ecn::Ect0 } else { Ecn::NotEct };
    let class = u32::from(segment.ip.traffic_class(ecn.bits()));
    Some(match flow.v4() {
        Some((local, remote)) => {
            let head: &mut [u8; V4] = out.first_chunk_mut().expect("room for the longest head");
            ethernet(head, from, to, 0x0800);
            let total = u32::try_from(20 + tcp_len).expect("an IPv4 packet within 64 KiB");
            assert!(total <= 0xffff, "an IPv4 packet within 64 KiB");
            let (first, hops) = (
                0x4500_0000 | class << 16 | total,
                u32::from(segment.ip.hop_limit) << 24 | u32::from(protocol::TCP) << 16,
            );
            let addresses = u64::from(local) + u64::from(remote);
            let ip =
                Sum::from_wide(u64::from(first) + u64::from(ATOMIC) + u64::from(hops) + addresses);
            let hops = hops | u32::from(ip.finish());
            put(head, ETHERNET, [first, ATOMIC, hops, local, remote]);
            tcp(
                head,
                flow,
                segment,
                timestamps,
                addresses + tcp_len as u64,
                sum,
            )
        }
        None => {
            let head: &mut [u8; V6] = out.first_chunk_mut().expect("room for the longest head");
            ethernet(head, from, to, 0x86dd);
            let length = u32::try_from(tcp_len).expect("an IPv6 packet within 64 KiB");
            assert!(length <= 0xffff, "an IPv6 packet within 64 KiB");
            let second =
                length << 16 | u32::from(protocol::TCP) << 8 | u32::from(segment.ip.hop_limit);
            put(head, ETHERNET, [0x6000_0000 | class << 20, second]);
            let (local, remote) = flow.v6();
            put(head, ETHERNET + 8, local);
            put(head, ETHERNET + 24, remote);
            let addresses: u64 = local
                .iter()
                .chain(&remote)
                .map(|&word| u64::from(word))
                .sum();
            tcp(
                head,
                flow,
                segment,
                timestamps,
                addresses + tcp_len as u64,
                sum,
            )
        }
    })
}

#[inline]
pub(super) fn ethernet<const N: usize>(head: &mut [u8; N], from: Mac, to: Mac, ethertype: u16) {
    head[..6].copy_from_slice(&to.0);
    head[6..12].copy_from_slice(&from.0);
    head[12..14].copy_from_slice(&ethertype.to_be_bytes());
}

/// Write the TCP header at the end of `head`. `pseudo` are the words of the pseudo header but the protocol's.
#[inline]
fn tcp<const N: usize>(
    head: &mut [u8; N],
    flow: &Flow,
    segment: &Outgoing,
    timestamps: Timestamps,
    pseudo: u64,
    sum: Option<Sum>,
) -> Head {
    let ports = u32::from(flow.local_port()) << 16 | u32::from(flow.remote_port());
    let flags = 0x8000_0000 | u32::from(segment.flags.0) << 16 | u32::from(segment.window);
    let words = [
        ports,
        segment.seq.0,
        segment.ack.0,
        flags,
        0,
        TIMESTAMPS,
        timestamps.value,
        timestamps.echo,
    ];
    let at = N - TCP;
    put(head, at, words);
    let pseudo = pseudo + u64::from(protocol::TCP);
    let (field, checksum) = match sum {
        Some(data) => {
            let header: u64 = words.iter().map(|&word| u64::from(word)).sum();
            let sum = Sum::from_wide(pseudo + header + u64::from(data.value()));
            (sum.finish(), TxChecksum::Complete)
        }
        None => {
            let partial = TxChecksum::Partial {
                start: at as u16,
                offset: CHECKSUM as u16,
            };
            (Sum::from_wide(pseudo).value(), partial)
        }
    };
    head[at + CHECKSUM..at + CHECKSUM + 2].copy_from_slice(&field.to_be_bytes());
    Head { len: N, checksum }
}

/// Write words from `at` on.
#[inline]
pub(super) fn put<const N: usize, const W: usize>(head: &mut [u8; N], at: usize, words: [u32; W]) {
    for (n, word) in words.into_iter().enumerate() {
        head[at + 4 * n..at + 4 * n + 4].copy_from_slice(&word.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::segments::{Addresses, write_tcp};
    use super::*;
    use crate::siphash::Random;
    use crate::tcp::IpFields;
    use exos_wire::SeqNumber;
    use exos_wire::tcp::{TcpFlags, TcpHeader};

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
            let (mut ours, mut theirs) = ([0xaa; HEAD_BYTES], [0xbb; HEAD_BYTES]);
            let head = write(&mut ours, from, to, flow, &segment, sum).expect("a usual segment");
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

    #[test]
    fn other_options_go_the_ordinary_way() {
        let mut random = Random::new(6);
        let mut out = [0; HEAD_BYTES];
        let mut segment = outgoing(&mut random);
        segment.options = TcpOptions::NONE;
        let flow = &flows()[0];
        assert!(write(&mut out, Mac::ZERO, Mac::ZERO, flow, &segment, None).is_none());
        segment.options = TcpOptions {
            mss: Some(1460),
            ..TcpOptions::with_timestamps(1, 2)
        };
        assert!(write(&mut out, Mac::ZERO, Mac::ZERO, flow, &segment, None).is_none());
    }
}
