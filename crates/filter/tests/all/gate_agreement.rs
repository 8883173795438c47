//! The gate's programs agree with the model: both see the same packets with the same tables, the programs in the
//! kernel (`BPF_PROG_TEST_RUN`), and afterwards all counters, buckets and fragments are the same. Needs the privilege
//! to load programs and to make network namespaces; without it each test says that it was skipped.

use crate::common;
use crate::gate;

use common::hex;
use exos_filter::Filter;
use exos_filter::gate::layout::{LINK_RX, LINK_TX};
use exos_filter::gate::limits::FADE_NS;
use exos_filter::gate::model::{Decision, Model, To};
use exos_filter::gate::{
    self as gates, AddressFlags, Bucket, Counter, FlowKey, OwnerKey, Share, Slot, SlotKind,
    layout::address_bytes,
};
use exos_host::bpf::{Prog, SkbContext, permitted};
use exos_host::netns::NetNs;
use gate::packets::{Pool, Random};
use gate::{ICMP, ICMPV6, MAC, PEER_MAC, TCP, Tables, UDP, grant, named, v};
use rustix::net::{AddressFamily, SocketType, socket};
use std::os::fd::AsFd;

const SLOTS: u32 = 7;

/// In a namespace of its own, where interfaces can be made; says so when that is not allowed.
fn in_namespace(test: &str, work: impl FnOnce() + Send) {
    if let Err(error) = permitted() {
        return common::skipped(&format!("{test}: {error}"));
    }
    match NetNs::anonymous() {
        Ok(namespace) => namespace.run(work).unwrap(),
        Err(error) => common::skipped(&format!("{test}: {error}")),
    }
}

/// A bucket that is not refilled while the test runs: its last refill lies in the future.
fn fixed(tokens: i64) -> Bucket {
    Bucket {
        rate: 1,
        burst: 1 << 40,
        tokens,
        last: 1 << 62,
    }
}

/// A share in any state that does not change with time while the test runs.
fn share(random: &mut Random) -> Share {
    let tokens = [0, 1, 300, 5000, 1 << 30];
    let [guarantee, ceiling] = [(); 2].map(|()| fixed(random.pick(&tokens)));
    Share {
        guarantee: random.pick(&[guarantee, guarantee, Bucket::default()]),
        ceiling: random.pick(&[ceiling, Bucket::default(), Bucket::default()]),
        part: random.pick(&[16, 40, 1024]),
        used: random.pick(&[0, 700, 20_000, 1 << 30, -5000]),
        since: 1 << 62,
    }
}

fn slot(kind: SlotKind, ifindex: u32) -> Slot {
    let still = Share {
        since: 1 << 62,
        ..Share::default()
    };
    Slot {
        kind,
        ifindex,
        mac: MAC,
        rx: still,
        tx: still,
    }
}

