//! Namespaces, interfaces, addresses, routes and neighbours against the real kernel.
//!
//! Everything happens in namespaces made here, which go when a test ends, also when it fails. Without root the
//! tests say SKIPPED and pass.

use exos_host::caps::{self, CapabilitySet};
use exos_host::ethtool::Ethtool;
use exos_host::netlink::{Change, NeighbourState, Netlink, VethEnd, Watch};
use exos_host::netns::NetNs;
use exos_host::ports;
use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Two namespaces joined by a veth called `wire` on both sides, 192.0.2.1/24 and 2001:db8::1/64 on the left, .2
/// and ::2 on the right.
struct Pair {
    names: [String; 2],
    left: NetNs,
    right: NetNs,
}

impl Pair {
    /// `None` when we may not.
    fn new(test: &str) -> Option<Self> {
        if !caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN) {
            // Past the test harness, which keeps to itself what passing tests print.
            let _ = std::io::stderr().write_all(format!("SKIPPED: {test} needs root\n").as_bytes());
            return None;
        }
        let names =
            ["l", "r"].map(|side| format!("exos-host-{test}-{}-{side}", std::process::id()));
        let [left, right] = [0, 1].map(|side| {
            // A run that was killed may have had our process's number.
            NetNs::delete(&names[side]).expect("ours to delete");
            NetNs::create(&names[side]).expect("a new name")
        });
        let end = |ns| VethEnd {
            netns: Some(ns),
            ..VethEnd::named("wire")
        };
        let outside = Netlink::new().expect("netlink");
        outside
            .create_veth_pair(&end(left.as_fd()), &end(right.as_fd()))
            .expect("both names are new");
        for (ns, last) in [(&left, 1), (&right, 2)] {
            let netlink = ns.netlink().expect("netlink inside");
            let wire = netlink.link_by_name("wire").expect("born there").index;
            for (ip, prefix) in addresses(last) {
                netlink
                    .add_address(wire, ip, prefix)
                    .expect("a new address");
            }
            netlink.set_up(wire, true).expect("it comes up");
        }
        Some(Self { names, left, right })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            assert!(NetNs::delete(name).expect("ours to delete"));
            assert!(
                !NetNs::delete(name).expect("gone"),
                "nothing is left to delete"
            );
        }
    }
}

