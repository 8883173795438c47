//! Sending as somebody else: another's address, Ethernet address, port, or in the daemon's name.
//!
//! The hostile program has a port. Whatever it puts on its ring beside that port's packets never leaves: the case
//! sees all that arrives at the far end, up to an honest packet that was put on the ring behind it all.

use exos_wire::Mac;
use exos_wire::{arp, protocol};

use crate::attacks::attacker::Hostile;
use crate::attacks::world::{
    MARK, OURS, OURS_V6, PEER_MAC, ROOTS, World, case, from_us, is_marked, must_be_clean,
};
use crate::packets::{self, FrameEnds};

const PORT: u16 = 7000;
const LAST: &[u8] = b"this is honest";

/// Attaches, claims the port, sends these frames and an honest one, and waits to be told to go.
fn send_all(hostile: &Hostile, frames: impl IntoIterator<Item = Vec<u8>>) {
    let mut program = hostile.attach();
    program.connection.must_claim(PORT);
    let honest = packets::udp(&from_us(OURS, PORT), LAST);
    frames.into_iter().for_each(|frame| program.send(&frame));
    program.send(&honest);
    hostile.say(&program.slot.to_string());
    hostile.wait_for("go");
}

/// Nothing of the attack was seen, and this many frames were counted under this name.
fn nothing_left(world: &World, counter: &str, expected: u64) {
    let mut attacker = world.attacker();
    must_be_clean(&world.far.seen_up_to(LAST));
    let slot = attacker.says().parse().expect("a slot");
    world.must_count(slot, counter, expected);
    world.must_count(slot, "tx_packets", 1);
    attacker.tell("go");
    attacker.finish();
}

#[test]
fn from_anothers_address() {
    // The wire's peer, an address of ours that is not its own, one of a third host, and nobody's.
    let addresses = [
        "10.79.0.2",
        ROOTS,
        "198.51.100.9",
        "0.0.0.0",
        "255.255.255.255",
    ];
    case(
        |hostile| {
            let forged = |ip: &&str| packets::udp(&from_us(ip, PORT), MARK);
            send_all(hostile, addresses.iter().map(forged));
        },
        |world| nothing_left(world, "tx_bad_source", addresses.len() as u64),
    );
}

#[test]
fn from_anothers_ethernet_address() {
    let addresses = [
        PEER_MAC,
        Mac([2, 0, 0, 0, 79, 8]),
        Mac([0; 6]),
        Mac([0xff; 6]),
    ];
    case(
        |hostile| {
            let ends = |mac| FrameEnds {
                from_mac: mac,
                ..from_us(OURS, PORT)
            };
            let forged = addresses.map(|mac| packets::udp(&ends(mac), MARK));
            send_all(hostile, forged);
        },
        |world| nothing_left(world, "tx_bad_mac", addresses.len() as u64),
    );
}

#[test]
fn from_anothers_port() {
    // Nobody's, the program's beside it, and the right number of the wrong protocol.
    case(
        |hostile| {
            let mut frames = vec![
                packets::udp(&from_us(OURS, 7001), MARK),
                packets::udp(&from_us(OURS, 7002), MARK),
            ];
            let segment = [&PORT.to_be_bytes()[..], &[0; 18], MARK].concat();
            frames.push(packets::ip(&from_us(OURS, PORT), protocol::TCP, &segment));
            frames.push(packets::ip(&from_us(OURS, PORT), 132, &segment));
            send_all(hostile, frames);
        },
        |world| {
            let beside = world.program();
            beside.connection.must_claim(7002);
            nothing_left(world, "tx_bad_source", 4);
        },
    );
}

#[test]
fn from_anothers_address_of_ipv6() {
    let addresses = ["fd79::8", "fd79::2", "2001:db8::1", "::"];
    case(
        |hostile| {
            // An honest program has a port of this address, too: it is the address that is wrong.
            let forged = addresses.map(|ip| packets::udp(&from_us(ip, PORT), MARK));
            let own = packets::udp(&from_us(OURS_V6, PORT), MARK);
            send_all(hostile, forged.into_iter().chain([own]));
        },
        // With the program's own: its port is one of the IPv4 address.
        |world| nothing_left(world, "tx_bad_source", addresses.len() as u64 + 1),
    );
}

