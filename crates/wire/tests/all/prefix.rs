//! Prefixes against plain counting, and as people write them.

use exos_wire::prefix::{Prefix, PrefixParseError, common_bits};
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn prefix(text: &str) -> Prefix {
    text.parse().expect(text)
}

#[test]
fn prefixes_contain_what_begins_like_them() {
    for (text, inside, outside) in [
        ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
        ("192.0.2.7/24", "192.0.2.1", "192.0.1.255"),
        ("192.0.2.7/32", "192.0.2.7", "192.0.2.6"),
        ("10.128.0.0/9", "10.255.0.1", "10.127.255.255"),
        ("2001:db8::/32", "2001:db8:1::1", "2001:db9::"),
        ("fd00::1/128", "fd00::1", "fd00::2"),
        ("0.0.0.0/0", "255.1.2.3", "::ffff:1.2.3.4"),
        ("::/0", "2001:db8::", "1.2.3.4"),
    ] {
        let prefix = prefix(text);
        assert!(prefix.contains(ip(inside)), "{text} {inside}");
        assert!(!prefix.contains(ip(outside)), "{text} {outside}");
    }
}

#[test]
fn broadcast_addresses_of_small_networks() {
    let broadcast = |text| prefix(text).broadcast();
    assert_eq!(broadcast("10.0.0.5/30"), Some(Ipv4Addr::new(10, 0, 0, 7)));
    assert_eq!(broadcast("10.0.0.5/31"), None, "RFC 3021");
    assert_eq!(broadcast("10.0.0.5/32"), None);
    assert_eq!(broadcast("10.0.0.5/0"), Some(Ipv4Addr::BROADCAST));
    assert_eq!(broadcast("fd10::1/64"), None);
}

/// Every number is another address of the prefix, and every address has one.
#[test]
fn addresses_have_numbers() {
    for (text, count) in [
        ("10.9.1.0/27", 32),
        ("10.9.1.7/32", 1),
        ("fd01::8:0/123", 32),
    ] {
        let prefix = prefix(text);
        let all: HashSet<IpAddr> = prefix.iter().collect();
        assert_eq!((all.len(), prefix.addresses()), (count, count as u64));
        assert!(all.iter().all(|addr| prefix.contains(*addr)));
    }
    let large = prefix("fd01::/64");
    assert_eq!(large.addresses(), 1 << 32);
    assert_eq!(large.nth((1 << 32) - 1), ip("fd01::ffff:ffff"));
    assert_eq!(large.number(ip("fd01::ffff:ffff")), Some((1 << 32) - 1));
    assert_eq!(large.number(ip("fd01::1:0:0")), None);
    assert_eq!(large.number(ip("10.0.0.1")), None);
    let ends = |text: &str| [prefix(text).first(), prefix(text).last()].map(|ip| ip.to_string());
    assert_eq!(ends("10.1.2.3/8"), ["10.0.0.0", "10.255.255.255"]);
    assert_eq!(ends("10.1.2.3/0"), ["0.0.0.0", "255.255.255.255"]);
    assert_eq!(ends("10.1.2.3/32"), ["10.1.2.3", "10.1.2.3"]);
    assert_eq!(ends("fd01::1/127"), ["fd01::", "fd01::1"]);
    assert_eq!(ends("ffff::/0")[0], "::");
}

#[test]
fn what_is_no_prefix_is_refused_with_an_example() {
    for (text, error) in [
        ("", PrefixParseError::NoLength),
        ("10.0.0.0", PrefixParseError::NoLength),
        ("/8", PrefixParseError::Address),
        ("a.b/8", PrefixParseError::Address),
        ("10.0.0.0/33", PrefixParseError::Length(32)),
        ("::/129", PrefixParseError::Length(128)),
        ("10.0.0.0/-1", PrefixParseError::Length(32)),
        ("10.0.0.0/+1", PrefixParseError::Length(32)),
        ("10.0.0.0/", PrefixParseError::Length(32)),
        ("10.0.0.0/8/8", PrefixParseError::Length(32)),
    ] {
        assert_eq!(text.parse::<Prefix>(), Err(error), "{text:?}");
        assert!(error.to_string().contains("192.0.2.0/24"), "{error}");
    }
    assert_eq!(Prefix::parse_or_host("10.0.0.1"), Ok(prefix("10.0.0.1/32")));
    assert_eq!(Prefix::parse_or_host("::1/8"), Ok(prefix("::1/8")));
    assert!(Prefix::parse_or_host("host").is_err());
}

fn any_prefix() -> impl Strategy<Value = Prefix> {
    // Addresses that often agree in many bits.
    let v4 = (0..4_u32, 0..=32_u8).prop_map(|(n, len)| Prefix {
        addr: Ipv4Addr::from_bits(n << 30 | n).into(),
        len,
    });
    let v6 = (0..4_u128, 0..=128_u8).prop_map(|(n, len)| Prefix {
        addr: Ipv6Addr::from_bits(n << 126 | n).into(),
        len,
    });
    prop_oneof![v4, v6]
}

proptest! {
    #[test]
    fn texts_are_read_back(prefix in any_prefix()) {
        prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
    }

    #[test]
    fn ends_are_inside_and_their_neighbours_outside(prefix in any_prefix(), n: u64) {
        let (first, last) = (prefix.first(), prefix.last());
        prop_assert!(prefix.contains(first) && prefix.contains(last) && prefix.contains(prefix.addr));
        prop_assert!(first <= prefix.addr && prefix.addr <= last);
        prop_assert_eq!(common_bits(first, last), Some(prefix.len.into()));
        let n = n % prefix.addresses();
        prop_assert_eq!(prefix.number(prefix.nth(n)), Some(n));
        prop_assert!(prefix.contains(prefix.nth(n)));
    }

    #[test]
    fn two_overlap_when_one_holds_the_other(a in any_prefix(), b in any_prefix()) {
        let meet = a.contains(b.first()) || b.contains(a.first());
        prop_assert_eq!(a.overlaps(&b), meet);
    }
}
