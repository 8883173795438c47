//! Packet sockets with the real kernel on the other side of a veth: what is claimed, what passes, and what comes whole.

use crate::common;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use common::*;
use exos_filter::Action;
use exos_host::netlink::Netlink;
use exos_link::{Link, PacketConfig, PacketLink, Relay, RxChecksum};
use exos_wire::Mac;

/// An address of the kernel's on our end.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);

fn open(rules: &str) -> PacketLink {
    PacketLink::open(&PacketConfig::new(OUR_INTERFACE, claim(rules))).unwrap()
}

/// Gives our end's kernel an address, which the other end knows.
fn give_host_an_address(wire: &Wire) {
    let ours = Netlink::new().unwrap();
    let index = ours.link_by_name(OUR_INTERFACE).unwrap().index;
    ours.add_address(index, IpAddr::V4(HOST), 24).unwrap();
    ours.set_neighbour(index, IpAddr::V4(THEIRS), wire.their_mac.0)
        .unwrap();
    let theirs = wire.their_ns.netlink().unwrap();
    let index = theirs.link_by_name("vb").unwrap().index;
    theirs
        .set_neighbour(index, IpAddr::V4(HOST), wire.our_mac.0)
        .unwrap();
}

/// Receives until there is a datagram for [`OUR_PORT`]; what it says.
fn next(link: &mut Link) -> Vec<u8> {
    let mut said = Vec::new();
    receive_until(link, |frame, _| match udp_payload(frame, OUR_PORT) {
        Some(payload) => {
            said = payload.to_vec();
            true
        }
        None => false,
    });
    said
}

/// What is claimed comes to us, and the host's stack does not answer it; the rest is the host's, and all of it when the link
/// lets it pass or has gone.
#[test]
fn what_is_claimed_is_ours_alone() {
    if skip_without_root("what_is_claimed_is_ours_alone") {
        return;
    }
    let wire = Wire::new(1500);
    give_host_an_address(&wire);
    let theirs = wire.their_socket();
    let host = UdpSocket::bind((HOST, OUR_PORT)).unwrap();
    let host_too = UdpSocket::bind((HOST, 7)).unwrap();
    for socket in [&host, &host_too] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let hears = |socket: &UdpSocket, said: &[u8]| {
        let mut buffer = [0; 100];
        let len = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], said);
    };
    let mut packets = open("udp dst port 9000");
    packets.set_rules(&our_rules(), Action::Pass).unwrap();
    let mut link = Link::from(packets);
    theirs.send_to(b"ours", (HOST, OUR_PORT)).unwrap();
    theirs.send_to(b"the host's", (HOST, 7)).unwrap();
    assert_eq!(next(&mut link), b"ours");
    hears(&host_too, b"the host's");
    assert_eq!(counter(&link, "tc_claimed"), 1);
    // A frame of ours arrives there.
    let port = theirs.local_addr().unwrap().port();
    let frame = wire.frame_to(port, b"from us");
    assert!(link.transmit(&frame, &[], Default::default()));
    hears(&theirs, b"from us");
    let Link::Packet(mut packets) = link else {
        unreachable!("it was made of one");
    };
    packets.let_pass();
    theirs.send_to(b"passes", (HOST, OUR_PORT)).unwrap();
    hears(&host, b"passes");
    packets.set_rules(&our_rules(), Action::Pass).unwrap();
    let mut link = Link::from(packets);
    theirs.send_to(b"ours again", (HOST, OUR_PORT)).unwrap();
    assert_eq!(next(&mut link), b"ours again");
    drop(link);
    theirs.send_to(b"gone", (HOST, OUR_PORT)).unwrap();
    hears(&host, b"gone");
}

/// A connection between the other kernel and itself, of which all packets come to us and go back with their ends turned round:
/// they come whole and unfinished, and arrive whole and right.
#[test]
fn what_comes_whole_leaves_whole() {
    if skip_without_root("what_comes_whole_leaves_whole") {
        return;
    }
    const LEN: usize = 4_000_000;
    let wire = Wire::new(1500);
    let mut link = Link::from(open("tcp"));
    let listener = wire.their_ns.run(|| TcpListener::bind((THEIRS, 80)));
    let listener = listener.unwrap().unwrap();
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        connection.read_to_end(&mut got).unwrap();
        got
    });
    let sent: Vec<u8> = (0..LEN).map(|n| (n / 7) as u8).collect();
    let data = sent.clone();
    let connect = wire.their_ns.run(|| {
        std::thread::spawn(move || {
            let mut connection = TcpStream::connect((OURS, 80)).unwrap();
            connection.write_all(&data).unwrap();
        })
    });
    let client = connect.unwrap();
    let (mut frames, mut unfinished) = (0, 0);
    let deadline = std::time::Instant::now() + PATIENCE;
    while !server.is_finished() {
        assert!(
            std::time::Instant::now() < deadline,
            "{:?}",
            link.counters()
        );
        let count = link.relay(|frame, meta| {
            frames += 1;
            unfinished += u64::from(meta.checksum == RxChecksum::Partial);
            turn_round(frame, wire.our_mac, wire.their_mac);
            Relay::Onward
        });
        link.flush().unwrap();
        if count == 0 {
            wait_readable(&link, Duration::from_millis(10));
        }
    }
    client.join().unwrap();
    assert!(server.join().unwrap() == sent, "other bytes arrived");
    assert!(frames < LEN as u64 / 1448, "{frames} frames: they were cut");
    assert!(unfinished > 0 && counter(&link, "tx_gso_frames") > 0);
    assert_eq!(counter(&link, "tx_refused"), 0);
}

/// As if there were two hosts: addresses are exchanged, so that no sum changes.
fn turn_round(frame: &mut [u8], ours: Mac, theirs: Mac) {
    frame[..6].copy_from_slice(&theirs.0);
    frame[6..12].copy_from_slice(&ours.0);
    let (src, dst) = frame[26..34].split_at_mut(4);
    src.swap_with_slice(dst);
}

/// A link whose interface goes down says so.
#[test]
fn an_interface_that_goes_down_is_told() {
    if skip_without_root("an_interface_that_goes_down_is_told") {
        return;
    }
    let _wire = Wire::new(1500);
    let mut link = Link::from(open("udp dst port 9000"));
    let netlink = Netlink::new().unwrap();
    let index = netlink.link_by_name(OUR_INTERFACE).unwrap().index;
    netlink.set_up(index, false).unwrap();
    wait_for("the error", || {
        link.receive(|_, _| {});
        let told = link.flush();
        told.is_err_and(|error| error.raw_os_error() == Some(libc::ENETDOWN))
    });
    netlink.set_up(index, true).unwrap();
    wait_for("the interface", || link.flush().is_ok());
}
