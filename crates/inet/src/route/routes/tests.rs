//! Routes: tables of questions and answers.

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Two IPv4 networks, one IPv6 network with its link-local address, gateways for the rest.
fn routes() -> Routes {
    let mut routes = Routes::new();
    for (addr, len) in [
        ("10.0.0.1", 24),
        ("192.168.7.2", 16),
        ("fd10::1", 64),
        ("fe80::1", 64),
    ] {
        routes.add_address(ip(addr), len).unwrap();
    }
    routes.set_default(ip("10.0.0.254")).unwrap();
    routes.set_default(ip("fe80::ffff")).unwrap();
    let narrow = Prefix::new(ip("10.9.0.0"), 16).unwrap();
    routes.add_gateway(narrow, ip("192.168.0.9")).unwrap();
    let inside = Prefix::new(ip("192.168.8.0"), 24).unwrap();
    routes.add_gateway(inside, ip("10.0.0.253")).unwrap();
    routes
}

/// Who has several links takes the one with the longest match: its own network, a route, or the default router.
#[test]
fn how_well_a_route_matches() {
    let mut routes = Routes::new();
    routes.add_address(ip("10.0.0.7"), 24).unwrap();
    routes.add_address(ip("fd00::7"), 64).unwrap();
    let network = Prefix::new(ip("10.8.0.0"), 16).unwrap();
    routes.add_gateway(network, ip("10.0.0.1")).unwrap();
    for (to, wanted) in [
        ("10.0.0.9", Some(24)),
        ("10.8.3.4", Some(16)),
        ("192.0.2.1", None),
        ("fd00::9", Some(64)),
        ("fd01::9", None),
    ] {
        assert_eq!(routes.matched_len(ip(to)), wanted, "{to}");
        assert_eq!(routes.next_hop(ip(to)).is_some(), wanted.is_some(), "{to}");
    }
    routes.set_default(ip("10.0.0.1")).unwrap();
    assert_eq!(routes.matched_len(ip("192.0.2.1")), Some(0));
}

#[test]
fn next_hop_and_source() {
    // (destination, next hop, source)
    let table = [
        ("10.0.0.77", Some("10.0.0.77"), Some("10.0.0.1")),
        ("192.168.200.1", Some("192.168.200.1"), Some("192.168.7.2")),
        ("8.8.8.8", Some("10.0.0.254"), Some("10.0.0.1")),
        // The longer prefix wins, also against on-link.
        ("10.9.1.1", Some("192.168.0.9"), Some("192.168.7.2")),
        ("192.168.8.1", Some("10.0.0.253"), Some("10.0.0.1")),
        ("255.255.255.255", Some("255.255.255.255"), Some("10.0.0.1")),
        (
            "192.168.255.255",
            Some("192.168.255.255"),
            Some("192.168.7.2"),
        ),
        ("224.0.0.251", Some("224.0.0.251"), Some("10.0.0.1")),
        ("10.0.0.1", Some("10.0.0.1"), Some("10.0.0.1")),
        ("0.0.0.0", None, Some("10.0.0.1")),
        ("fd10::99", Some("fd10::99"), Some("fd10::1")),
        ("2001:db8::1", Some("fe80::ffff"), Some("fd10::1")),
        ("fe80::99", Some("fe80::99"), Some("fe80::1")),
        ("ff02::fb", Some("ff02::fb"), Some("fe80::1")),
        ("ff05::1", Some("ff05::1"), Some("fd10::1")),
        ("::", None, Some("fd10::1")),
    ];
    let routes = routes();
    for (dst, hop, source) in table {
        assert_eq!(routes.next_hop(ip(dst)), hop.map(ip), "next hop of {dst}");
        assert_eq!(
            routes.source_for(ip(dst)),
            source.map(ip),
            "source for {dst}"
        );
    }
}

#[test]
fn a_family_without_addresses_goes_nowhere() {
    let mut routes = Routes::new();
    assert_eq!(routes.next_hop(ip("10.0.0.1")), None);
    routes.add_address(ip("10.0.0.1"), 24).unwrap();
    assert_eq!(routes.next_hop(ip("11.0.0.1")), None, "no gateway");
    for dst in ["fd10::1", "fe80::1", "ff02::1"] {
        assert_eq!(routes.next_hop(ip(dst)), None, "{dst}");
        assert_eq!(routes.source_for(ip(dst)), None, "{dst}");
    }
}