fn addresses(last: u8) -> [(IpAddr, u8); 2] {
    [
        ([192, 0, 2, last].into(), 24),
        (ip(&format!("2001:db8::{last}")), 64),
    ]
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn a_pair_across_namespaces() {
    let Some(pair) = Pair::new("pair") else {
        return;
    };
    let netlink = pair.left.netlink().expect("netlink inside");
    let wire = netlink.link_by_name("wire").expect("there");
    assert_eq!(
        (wire.kind.as_deref(), wire.rx_queues, wire.tx_queues),
        (Some("veth"), 1, 1)
    );
    assert!(
        wire.up && wire.running && wire.xdp.is_none() && wire.mtu == 1500,
        "{wire:?}"
    );
    let far = pair
        .right
        .netlink()
        .expect("netlink inside")
        .link_by_name("wire")
        .expect("there");
    assert_eq!(wire.peer_index, Some(far.index));
    assert!(wire.peer_netns.is_some(), "the peer is elsewhere: {wire:?}");
    assert_ne!(wire.mac, far.mac);

    netlink.set_mtu(wire.index, 3000).expect("veth takes it");
    let mac = [2, 0, 0, 1, 2, 3];
    netlink
        .set_mac(wire.index, mac)
        .expect("a local unicast address");
    let wire = netlink
        .link_by_index(wire.index)
        .expect("asked")
        .expect("there");
    assert_eq!((wire.mtu, wire.mac), (3000, Some(mac)));

    let found = netlink.addresses(wire.index).expect("listed");
    assert!(addresses(1).iter().all(|a| found.contains(a)), "{found:?}");
    let (added, prefix) = addresses(1)[0];
    netlink
        .add_address(wire.index, added, prefix)
        .expect("adding what is there changes nothing");
    netlink
        .delete_address(wire.index, added, prefix)
        .expect("it was there");
    assert!(
        !netlink
            .addresses(wire.index)
            .expect("listed")
            .contains(&(added, prefix))
    );

    netlink.delete_link(wire.index).expect("ours");
    assert_eq!(netlink.find_link("wire").expect("asked"), None);
    assert_eq!(
        pair.right
            .netlink()
            .expect("inside")
            .find_link("wire")
            .expect("asked"),
        None,
        "both ends go"
    );
}

#[test]
fn names_that_are_not_there_or_cannot_be() {
    let Some(pair) = Pair::new("names") else {
        return;
    };
    let netlink = pair.left.netlink().expect("netlink inside");
    let error = netlink.link_by_name("nosuch").expect_err("not there");
    assert!(
        error.to_string().contains("wire"),
        "it lists what there is: {error}"
    );
    for name in ["", "a/b", "sixteen-letters-", "two words", ".."] {
        assert!(netlink.find_link(name).is_err(), "{name:?}");
    }
    let error = netlink.set_mtu(9999, 1500).expect_err("no such interface");
    assert!(error.is(libc::ENODEV), "{error}");
    let wire = netlink.link_by_name("wire").expect("there");
    let error = netlink
        .set_mtu(wire.index, 1_000_000)
        .expect_err("far too long");
    assert!(
        error.what.contains("mtu"),
        "the kernel's own words are kept: {error}"
    );
    let error = NetNs::create(&pair.names[0]).expect_err("taken");
    assert!(error.is(libc::EEXIST), "{error}");
    assert!(NetNs::list().expect("listed").contains(&pair.names[1]));
}

#[test]
fn routes_of_both_families() {
    let Some(pair) = Pair::new("routes") else {
        return;
    };
    let netlink = pair.left.netlink().expect("netlink inside");
    let wire = netlink.link_by_name("wire").expect("there").index;
    let route = netlink.route_to(ip("192.0.2.77")).expect("on the link");
    assert_eq!(
        (route.gateway, route.oif, route.src, route.local),
        (None, wire, Some(ip("192.0.2.1")), false)
    );
    assert!(netlink.route_to(ip("192.0.2.1")).expect("our own").local);
    let error = netlink
        .route_to(ip("198.51.100.1"))
        .expect_err("no default route");
    assert!(error.is(libc::ENETUNREACH), "{error}");
    for (network, prefix, gateway, inside) in [
        ("0.0.0.0", 0, "192.0.2.2", "198.51.100.1"),
        ("2001:db8:1::", 48, "2001:db8::2", "2001:db8:1:2::3"),
    ] {
        netlink
            .add_route(ip(network), prefix, Some(ip(gateway)), wire)
            .expect("the gateway is on the link");
        let route = netlink.route_to(ip(inside)).expect("now there is one");
        assert_eq!((route.gateway, route.oif), (Some(ip(gateway)), wire));
        let listed = netlink.routes().expect("listed");
        let entry = listed
            .iter()
            .find(|r| (r.destination, r.prefix) == (ip(network), prefix))
            .expect("listed");
        assert_eq!((entry.gateway, entry.oif), (Some(ip(gateway)), wire));
    }
}

#[test]
fn neighbours_are_resolved_watched_and_forgotten() {
    let Some(pair) = Pair::new("neigh") else {
        return;
    };
    let netlink = pair.left.netlink().expect("netlink inside");
    let wire = netlink.link_by_name("wire").expect("there").index;
    let far = pair
        .right
        .netlink()
        .expect("inside")
        .link_by_name("wire")
        .expect("there")
        .mac;
    let mut watch = pair
        .left
        .run(Watch::neighbours)
        .expect("entered")
        .expect("watching");
    for peer in [ip("192.0.2.2"), ip("2001:db8::2")] {
        assert_eq!(netlink.neighbour(wire, peer).expect("asked"), None);
        let probe = || {
            let asked = netlink.probe_neighbour(wire, peer);
            asked.expect("the host takes it on");
        };
        probe();
        let known = wait_for(&mut watch, |change| match change {
            Change::Neighbour(n) if n.ip == peer && n.state.is_usable() => Some(n),
            // Three questions went unanswered, because the wire or the address was not ready yet.
            Change::Neighbour(n) if n.ip == peer && n.state == NeighbourState::Failed => {
                probe();
                None
            }
            _ => None,
        });
        assert_eq!((known.index, known.mac), (wire, far));
        let asked = netlink
            .neighbour(wire, peer)
            .expect("asked")
            .expect("known");
        assert_eq!(asked.mac, far);
        assert!(
            netlink
                .neighbours(wire)
                .expect("listed")
                .iter()
                .any(|n| n.ip == peer)
        );
        netlink.delete_neighbour(wire, peer).expect("known");
    }
    let (peer, mac) = (ip("192.0.2.99"), [2, 0, 0, 0, 0, 99]);
    netlink.set_neighbour(wire, peer, mac).expect("set by hand");
    let set = netlink
        .neighbour(wire, peer)
        .expect("asked")
        .expect("known");
    assert_eq!((set.mac, set.state), (Some(mac), NeighbourState::Permanent));
}

/// Reads changes until one is wanted, for a minute at most.
fn wait_for<T>(watch: &mut Watch, wanted: impl Fn(Change) -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        match watch.next().expect("readable") {
            Some(change) => {
                if let Some(found) = wanted(change) {
                    return found;
                }
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    panic!("the change did not come within a minute");
}

#[test]
fn a_watch_sees_interfaces_routes_and_addresses() {
    let Some(pair) = Pair::new("watch") else {
        return;
    };
    let netlink = pair.left.netlink().expect("netlink inside");
    let wire = netlink.link_by_name("wire").expect("there").index;
    let mut watch = pair
        .left
        .run(Watch::everything)
        .expect("entered")
        .expect("watching");
    netlink.set_mtu(wire, 1400).expect("allowed");
    wait_for(&mut watch, |c| {
        matches!(c, Change::Link(l) if l.index == wire && l.mtu == 1400).then_some(())
    });
    netlink.add_address(wire, ip("192.0.2.9"), 24).expect("new");
    wait_for(&mut watch, |c| (c == Change::Addresses).then_some(()));
    netlink
        .add_route(ip("198.51.100.0"), 24, Some(ip("192.0.2.2")), wire)
        .expect("new");
    wait_for(&mut watch, |c| (c == Change::Routes).then_some(()));
    netlink.delete_link(wire).expect("ours");
    wait_for(&mut watch, |c| {
        matches!(c, Change::LinkGone(l) if l.index == wire).then_some(())
    });
}

#[test]
fn features_go_off_and_back() {
    let Some(pair) = Pair::new("offload") else {
        return;
    };
    let ethtool: Ethtool = pair.left.ethtool().expect("inside");
    assert_eq!(ethtool.driver("wire").expect("there"), "veth");
    let channels = ethtool
        .channels("wire")
        .expect("asked")
        .expect("veth has them");
    assert_eq!(channels.combined + channels.rx, 1, "{channels:?}");
    assert!(
        ethtool
            .set_feature("wire", "tx-tcp-segmentation", false)
            .expect("known"),
        "it was on"
    );
    assert!(
        !ethtool
            .set_feature("wire", "tx-tcp-segmentation", true)
            .expect("known"),
        "it was off"
    );
    let error = ethtool
        .set_feature("wire", "rx-lro", true)
        .expect_err("veth has none");
    assert!(error.what.contains("rx-lro"), "{error}");
}

#[test]
fn work_and_commands_inside() {
    let Some(pair) = Pair::new("inside") else {
        return;
    };
    let outside = NetNs::current().expect("ours").inode().expect("known");
    let inside = pair
        .left
        .run(|| NetNs::current().expect("ours").inode().expect("known"))
        .expect("entered");
    assert_eq!(inside, pair.left.inode().expect("known"));
    assert_ne!(inside, outside);
    assert_eq!(
        NetNs::current().expect("ours").inode().expect("known"),
        outside,
        "the caller did not move"
    );

    let mut command = Command::new("cat");
    pair.left
        .place(command.arg("/proc/self/net/dev"))
        .expect("placed");
    let seen = String::from_utf8(command.output().expect("it runs").stdout).expect("text");
    assert!(seen.contains("wire:"), "{seen}");

    pair.left
        .set_sysctl("net/ipv4/ip_default_ttl", "77")
        .expect("writable");
    assert_eq!(
        pair.left
            .sysctl("net/ipv4/ip_default_ttl")
            .expect("readable"),
        "77"
    );
    assert_ne!(
        pair.right
            .sysctl("net/ipv4/ip_default_ttl")
            .expect("readable"),
        "77"
    );

    let reserved = pair
        .left
        .run(|| ports::reserve("192.0.2.1:80".parse().expect("an address")))
        .expect("entered");
    reserved.expect("free in there");
}

#[test]
fn a_namespace_without_a_name_goes_with_its_handle() {
    let Some(_pair) = Pair::new("unnamed") else {
        return;
    };
    let netns = NetNs::anonymous().expect("root may");
    let netlink = netns.netlink().expect("inside");
    netlink
        .create_veth("left", "right")
        .expect("nobody else is there");
    assert_eq!(
        netlink.links().expect("listed").len(),
        3,
        "the two and loopback"
    );
    let ours = Netlink::new().expect("netlink");
    assert_eq!(ours.find_link("left").expect("asked"), None);
    assert_eq!(netns.name(), None);
}

#[test]
fn processes_inside_are_named() {
    let Some(pair) = Pair::new("procs") else {
        return;
    };
    let mut command = Command::new("sh");
    command
        .args(["-c", "echo ready; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    pair.right.place(&mut command).expect("placed");
    let mut child = command.spawn().expect("it runs");
    let mut ready = [0; 6];
    child
        .stdout
        .take()
        .expect("piped")
        .read_exact(&mut ready)
        .expect("it says so");
    assert_eq!(
        pair.right.processes().expect("listed"),
        [(child.id(), "sh".to_owned())]
    );
    drop(child.stdin.take());
    child.wait().expect("it ends at the end of its input");
    assert_eq!(pair.right.processes().expect("listed"), []);
}

#[test]
fn what_a_crash_left_of_a_name_is_replaced() {
    let Some(pair) = Pair::new("crash") else {
        return;
    };
    let name = format!("{}-left", pair.names[0]);
    std::fs::write(format!("/run/netns/{name}"), "").expect("writable");
    assert!(
        NetNs::find(&name).expect("asked").is_none(),
        "a file without a mount is no namespace"
    );
    NetNs::create(&name).expect("replaced");
    assert!(NetNs::delete(&name).expect("ours"));
    for bad in ["", "../x", "a/b", ".hidden"] {
        assert!(NetNs::find(bad).is_err(), "{bad:?}");
    }
}

/// Two hosts on a bridge hear each other.
#[test]
fn a_bridge_joins_its_ports() {
    let Some(pair) = Pair::new("bridge") else {
        return;
    };
    let name = format!("exos-host-bridge-{}-switch", std::process::id());
    NetNs::delete(&name).expect("ours to delete");
    let switch = NetNs::create(&name).expect("a new name");
    let netlink = switch.netlink().unwrap();
    netlink.create_bridge("bridge").unwrap();
    let bridge = netlink.link_by_name("bridge").unwrap();
    assert_eq!(bridge.kind.as_deref(), Some("bridge"));
    netlink.set_up(bridge.index, true).unwrap();
    let error = netlink.create_bridge("bridge").unwrap_err();
    assert!(error.to_string().contains("bridge"), "{error}");
    for (host, port, address) in [
        (&pair.left, "left", "198.51.100.1"),
        (&pair.right, "right", "198.51.100.2"),
    ] {
        let inner = VethEnd {
            netns: Some(host.as_fd()),
            ..VethEnd::named("port")
        };
        netlink
            .create_veth_pair(&inner, &VethEnd::named(port))
            .unwrap();
        let index = netlink.link_by_name(port).unwrap().index;
        netlink.set_controller(index, bridge.index).unwrap();
        netlink.set_up(index, true).unwrap();
        let netlink = host.netlink().unwrap();
        let index = netlink.link_by_name("port").unwrap().index;
        netlink.set_up(index, true).unwrap();
        netlink
            .add_address(index, address.parse().unwrap(), 24)
            .unwrap();
    }
    let listening = || std::net::TcpListener::bind("198.51.100.2:7").unwrap();
    let listener = pair.right.run(listening).unwrap();
    let connect = || std::net::TcpStream::connect("198.51.100.2:7").map(drop);
    pair.left.run(connect).unwrap().expect("by the bridge");
    drop(listener);
    NetNs::delete(&name).expect("ours to delete");
}

/// Pairs of one group go together, and no others.
#[test]
fn a_group_is_deleted_at_once() {
    let Some(pair) = Pair::new("group") else {
        return;
    };
    let netlink = pair.left.netlink().expect("a socket");
    assert!(!netlink.delete_group(77).expect("there are none"));
    for (ours, other, group) in [("a", "b", 77), ("c", "d", 77), ("e", "f", 78)] {
        netlink.create_veth(ours, other).expect("free names");
        let index = netlink.link_by_name(ours).expect("just made").index;
        netlink.set_group(index, group).expect("it is there");
    }
    assert!(netlink.delete_group(77).expect("they are ours"));
    let names = netlink.links().expect("they can be listed").into_iter();
    let names: Vec<_> = names.map(|link| link.name).collect();
    assert_eq!(names, ["lo", "wire", "f", "e"]);
}
