//! Rewriting against packets that were built with their new ends from the beginning: etherparse sums them in full.

use crate::common;
mod in_kernel;

use common::{Ends, Shape, build, mapped, receive};
use exos::RxMeta;
use exos_forward::packets::packet::{Packet, Transport, Upper};
use exos_forward::packets::rewrite::{Rewrite, Sums, finish, keep_ends};
use exos_inet::RxChecksum;
use exos_wire::Mac;
use proptest::prelude::*;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

fn rewrite_to(to: &Ends) -> Rewrite {
    Rewrite {
        src: to.src.into(),
        dst: to.dst.into(),
        ident: 0,
    }
}

/// Reads and rewrites a frame.
fn rewritten(frame: &[u8], to: &Ends, sums: Sums) -> Vec<u8> {
    let packet = Packet::read(frame, MAC).expect("a packet that is forwarded");
    let mut frame = frame.to_vec();
    rewrite_to(to).apply(&packet, &mut frame, sums);
    frame
}

fn shape() -> impl Strategy<Value = Shape> {
    let payload = prop::collection::vec(any::<u8>(), 0..200);
    (any::<bool>(), payload, 2..=255u8, 0..3usize, 0..20usize).prop_map(
        |(tcp, payload, hops, options, padding)| Shape {
            transport: if tcp { Transport::Tcp } else { Transport::Udp },
            payload,
            hops,
            options,
            padding,
        },
    )
}