/// In the gate's tables IPv4 addresses have their mapped form, so that this would be the program's own.
#[test]
fn from_its_own_address_in_the_other_family() {
    case(
        |hostile| {
            let mapped = from_us("::ffff:10.79.0.7", PORT);
            let to_mapped = FrameEnds {
                to: ([0, 0, 0, 0, 0, 0xffff, 0x0a4f, 2], 9).into(),
                ..from_us(OURS_V6, PORT)
            };
            let forged = [mapped, to_mapped].map(|ends| packets::udp(&ends, MARK));
            send_all(hostile, forged);
        },
        |world| nothing_left(world, "tx_bad_header", 2),
    );
}

#[test]
fn in_the_name_of_the_daemon_by_arp_and_tags() {
    case(
        |hostile| {
            let ends = from_us(OURS, PORT);
            let as_peer = from_us("10.79.0.2", PORT);
            let mut tagged = packets::udp(&ends, MARK);
            tagged.splice(12..12, [0x81, 0, 0, 5]);
            let mut frames = vec![
                packets::arp(&ends, arp::REQUEST, MARK),
                packets::arp(&ends, arp::REPLY, MARK),
                packets::arp(&as_peer, arp::REPLY, MARK),
                tagged,
            ];
            // LLDP, spanning tree's length field, and a number that means nothing.
            let odd = [0x88cc, 60, 0xffff];
            frames.extend(odd.map(|kind| packets::frame(&ends, kind, &[MARK, &[0; 30]].concat())));
            send_all(hostile, frames);
        },
        |world| nothing_left(world, "tx_bad_ethertype", 7),
    );
}

#[test]
fn in_the_name_of_the_daemon_by_neighbour_discovery() {
    // RFC 4861: router solicitation and advertisement, neighbour solicitation and advertisement, redirect; RFC 3810 and
    // RFC 2710: group reports.
    let kinds = [133, 134, 135, 136, 137, 143, 131, 132];
    case(
        |hostile| {
            let message = |kind: u8| [&[kind, 0, 0, 0, 0, 0, 0, 0], &[0xfd; 16][..], MARK].concat();
            let ends = from_us(OURS_V6, PORT);
            let forged = kinds.map(|kind| packets::ip(&ends, protocol::ICMPV6, &message(kind)));
            send_all(hostile, forged);
        },
        |world| nothing_left(world, "tx_ndp", kinds.len() as u64),
    );
}

/// Errors about connections of others end those connections at peers that believe them.
#[test]
fn about_anothers_connection() {
    case(
        |hostile| {
            let ends = from_us(OURS, PORT);
            // What the peer and root's program would have exchanged: RFC 792, destination unreachable.
            let quoted = packets::udp(&crate::attacks::world::to_us(ROOTS, 53), MARK);
            let message = [&[3, 3, 0, 0, 0, 0, 0, 0], &quoted[14..]].concat();
            send_all(hostile, [packets::ip(&ends, protocol::ICMP, &message)]);
        },
        |world| nothing_left(world, "tx_bad_header", 1),
    );
}

#[test]
fn under_cover_of_options_and_extension_headers() {
    case(
        |hostile| {
            let ends = from_us(OURS, PORT);
            // RFC 791: loose source route by the peer; the header becomes eight bytes longer.
            let mut routed = packets::udp(&ends, MARK);
            routed.splice(34..34, [131, 7, 4, 10, 79, 0, 2, 0]);
            routed[14] = 0x47;
            // RFC 8200 section 4.4: a routing header before the datagram.
            let six = packets::udp(&from_us(OURS_V6, PORT), MARK);
            let header = [&[protocol::UDP, 0, 0, 1, 0, 0, 0, 0][..], &six[54..]].concat();
            let hidden = packets::ip(&from_us(OURS_V6, PORT), protocol::ROUTING, &header);
            // Lengths that say more and less than there is, and versions of nothing.
            let mut longer = packets::udp(&ends, MARK);
            longer[16..18].copy_from_slice(&1400_u16.to_be_bytes());
            let mut shorter = packets::udp(&ends, MARK);
            shorter[16..18].copy_from_slice(&19_u16.to_be_bytes());
            let mut version = packets::udp(&ends, MARK);
            version[14] = 0x65;
            send_all(hostile, [routed, hidden, longer, shorter, version]);
        },
        |world| nothing_left(world, "tx_bad_header", 5),
    );
}

