//! The Internet checksum: the RFCs' own examples, combining at any offset, incremental updates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exos_wire::Sum;
use exos_wire::checksum::update16;
use proptest::prelude::*;

/// RFC 1071 §3 gives this sequence and its sum.
const RFC_1071: [u8; 8] = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];

/// The definition (RFC 1071 §1): add 16-bit words with end-around carry.
fn by_word(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u16::from_be_bytes([high, low]),
        [high] => u16::from_be_bytes([high, 0]),
        _ => unreachable!("chunks of two"),
    });
    words.fold(0, |sum, word| {
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

#[test]
fn rfc_1071_example() {
    assert_eq!(Sum::of(&RFC_1071).value(), 0xddf2);
    assert_eq!(Sum::of(&RFC_1071).finish(), 0x220d);
}

/// The example's bytes in two groups, cut at an odd offset (RFC 1071 §2, B: the second is swapped).
#[test]
fn rfc_1071_groups() {
    let (first, second) = (Sum::of(&RFC_1071[..3]), Sum::of(&RFC_1071[3..]));
    assert_eq!(first.value(), 0xf201);
    assert_eq!(second.value(), 0xf0eb);
    assert_eq!(first.followed_by(3, second), Sum::of(&RFC_1071));
}

/// RFC 1624 §4: the header checksum is 0xdd2f, and a field changes from 0x5555 to 0x3285. Equation 2
/// of RFC 1141 would give 0xffff.
#[test]
fn rfc_1624_example() {
    assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
}

/// The header that Wikipedia's article on the IPv4 header checksum computes by hand.
#[test]
fn ipv4_header_example() {
    let header = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];
    assert_eq!(Sum::of(&header).finish(), 0xb861);
}

#[test]
fn the_two_zeros() {
    assert_eq!(Sum::of(&[0; 100]), Sum::ZERO);
    assert_eq!(Sum::of(&[0xff; 100]).value(), 0xffff);
    assert_eq!(Sum::of(&[0, 1, 0xff, 0xfe]).value(), 0xffff);
    let sum = Sum::of(&RFC_1071);
    assert_eq!(sum.minus(sum).value(), 0xffff);
    assert_eq!(sum.plus(Sum::from_value(0xffff)), sum);
    assert_eq!(sum.plus(Sum::ZERO), sum);
    assert_eq!(Sum::ZERO.plus(Sum::ZERO), Sum::ZERO);
    assert_eq!(Sum::default(), Sum::ZERO);
}

/// Every length around the widths in which the sum is taken, of the bytes that carry most.
#[test]
fn every_length_and_full_carries() {
    for byte in [0x00, 0x01, 0x80, 0xff] {
        let bytes = [byte; 200];
        for len in 0..=bytes.len() {
            assert_eq!(
                Sum::of(&bytes[..len]).value(),
                by_word(&bytes[..len]),
                "{len} of {byte}"
            );
        }
    }
    let large = vec![0xff; 70_001];
    assert_eq!(Sum::of(&large).value(), by_word(&large));
}

#[test]
fn pseudo_headers_are_sums_of_their_bytes() {
    let (src, dst) = (
        Ipv4Addr::new(255, 254, 253, 252),
        Ipv4Addr::new(192, 0, 2, 77),
    );
    let bytes = [255, 254, 253, 252, 192, 0, 2, 77, 0, 17, 0xff, 0xfe];
    assert_eq!(Sum::pseudo_v4(src, dst, 17, 0xfffe), Sum::of(&bytes));
    assert_eq!(
        Sum::pseudo(src.into(), dst.into(), 17, 0xfffe),
        Sum::of(&bytes)
    );

    let src: Ipv6Addr = "2001:db8:ffff:ffff:ffff:ffff:ffff:fffe".parse().unwrap();
    let dst: Ipv6Addr = "ff02::1:ff00:9".parse().unwrap();
    let mut bytes = [src.octets(), dst.octets()].concat();
    bytes.extend([0, 1, 0, 2, 0, 0, 0, 58]);
    assert_eq!(Sum::pseudo_v6(&src, &dst, 58, 0x1_0002), Sum::of(&bytes));
    assert_eq!(
        Sum::pseudo(src.into(), dst.into(), 58, 0x1_0002),
        Sum::of(&bytes)
    );
}

#[test]
#[should_panic(expected = "two address families")]
fn pseudo_header_of_mixed_families_is_a_bug() {
    let _ = Sum::pseudo(
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
        6,
        20,
    );
}

proptest! {
    #[test]
    fn is_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert_eq!(Sum::of(&bytes).value(), by_word(&bytes));
    }

    /// Any cut into runs, empty ones included, and any order of joining.
    #[test]
    fn runs_combine(
        runs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
        pivot in any::<prop::sample::Index>(),
    ) {
        let join = |runs: &[Vec<u8>]| runs.iter().fold((Sum::ZERO, 0), |(sum, len), run| {
            (sum.followed_by(len, Sum::of(run)), len + run.len())
        });
        let whole = Sum::of(&runs.concat());
        prop_assert_eq!(join(&runs).0, whole);
        let (first, second) = runs.split_at(pivot.index(runs.len() + 1));
        let ((first, len), (second, _)) = (join(first), join(second));
        prop_assert_eq!(first.followed_by(len, second), whole);
    }

    /// What sums stored at intervals need: the sum of a range is the difference of two prefixes.
    #[test]
    fn ranges_from_prefixes(
        bytes in prop::collection::vec(any::<u8>(), 1..2000),
        a in any::<prop::sample::Index>(),
        b in any::<prop::sample::Index>(),
    ) {
        let (a, b) = (a.index(bytes.len()), b.index(bytes.len()));
        let (start, end) = (a.min(b), a.max(b));
        let placed = Sum::of(&bytes[..end]).minus(Sum::of(&bytes[..start]));
        let sum = if start % 2 == 0 { placed } else { placed.swapped() };
        // Nothing left is the negative zero, see the module's documentation.
        let direct = Sum::of(&bytes[start..end]);
        let expected = if direct == Sum::ZERO && sum != Sum::ZERO { 0xffff } else { direct.value() };
        prop_assert_eq!(sum.value(), expected);
    }

    #[test]
    fn incremental_is_recomputed(
        bytes in prop::collection::vec(any::<u8>(), 4..200),
        at in any::<prop::sample::Index>(),
        new in any::<u32>(),
    ) {
        // The first byte keeps the sum from being that of all zeros.
        let mut bytes = [&[0x45, 0], &bytes[..]].concat();
        let at = 2 + at.index((bytes.len() - 4) / 2) * 2;
        let before = Sum::of(&bytes).finish();
        let old = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        bytes[at..at + 2].copy_from_slice(&new.to_be_bytes()[..2]);
        let halfway = Sum::of(&bytes).finish();
        prop_assert_eq!(update16(before, (old >> 16) as u16, (new >> 16) as u16), halfway);
        bytes[at..at + 4].copy_from_slice(&new.to_be_bytes());
        prop_assert_eq!(update16(halfway, old as u16, new as u16), Sum::of(&bytes).finish());
    }

    #[test]
    fn words_add_like_bytes(start in any::<u16>(), word in any::<u16>(), words in any::<u32>()) {
        let sum = Sum::from_value(start);
        prop_assert_eq!(sum.plus_word(word), sum.plus(Sum::of(&word.to_be_bytes())));
        prop_assert_eq!(sum.plus_u32(words), sum.plus(Sum::of(&words.to_be_bytes())));
        let wide = u64::from(start) + u64::from(word) + u64::from(words);
        prop_assert_eq!(Sum::from_wide(wide), sum.plus_word(word).plus_u32(words));
    }
}