/// A machine of two addresses per version, one ours alone, one shared; slots of every kind.
fn model(interfaces: &[u32], random: &mut Random) -> Model {
    let mut model = Model::default();
    model.config.mac = MAC;
    model.config.ifindex = interfaces[6];
    let kinds = [
        SlotKind::Daemon,
        SlotKind::Veth,
        SlotKind::Veth,
        SlotKind::Veth,
        SlotKind::Direct,
        SlotKind::None,
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        let ifindex = if kind == SlotKind::Direct {
            0
        } else {
            interfaces[number]
        };
        model.slots[number] = slot(kind, ifindex);
        model.by_ifindex.insert(interfaces[number], number as u32);
    }
    model.ports = [0, 1, 2].into();
    model.queue_owner[0] = random.pick(&[0, 4]);
    for (address, flags) in [
        ("192.0.2.7", AddressFlags::OURS_ALONE),
        ("2001:db8::7", AddressFlags::OURS_ALONE),
        ("192.0.2.1", AddressFlags::HOST),
        ("2001:db8::1", AddressFlags::HOST),
    ] {
        model.addresses.insert(address_bytes(v(address)), flags);
    }
    for _ in 0..random.below(14) {
        let key = random_key(random);
        grant(&mut model, key, random.below(6) as u32);
    }
    for address in ["192.0.2.7", "2001:db8::7", "192.0.2.1"] {
        for protocol in [TCP, UDP] {
            if random.one_in(2) {
                let address = address_bytes(v(address));
                let key = OwnerKey { address, protocol };
                model.sole_owners.insert(key, 1 + random.below(5) as u32);
            }
        }
    }
    if random.one_in(2) {
        for number in 1..4 {
            model.slots[number].rx = share(random);
            model.slots[number].tx = share(random);
        }
    }
    if random.one_in(2) {
        model.link = [0, 1].map(|_| fixed(random.pick(&[0, 1000, 20_000])));
    }
    if random.one_in(2) {
        for text in ["vlan 5", "proto 47 or ip6 proto 47", "udp dst port 5353"] {
            let filter = Filter::parse(text).unwrap();
            model.generals.push((filter, 1 + random.below(5) as u32));
        }
        model.config.generals = 3;
    }
    if random.one_in(2) {
        // Claims of slots 1 and 2; the second names no address, and may use the one that is ours alone.
        let ours = [v("192.0.2.7"), v("2001:db8::7")];
        for (slot, text) in [
            (1, "udp dst port 5353 or icmp or icmp6"),
            (2, "tcp and not dst port 80 and not src host 198.51.100.9"),
        ] {
            let filter = gates::sending(&Filter::parse(text).unwrap(), &ours).unwrap();
            model.sending.insert(slot, filter);
        }
    }
    model
}

const PORTS: [u16; 4] = [80, 443, 5353, 50000];

fn random_key(random: &mut Random) -> FlowKey {
    let v4 = random.one_in(2);
    let pick = |random: &mut Random, four: &[&str], six: &[&str]| {
        v(random.pick(if v4 { four } else { six }))
    };
    let local = pick(
        random,
        &["192.0.2.7", "192.0.2.1"],
        &["2001:db8::7", "2001:db8::1"],
    );
    let remote = pick(random, &["198.51.100.9"], &["2001:db8:9::9"]);
    let protocol = random.pick(&[TCP, UDP, if v4 { ICMP } else { ICMPV6 }]);
    let (port, other) = (random.pick(&PORTS), random.pick(&PORTS));
    match random.below(6) {
        0 | 1 => FlowKey::exact(protocol, (local, port).into(), (remote, other).into()),
        2 | 3 => FlowKey::port(protocol, (local, port).into()),
        4 => FlowKey::protocol(protocol, local),
        _ => FlowKey::address(local),
    }
}

fn pool() -> Pool {
    Pool {
        v4: ["192.0.2.7", "192.0.2.1", "198.51.100.9"].map(v).to_vec(),
        v6: ["2001:db8::7", "2001:db8::1", "2001:db8:9::9"]
            .map(v)
            .to_vec(),
        ports: PORTS.to_vec(),
        macs: vec![MAC, MAC, MAC, MAC, MAC, PEER_MAC, [0xff; 6]],
    }
}

struct Programs {
    incoming: Prog,
    outgoing: Prog,
    /// Of slots that may send by a general filter: by their interface.
    sending: Vec<(u32, Prog)>,
    host: Prog,
    _generals: Vec<Prog>,
}

fn programs(tables: &Tables, model: &Model) -> Programs {
    let fds = tables.fds();
    let sending = model.sending.iter().map(|(slot, filter)| {
        let program = gates::outgoing_general(&fds, None, filter).unwrap();
        let ifindex = model.slots[*slot as usize].ifindex;
        (ifindex, gate::load_tc(&program))
    });
    Programs {
        sending: sending.collect(),
        incoming: gate::load_xdp(&gates::incoming(&fds)),
        outgoing: gate::load_tc(&gates::outgoing(&fds, None)),
        host: gate::load_tc(&gates::from_host(&fds)),
        _generals: gate::set_generals(tables, model),
    }
}

