//! What the gate costs a packet, and a grant: figures for `docs/internals/gate.md`, on a CPU of this machine. Run with
//! `--nocapture`; the bounds are wide enough for a busy machine.

use crate::common;
use crate::gate;

use crate::gate::model::Model;
use exos_filter::gate::{self as gates, Bucket, FlowKey, FlowValue, Share, Slot, SlotKind};
use exos_filter::transmit::{END, QUEUE_LEN, TAKEN};
use exos_host::bpf::{Link, Prog, SkbContext, XdpMode, permitted};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use gate::packets::{ethernet, ip, ports};
use gate::sender::Sender;
use gate::wire::Wire;
use gate::{MAC, PEER_MAC, TCP, Tables, grant, v};
use std::net::Ipv4Addr;
use std::time::Instant;

/// Least of some repetitions: what a busy machine takes from us is not the program's.
fn nanoseconds(run: impl Fn(u32) -> u32) -> u32 {
    (0..7).map(|_| run(20_000)).min().expect("not empty")
}

fn frame(source: &str, destination: &str, outgoing: bool) -> Vec<u8> {
    let (source, destination) = (gate::sa(source), gate::sa(destination));
    let header = ports(TCP, source.port(), destination.port(), 6);
    let packet = ip(source.ip(), destination.ip(), TCP, None, &[], &header);
    let kind = if source.is_ipv4() { 0x0800 } else { 0x86dd };
    match outgoing {
        true => ethernet(PEER_MAC, MAC, kind, &packet),
        false => ethernet(MAC, PEER_MAC, kind, &packet),
    }
}

/// What the other grants are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// Listeners at other ports and addresses.
    Ports,
    /// Connections of the port that is measured.
    Connections,
}

/// The listener's port, and `grants` less one of others.
fn fill(tables: &Tables, model: &mut Model, grants: usize, others: Others) {
    for address in ["192.0.2.7", "2001:db8::7"] {
        grant(model, FlowKey::port(TCP, (v(address), 80).into()), 1);
    }
    for number in 0..grants.saturating_sub(1) as u32 {
        let address = Ipv4Addr::from(0x0a00_0000 + number / 7);
        let other = (address, 1024 + number as u16).into();
        let key = match others {
            Others::Ports => FlowKey::port(TCP, other),
            Others::Connections => FlowKey::exact(TCP, (v("192.0.2.7"), 80).into(), other),
        };
        grant(model, key, 2);
    }
    tables.fill(model);
}

struct Bench {
    tables: Tables,
    model: Model,
    incoming: Prog,
    outgoing: Prog,
    ifindex: u32,
}

fn bench(grants: usize, others: Others) -> Bench {
    let interfaces = gate::interfaces(3);
    let mut model = Model::default();
    model.config.mac = MAC;
    model.config.ifindex = interfaces[0];
    for number in [1, 2] {
        let ifindex = interfaces[number as usize];
        let kind = SlotKind::Veth;
        model.slots[number as usize] = Slot {
            kind,
            ifindex,
            mac: MAC,
            ..Slot::default()
        };
        model.by_ifindex.insert(ifindex, number);
        model.ports.insert(number);
    }
    let tables = gate::create();
    fill(&tables, &mut model, grants, others);
    let fds = tables.fds();
    Bench {
        incoming: gate::load_xdp(&gates::incoming(&fds)),
        outgoing: gate::load_tc(&gates::outgoing(&fds, None)),
        ifindex: interfaces[1],
        tables,
        model,
    }
}

impl Bench {
    fn time_in(&self, frame: &[u8]) -> u32 {
        assert_eq!(self.incoming.test_run(frame).unwrap().verdict, 4);
        nanoseconds(|n| {
            self.incoming
                .test_run_repeated(frame, n)
                .unwrap()
                .nanoseconds
        })
    }

    fn time_out(&self, frame: &[u8]) -> u32 {
        let context = SkbContext {
            ifindex: self.ifindex,
            ..SkbContext::default()
        };
        assert_eq!(
            self.outgoing
                .test_run_skb(frame, context, 1)
                .unwrap()
                .verdict,
            7
        );
        nanoseconds(|n| {
            self.outgoing
                .test_run_skb(frame, context, n)
                .unwrap()
                .nanoseconds
        })
    }
}

