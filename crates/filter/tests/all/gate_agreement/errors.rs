//! ICMP errors: whose they are by the packet that they quote, and which may be sent.

use super::*;
use std::net::IpAddr;

/// What is done to a frame with an error: the quoted packet begins 14 + 20 + 8, or 14 + 40 + 8, bytes behind its beginning.
type Change = fn(&mut Vec<u8>);

/// An address of ours, and one of theirs.
fn ends(is_v4: bool) -> [IpAddr; 2] {
    match is_v4 {
        true => [v("192.0.2.7"), v("198.51.100.9")],
        false => [v("2001:db8::7"), v("2001:db8::9")],
    }
}

/// An ICMP error from one to the other, about a datagram that went the other way between these ports.
fn error([from, to]: [IpAddr; 2], ports: (u16, u16), change: Change) -> Vec<u8> {
    let is_v4 = from.is_ipv4();
    let header = gate::packets::ports(UDP, ports.0, ports.1, 8);
    let quoted = gate::packets::ip(to, from, UDP, None, &[], &header);
    let (protocol, kind, ethertype) = match is_v4 {
        true => (ICMP, 3, 0x0800),
        false => (ICMPV6, 1, 0x86dd),
    };
    let error = gate::packets::icmp(kind, 0, &quoted);
    let packet = gate::packets::ip(from, to, protocol, None, &[], &error);
    let mut frame = gate::packets::ethernet(MAC, MAC, ethertype, &packet);
    change(&mut frame);
    if is_v4 {
        gate::packets::sum_header(&mut frame[14..]);
    }
    frame
}

/// An ICMP error that a program sends says which of its own flows it is about, or goes nowhere, whatever plain ICMP it may
/// send: receivers may read what the gate does not.
#[test]
fn errors_that_the_gate_does_not_read_are_not_sent() {
    let changes: [(&str, bool, Change); 11] = [
        ("its own flow", true, |_| {}),
        ("a later fragment", true, |frame| frame[42 + 7] = 1),
        ("another version", true, |frame| frame[42] = 0x55),
        ("cut short", true, |frame| {
            frame.truncate(42 + 24);
            frame[17] = 52;
        }),
        ("a fragment itself", true, |frame| frame[20] = 0x20),
        ("source quench", true, |frame| {
            frame[34] = 4;
            frame[42 + 7] = 1;
        }),
        ("another receiver", true, |frame| frame[42 + 19] ^= 1),
        ("another sender", true, |frame| frame[42 + 15] ^= 1),
        ("its own flow", false, |_| {}),
        ("an unknown error", false, |frame| frame[54] = 100),
        ("an extension header", false, |frame| frame[62 + 6] = 60),
    ];
    in_namespace("errors_that_the_gate_does_not_read_are_not_sent", || {
        let interface = gate::interfaces(2)[1];
        for (what, is_v4, change) in changes {
            let mut model = one_program(interface);
            for (address, protocol) in [("192.0.2.7", 1), ("2001:db8::7", 58)] {
                grant(&mut model, FlowKey::protocol(protocol, v(address)), 1);
            }
            let tables = gate::create();
            tables.fill(&model);
            let programs = programs(&tables, &model);
            let frame = error(ends(is_v4), (50000, 80), change);
            let expected = if what == "its own flow" {
                To::Wire
            } else {
                To::Drop
            };
            let to = step(&programs, &mut model, &frame, Hook::Out(interface)).to;
            assert_eq!(to, expected, "{what}, IPv4 {is_v4}");
        }
    });
}

/// An ICMP error that does not say whose it is goes to nobody who has the address's ICMP only: it may be about the host's flows.
#[test]
fn errors_about_unknown_flows_are_the_hosts() {
    let changes: [(&str, bool, Change); 7] = [
        ("another's flow", true, |_| {}),
        ("a later fragment", true, |frame| frame[42 + 7] = 1),
        ("another version", true, |frame| frame[42] = 0x55),
        ("another sender", true, |frame| frame[42 + 15] ^= 1),
        ("a fragment itself", true, |frame| frame[20] = 0x20),
        ("an unknown error", false, |frame| frame[54] = 100),
        ("an extension header", false, |frame| frame[62 + 6] = 60),
    ];
    in_namespace("errors_about_unknown_flows_are_the_hosts", || {
        let interface = gate::interfaces(2)[1];
        for (what, is_v4, change) in changes {
            let [ours, theirs] = ends(is_v4);
            let frame = error([theirs, ours], (4000, 50000), change);
            let icmp = if is_v4 { ICMP } else { ICMPV6 };
            let whole = FlowKey::address(ours);
            for (key, to) in [
                (FlowKey::protocol(icmp, ours), To::Host),
                (whole, To::Slot(1)),
            ] {
                let mut model = one_program(interface);
                model
                    .addresses
                    .insert(address_bytes(ours), AddressFlags::HOST);
                grant(&mut model, key, 1);
                let tables = gate::create();
                tables.fill(&model);
                let programs = programs(&tables, &model);
                let went = step(&programs, &mut model, &frame, Hook::In).to;
                assert_eq!(went, to, "{what}, IPv4 {is_v4}, {key:?}");
            }
        }
    });
}
