//! Whose the later fragments of a packet are, and which first ones open a way for them.

use super::*;

/// Half of a UDP packet to port 80, or from it.
fn fragment(ours: bool, first: bool) -> Vec<u8> {
    let (local, remote) = ("192.0.2.7", "198.51.100.9");
    let (from, to) = if ours {
        (local, remote)
    } else {
        (remote, local)
    };
    fragment_between(
        from,
        to,
        if ours { (80, 50000) } else { (50000, 80) },
        first,
    )
}

fn fragment_between(from: &str, to: &str, ports: (u16, u16), first: bool) -> Vec<u8> {
    let header = gate::packets::ports(UDP, ports.0, ports.1, 24);
    // RFC 791 §3.1: identification, the offset in units of 8 bytes, more fragments.
    let part = if first { (77, 0, true) } else { (77, 3, false) };
    let packet = gate::packets::ip(v(from), v(to), UDP, Some(part), &[], &header);
    let kind = if v(from).is_ipv4() { 0x0800 } else { 0x86dd };
    gate::packets::ethernet(MAC, MAC, kind, &packet)
}

/// A first fragment that its receiver drops opens no way for later ones: they could complete what somebody else has sent
/// from the same address.
#[test]
fn first_fragments_that_receivers_drop_open_no_way() {
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, &str, &str, Change); 8] = [
        ("a wrong sum", "192.0.2.7", "198.51.100.9", |frame| {
            frame[24] ^= 1
        }),
        ("few hops", "192.0.2.7", "198.51.100.9", |frame| {
            frame[14 + 8] = 1;
            gate::packets::sum_header(&mut frame[14..]);
        }),
        ("few hops", "2001:db8::7", "2001:db8::9", |frame| {
            frame[14 + 7] = 1
        }),
        ("it may not be cut", "192.0.2.7", "198.51.100.9", |frame| {
            frame[14 + 6] |= 0x40;
            gate::packets::sum_header(&mut frame[14..]);
        }),
        ("another station", "192.0.2.7", "198.51.100.9", |frame| {
            frame[5] ^= 1
        }),
        (
            "no multiple of eight",
            "2001:db8::7",
            "2001:db8::9",
            |frame| {
                frame.pop();
                frame[19] -= 1;
            },
        ),
        ("another station", "2001:db8::7", "2001:db8::9", |frame| {
            frame[5] ^= 1
        }),
        ("options before it", "2001:db8::7", "2001:db8::9", |frame| {
            // RFC 8200 §4.2: 0x40 asks for the packet to be dropped by who does not know the option.
            frame[20] = 60;
            frame[19] += 8;
            frame.splice(54..54, [44, 0, 0x40, 4, 0, 0, 0, 0]);
        }),
    ];
    in_namespace("first_fragments_that_receivers_drop_open_no_way", || {
        let interface = gate::interfaces(2)[1];
        for (what, from, to, change) in changes {
            let mut model = one_program(interface);
            let tables = gate::create();
            tables.fill(&model);
            let programs = programs(&tables, &model);
            let mut send =
                |frame: &[u8]| step(&programs, &mut model, frame, Hook::Out(interface)).to;
            let later = fragment_between(from, to, (80, 50000), false);
            let right = fragment_between(from, to, (80, 50000), true);
            let mut wrong = right.clone();
            change(&mut wrong);
            send(&wrong);
            assert_eq!(send(&later), To::Drop, "{what} {from}");
            assert_eq!(send(&right), To::Wire, "{what} {from}");
            assert_eq!(send(&later), To::Wire, "{what} {from}");
        }
    });
}

