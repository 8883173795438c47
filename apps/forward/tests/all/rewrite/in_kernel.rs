//! The program that rewrites in the kernel against the rewriting in user space, packet by packet: what the one sends on
//! is, byte for byte, what the other makes of it, and what it does not send on it leaves as it was. The program runs in
//! the kernel (`BPF_PROG_TEST_RUN`). And that it sends on nothing by halves of two flows, and what it makes of memory that
//! is not as it should be. Needs the privilege to load programs; without it each test says that it was skipped.

#[path = "in_kernel_bench.rs"]
mod bench;
#[path = "in_kernel_links.rs"]
mod links;
#[path = "in_kernel_memory.rs"]
mod memory;

use exos_forward::packets::packet::{Packet, Transport};
use exos_forward::packets::reach::Reach;
use exos_forward::packets::rewrite::Sums;
use exos_testing::Random;
use proptest::prelude::*;

use super::common::steps::set_hops;
use super::common::{Ends, Shape, build, unfinish};
use super::{MAC, shape, two_ends};
use bench::{Bench, REACHES, allowed};

/// Something unusual about a packet.
fn twist(frame: &mut Vec<u8>, seed: u64) {
    let mut random = Random(seed);
    let at = random.below(frame.len());
    match random.below(12) {
        0 => frame.truncate(at.max(14)),
        1 => frame[0] ^= 1 << random.below(8),
        // A tag.
        2 => drop(frame.splice(12..12, [0x81, 0, 0, random.byte()])),
        // Version, length, fragments, hops: where they lie in IPv4 and IPv6.
        3 => frame[14] = random.byte(),
        4 => frame[16 + random.below(4)] = random.byte(),
        5 => frame[20 + random.below(4)] = random.byte(),
        6 => frame[21] = random.below(3) as u8,
        7 => frame[22] = random.below(3) as u8,
        // Flags of TCP.
        8 => {
            let upper = if frame[12] == 8 { 34 } else { 54 };
            if let Some(flags) = frame.get_mut(upper + 13) {
                *flags = random.byte();
            }
        }
        9 => random.mutate(frame),
        _ => frame[at] ^= 1 << random.below(8),
    }
    if random.one_in(2) {
        mend_header(frame);
    }
}