#[test]
fn the_time_of_a_packet_does_not_depend_on_the_grants() {
    let test = "the_time_of_a_packet_does_not_depend_on_the_grants";
    if let Err(error) = permitted() {
        return common::skipped(&format!("{test}: {error}"));
    }
    let measure = |grants, others| {
        let namespace = NetNs::anonymous().unwrap();
        namespace.run(move || {
            let mut bench = bench(grants, others);
            let came = frame("198.51.100.9:50000", "192.0.2.7:80", false);
            let went = frame("192.0.2.7:80", "198.51.100.9:50000", true);
            let came6 = frame("[2001:db8:9::9]:50000", "[2001:db8::7]:80", false);
            let times = [&came, &came6].map(|f| bench.time_in(f));
            let out = bench.time_out(&went);
            let plenty = Share {
                guarantee: Bucket::new(1 << 36, 1 << 36),
                ..Share::default()
            };
            (bench.model.slots[1].rx, bench.model.slots[1].tx) = (plenty, plenty);
            bench.model.link = [Bucket::new(1 << 36, 1 << 36); 2];
            bench.tables.fill(&bench.model);
            let shared = [bench.time_in(&came), bench.time_out(&went)];
            (times, out, shared)
        })
    };
    for others in [Others::Ports, Others::Connections] {
        let mut v4 = Vec::new();
        for grants in [1, 100, 10_000] {
            let (times, out, shared) = measure(grants, others).unwrap();
            eprintln!(
                "{grants:6} {others:?}: in {} ns (IPv6 {} ns), out {out} ns; with shares in {} ns, out {} ns",
                times[0], times[1], shared[0], shared[1]
            );
            v4.push(times[0]);
        }
        // A walk over the table would take a thousand times as long. How near the times are is for a benchmark on a
        // quiet machine to tell (`exos bench sharing`).
        assert!(v4[2] < v4[1] * 10, "{others:?} {v4:?}");
    }
}

#[test]
fn a_grant_takes_effect_at_once() {
    let test = "a_grant_takes_effect_at_once";
    if let Err(error) = permitted() {
        return common::skipped(&format!("{test}: {error}"));
    }
    let namespace = NetNs::anonymous().unwrap();
    namespace
        .run(|| {
            let bench = bench(10_000, Others::Ports);
            let came = frame("198.51.100.9:50000", "192.0.2.7:8080", false);
            assert_eq!(bench.incoming.test_run(&came).unwrap().verdict, 2);
            // Of ten hundreds the fastest: a machine that stands still does not do so all the time.
            let hundred = |hundred: u16| {
                let start = Instant::now();
                for port in (8080 + 100 * hundred..).take(100) {
                    let key = FlowKey::port(TCP, (v("192.0.2.7"), port).into()).to_bytes();
                    let value = FlowValue { slot: 1, grant: 9 }.to_bytes();
                    bench.tables.0.flows.update(&key, &value).unwrap();
                }
                start.elapsed() / 100
            };
            let each = (0..10).map(hundred).min().unwrap();
            assert_eq!(bench.incoming.test_run(&came).unwrap().verdict, 4);
            eprintln!("a grant beside 10,000 others: {each:?}");
            assert!(each.as_micros() < 1000, "{each:?}");
        })
        .unwrap();
}

/// Nanoseconds a frame of batches of many, with the sender's and the receiver's work in the kernel.
#[test]
fn what_a_frame_of_a_batch_costs() {
    let test = "what_a_frame_of_a_batch_costs";
    if let Err(error) = permitted() {
        return common::skipped(&format!("{test}: {error}"));
    }
    let namespace = NetNs::anonymous().unwrap();
    namespace.run(print_costs_of_batches).unwrap();
}