/// A grant that was given back takes its fragments along: neither its slot nor its port's next owner has them.
#[test]
fn fragments_end_with_their_grant() {
    in_namespace("fragments_end_with_their_grant", || {
        let interfaces = gate::interfaces(3);
        let mut model = Model::default();
        model.config.mac = MAC;
        let key = FlowKey::port(UDP, (v("192.0.2.7"), 80).into());
        for number in [1, 2] {
            model.slots[number] = slot(SlotKind::Veth, interfaces[number]);
            model.by_ifindex.insert(interfaces[number], number as u32);
            model.ports.insert(number as u32);
        }
        grant(&mut model, key, 1);
        let tables = gate::create();
        tables.fill(&model);
        let programs = programs(&tables, &model);
        let both = |model: &mut Model, first: bool| {
            let incoming = step(&programs, model, &fragment(false, first), Hook::In);
            let out = Hook::Out(interfaces[1]);
            (
                incoming.to,
                step(&programs, model, &fragment(true, first), out).to,
            )
        };
        assert_eq!(both(&mut model, true), (To::Slot(1), To::Wire));
        assert_eq!(both(&mut model, false), (To::Slot(1), To::Wire));
        model.flows.clear();
        tables.0.flows.delete(&key.to_bytes()).unwrap();
        assert_eq!(both(&mut model, false), (To::Host, To::Drop));
        // The port is another's now, and the same slot's again: a grant of its own each time.
        for (slot, number) in [(2, 8), (1, 9)] {
            let value = gates::FlowValue {
                slot,
                grant: number,
            };
            model.flows.insert(key, value);
            tables.fill(&model);
            assert_eq!(both(&mut model, false), (To::Host, To::Drop));
        }
        // The grant itself goes to another slot, and its fragments with it.
        assert_eq!(both(&mut model, true), (To::Slot(1), To::Wire));
        model
            .flows
            .insert(key, gates::FlowValue { slot: 2, grant: 9 });
        tables.fill(&model);
        assert_eq!(both(&mut model, false), (To::Slot(2), To::Drop));
    });
}

/// A later fragment that comes before its first one goes to the slot that alone has ports of an address that is ours alone.
#[test]
fn a_fragment_that_comes_early_goes_to_the_only_slot_with_ports_there() {
    in_namespace(
        "a_fragment_that_comes_early_goes_to_the_only_slot_with_ports_there",
        || {
            let interface = gate::interfaces(2)[1];
            for (flags, alone, to) in [
                (AddressFlags::OURS_ALONE, true, To::Slot(1)),
                (AddressFlags::OURS_ALONE, false, To::Slot(0)),
                (AddressFlags::HOST, true, To::Host),
            ] {
                let mut model = one_program(interface);
                model.slots[0] = slot(SlotKind::Daemon, interface);
                model.ports.insert(0);
                for address in ["192.0.2.7", "2001:db8::7"] {
                    let address = address_bytes(v(address));
                    model.addresses.insert(address, flags);
                    if alone {
                        let key = OwnerKey {
                            address,
                            protocol: UDP,
                        };
                        model.sole_owners.insert(key, 1);
                    }
                }
                let tables = gate::create();
                tables.fill(&model);
                let programs = programs(&tables, &model);
                for (local, remote) in [
                    ("192.0.2.7", "198.51.100.9"),
                    ("2001:db8::7", "2001:db8::9"),
                ] {
                    let later = fragment_between(remote, local, (50000, 80), false);
                    let first = fragment_between(remote, local, (50000, 80), true);
                    let mut came = |frame| step(&programs, &mut model, frame, Hook::In).to;
                    assert_eq!(came(&later), to, "{flags:?} {alone} {local}");
                    assert_eq!(came(&first), To::Slot(1));
                    assert_eq!(came(&later), To::Slot(1));
                }
            }
        },
    );
}

/// A first fragment beyond the sender's share opens no way either: nobody gets it.
#[test]
fn first_fragments_beyond_the_share_open_no_way() {
    in_namespace("first_fragments_beyond_the_share_open_no_way", || {
        let interface = gate::interfaces(2)[1];
        let with_tokens = |tokens| Share {
            ceiling: fixed(tokens),
            ..slot(SlotKind::Veth, interface).tx
        };
        let mut model = one_program(interface);
        let tables = gate::create();
        tables.fill(&model);
        let programs = programs(&tables, &model);
        let mut send = |tokens, first| {
            model.slots[1].tx = with_tokens(tokens);
            tables.fill(&model);
            let frame = fragment(true, first);
            step(&programs, &mut model, &frame, Hook::Out(interface)).to
        };
        assert_eq!(send(0, true), To::Drop);
        assert_eq!(send(1 << 30, false), To::Drop);
        assert_eq!(send(1 << 30, true), To::Wire);
        assert_eq!(send(1 << 30, false), To::Wire);
    });
}