fn two_ends() -> impl Strategy<Value = (Ends, Ends)> {
    any::<(bool, [u8; 64], [u16; 4])>().prop_map(|(ipv6, bytes, ports)| {
        let at = |n: usize| {
            mapped(
                ipv6,
                bytes[16 * n..16 * (n + 1)].try_into().unwrap(),
                ports[n],
            )
        };
        let ends = |n| Ends {
            src: at(n),
            dst: at(n + 1),
        };
        (ends(0), ends(2))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    /// What is rewritten is, byte for byte, what would have been sent with these ends: with IPv4 options, extension headers,
    /// TCP options, and padding of the link behind the packet.
    #[test]
    fn equals_a_packet_of_those_ends((from, to) in two_ends(), shape in shape()) {
        let frame = build(MAC, &from, &shape);
        let onward = Shape { hops: shape.hops - 1, ..shape };
        let wanted = build(MAC, &to, &onward);
        prop_assert_eq!(rewritten(&frame, &to, Sums::Complete), wanted);
    }

    /// A checksum that was wrong is wrong by as much afterwards: with the damage mended it is right.
    #[test]
    fn what_is_wrong_stays_wrong((from, to) in two_ends(), shape in shape(), bit in any::<usize>()) {
        let mut frame = build(MAC, &from, &shape);
        let packet = Packet::read(&frame, MAC).unwrap();
        // Behind the ports, which are rewritten; a UDP length that is wrong is another matter.
        let range = packet.upper_range();
        let (first, len) = (range.start + 8, range.len() - 8);
        prop_assume!(len > 0);
        // Of TCP, the length of its header decides where the sum's field is read by the oracle.
        let at = first + bit / 8 % len;
        prop_assume!(shape.transport == Transport::Udp || at != range.start + 12);
        frame[at] ^= 1 << (bit % 8);
        let mut onward = rewritten(&frame, &to, Sums::Complete);
        prop_assert!(!receive(&onward), "damaged, and accepted");
        onward[at] ^= 1 << (bit % 8);
        // Unless it was the checksum itself, which has changed since.
        let sum_at = range.start + shape.transport.checksum_at();
        if !(sum_at..sum_at + 2).contains(&at) {
            prop_assert!(receive(&onward), "mended, and not accepted");
        }
    }

    /// Where a kernel left the sum of the pseudo header alone, the checksum is made.
    #[test]
    fn unfinished_checksums_are_finished((from, to) in two_ends(), shape in shape()) {
        let mut frame = build(MAC, &from, &shape);
        common::unfinish(&mut frame, MAC);
        let onward = Shape { hops: shape.hops - 1, ..shape.clone() };
        prop_assert_eq!(rewritten(&frame, &to, Sums::MaybePartial), build(MAC, &to, &onward));
        // And one that is complete follows there as anywhere.
        let frame = build(MAC, &from, &shape);
        prop_assert_eq!(rewritten(&frame, &to, Sums::MaybePartial), build(MAC, &to, &onward));
    }

    /// Where the link completes it behind us, the sum of the pseudo header is that of the new ends, and nothing else; a copy
    /// that leaves without the link's word is made complete.
    #[test]
    fn unfinished_checksums_stay_unfinished((from, to) in two_ends(), shape in shape()) {
        let mut frame = build(MAC, &from, &shape);
        common::unfinish(&mut frame, MAC);
        let onward = Shape { hops: shape.hops - 1, ..shape.clone() };
        let complete = build(MAC, &to, &onward);
        let mut wanted = complete.clone();
        common::unfinish(&mut wanted, MAC);
        let mut got = rewritten(&frame, &to, Sums::Unfinished);
        prop_assert_eq!(&got, &wanted);
        let len = Packet::read(&got, MAC).unwrap().ip_len() as usize;
        let unfinished = RxMeta {
            checksum: RxChecksum::Partial,
            ..RxMeta::default()
        };
        prop_assert_eq!(finish(&mut got, unfinished, len), Some(got.len() - shape.padding));
        prop_assert_eq!(&got, &complete);
        prop_assert_eq!(finish(&mut got, unfinished, len - 1), None, "it does not fit");
        let packet = Packet::read(&frame, MAC).unwrap();
        let mut kept = frame.clone();
        keep_ends(&packet, &mut kept, Sums::Unfinished);
        let mut wanted = build(MAC, &from, &onward);
        common::unfinish(&mut wanted, MAC);
        prop_assert_eq!(kept, wanted);
    }

    /// A packet that keeps its ends is, byte for byte, the one with a hop less: also one whose checksum is wrong, or that is
    /// none of what it says, or was left unfinished.
    #[test]
    fn kept_ends_are_kept((from, _) in two_ends(), shape in shape(), bit in any::<usize>(), sums in any::<bool>()) {
        let sums = if sums { Sums::MaybePartial } else { Sums::Complete };
        let kept = |frame: &[u8]| {
            let packet = Packet::read(frame, MAC).unwrap();
            let mut frame = frame.to_vec();
            keep_ends(&packet, &mut frame, sums);
            frame
        };
        let onward = build(MAC, &from, &Shape { hops: shape.hops - 1, ..shape.clone() });
        let mut frame = build(MAC, &from, &shape);
        prop_assert_eq!(&kept(&frame), &onward);
        let range = Packet::read(&frame, MAC).unwrap().upper_range();
        let at = range.start + 8 + bit / 8 % (range.len() - 7).max(1);
        if sums == Sums::Complete && at < frame.len() {
            let mut damaged = onward.clone();
            frame[at] ^= 1 << (bit % 8);
            damaged[at] ^= 1 << (bit % 8);
            prop_assert_eq!(kept(&frame), damaged);
        } else if sums == Sums::MaybePartial {
            common::unfinish(&mut frame, MAC);
            prop_assert_eq!(kept(&frame), onward);
        }
    }

    /// A datagram without a checksum has none afterwards.
    #[test]
    fn no_checksum_stays_none((from, to) in two_ends(), shape in shape()) {
        let shape = Shape { transport: Transport::Udp, ..shape };
        let mut frame = build(MAC, &from, &shape);
        let at = usize::from(Packet::read(&frame, MAC).unwrap().upper_at) + 6;
        frame[at..at + 2].fill(0);
        for sums in [Sums::Complete, Sums::MaybePartial] {
            prop_assert_eq!(&rewritten(&frame, &to, sums)[at..at + 2], &[0, 0]);
        }
    }

    /// Any bytes are some packet or none, and what is read of them can be rewritten.
    #[test]
    fn any_frame_is_safe(seed in any::<u64>(), (from, to) in two_ends(), shape in shape()) {
        let mut frame = build(MAC, &from, &shape);
        exos_testing::Random(seed).mutate(&mut frame);
        if let Some(packet) = Packet::read(&frame, MAC) {
            let same_family = packet.src.is_ipv6() == to.src.is_ipv6();
            if same_family && packet.hops > 0 {
                let len = frame.len();
                let fragment = packet.fragment;
                rewrite_to(&to).apply(&packet, &mut frame, Sums::MaybePartial);
                let again = Packet::read(&frame, MAC).expect("still a packet");
                prop_assert_eq!((frame.len(), again.src, again.dst), (len, to.src.ip().into(), to.dst.ip().into()));
                prop_assert_eq!(again.hops, packet.hops - 1);
                prop_assert_eq!(again.fragment.is_some(), fragment.is_some());
                if let Upper::Transport { src_port, dst_port, .. } = again.upper {
                    prop_assert_eq!((src_port, dst_port), (to.src.port(), to.dst.port()));
                }
            }
        }
    }
}

/// The one case of RFC 768: a checksum that comes out as zero is sent as all ones.
#[test]
fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
    let from = Ends::of("10.0.0.1:1000", "10.0.0.2:2000");
    let shape = Shape {
        transport: Transport::Udp,
        payload: vec![0; 4],
        hops: 9,
        options: 0,
        padding: 0,
    };
    let mut seen = 0;
    for port in 1..=u16::MAX {
        let to = Ends::of("10.0.0.3:1", &format!("10.0.0.4:{port}"));
        let onward = rewritten(&build(MAC, &from, &shape), &to, Sums::Complete);
        assert_ne!(onward[40..42], [0, 0], "port {port}");
        seen += usize::from(onward[40..42] == [0xff, 0xff]);
    }
    assert_eq!(seen, 1, "of all ports one brings the sum to zero");
}