fn print_costs_of_batches() {
    let wire = Wire::new(|model| {
        for (port, slot) in [(80, 1), (81, 2)] {
            grant(
                model,
                FlowKey::port(TCP, (v("192.0.2.7"), port).into()),
                slot,
            );
        }
    });
    let peer = Netlink::new().unwrap().link_by_name("peer0").unwrap().index;
    // r0 = XDP_DROP; exit
    let drop = Prog::load(&[0x0000_0001_0000_00b7, 0x95], "drop", false).unwrap();
    let _link = Link::attach_xdp(peer, &drop, XdpMode::Native).unwrap();
    let sender = Sender::new(&wire.tables, 1, wire.model.slots[1].ifindex);
    let allowed = frame("192.0.2.7:80", "198.51.100.9:50000", true);
    let mut long = allowed.clone();
    long.resize(1514, 0);
    let foreign = frame("192.0.2.7:81", "198.51.100.9:50000", true);
    let cases = [
        ("refused by its descriptor", &foreign, 0, true),
        ("dropped for its source", &foreign, 0, false),
        ("sent, 60 bytes", &allowed, sender.ifindex, false),
        ("sent, 60 bytes, looked at again", &allowed, 0, false),
        ("sent, 1,514 bytes", &long, sender.ifindex, false),
    ];
    for (what, frame, ingress, lie) in cases {
        sender.put(&vec![frame; QUEUE_LEN as usize]);
        if lie {
            (0..QUEUE_LEN).for_each(|n| sender.set_word(sender.place(n.into()), 0));
        }
        sender.set_word(END, sender.word(TAKEN).wrapping_sub(1));
        let beginning = gate::sender::beginning(&frame[12..14]);
        let begin = sender.word(TAKEN);
        let ran = |repeat| {
            let start = Instant::now();
            let program = &sender.program;
            program.run_batch(&beginning, ingress, repeat).unwrap();
            start.elapsed().as_nanos() as u32 / (repeat * 34)
        };
        let [few, many] = [2, 200].map(|repeat| (0..50).map(|_| ran(repeat)).min().unwrap());
        eprintln!("a frame of a batch, {what}: {many} ns, {few} ns of 68");
        assert_eq!(sender.word(TAKEN) - begin, 50 * 202 * 34);
    }
}

/// Nanoseconds a live frame, with the sender's and the receiver's work in the kernel.
#[test]
fn what_a_live_frame_costs() {
    let test = "what_a_live_frame_costs";
    if let Err(error) = permitted() {
        return common::skipped(&format!("{test}: {error}"));
    }
    if gate::sender::origin().is_none() {
        return common::skipped(&format!("{test}: no type information"));
    }
    let namespace = NetNs::anonymous().unwrap();
    namespace.run(print_costs_of_live_frames).unwrap();
}

fn print_costs_of_live_frames() {
    let wire = Wire::new(|model| {
        for (port, slot) in [(80, 1), (81, 2)] {
            let key = FlowKey::port(TCP, (v("192.0.2.7"), port).into());
            grant(model, key, slot);
        }
    });
    let peer = Netlink::new().unwrap().link_by_name("peer0").unwrap().index;
    // r0 = XDP_DROP; exit
    let drop = Prog::load(&[0x0000_0001_0000_00b7, 0x95], "drop", false).unwrap();
    let _link = Link::attach_xdp(peer, &drop, XdpMode::Native).unwrap();
    let sender = Sender::live(&wire.tables, 1, wire.model.slots[1].ifindex).unwrap();
    let allowed = frame("192.0.2.7:80", "198.51.100.9:50000", true);
    let mut long = allowed.clone();
    long.resize(1514, 0);
    let foreign = frame("192.0.2.7:81", "198.51.100.9:50000", true);
    let cases = [
        ("dropped for its source", &foreign),
        ("sent, 60 bytes", &allowed),
        ("sent, 1,514 bytes", &long),
    ];
    for (what, frame) in cases {
        let begin = sender.word(TAKEN);
        sender.put(&vec![frame; QUEUE_LEN as usize]);
        sender.set_word(END, begin.wrapping_sub(1));
        let ran = |count| {
            let start = Instant::now();
            sender.run_live(count);
            start.elapsed().as_nanos() as u32 / count
        };
        let [few, many] = [32, 64].map(|count| (0..100).map(|_| ran(count)).min().unwrap());
        eprintln!("a live frame, {what}: {many} ns of 64, {few} ns of 32");
        assert_eq!(sender.word(TAKEN) - begin, 100 * 96);
    }
}
