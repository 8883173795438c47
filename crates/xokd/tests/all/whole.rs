//! A program that has all ports of an address, as a forwarder does, beside others on the same interface. As root, in network
//! namespaces of this test's own. Skipped, and said so, otherwise.

use crate::lab;
use crate::packets;

use std::net::{IpAddr, SocketAddr, UdpSocket};

use exos_filter::gate::Counter;
use exos_link::{Link, TxMeta};
use exos_wire::Mac;
use exos_xok::Protocol;
use exos_xok::message::{Answer, PortWish, Refusal, Request};
use exos_xok::tables::{Neighbour, NeighbourState, Tables};
use lab::*;
use packets::FrameEnds;

/// An address beside [`OURS`] on the same interface.
const OTHER: &str = "10.78.0.8";

/// A daemon with both addresses, of which all may be claimed.
fn lab(name: &str) -> Option<Lab> {
    let mut lab = Lab::new(name)?;
    let policy = format!(
        "[[interface]]\nname = \"wire\"\naddresses = [\"{OURS}/24\", \"{OTHER}/24\"]\n\
         [[allow]]\nuser = \"root\"\nports = [\"1-65535\"]\n"
    );
    let file = lab.policy();
    std::fs::write(&file, policy).expect("room");
    lab.run(&["--policy", file.to_str().expect("a name")]);
    Some(lab)
}

/// Claims something of one address.
fn claim_of(program: &Program, protocol: Protocol, ip: &str, port: PortWish) -> Answer {
    let request = Request::Claim {
        protocol,
        local: Some(ip.parse().expect("an address")),
        port,
        remote: None,
    };
    program.ask(&request).0
}

