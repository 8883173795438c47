//! The gate's programs agree with the model: both see the same packets with the same tables, the programs in the
//! kernel (`BPF_PROG_TEST_RUN`), and afterwards all counters, buckets and fragments are the same. Needs the privilege
//! to load programs and to make network namespaces; without it each test says that it was skipped.

mod arrivals;
mod batch;
mod errors;
mod fragments;
mod groups;
mod shares;

use crate::common;
use crate::gate;

use common::hex;
use exos_filter::Filter;
use exos_filter::gate::group::GROUP;
use exos_filter::gate::layout::{LINK_RX, LINK_TX};
use exos_filter::gate::{
    self as gates, AddressFlags, Bucket, Counter, FlowKey, Group, Member, OwnerKey, Share, Slot,
    SlotKind, layout::address_bytes,
};
use exos_host::bpf::{Prog, SkbContext};
use gate::model::{Decision, Model, To};
use gate::packets::{Pool, Random};
use gate::{ICMP, ICMPV6, MAC, PEER_MAC, TCP, Tables, UDP, grant, in_namespace, named, v};
use rustix::net::{AddressFamily, SocketType, socket};
use std::os::fd::AsFd;

const SLOTS: u32 = 7;

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
        has_handlers: false,
        mac: MAC,
        rx: still,
        tx: still,
    }
}

/// A gate with a slot of each kind, and addresses, of which nothing is anybody's.
fn unclaimed(interfaces: &[u32]) -> Model {
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
    for (address, flags) in [
        ("192.0.2.7", AddressFlags::OURS_ALONE),
        ("2001:db8::7", AddressFlags::OURS_ALONE),
        ("192.0.2.1", AddressFlags::HOST),
        ("2001:db8::1", AddressFlags::HOST),
    ] {
        model.addresses.insert(address_bytes(v(address)), flags);
    }
    model
}

/// A machine of two addresses per version, one ours alone, one shared; slots of every kind.
fn model(interfaces: &[u32], random: &mut Random) -> Model {
    let mut model = unclaimed(interfaces);
    model.queue_owner[0] = random.pick(&[0, 4]);
    for _ in 0..random.below(14) {
        let key = random_key(random);
        let slot = random.pick(&[0, 1, 2, 3, 4, 5, GROUP, GROUP | 1]);
        grant(&mut model, key, slot);
    }
    for number in [0, 1] {
        model.groups.insert(number, group(random));
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

/// Slots of every kind, and places that somebody has left.
fn group(random: &mut Random) -> Group {
    let mut group = Group {
        seed: random.next(),
        grant: 7,
        ..Group::default()
    };
    for (number, member) in (1..).zip(&mut group.members[..6]) {
        if !random.one_in(4) {
            *member = Member {
                slot: number,
                since: 1 + random.next() % 1000,
            };
        }
    }
    group.buckets = std::array::from_fn(|_| random.below(6) as u8);
    group
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
fn step(programs: &Programs, model: &mut Model, frame: &[u8], hook: Hook) -> Decision {
    let (decision, verdict, have) = match hook {
        Hook::In => {
            let decision = model.handle_incoming(frame, 0, 1);
            let run = programs.incoming.test_run(frame).unwrap();
            (decision, xdp_verdict(decision.to), run.verdict)
        }
        Hook::Out(ifindex) => {
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
        Hook::Host => {
            let decision = model.handle_from_host(frame, 1);
            let run = programs.host.test_run(frame).unwrap();
            (decision, tc_verdict(decision.to, true), run.verdict)
        }
    };
    assert_eq!(have, verdict, "{hook:?} {decision:?}\n{}", hex(frame));
    decision
}

/// The kernel makes no socket buffers with cut IP headers for test runs.
fn testable(frame: &[u8], hook: Hook) -> bool {
    let header = match frame[12..14] {
        [0x08, 0x00] => 20,
        [0x86, 0xdd] => 40,
        _ => 1,
    };
    matches!(hook, Hook::In) || frame.len() >= 14 + header
}

#[derive(Clone, Copy, Debug)]
enum Hook {
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

/// What these tests do not have counted.
const ELSEWHERE: [Counter; 10] = [
    // A checksum that is to be written cannot be had in a test run: see the test over a real interface.
    Counter::TxBadChecksum,
    // What no interface took of a batch: in a test of its own.
    Counter::TxLost,
    // What the slot's own program drops, and what its handler does, is seen to count in the daemon's tests.
    Counter::RxEarlyDropFragment,
    Counter::RxEarlyDropAck,
    Counter::RxEarlyDropSyn,
    Counter::HandlerAnswered,
    Counter::HandlerDone,
    Counter::HandlerGaveUp,
    Counter::HandlerSkipped,
    Counter::HandlerDropped,
];

/// Generated tables, generated and mutated packets, all three programs; every counter is seen to count.
#[test]
fn the_programs_agree_with_the_model() {
    in_namespace("the_programs_agree_with_the_model", || {
        let interfaces = gate::interfaces(SLOTS);
        let pool = pool();
        let mut seen = [0u64; Counter::COUNT];
        for seed in 0..exos_testing::cases(8) {
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
                let hook = match random.below(20) {
                    0..9 => Hook::In,
                    9..18 => Hook::Out(interfaces[random.below(7)]),
                    _ => Hook::Host,
                };
                if !testable(&frame, hook) {
                    continue;
                }
                let decision = step(&programs, &mut model, &frame, hook);
                compare(&tables, &model, &|| {
                    let frame = hex(&frame);
                    format!("seed {seed} packet {number} {hook:?} {decision:?}\n{frame}")
                });
            }
            for (key, flow) in &model.member_flows {
                assert_eq!(tables.member_flow(key), Some(*flow), "seed {seed} {key:?}");
            }
            for (key, first) in &model.fragments {
                assert_eq!(tables.fragment(key), Some(*first), "seed {seed} {key:?}");
            }
            for (sum, counters) in model.counters.iter().flatten().enumerate() {
                seen[sum % Counter::COUNT] += counters;
            }
        }
        for (counter, name) in Counter::ALL {
            let counted = seen[counter as usize] > 0;
            assert!(
                counted || ELSEWHERE.contains(&counter),
                "{name} never counted"
            );
        }
    });
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
