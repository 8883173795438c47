//! What passes to the host while a program that is to take it cannot yet, over the loopback interface of a namespace.

use exos_host::caps::{self, CapabilitySet};
use exos_host::netns::NetNs;
use exos_host::passing::Passing;
use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};

const LOOPBACK: u32 = 1;

/// With no room left for data, SYNs are kept all the same; what was lost is told, and nothing comes once it has stopped.
#[test]
fn syns_have_room_of_their_own() {
    if !caps::has(CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN) {
        let _ = std::io::stderr().write_all(b"SKIPPED: syns_have_room_of_their_own needs root\n");
        return;
    }
    let space = NetNs::anonymous().unwrap();
    space.netlink().unwrap().set_up(LOOPBACK, true).unwrap();
    space.run(overrun).unwrap();
}

fn overrun() {
    let mut passing = Passing::listen(LOOPBACK, &[([127, 0, 0, 1].into(), 32)]).unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap();
    // Twice what there is room for.
    let sent = 17_000;
    for _ in 0..sent {
        sender.send_to(&[0; 1000], to).unwrap();
    }
    // To another address nothing is heard, nor of what comes after it has stopped.
    sender
        .send_to(&[0; 1000], ("127.0.0.2", to.port()))
        .unwrap();
    assert!(
        TcpStream::connect("127.0.0.1:9").is_err(),
        "nobody is there"
    );
    passing.stop().unwrap();
    assert!(
        TcpStream::connect("127.0.0.1:9").is_err(),
        "nobody is there"
    );
    let mut frame = [0; 2000];
    let mut heard = Vec::new();
    while let Some(frame) = passing.next(&mut frame) {
        heard.push((frame[23], frame[33]));
    }
    let lost = passing.take_lost();
    let syns = heard.iter().filter(|(protocol, _)| *protocol == 6).count();
    assert_eq!(heard[0].0, 6, "the SYN comes first");
    assert_eq!(syns, 1);
    assert!(heard.iter().all(|(_, last)| *last == 1));
    // The answer to the SYN, a reset, is lost with the rest, as errors of ICMP about what nobody has taken would be.
    assert!(lost >= 1, "nothing is lost of {sent}");
    assert!(
        heard.len() as u64 + lost > sent,
        "{} and {lost}",
        heard.len()
    );
    assert_eq!(passing.take_lost(), 0);
}