/// What each program returns for a decision.
fn xdp_verdict(to: To) -> u32 {
    match to {
        To::Host => 2,
        To::Drop => 1,
        To::Slot(_) | To::Socket(_) => 4,
        To::Wire => unreachable!("what comes in does not go out"),
    }
}

fn tc_verdict(to: To, next: bool) -> u32 {
    match to {
        To::Host if next => u32::MAX,
        To::Drop => 2,
        _ => 7,
    }
}

/// One packet through the kernel and through the model.
fn step(programs: &Programs, model: &mut Model, frame: &[u8], way: Way) -> Decision {
    let (decision, verdict, have) = match way {
        Way::In => {
            let decision = model.handle_incoming(frame, 0, 1);
            let run = programs.incoming.test_run(frame).unwrap();
            (decision, xdp_verdict(decision.to), run.verdict)
        }
        Way::Out(ifindex) => {
            let decision = model.handle_outgoing(frame, ifindex, 1);
            let context = SkbContext {
                ifindex,
                ..SkbContext::default()
            };
            let own = programs.sending.iter().find(|(of, _)| *of == ifindex);
            let outgoing = own.map_or(&programs.outgoing, |(_, program)| program);
            let run = outgoing.test_run_skb(frame, context, 1).unwrap();
            (decision, tc_verdict(decision.to, false), run.verdict)
        }
        Way::Host => {
            let decision = model.handle_from_host(frame, 1);
            let run = programs.host.test_run(frame).unwrap();
            (decision, tc_verdict(decision.to, true), run.verdict)
        }
    };
    assert_eq!(have, verdict, "{way:?} {decision:?}\n{}", hex(frame));
    decision
}

/// The kernel makes no socket buffers with cut IP headers for test runs.
fn testable(frame: &[u8], way: Way) -> bool {
    let header = match frame[12..14] {
        [0x08, 0x00] => 20,
        [0x86, 0xdd] => 40,
        _ => 1,
    };
    matches!(way, Way::In) || frame.len() >= 14 + header
}

#[derive(Clone, Copy, Debug)]
enum Way {
    In,
    Out(u32),
    Host,
}

/// Counters, buckets and fragments are the same.
fn compare(tables: &Tables, model: &Model, what: &dyn Fn() -> String) {
    for slot in 0..SLOTS {
        let (have, want) = (tables.counters(slot), &model.counters[slot as usize]);
        assert_eq!(named(&have), named(want), "slot {slot} {}", what());
        assert_eq!(tables.slot(slot), model.slots[slot as usize], "{}", what());
    }
    for link in [LINK_RX, LINK_TX] {
        assert_eq!(tables.link(link), model.link[link as usize], "{}", what());
    }
}

