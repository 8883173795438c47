//! Groups in which neighbours ask for IPv6 addresses. As root, in network namespaces of this test's own. Skipped, and said
//! so, otherwise.

use crate::lab;

use lab::*;

/// A card lets in what somebody has joined, so the daemon joins the groups of addresses that are not the host's.
#[test]
fn the_groups_of_addresses_of_ours_alone_are_joined() {
    let Some(mut lab) = Lab::new("multicast") else {
        return;
    };
    let is_joined = |lab: &Lab| {
        let groups = || std::fs::read_to_string("/proc/thread-self/net/dev_mcast");
        let groups = lab.on_the_host(groups).expect("it is there");
        groups.contains("3333ff560007")
    };
    assert!(!is_joined(&lab));
    lab.launch(&["--address", "fd78::1256:7/64"]);
    assert!(is_joined(&lab));
    lab.stop();
    assert!(!is_joined(&lab));
}