/// A first fragment too short for its ports, later ones of a packet that was never begun (RFC 1858).
#[test]
fn in_pieces() {
    case(
        |hostile| {
            let ends = from_us(OURS, PORT);
            let whole = packets::udp(&ends, MARK);
            let mut short = whole[..14 + 20 + 4].to_vec();
            short[16..18].copy_from_slice(&24_u16.to_be_bytes());
            short[20..22].copy_from_slice(&0x2000_u16.to_be_bytes());
            let later = |offset: u16, ident: u16| {
                let mut frame = whole.clone();
                frame[18..20].copy_from_slice(&ident.to_be_bytes());
                frame[20..22].copy_from_slice(&offset.to_be_bytes());
                frame
            };
            // The second would write over the ports of the first.
            send_all(
                hostile,
                [short, later(1, 77), later(8, 78), later(0x2008, 79)],
            );
        },
        |world| nothing_left(world, "tx_fragment", 4),
    );
}

/// To another program of the same machine, which a packet reaches without ever being on the wire.
#[test]
fn to_the_program_beside_it() {
    case(
        |hostile| {
            hostile.wait_for("it has its port");
            let ends = |from, port| FrameEnds {
                to: (OURS.parse::<std::net::IpAddr>().expect("an address"), 7002).into(),
                ..from_us(from, port)
            };
            let mut program = hostile.attach();
            program.connection.must_claim(PORT);
            for from in ["10.79.0.2", ROOTS, OURS] {
                program.send(&packets::udp(&ends(from, 7001), MARK));
            }
            program.send(&packets::udp(&ends(OURS, PORT), LAST));
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            let mut beside = world.program();
            beside.connection.must_claim(7002);
            attacker.tell("it has its port");
            must_be_clean(&beside.receive_up_to(LAST));
            let slot = attacker.says().parse().expect("a slot");
            world.must_count(slot, "tx_bad_source", 3);
            world.must_count(slot, "tx_to_slot", 1);
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// The packet socket beside the ring takes super-packets and promises to complete their checksums.
#[test]
fn through_the_packet_socket() {
    // `struct virtio_net_hdr` (linux/virtio_net.h), with a checksum to be written at `start` and `offset`.
    fn with_header(kind: u8, segment: u16, start: u16, offset: u16, frame: &[u8]) -> Vec<u8> {
        let fields = [54, segment, start, offset].map(u16::to_ne_bytes);
        [&[1, kind], fields.as_flattened(), frame].concat()
    }
    const TCPV4: u8 = 1;
    case(
        |hostile| {
            let program = hostile.attach();
            program.connection.must_claim(PORT);
            let plain = |frame: &[u8]| [&[0; 10], frame].concat();
            let ends = from_us(OURS, PORT);
            let honest = packets::udp(&ends, MARK);
            let segments = [
                &PORT.to_be_bytes()[..],
                &[0; 10],
                &[5 << 4],
                &[0; 7],
                &[7; 9000],
            ];
            let segments = packets::ip(&ends, protocol::TCP, &segments.concat());
            for bytes in [
                // Another's address, as on the ring.
                plain(&packets::udp(&from_us(ROOTS, PORT), MARK)),
                // The checksum's value can be chosen: written over the ports it makes another's of them.
                with_header(0, 0, 34, 0, &honest),
                with_header(0, 0, 34, 2, &honest),
                with_header(0, 0, 34, 8, &honest),
                // One byte a segment.
                with_header(TCPV4, 1, 34, 16, &segments),
            ] {
                program.send_beside(&bytes);
            }
            program.send_beside(&plain(&packets::udp(&ends, LAST)));
            hostile.say(&program.slot.to_string());
            hostile.wait_for("go");
        },
        |world| {
            let mut attacker = world.attacker();
            must_be_clean(&world.far.seen_up_to(LAST));
            let slot = attacker.says().parse().expect("a slot");
            let expected = [
                ("tx_bad_source", 1),
                ("tx_bad_checksum", 3),
                ("tx_bad_header", 1),
            ];
            for (counter, count) in expected.into_iter().chain([("tx_packets", 1)]) {
                world.must_count(slot, counter, count);
            }
            attacker.tell("go");
            attacker.finish();
        },
    );
}

/// What the other cases rest on: what is allowed is seen, with its mark.
#[test]
fn what_is_allowed_arrives_and_is_recognized() {
    case(
        |hostile| send_all(hostile, [packets::udp(&from_us(OURS, PORT), MARK)]),
        |world| {
            let mut attacker = world.attacker();
            let seen = world.far.seen_up_to(LAST);
            assert_eq!(seen.iter().filter(|frame| is_marked(frame)).count(), 1);
            let slot = attacker.says().parse().expect("a slot");
            world.must_count(slot, "tx_packets", 2);
            attacker.tell("go");
            attacker.finish();
        },
    );
}