#[test]
fn what_is_for_us() {
    let table = [
        ("10.0.0.1", Some(Delivery::Unicast)),
        ("10.0.0.2", None),
        ("10.0.0.255", Some(Delivery::Broadcast)),
        ("192.168.255.255", Some(Delivery::Broadcast)),
        ("192.168.7.255", None),
        ("255.255.255.255", Some(Delivery::Broadcast)),
        ("224.0.0.1", Some(Delivery::Multicast)),
        ("224.0.0.2", None),
        ("fd10::1", Some(Delivery::Unicast)),
        ("ff02::1", Some(Delivery::Multicast)),
        ("ff01::1", Some(Delivery::Multicast)),
        ("ff02::2", None),
        ("ff02::1:ff00:1", Some(Delivery::Multicast)),
        ("ff02::1:ff00:2", None),
    ];
    let routes = routes();
    for (dst, delivery) in table {
        assert_eq!(routes.accepts(ip(dst)), delivery, "{dst}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut routes = routes();
    let add = |routes: &mut Routes, addr, len| routes.add_address(ip(addr), len).unwrap_err();
    assert_eq!(
        add(&mut routes, "10.0.0.1", 24),
        RouteError::Duplicate(ip("10.0.0.1"))
    );
    assert_eq!(
        add(&mut routes, "10.5.0.1", 33),
        RouteError::PrefixLength(PrefixLengthError {
            addr: ip("10.5.0.1"),
            len: 33
        })
    );
    for bad in [
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "10.1.0.255",
        "::",
        "::1",
        "ff02::1",
    ] {
        assert_eq!(add(&mut routes, bad, 24), RouteError::NotUnicast(ip(bad)));
    }
    let via = |routes: &mut Routes, gateway| routes.set_default(ip(gateway)).unwrap_err();
    assert_eq!(
        via(&mut routes, "11.0.0.1"),
        RouteError::GatewayNotOnLink(ip("11.0.0.1"))
    );
    assert_eq!(
        via(&mut routes, "10.0.0.1"),
        RouteError::NotUnicast(ip("10.0.0.1")),
        "our own"
    );
    let crossed = routes
        .add_gateway(Prefix::ALL_V4, ip("fe80::ffff"))
        .unwrap_err();
    assert_eq!(crossed, RouteError::FamilyMismatch(ip("fe80::ffff")));
    assert_eq!(
        via(&mut routes, "11.0.0.1").to_string(),
        "gateway 11.0.0.1 is in the prefix of none of the addresses: give one of them a prefix that contains it"
    );
}

#[test]
fn changes_show_and_replace() {
    let mut routes = routes();
    let generation = routes.generation();
    routes.set_default(ip("10.0.0.250")).unwrap();
    assert_ne!(routes.generation(), generation);
    assert_eq!(
        routes.next_hop(ip("8.8.8.8")),
        Some(ip("10.0.0.250")),
        "replaced"
    );
    routes
        .add_on_link(Prefix::new(ip("8.8.8.0"), 24).unwrap())
        .unwrap();
    assert_eq!(routes.next_hop(ip("8.8.8.8")), Some(ip("8.8.8.8")));
    assert_eq!(routes.accepts(ip("8.8.8.255")), Some(Delivery::Broadcast));
}

/// RFC 4291 appendix A, the example of 34-56-78-9A-BC-DE.
#[test]
fn link_local_from_mac() {
    let mac = Mac([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
    assert_eq!(IpAddr::V6(link_local(mac)), ip("fe80::3656:78ff:fe9a:bcde"));
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// An address on the link of each family, and these pools.
fn with_pools(pools: &[&str]) -> Result<Routes, RouteError> {
    let mut routes = Routes::new();
    routes.add_address(ip("10.0.0.2"), 24)?;
    routes.add_address(ip("fd00::2"), 64)?;
    for pool in pools {
        routes.add_pool(prefix(pool))?;
    }
    Ok(routes)
}

#[test]
fn all_addresses_of_a_pool_are_ours() {
    let pools = ["fd00::5:0/112", "10.0.0.64/26", "fd01::/64", "10.9.0.0/16"];
    let routes = with_pools(&pools).unwrap();
    for ours in [
        "10.0.0.64",
        "10.0.0.127",
        "10.9.0.0",
        "10.9.255.255",
        "fd00::5:0",
        "fd00::5:ffff",
        "fd01::",
        "fd01::ffff:ffff:ffff:ffff",
        "10.0.0.2",
    ] {
        assert_eq!(routes.accepts(ip(ours)), Some(Delivery::Unicast), "{ours}");
    }
    for other in [
        "10.0.0.63",
        "10.0.0.128",
        "10.8.255.255",
        "fd00::6:0",
        "fd01:0:0:1::",
    ] {
        assert_eq!(routes.accepts(ip(other)), None, "{other}");
    }
    // The last address of a routed pool is one like all others; that of the link's network is everybody's.
    assert!(!routes.is_broadcast(ip("10.9.255.255")) && routes.is_broadcast(ip("10.0.0.255")));
    let of = |to: &str| routes.pools_to(ip(to)).to_vec();
    assert_eq!(
        of("10.0.0.1"),
        [prefix("10.0.0.64/26"), prefix("10.9.0.0/16")]
    );
    assert_eq!(
        of("fd00::1"),
        [prefix("fd00::5:0/112"), prefix("fd01::/64")]
    );
    assert_eq!((of("fe80::1"), of("169.254.0.1")), (vec![], vec![]));
    // What we say for ourselves comes from a single address.
    assert_eq!(routes.source_for(ip("10.0.0.1")), Some(ip("10.0.0.2")));
}

/// Those who ask for an address of a pool ask its solicited-node group, and no other group is joined.
#[test]
fn groups_of_a_pool() {
    let groups = |pool: &str, inside: &[&str], outside: &[&str]| {
        let routes = with_pools(&[pool]).unwrap();
        let group = |addr: &&str| IpAddr::V6(solicited_node(&addr.parse().unwrap()));
        for addr in inside {
            assert!(routes.is_member(group(addr)), "{pool}: {addr}");
        }
        for addr in outside {
            assert!(!routes.is_member(group(addr)), "{pool}: {addr}");
        }
    };
    groups(
        "fd00::5:0/112",
        &["fd00::5:0", "fd00::5:1234"],
        &["fd00::6:0", "fd00::4:ffff"],
    );
    groups("fd00:1::/104", &["fd00:1::1", "fd00:1::ff:ffff"], &[]);
    groups("fd00:1::/64", &["fd00:1::abcd:1234"], &[]);
    groups("fd00:1::9/128", &["fd00:1::9"], &["fd00:1::8"]);
    let routes = with_pools(&["fd00:1::/64"]).unwrap();
    for other in ["ff02::2", "ff02::1:fe00:1", "ff05::1:ff00:1"] {
        assert!(!routes.is_member(ip(other)), "{other}");
    }
}

#[test]
fn pools_that_cannot_be() {
    let refusal = |pools: &[&str]| with_pools(pools).unwrap_err().to_string();
    for (pools, part) in [
        (&["10.9.0.5/16"][..], "is 10.9.0.0/16"),
        (&["fd01::1/64"], "is fd01::/64"),
        (
            &["10.0.0.0/26"],
            "first or the last address of the network 10.0.0.0/24",
        ),
        (
            &["10.0.0.192/26"],
            "first or the last address of the network 10.0.0.0/24",
        ),
        (
            &["10.0.0.0/8"],
            "first or the last address of the network 10.0.0.0/24",
        ),
        (
            &["fd00::/48"],
            "first or the last address of the network fd00::/64",
        ),
        (&["0.0.0.0/0"], "0.0.0.0/8"),
        (&["126.0.0.0/7"], "127.0.0.0/8"),
        (&["224.0.0.0/4"], "224.0.0.0/3"),
        (&["169.254.7.0/24"], "169.254.0.0/16"),
        (&["::/64"], "::/127"),
        (&["fe80::/64"], "fe80::/10"),
        (&["ff02::/16"], "ff00::/8"),
        (&["10.9.0.0/16", "10.9.8.0/24"], "overlap"),
        (&["10.9.8.0/24", "10.9.0.0/16"], "overlap"),
    ] {
        assert!(
            refusal(pools).contains(part),
            "{pools:?}: {}",
            refusal(pools)
        );
    }
    let mut alone = Routes::new();
    alone.add_address(ip("fd00::2"), 64).unwrap();
    let error = alone.add_pool(prefix("10.9.0.0/16")).unwrap_err();
    assert!(
        error.to_string().contains("needs an address of ours"),
        "{error}"
    );
    let many: Vec<String> = (0..=16).map(|n| format!("10.{}.0.0/16", n + 9)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(with_pools(&many).unwrap_err(), RouteError::Full(16));
    assert!(with_pools(&many[..16]).is_ok());
    // A pool may have the address by which it is reached.
    assert!(with_pools(&["10.0.0.2/31"]).is_ok());
}

/// Loopback addresses are somebody else's only where a route says so, and a default route says nothing of them.
#[test]
fn loopback_addresses_behind_a_route() {
    let mut routes = routes();
    assert!(!routes.lead_to_loopback());
    routes
        .add_gateway(prefix("127.0.0.0/8"), ip("10.0.0.254"))
        .unwrap();
    assert!(routes.lead_to_loopback());
    assert_eq!(routes.next_hop(ip("127.0.0.1")), Some(ip("10.0.0.254")));
}