fn cases(default: u64) -> u64 {
    let text = std::env::var("EXOS_GATE_CASES");
    text.ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Generated tables, generated and mutated packets, all three programs; every counter is seen to count.
#[test]
fn the_programs_agree_with_the_model() {
    in_namespace("the_programs_agree_with_the_model", || {
        let interfaces = gate::interfaces(SLOTS);
        let pool = pool();
        let mut seen = [0u64; Counter::COUNT];
        for seed in 0..cases(16) {
            let random = &mut Random(seed);
            let mut model = model(&interfaces, random);
            let tables = gate::create();
            let queue = socket(AddressFamily::from_raw(44), SocketType::RAW, None).unwrap();
            if random.one_in(2) {
                tables.0.sockets.set_fd(0, queue.as_fd()).unwrap();
                model.sockets.insert(0);
            }
            tables.fill(&model);
            let programs = programs(&tables, &model);
            for number in 0..400 {
                let frame = pool.frame(random);
                let way = match random.below(20) {
                    0..9 => Way::In,
                    9..18 => Way::Out(interfaces[random.below(7)]),
                    _ => Way::Host,
                };
                if !testable(&frame, way) {
                    continue;
                }
                let decision = step(&programs, &mut model, &frame, way);
                compare(&tables, &model, &|| {
                    let frame = hex(&frame);
                    format!("seed {seed} packet {number} {way:?} {decision:?}\n{frame}")
                });
            }
            for (key, first) in &model.fragments {
                assert_eq!(tables.fragment(key), Some(*first), "seed {seed} {key:?}");
            }
            for (sum, counters) in model.counters.iter().flatten().enumerate() {
                seen[sum % Counter::COUNT] += counters;
            }
        }
        for (counter, name) in Counter::ALL {
            // A checksum that is to be written cannot be had in a test run: see the test over a real interface.
            let counted = seen[counter as usize] > 0;
            // What the slot's own program drops is seen to count in the daemon's tests.
            let elsewhere = [
                Counter::TxBadChecksum,
                Counter::RxEarlyDropFragment,
                Counter::RxEarlyDropAck,
                Counter::RxEarlyDropSyn,
            ];
            assert!(
                counted || elsewhere.contains(&counter),
                "{name} never counted"
            );
        }
    });
}

/// What passes with time, which the model's clock cannot follow: buckets fill, and what was used is forgotten.
#[test]
fn buckets_fill_and_what_was_used_fades() {
    in_namespace("buckets_fill_and_what_was_used_fades", || {
        let interfaces = gate::interfaces(2);
        let mut model = Model::default();
        model.config.mac = MAC;
        let key = FlowKey::port(TCP, (v("192.0.2.7"), 80).into());
        grant(&mut model, key, 1);
        model.slots[1] = slot(SlotKind::Veth, interfaces[1]);
        model.ports.insert(1);
        let half = FADE_NS / 2;
        let now = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let empty = |last| Bucket {
            tokens: 0,
            last,
            ..Bucket::new(1 << 30, 1 << 30)
        };
        let tables = gate::create();
        let programs = programs(&tables, &model);
        let header = gate::packets::ports(TCP, 50000, 80, 100);
        let packet = gate::packets::ip(v("198.51.100.9"), v("192.0.2.7"), TCP, None, &[], &header);
        let frame = gate::packets::ethernet(MAC, PEER_MAC, 0x0800, &packet);
        let len = frame.len() as i64;
        // The guarantee has nothing, and is not looked at for long; half a fading is over.
        let began = now();
        model.slots[1].rx = Share {
            guarantee: Bucket {
                last: 1 << 62,
                ..empty(0)
            },
            part: 16,
            used: 1 << 20,
            since: began - half,
            ..Share::default()
        };
        model.link[LINK_RX as usize] = empty(began - half);
        tables.fill(&model);
        let verdict = programs.incoming.test_run(&frame).unwrap().verdict;
        assert_eq!(verdict, xdp_verdict(To::Slot(1)));
        let (share, link) = (tables.slot(1).rx, tables.link(LINK_RX));
        let passed = share.since - (began - half);
        assert!(passed >= half && share.since <= now(), "{share:?}");
        let faded =
            (u128::from(1u32 << 20) * u128::from(passed.min(FADE_NS)) / u128::from(FADE_NS)) as i64;
        assert_eq!(share.used, (1 << 20) - faded + len);
        let earned = ((link.last - (began - half)) as i64) * (1 << 30) / 1_000_000_000;
        assert_eq!(link.tokens, earned - len);
        assert_eq!(share.guarantee.tokens, 0);
        // Two CPUs that faded at once took more than there was: that is nothing, and the slot goes on.
        model.slots[1].rx.used = -(1 << 43);
        model.slots[1].rx.since = now() - half;
        tables.fill(&model);
        let verdict = programs.incoming.test_run(&frame).unwrap().verdict;
        assert_eq!(verdict, xdp_verdict(To::Slot(1)));
        assert_eq!(tables.slot(1).rx.used, len);
    });
}

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

/// A model with a slot at this interface that has UDP port 80 of two addresses.
fn one_program(interface: u32) -> Model {
    let mut model = Model::default();
    model.config.mac = MAC;
    model.slots[1] = slot(SlotKind::Veth, interface);
    model.by_ifindex.insert(interface, 1);
    model.ports.insert(1);
    for address in ["192.0.2.7", "2001:db8::7"] {
        grant(&mut model, FlowKey::port(UDP, (v(address), 80).into()), 1);
    }
    model
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
                |frame: &[u8]| step(&programs, &mut model, frame, Way::Out(interface)).to;
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

/// An ICMP error that a program sends says which of its own flows it is about, or goes nowhere, whatever plain ICMP it may
/// send: receivers may read what the gate does not.
#[test]
fn errors_that_the_gate_does_not_read_are_not_sent() {
    type Change = fn(&mut Vec<u8>);
    // The quoted packet begins 14 + 20 + 8, or 14 + 40 + 8, bytes behind the frame's beginning.
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
            let (ours, theirs) = if is_v4 {
                (v("192.0.2.7"), v("198.51.100.9"))
            } else {
                (v("2001:db8::7"), v("2001:db8::9"))
            };
            let header = gate::packets::ports(UDP, 50000, 80, 8);
            let quoted = gate::packets::ip(theirs, ours, UDP, None, &[], &header);
            let (protocol, kind, ethertype) = if is_v4 {
                (1, 3, 0x0800)
            } else {
                (58, 1, 0x86dd)
            };
            let error = gate::packets::icmp(kind, 0, &quoted);
            let packet = gate::packets::ip(ours, theirs, protocol, None, &[], &error);
            let mut frame = gate::packets::ethernet(MAC, MAC, ethertype, &packet);
            change(&mut frame);
            if is_v4 {
                gate::packets::sum_header(&mut frame[14..]);
            }
            let expected = if what == "its own flow" {
                To::Wire
            } else {
                To::Drop
            };
            let to = step(&programs, &mut model, &frame, Way::Out(interface)).to;
            assert_eq!(to, expected, "{what}, IPv4 {is_v4}");
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
            let incoming = step(&programs, model, &fragment(false, first), Way::In);
            let out = Way::Out(interfaces[1]);
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
                    let mut came = |frame| step(&programs, &mut model, frame, Way::In).to;
                    assert_eq!(came(&later), to, "{flags:?} {alone} {local}");
                    assert_eq!(came(&first), To::Slot(1));
                    assert_eq!(came(&later), To::Slot(1));
                }
            }
        },
    );
}

