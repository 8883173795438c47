//! Which address is tried when: the sections of RFC 8305 as small stories.

use crate::net::addresses;
use exos_inet::Instant;
use exos_names::limits::TRIED_ADDRESSES_MAX;
use exos_names::{Connector, Family};
use proptest::prelude::*;
use std::net::IpAddr;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn one(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The attempts that begin from `from` on as long as nothing else happens: millisecond and address.
fn attempts(connector: &mut Connector, from: u64) -> Vec<(u64, String)> {
    let mut attempts = Vec::new();
    let mut now = at(from);
    loop {
        while let Some(address) = connector.poll_attempt(now) {
            attempts.push((now.millis(), address.to_string()));
        }
        match connector.poll_timeout() {
            Some(next) => now = next.max(now),
            None => return attempts,
        }
    }
}

fn shown(attempts: &[(u64, &str)]) -> Vec<(u64, String)> {
    attempts
        .iter()
        .map(|(millis, address)| (*millis, (*address).to_owned()))
        .collect()
}

/// §4 and §5: families alternate, IPv6 first, 250 ms apart.
#[test]
fn families_alternate() {
    let mut connector = Connector::new(None);
    connector.handle_family(
        at(0),
        Family::Ipv6,
        &addresses(&["2001:db8::1", "2001:db8::2", "2001:db8::3"]),
    );
    connector.handle_family(at(0), Family::Ipv4, &addresses(&["192.0.2.1"]));
    assert_eq!(
        attempts(&mut connector, 0),
        shown(&[
            (0, "2001:db8::1"),
            (250, "192.0.2.1"),
            (500, "2001:db8::2"),
            (750, "2001:db8::3")
        ])
    );
}

/// §3: IPv6 addresses that come first are tried at once; IPv4 ones wait 50 ms for them.
#[test]
fn ipv4_waits_for_ipv6() {
    let (v6, v4) = (addresses(&["2001:db8::1"]), addresses(&["192.0.2.1"]));
    let mut connector = Connector::new(None);
    connector.handle_family(at(10), Family::Ipv6, &v6);
    assert_eq!(connector.poll_attempt(at(10)), Some(v6[0]));

    // Within the delay: IPv6 first after all.
    let mut connector = Connector::new(None);
    connector.handle_family(at(10), Family::Ipv4, &v4);
    assert_eq!(
        (connector.poll_attempt(at(10)), connector.poll_timeout()),
        (None, Some(at(60)))
    );
    connector.handle_family(at(30), Family::Ipv6, &v6);
    assert_eq!(
        attempts(&mut connector, 30),
        shown(&[(30, "2001:db8::1"), (280, "192.0.2.1")])
    );

    // Within the delay it turns out that there are none.
    let mut connector = Connector::new(None);
    connector.handle_family(at(10), Family::Ipv4, &v4);
    connector.handle_family(at(30), Family::Ipv6, &[]);
    assert_eq!(connector.poll_attempt(at(30)), Some(v4[0]));

    // Too late: they come after those that are tried already.
    let mut connector = Connector::new(None);
    connector.handle_family(
        at(10),
        Family::Ipv4,
        &addresses(&["192.0.2.1", "192.0.2.2"]),
    );
    assert_eq!(connector.poll_attempt(at(60)), Some(v4[0]));
    connector.handle_family(at(100), Family::Ipv6, &v6);
    assert_eq!(
        attempts(&mut connector, 100),
        shown(&[(310, "2001:db8::1"), (560, "192.0.2.2")])
    );
}

#[test]
fn a_failed_attempt_is_followed_at_once() {
    let mut connector = Connector::new(None);
    connector.handle_family(at(0), Family::Ipv6, &addresses(&["2001:db8::1"]));
    connector.handle_family(at(0), Family::Ipv4, &addresses(&["192.0.2.1", "192.0.2.2"]));
    let first = connector.poll_attempt(at(0)).unwrap();
    connector.handle_failed(at(20), first);
    assert_eq!(connector.poll_attempt(at(20)), Some(one("192.0.2.1")));
    assert_eq!(connector.poll_attempt(at(100)), None);
    connector.handle_failed(at(100), one("192.0.2.1"));
    assert_eq!(connector.poll_attempt(at(100)), Some(one("192.0.2.2")));
    assert!(!connector.has_failed());
    connector.handle_failed(at(101), one("192.0.2.2"));
    assert!(connector.has_failed());
    assert_eq!(connector.poll_timeout(), None);
}

#[test]
fn addresses_that_come_after_all_others_failed_are_tried_at_once() {
    let mut connector = Connector::new(None);
    connector.handle_family(at(0), Family::Ipv6, &addresses(&["2001:db8::1"]));
    let first = connector.poll_attempt(at(0)).unwrap();
    connector.handle_failed(at(5), first);
    assert!(!connector.has_failed());
    connector.handle_family(at(90), Family::Ipv4, &addresses(&["192.0.2.1"]));
    assert_eq!(connector.poll_attempt(at(90)), Some(one("192.0.2.1")));
}

#[test]
fn the_winner_ends_the_others() {
    let mut connector = Connector::new(None);
    connector.handle_family(at(0), Family::Ipv6, &addresses(&["2001:db8::1"]));
    connector.handle_family(at(0), Family::Ipv4, &addresses(&["192.0.2.1", "192.0.2.2"]));
    attempts(&mut connector, 0);
    let others = connector.handle_connected(one("192.0.2.1"));
    assert_eq!(others, addresses(&["2001:db8::1", "192.0.2.2"]));
    assert_eq!(
        (
            connector.poll_attempt(at(5000)),
            connector.poll_timeout(),
            connector.has_failed()
        ),
        (None, None, false)
    );
}

/// What worked the last time comes first, and does not wait for IPv6.
#[test]
fn what_worked_before_comes_first() {
    let mut connector = Connector::new(Some(one("192.0.2.2")));
    connector.handle_family(at(0), Family::Ipv4, &addresses(&["192.0.2.1", "192.0.2.2"]));
    assert_eq!(connector.poll_attempt(at(0)), Some(one("192.0.2.2")));
    connector.handle_family(at(1), Family::Ipv6, &addresses(&["2001:db8::1"]));
    assert_eq!(
        attempts(&mut connector, 1),
        shown(&[(250, "2001:db8::1"), (500, "192.0.2.1")])
    );
    // One that the name no longer has means nothing.
    let mut connector = Connector::new(Some(one("192.0.2.9")));
    connector.handle_family(at(0), Family::Ipv4, &addresses(&["192.0.2.1"]));
    assert_eq!(attempts(&mut connector, 0), shown(&[(50, "192.0.2.1")]));
}

#[test]
fn a_name_without_addresses_has_failed() {
    let mut connector = Connector::new(None);
    assert!(!connector.has_failed());
    connector.handle_complete(at(0));
    assert!(connector.has_failed());
    assert_eq!(
        (connector.poll_attempt(at(0)), connector.poll_timeout()),
        (None, None)
    );
}

/// A name that has very many addresses fails in a time that one can wait for.
#[test]
fn of_very_many_addresses_the_first_are_tried() {
    let all: Vec<IpAddr> = (0..200)
        .map(|last| one(&format!("192.0.2.{last}")))
        .collect();
    let mut connector = Connector::new(None);
    connector.handle_family(at(0), Family::Ipv4, &all);
    connector.handle_complete(at(0));
    let tried: Vec<IpAddr> = (0..)
        .map_while(|turn| connector.poll_attempt(at(250 * turn)))
        .collect();
    assert_eq!(tried, all[..TRIED_ADDRESSES_MAX]);
}

proptest! {
    /// Whatever comes when, each address is tried once, no two within 250 ms unless one has failed, and then all is over.
    #[test]
    fn every_address_is_tried_once(
        six in 0..5u8, four in 0..5u8, six_at in 0..400u64, four_at in 0..400u64,
        fails in prop::collection::vec(prop::option::of(0..400u64), 10), before in prop::option::of(0..5u8),
    ) {
        let v6: Vec<IpAddr> = (0..six).map(|last| one(&format!("2001:db8::{last}"))).collect();
        let v4: Vec<IpAddr> = (0..four).map(|last| one(&format!("192.0.2.{last}"))).collect();
        let mut connector = Connector::new(before.map(|last| one(&format!("192.0.2.{last}"))));
        let mut failures: Vec<(u64, IpAddr)> = Vec::new();
        let (mut tried, mut last, mut failed) = (Vec::new(), None, false);
        for now in 0..6000 {
            if now == six_at { connector.handle_family(at(now), Family::Ipv6, &v6); }
            if now == four_at { connector.handle_family(at(now), Family::Ipv4, &v4); }
            for (_, address) in failures.extract_if(.., |(when, _)| *when == now) {
                connector.handle_failed(at(now), address);
                failed = true;
            }
            if let Some(address) = connector.poll_attempt(at(now)) {
                prop_assert!(failed || last.is_none_or(|last| now >= last + 250));
                (last, failed) = (Some(now), false);
                // Those that never end fail at last.
                failures.push((now + 1 + fails[tried.len()].unwrap_or(3000), address));
                tried.push(address);
            }
        }
        let mut all: Vec<IpAddr> = v6.into_iter().chain(v4).collect();
        all.sort();
        tried.sort();
        prop_assert_eq!(tried, all);
        prop_assert!(connector.has_failed());
    }
}