/// This frame, from another address.
fn from_other(mut frame: Vec<u8>) -> Vec<u8> {
    // The last byte of the source; the header's checksum is less by as much (RFC 1624).
    frame[29] += 1;
    let sum = u16::from_be_bytes([frame[24], frame[25]]) - 1;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// What side b hears first of frames that are sent by this ring, at a port where it listens.
fn first_heard(link: &mut Link, socket: &UdpSocket, frames: &[&[u8]]) -> String {
    for frame in frames {
        assert!(link.transmit(frame, &[], TxMeta::default()), "room");
        link.flush().expect("it is up");
    }
    let mut buffer = [0; 100];
    let len = socket.recv(&mut buffer).expect("something arrives");
    String::from_utf8_lossy(&buffer[..len]).into_owned()
}

/// All ports of one protocol of one address: nothing of another protocol or address comes to it, or is sent by it, and nobody
/// gets a part of what it has.
#[test]
fn all_ports_of_an_address_are_that_and_no_more() {
    let Some(lab) = lab("whole") else {
        return;
    };
    let forwarder = Program::connect(&lab);
    let Attached { slot, mut link, .. } = forwarder.attached();
    let all = claim_of(&forwarder, Protocol::Udp, OURS, PortWish::All);
    assert_eq!(port_of(&all).1.to_string(), format!("udp {OURS}"));

    let beside = Program::connect(&lab);
    let Attached {
        link: mut their_link,
        ..
    } = beside.attached();
    for ip in [OURS, OTHER] {
        let port = PortWish::Number(4000);
        let (protocol, taken) = match ip {
            OURS => (Protocol::Tcp, Some(Protocol::Udp)),
            _ => (Protocol::Udp, None),
        };
        port_of(&claim_of(&beside, protocol, ip, port));
        if let Some(protocol) = taken {
            let refused = claim_of(&beside, protocol, ip, port);
            assert_eq!(refusal(&refused).0, Refusal::Held);
        }
    }

    // What comes in: any port of ours, and nothing of theirs.
    for port in [1, 4000, 65_535] {
        assert!(receives_at(
            &lab,
            &mut link,
            (OURS, port),
            "for the forwarder"
        ));
    }
    assert!(receives_at(
        &lab,
        &mut their_link,
        (OTHER, 4000),
        "for the other"
    ));
    let mut seen = false;
    link.receive(|frame, _| seen |= frame.ends_with(b"for the other"));
    assert!(!seen, "it has seen what is another's");

    // What goes out: from any port of ours, and from nothing of theirs.
    let socket = lab.over_there(|| UdpSocket::bind("10.78.0.2:5000").expect("free"));
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    for port in [1, 4000, 65_535] {
        let said = format!("from port {port}");
        let frame = lab.datagram(port, 5000, said.as_bytes());
        assert_eq!(first_heard(&mut link, &socket, &[&frame]), said);
    }
    let words = forwarder.tables();
    let stopped = || {
        let row = Tables::new(words.words()).expect("tables").slot(slot);
        row.map_or(0, |row| row.counters[Counter::TxBadSource as usize])
    };
    let before = stopped();
    // Each has one behind it that is its own.
    let theirs = from_other(lab.datagram(4000, 5000, b"in the other's name"));
    let mine = lab.datagram(4000, 5000, b"in the forwarder's name");
    let heard = first_heard(&mut link, &socket, &[&theirs, &mine]);
    assert_eq!(heard, "in the forwarder's name");
    let heard = first_heard(&mut their_link, &socket, &[&mine, &theirs]);
    assert_eq!(heard, "in the other's name");
    let is_counted = || stopped() == before + 1;
    assert!(within(is_counted), "it was counted");
}

/// A neighbour, as the daemon's tables have it.
fn neighbour(program: &Program, ip: &str) -> Option<Neighbour> {
    let ip: IpAddr = ip.parse().expect("an address");
    let words = program.tables();
    let tables = Tables::new(words.words()).expect("tables");
    tables.neighbours().find(|n| n.ip == ip)
}

/// At an address of the interface's own is a program of the same daemon: a forwarder's server may be one. It is found at the
/// interface's own link address, without anybody being asked, and packets go there and back.
#[test]
fn a_program_of_the_same_daemon_is_found_and_reached() {
    let Some(lab) = lab("same-daemon") else {
        return;
    };
    let (forwarder, server) = (Program::connect(&lab), Program::connect(&lab));
    let [mut link, mut their_link] = [&forwarder, &server].map(|program| program.attached().link);
    port_of(&claim_of(&forwarder, Protocol::Udp, OURS, PortWish::All));
    let port = PortWish::Number(4000);
    port_of(&claim_of(&server, Protocol::Udp, OTHER, port));
    assert_eq!(neighbour(&forwarder, OTHER), None);
    for (program, ip) in [(&forwarder, OTHER), (&server, OURS)] {
        let ip = ip.parse().expect("an address");
        assert_eq!(program.ask(&Request::Resolve { ip }).0, Answer::Done);
    }
    let ends = [(OURS, 9), (OTHER, 4000)];
    let [us, them] = ends.map(|(ip, port)| SocketAddr::new(ip.parse().expect("an address"), port));
    for (from, to) in [(us, them), (them, us)] {
        let is_forwarders = from == us;
        let (sender, receiver) = match is_forwarders {
            true => (&mut link, &mut their_link),
            false => (&mut their_link, &mut link),
        };
        let found = neighbour(&forwarder, &to.ip().to_string()).expect("it was asked for");
        assert_eq!(found.state, NeighbourState::Reachable);
        assert_eq!(found.mac, Mac(lab.mac('a')));
        let ends = FrameEnds {
            from_mac: Mac(lab.mac('a')),
            to_mac: found.mac,
            from,
            to,
        };
        let frame = packets::udp(&ends, b"beside us");
        assert!(sender.transmit(&frame, &[], TxMeta::default()), "room");
        sender.flush().expect("it is up");
        let arrives = within(|| {
            let mut arrived = false;
            receiver.receive(|frame, _| arrived |= frame.ends_with(b"beside us"));
            arrived
        });
        assert!(arrives, "from {from} to {to}");
    }
}
