//! What keeps a network namespace, told by its number. As root; skipped, and said so, otherwise.

use exos_host::netns::NetNs;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

const NUMBER: u32 = 0x7e57_0001;

/// Without a name and without a descriptor of its own, a namespace is there as long as a socket of it is open.
#[test]
fn a_socket_keeps_its_namespace_and_its_number_tells() {
    // In a namespace of the test's own, whose numbers are nobody else's.
    let Ok(here) = NetNs::anonymous() else {
        eprintln!("SKIPPED: nsid needs root");
        return;
    };
    let netlink = here.netlink().expect("a socket");
    assert!(!netlink.has_namespace(NUMBER).expect("it answers"));
    let there = NetNs::anonymous().expect("a second one");
    netlink
        .number_namespace(there.as_fd(), NUMBER)
        .expect("free");
    let again = netlink.number_namespace(there.as_fd(), NUMBER + 1);
    assert!(again.expect_err("it has one").is(libc::EEXIST));
    let taken = netlink.number_namespace(here.as_fd(), NUMBER);
    assert!(taken.is_err(), "another's");
    let socket = there.run(|| UdpSocket::bind("0.0.0.0:0").expect("free"));
    drop(there);
    assert!(
        netlink.has_namespace(NUMBER).expect("it answers"),
        "the socket has it"
    );
    drop(socket);
    let until = Instant::now() + Duration::from_secs(60);
    while netlink.has_namespace(NUMBER).expect("it answers") {
        assert!(Instant::now() < until, "nobody has it");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(netlink.has_namespace(u32::MAX).is_err(), "31 bits");
}