/// Has a changed IPv4 header be whole again.
fn mend_header(frame: &mut [u8]) {
    if frame.len() >= 34 && frame[12..15] == [8, 0, 0x45] {
        frame[24..26].fill(0);
        let sum = exos_wire::Sum::of(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Runs a property on generated packets.
fn for_all(
    cases: u32,
    mut property: impl FnMut(&(Ends, Ends), &Shape, u64) -> Result<(), TestCaseError>,
) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..Default::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let property = std::cell::RefCell::new(&mut property);
    let strategy = (two_ends(), shape(), any::<u64>());
    let run = |(ends, shape, seed)| (property.borrow_mut())(&ends, &shape, seed);
    runner.run(&strategy, run).unwrap_or_else(|e| panic!("{e}"));
}

/// Each of these with each reach.
fn all<T: Copy, const N: usize>(kinds: [T; N]) -> impl Iterator<Item = (T, Reach)> {
    let by = |kind| REACHES.map(|reach| (kind, reach));
    kinds.into_iter().flat_map(by)
}

#[test]
fn packets_are_rewritten_as_in_user_space() {
    if !allowed("packets_are_rewritten_as_in_user_space") {
        return;
    }
    let kinds = [
        (Sums::Complete, false),
        (Sums::MaybePartial, false),
        (Sums::Complete, true),
    ];
    for ((sums, fences), reach) in all(kinds) {
        let bench = Bench::with_fences(sums, fences).by(reach);
        for_all(1500, |(from, to), shape, seed| {
            let mut frame = build(MAC, from, shape);
            // Often with an unfinished checksum, or none, or a wrong one.
            let at = usize::from(Packet::read(&frame, MAC).unwrap().upper_at);
            let sum = at + shape.transport.checksum_at();
            match seed % 8 {
                0..3 if shape.options != 1 => unfinish(&mut frame, MAC),
                3 => frame[sum..sum + 2].fill(0),
                4 => frame[sum] ^= seed.to_ne_bytes()[7] | 1,
                _ => {}
            }
            let sent = bench.compare(shape.transport, (from, to), &frame);
            prop_assert_eq!(sent.is_some(), shape.options != 1);
            Ok(())
        });
        assert!(bench.sent.get() > 500, "{} of 1500", bench.sent.get());
    }
}

/// In traffic control too, where the kernel has checksums follow: those that are complete here, and unfinished ones in
/// `tests/forward/whole.sh`.
#[test]
fn socket_buffers_are_rewritten_as_in_user_space() {
    if !allowed("socket_buffers_are_rewritten_as_in_user_space") {
        return;
    }
    for reach in REACHES {
        let bench = Bench::of_buffers().by(reach);
        for_all(2000, |(from, to), shape, seed| {
            let mut frame = build(MAC, from, shape);
            let at = usize::from(Packet::read(&frame, MAC).unwrap().upper_at);
            let sum = at + shape.transport.checksum_at();
            match seed % 8 {
                // Of TCP this is a wrong one, which the kernel takes as it is.
                3 if shape.transport == Transport::Udp => frame[sum..sum + 2].fill(0),
                4 => frame[sum] ^= seed.to_ne_bytes()[7] | 1,
                5 => twist(&mut frame, seed),
                _ => {}
            }
            // The kernel makes no socket buffer of a packet without a whole header.
            prop_assume!(frame.len() >= 14 + 40);
            bench.compare(shape.transport, (from, to), &frame);
            Ok(())
        });
        assert!(bench.sent.get() > 500, "{} of 2000", bench.sent.get());
    }
}

/// Whatever else comes is either sent on as user space would, or left as it was.
#[test]
fn whatever_is_unusual_is_left_or_rewritten_as_in_user_space() {
    if !allowed("whatever_is_unusual_is_left_or_rewritten_as_in_user_space") {
        return;
    }
    for (sums, reach) in all([Sums::Complete, Sums::MaybePartial]) {
        let bench = Bench::new(sums).by(reach);
        for_all(4000, |(from, to), shape, seed| {
            let mut frame = build(MAC, from, shape);
            twist(&mut frame, seed);
            // What is shorter is no frame for the kernel.
            prop_assume!(frame.len() >= 14);
            bench.compare(shape.transport, (from, to), &frame);
            Ok(())
        });
        let sent = bench.sent.get();
        assert!((400..3600).contains(&sent), "{sent} of 4000");
    }
}

/// The sender of a packet that is at its last hop is told by user space.
#[test]
fn the_last_hop_is_for_user_space() {
    if !allowed("the_last_hop_is_for_user_space") {
        return;
    }
    for (sums, reach) in all([Sums::Complete, Sums::MaybePartial]) {
        let bench = Bench::new(sums).by(reach);
        for_all(200, |(from, to), shape, _| {
            for hops in 0..3 {
                let mut frame = build(MAC, from, shape);
                set_hops(&mut frame, hops);
                mend_header(&mut frame);
                let sent = bench.compare(shape.transport, (from, to), &frame);
                prop_assert_eq!(sent.is_some(), hops == 2 && shape.options != 1);
            }
            Ok(())
        });
    }
}

/// Packets of any length that native XDP takes are summed whole.
#[test]
fn unfinished_checksums_of_long_packets_are_made() {
    if !allowed("unfinished_checksums_of_long_packets_are_made") {
        return;
    }
    let from = Ends::of("10.0.0.1:1000", "10.0.0.2:2000");
    let to = Ends::of("10.0.0.3:3000", "10.0.0.4:4000");
    let mut random = Random(7);
    for ((), reach) in all([()]) {
        let bench = Bench::new(Sums::MaybePartial).by(reach);
        for len in (0..3400).step_by(7).chain([236, 237, 1460, 3399]) {
            for transport in [Transport::Tcp, Transport::Udp] {
                let shape = Shape {
                    transport,
                    payload: (0..len).map(|_| random.byte()).collect(),
                    hops: 2,
                    options: 0,
                    padding: len % 3,
                };
                let mut frame = build(MAC, &from, &shape);
                unfinish(&mut frame, MAC);
                let wanted = bench.leaving(&from, &to);
                let sent = bench.compare(transport, (&from, &to), &frame);
                let wanted = build(MAC, &wanted, &Shape { hops: 1, ..shape });
                assert_eq!(sent.expect("sent on")[14..], wanted[14..], "{len} bytes");
            }
        }
    }
}

/// Every way that a sum can come out: as in user space where it is zero, too.
#[test]
fn sums_that_come_out_as_zero_are_written_alike() {
    if !allowed("sums_that_come_out_as_zero_are_written_alike") {
        return;
    }
    let bench = Bench::new(Sums::Complete);
    let from = Ends::of("10.0.0.1:1000", "10.0.0.2:2000");
    let (mut ones, mut zeros) = (0, 0);
    for transport in [Transport::Tcp, Transport::Udp] {
        let shape = Shape {
            transport,
            payload: vec![0; 4],
            hops: 9,
            options: 0,
            padding: 0,
        };
        let frame = build(MAC, &from, &shape);
        let sum = 34 + transport.checksum_at();
        for port in 1..=u16::MAX {
            let to = Ends::of("10.0.0.3:1", &format!("10.0.0.4:{port}"));
            let sent = bench.compare(transport, (&from, &to), &frame);
            match sent.expect("sent on")[sum..sum + 2] {
                [0, 0] => zeros += 1,
                [0xff, 0xff] => ones += 1,
                _ => {}
            }
        }
    }
    assert_eq!((zeros, ones), (1, 1), "of TCP one is zero, of UDP none");
}

/// What keeps its ends keeps its checksum, whatever that is: also one of all ones, which a difference of nothing would make
/// zero, and zero itself.
#[test]
fn kept_ends_keep_every_checksum() {
    if !allowed("kept_ends_keep_every_checksum") {
        return;
    }
    for (sums, v6) in [Sums::Complete, Sums::MaybePartial]
        .into_iter()
        .flat_map(|sums| [(sums, false), (sums, true)])
    {
        let bench = Bench::new(sums).by(Reach::Direct);
        let from = match v6 {
            false => Ends::of("10.0.0.1:1000", "10.0.0.2:80"),
            true => Ends::of("[fd00::1]:1000", "[fd00::2]:80"),
        };
        for transport in [Transport::Tcp, Transport::Udp] {
            let shape = Shape {
                transport,
                payload: vec![1, 2, 3],
                hops: 9,
                options: 0,
                padding: 0,
            };
            let mut frame = build(MAC, &from, &shape);
            let sum = if v6 { 54 } else { 34 } + transport.checksum_at();
            for checksum in [0u16, 0xffff, 1, 0xfffe, 0x7fff, 0x8000] {
                frame[sum..sum + 2].copy_from_slice(&checksum.to_be_bytes());
                let sent = bench.compare(transport, (&from, &from), &frame);
                assert_eq!(sent.expect("sent on")[sum..], frame[sum..]);
            }
        }
    }
}
