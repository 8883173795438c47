//! Disjoint, subset and overlap against brute force, and the boolean operations against their definition.
//!
//! The brute force looks at every packet of a small world: frames of type 0x1234 (so that only the frame's own bytes
//! and the network header's exist) whose two bytes behind the type take all values of a few bits, at every length. On
//! filters over that world the answers must be exact, not only safe.

use crate::common;

use common::Random;
use exos_filter::{Base, Filter, Literal, Test, Width};
use proptest::prelude::*;

/// All packets of the small world: lengths 14, 15 and 16; in each byte the bits 0, 1 and 7 vary.
fn world() -> Vec<Vec<u8>> {
    let values = || [0u8, 1, 2, 3, 0x80, 0x81, 0x82, 0x83];
    let head = || {
        let mut frame = vec![0; 14];
        frame[12..].copy_from_slice(&[0x12, 0x34]);
        frame
    };
    let mut all = vec![head()];
    for first in values() {
        all.push([head(), vec![first]].concat());
        all.extend(values().map(|second| [head(), vec![first, second]].concat()));
    }
    all
}

/// A test over that world.
fn small_test() -> impl Strategy<Value = Test> {
    let mask = prop::sample::select(vec![0x00u32, 0x01, 0x02, 0x03, 0x80, 0x83]);
    (0usize..3, mask.clone(), mask, 0u32..0x84, 0u32..0x84).prop_map(|(place, m1, m2, a, b)| {
        let (low, high) = (a.min(b), a.max(b));
        match place {
            0 => Test::masked(Base::Network, 0, Width::Byte, m1, a & m1),
            1 => Test::masked(Base::Network, 1, Width::Byte, m1, b & m1),
            // A range within the varying bits of the word's second byte.
            _ => Test::range(
                Base::Network,
                0,
                Width::Half,
                m1 << 8 | m2,
                low & m2,
                (high & m2).max(low & m2),
            ),
        }
    })
}

fn small_literal() -> impl Strategy<Value = Literal> {
    (small_test(), any::<bool>()).prop_map(|(test, negated)| Literal { test, negated })
}