/// Nor does a first fragment that is beyond the sender's share: nobody gets it.
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
            step(&programs, &mut model, &frame, Way::Out(interface)).to
        };
        assert_eq!(send(0, true), To::Drop);
        assert_eq!(send(1 << 30, false), To::Drop);
        assert_eq!(send(1 << 30, true), To::Wire);
        assert_eq!(send(1 << 30, false), To::Wire);
    });
}

/// An ICMP error that does not say whose it is goes to nobody who has the address's ICMP only: it may be about the host's flows.
#[test]
fn errors_about_unknown_flows_are_the_hosts() {
    type Change = fn(&mut Vec<u8>);
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
            let (ours, theirs, icmp, kind, ethertype) = if is_v4 {
                (v("192.0.2.7"), v("198.51.100.9"), ICMP, 3, 0x0800)
            } else {
                (v("2001:db8::7"), v("2001:db8::9"), ICMPV6, 1, 0x86dd)
            };
            let header = gate::packets::ports(UDP, 4000, 50000, 8);
            let quoted = gate::packets::ip(ours, theirs, UDP, None, &[], &header);
            let error = gate::packets::icmp(kind, 0, &quoted);
            let packet = gate::packets::ip(theirs, ours, icmp, None, &[], &error);
            let mut frame = gate::packets::ethernet(MAC, MAC, ethertype, &packet);
            change(&mut frame);
            if is_v4 {
                gate::packets::sum_header(&mut frame[14..]);
            }
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
                let went = step(&programs, &mut model, &frame, Way::In).to;
                assert_eq!(went, to, "{what}, IPv4 {is_v4}, {key:?}");
            }
        }
    });
}