fn small_filter() -> impl Strategy<Value = Filter> {
    let conjunction = prop::collection::vec(small_literal(), 1..4);
    prop::collection::vec(conjunction, 1..4).prop_map(|any| {
        let only_here = Filter::test(Test::ethertype(0x1234));
        let sum = any.into_iter().fold(Filter::nothing(), |sum, literals| {
            sum.or(&Filter::all_of(literals).unwrap()).unwrap()
        });
        // Frames of at most 16 bytes: everything else lies outside the world.
        let short = Filter::test(Test::present(Base::Link, 16, Width::Byte))
            .not()
            .unwrap();
        sum.and(&only_here).unwrap().and(&short).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn comparisons_are_exact_in_the_small_world(a in small_filter(), b in small_filter()) {
        let all = world();
        let overlap = all.iter().any(|p| a.matches(p) && b.matches(p));
        let subset = all.iter().all(|p| !a.matches(p) || b.matches(p));
        prop_assert_eq!(a.overlaps(&b), overlap, "overlap of {} and {}", a, b);
        prop_assert_eq!(a.is_subset_of(&b), subset, "{} in {}", a, b);
        prop_assert_eq!(a.is_nothing(), !all.iter().any(|p| a.matches(p)), "{} empty", a);
    }

    #[test]
    fn operations_are_those_of_sets(seed: u64) {
        let random = &mut Random(seed);
        let (a, b) = (common::raw(random), common::raw(random));
        let (both, either) = (a.and(&b), a.or(&b));
        let outside = a.not();
        for _ in 0..40 {
            let packet = common::packet(random);
            let (in_a, in_b) = (a.matches(&packet), b.matches(&packet));
            if let Ok(both) = &both { prop_assert_eq!(both.matches(&packet), in_a && in_b) }
            if let Ok(either) = &either { prop_assert_eq!(either.matches(&packet), in_a || in_b) }
            if let Ok(outside) = &outside { prop_assert_eq!(outside.matches(&packet), !in_a) }
            prop_assert!(!(in_a && in_b && a.is_disjoint_from(&b)), "{} and {}", a, b);
            prop_assert!(!(in_a && !in_b && a.is_subset_of(&b)), "{} in {}", a, b);
        }
    }

    #[test]
    fn a_filter_contains_itself_and_not_its_complement(seed: u64) {
        let random = &mut Random(seed);
        let a = common::raw(random);
        prop_assert!(a.is_subset_of(&a));
        prop_assert!(Filter::nothing().is_subset_of(&a) && a.is_subset_of(&Filter::everything()));
        if let Ok(outside) = a.not() {
            prop_assert!(a.is_disjoint_from(&outside), "{} and {}", a, outside);
        }
    }
}

/// What the owner of an interface asks before granting, written as people write it.
#[test]
fn grants_are_compared() {
    let disjoint = [
        ("tcp dst port 80", "tcp dst port 81"),
        ("tcp dst port 80", "udp dst port 80"),
        ("tcp dst portrange 5000-5999", "tcp dst portrange 6000-6999"),
        ("dst host 10.0.0.1", "dst host 10.0.0.2"),
        ("dst net 10.0.0.0/24", "dst net 10.0.1.0/24"),
        ("ip and dst host 10.0.0.1", "dst host fd10::1"),
        ("arp", "tcp"),
        ("icmp", "icmp6"),
        ("vlan 5", "vlan 6"),
        ("less 60", "greater 61"),
        ("less 13", "ip"),
        ("ip6 and tcp port 80", "not tcp"),
        ("port 80", "not port 80"),
        ("ether src 02:00:00:00:00:01", "ether src 02:00:00:00:00:02"),
        ("tcp src port 80 and tcp dst port 90", "port 100"),
    ];
    for (a, b) in disjoint {
        let [fa, fb] = [a, b].map(|t| Filter::parse(t).unwrap());
        assert!(
            fa.is_disjoint_from(&fb) && fb.is_disjoint_from(&fa),
            "{a} | {b}"
        );
        assert!(!fa.is_subset_of(&fb), "{a} in {b}");
    }
    let overlapping = [
        ("tcp dst port 80", "dst host 10.0.0.1"),
        ("port 80", "port 443"),
        ("host 10.0.0.1", "host 10.0.0.2"),
        ("ip", "vlan 5"),
        ("less 60", "greater 60"),
        ("tcp dst portrange 5000-6000", "tcp dst portrange 6000-7000"),
    ];
    for (a, b) in overlapping {
        let [fa, fb] = [a, b].map(|t| Filter::parse(t).unwrap());
        assert!(fa.overlaps(&fb) && fb.overlaps(&fa), "{a} | {b}");
    }
    let subsets = [
        ("tcp dst port 80 and dst host 10.0.0.2", "tcp dst port 80"),
        ("tcp dst port 80 and dst host 10.0.0.2", "host 10.0.0.2"),
        ("tcp dst port 80", "tcp"),
        ("tcp dst port 80", "port 80"),
        ("tcp dst port 80", "tcp dst portrange 79-81"),
        ("dst host 10.1.2.3", "dst net 10.0.0.0/8"),
        ("dst net 10.1.0.0/16", "dst net 10.0.0.0/8"),
        ("tcp", "ip or ip6"),
        ("tcp", "not arp"),
        ("icmp", "ip"),
        ("port 80", "tcp or udp or sctp"),
        ("vlan 5", "vlan"),
        ("tcp port 80", "greater 36"),
        ("ip6 host fd10::1", "net fd10::/16"),
    ];
    for (a, b) in subsets {
        let [fa, fb] = [a, b].map(|t| Filter::parse(t).unwrap());
        assert!(fa.is_subset_of(&fb), "{a} in {b}");
        assert!(!fb.is_subset_of(&fa), "{b} in {a}");
    }
}

/// Filters that match the same packets in different words.
#[test]
fn equal_filters_contain_each_other() {
    let equal = [
        (
            "tcp dst portrange 10-20",
            "tcp dst portrange 10-15 or 16-20",
        ),
        (
            "dst net 10.0.0.0/8",
            "dst net 10.0.0.0/9 or dst net 10.128.0.0/9",
        ),
        ("not (tcp or udp)", "not tcp and not udp"),
        ("not port 80", "not src port 80 and not dst port 80"),
        ("tcp", "(tcp and ip) or (tcp and ip6)"),
        ("tcp[13] & 2 != 0", "tcp[13] & 2 = 2"),
        ("proto 6 or 17", "tcp or udp"),
        ("ip", "ip and proto 6 or (ip and not proto 6)"),
    ];
    for (a, b) in equal {
        let [fa, fb] = [a, b].map(|t| Filter::parse(t).unwrap());
        assert!(fa.is_subset_of(&fb), "{a} in {b}");
        assert!(fb.is_subset_of(&fa), "{b} in {a}");
    }
}

/// Filters of the greatest size are compared in bounded time, and safely.
#[test]
fn large_filters_are_compared_in_bounded_time() {
    let list = |from: u32| {
        let ports: Vec<String> = (from..from + 200).map(|p| p.to_string()).collect();
        Filter::parse(&format!("tcp dst port ({})", ports.join(" or "))).unwrap()
    };
    let (a, b) = (list(1000), list(1200));
    assert!(a.is_disjoint_from(&b));
    assert!(a.is_subset_of(&Filter::parse("tcp dst portrange 1000-1199").unwrap()));
    assert!(!a.is_subset_of(&b));
    assert!(a.is_subset_of(&a));
}

/// A word is counted once, however many values it may have, and once for each width that it is read in.
#[test]
fn words_of_a_packet_are_counted() {
    for (text, words) in [
        ("all", 0),
        ("tcp[20] = 1 or tcp[20] = 2 or not tcp[20] = 3", 2),
        ("tcp[20] = 1 and tcp[20:2] != 1 and tcp[21] = 1", 4),
        ("host 192.0.2.1 or host 192.0.2.2", 5),
    ] {
        let filter = Filter::parse(text).expect(text);
        assert_eq!(filter.words(), words, "{text}: {filter:?}");
    }
}
