//! What a slot's end, a failed attempt and an earlier daemon leave in the packet path's tables: nothing. As root;
//! skipped, and said so, otherwise.

use crate::lab;

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

use exos_filter::gate::Counter;
use exos_host::bpf::{Map, MapKind, Prog, TcxHook, TcxLink};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_link::{Link, TxMeta};
use exos_xok::Protocol;
use exos_xok::message::{Answer, Mode, PortWish, Refusal, Request};
use exos_xok::tables::Tables;
use lab::*;

/// What the gate of this laboratory's wire is called.
fn gate_name(lab: &Lab) -> String {
    let here = NetNs::open(&lab.side('a')).expect("it is there");
    let wire = here.netlink().and_then(|n| n.link_by_name("wire"));
    let inode = here.inode().expect("it has one");
    exos_xokd::interface::gate_name(inode, wire.expect("it is there").index)
}

pub fn folder(lab: &Lab) -> PathBuf {
    PathBuf::from("/sys/fs/bpf/exos").join(gate_name(lab))
}

pub fn map(lab: &Lab, name: &str) -> Map {
    Map::open_pinned(&folder(lab).join(name)).expect("the daemon has it")
}

/// The slots that interfaces lead to.
pub fn by_interface(lab: &Lab) -> Vec<u32> {
    let map = map(lab, "by_ifindex");
    let keys = map.keys().expect("they can be listed");
    let slots = keys.iter().filter_map(|key| map.lookup(key).ok().flatten());
    let slots = slots.map(|slot| u32::from_ne_bytes(slot.try_into().expect("4 bytes")));
    let mut slots: Vec<u32> = slots.collect();
    slots.sort_unstable();
    slots
}

fn queue_owner(lab: &Lab, queue: u32) -> u32 {
    let owner = map(lab, "queue_owner").lookup(&queue.to_ne_bytes());
    let owner = owner.expect("readable").expect("an array has all");
    u32::from_ne_bytes(owner.try_into().expect("4 bytes"))
}

fn lose_state(lab: &Lab) {
    let file = format!("/run/exos/{}.json", gate_name(lab));
    std::fs::remove_file(file).expect("it was written");
}

/// Attempts that fail, before anything is made and after most of it is.
#[test]
fn what_fails_leaves_nothing_in_the_tables() {
    let Some(mut lab) = Lab::new("fails") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    for mode in [Mode::Auto, Mode::Shared, Mode::Direct(None)] {
        let (refused, _) = program.ask(&Request::Attach {
            interface: String::new(),
            mode,
            chunks: 3,
            program: "test".to_owned(),
        });
        let (code, text) = refusal(&refused);
        assert_eq!(code, Refusal::BadRequest, "{text}");
        assert!(text.contains("power of two"), "{text}");
    }
    assert_eq!(by_interface(&lab), [0]);
    // The ring's name is taken, when all else is there.
    let name = folder(&lab).join("slot1-ring");
    std::fs::create_dir(&name).expect("nobody has the slot");
    let (refused, _) = program.attach();
    assert_eq!(refusal(&refused).0, Refusal::System);
    assert_eq!(by_interface(&lab), [0]);
    assert!(!folder(&lab).join("slot1-out").exists());
    std::fs::remove_dir(&name).expect("it is ours");
    assert_eq!(program.attached().slot, 1);
    assert_eq!(by_interface(&lab), [0, 1]);
    drop(program);
    let alone = || by_interface(&lab) == [0];
    assert!(within(alone), "the slot ends");
}

/// A table that an earlier daemon filled up with interfaces that are gone does not stay so.
#[test]
fn a_daemon_sweeps_what_an_earlier_one_left() {
    let Some(mut lab) = Lab::new("sweep") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let has = program.attached();
    let kept = has.slot;
    for _ in 0..2 {
        lab.kill();
        let map = map(&lab, "by_ifindex");
        let mut gone = 1_000_000_u32..;
        // Those of the kept slot's number, too: it has another interface.
        let full = |ifindex: u32| {
            let slot = ifindex % 3 + kept;
            map.update(&ifindex.to_ne_bytes(), &slot.to_ne_bytes())
                .is_err()
        };
        assert!(gone.any(full), "the table is bounded");
        lab.start(&[]);
        assert_eq!(by_interface(&lab), [0, kept]);
    }
    Program::connect(&lab).attached();
}

/// Without its state file nobody knows who has a queue: it is taken back all the same, and so are places.
#[test]
fn what_the_state_file_would_have_told_is_found_without_it() {
    let Some(mut lab) = Lab::with_queues("stateless", 2) else {
        return;
    };
    lab.start(&[]);
    let [direct, shared] = [Mode::Direct(Some(1)), Mode::Shared].map(|mode| {
        let program = Program::connect(&lab);
        let has = program.attached_by(mode);
        (program, has)
    });
    port_of(&direct.0.claim(Protocol::Udp, PortWish::Number(5353)));
    assert_eq!(queue_owner(&lab, 1), direct.1.slot);
    assert_eq!(by_interface(&lab), [0, shared.1.slot]);
    lab.kill();
    lose_state(&lab);
    lab.start(&[]);
    assert_eq!(queue_owner(&lab, 1), 0, "it is nobody's");
    assert_eq!(by_interface(&lab), [0]);
    assert!(map(&lab, "flows").keys().expect("a list").is_empty());
    let ours = |name: &String| name.starts_with("xok");
    let pairs = lab.interfaces().into_iter().filter(ours).count();
    assert_eq!(pairs, 1, "the daemon's own");
    // The number is given again, and the queue is free when its last holder has gone.
    drop((direct, shared));
    let next = Program::connect(&lab);
    let lent = || {
        matches!(
            next.attach_by(Mode::Direct(Some(1))).0,
            Answer::Attached { slot: 1, .. }
        )
    };
    assert!(within(lent));
    assert_eq!(queue_owner(&lab, 1), 1);
}

/// How much memory of slots that are gone is counted still.
fn kept(lab: &Lab) -> Vec<u64> {
    let report = Program::connect(lab).report();
    let left = report["leftovers"].as_array();
    let left = left.expect("a list").iter();
    left.map(|l| l["memory_bytes"].as_u64().expect("a number"))
        .collect()
}

/// Sockets of slots that are gone count under the next daemon, too, be they gone before it or with the earlier one; the
/// memory of a queue counts as long as somebody has it open.
#[test]
fn what_programs_keep_of_slots_is_counted_by_the_next_daemon() {
    const BYTES: u64 = 512 * 2048;
    let Some(mut lab) = Lab::new("kept") else {
        return;
    };
    lab.start(&[]);
    let keep = |mode, what: usize| {
        let program = Program::connect(&lab);
        let (answer, mut fds) = program.attach_by(mode);
        assert!(matches!(answer, Answer::Attached { .. }), "{answer:?}");
        (program, fds.swap_remove(what))
    };
    let (one, socket) = keep(Mode::Shared, 0);
    let (other, packets) = keep(Mode::Shared, 2);
    let (third, memory) = keep(Mode::Direct(None), 1);
    drop((one, third));
    let count = |lab: &Lab, n: usize| {
        let counted = || kept(lab) == vec![BYTES; n];
        assert!(within(counted), "{:?}", kept(lab));
    };
    count(&lab, 2);
    drop(memory);
    count(&lab, 1);
    lab.kill();
    drop(other);
    lose_process(&lab);
    lab.start(&[]);
    count(&lab, 2);
    drop(socket);
    count(&lab, 1);
    drop(packets);
    count(&lab, 0);
}

/// As if the processes of the slots had ended with the daemon.
fn lose_process(lab: &Lab) {
    let file = format!("/run/exos/{}.json", gate_name(lab));
    let text = std::fs::read_to_string(&file).expect("it was written");
    let mut state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for slot in state["slots"].as_array_mut().expect("a list") {
        slot["began"] = 0.into();
    }
    std::fs::write(&file, state.to_string()).expect("root may");
}

/// Filters of traffic control at what the host sends by the wire: a line for each, and for the discipline under them.
fn host_filters(lab: &Lab) -> Vec<String> {
    let list = |what: &[&str]| {
        let mut command = std::process::Command::new("tc");
        let listed = lab.on_the_host(|| command.args(what).output().expect("iproute2"));
        let listed = String::from_utf8(listed.stdout).expect("text");
        listed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut lines = list(&["filter", "show", "dev", "wire", "egress"]);
    lines.retain(|line| line.contains("direct-action"));
    let disciplines = list(&["qdisc", "show", "dev", "wire"]);
    lines.extend(disciplines.into_iter().filter(|l| l.contains("clsact")));
    lines
}

/// As on a kernel without tcx links: the filter that a killed daemon has left at the wire goes as the next ends in order. The
/// discipline under it stays where it was there before.
#[test]
fn filters_of_a_killed_daemon_go_with_the_next_and_others_stay() {
    let Some(mut lab) = Lab::new("filters") else {
        return;
    };
    let put = |lab: &Lab| {
        lab.on_the_host(|| {
            let next = Prog::load_classifier(&[0xffff_ffff_0000_00b7, 0x95], "left");
            let next = next.expect("a program");
            let netlink = Netlink::new().expect("netlink");
            let wire = netlink.link_by_name("wire").expect("it is there").index;
            let put = netlink.put_filter(wire, TcxHook::Egress, next.as_fd());
            put.expect("sch_ingress and cls_bpf");
        });
    };
    for with_others in [false, true] {
        if with_others {
            let made = lab.on_the_host(|| {
                let words = ["qdisc", "add", "dev", "wire", "clsact"];
                std::process::Command::new("tc").args(words).status()
            });
            assert!(made.expect("iproute2").success());
        }
        let before = host_filters(&lab);
        assert_eq!(before.len(), usize::from(with_others), "{before:?}");
        lab.start(&[]);
        put(&lab);
        assert_eq!(host_filters(&lab).len(), 2);
        lab.kill();
        lab.start(&[]);
        lab.stop();
        assert_eq!(host_filters(&lab), before);
    }
}

/// What a slot sends is checked by the daemon that runs now, not by the program of the one that attached it.
#[test]
fn a_daemon_replaces_the_checks_of_an_earlier_one() {
    let Some(mut lab) = Lab::new("checks") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let Attached {
        slot,
        mut link,
        token,
        ..
    } = program.attached();
    // The earlier daemon's program knew of no checks: r0 = TCX_PASS, exit.
    let lax = Prog::load_classifier(&[0xb7, 0x95], "lax").expect("a program");
    let name = folder(&lab).join(format!("slot{slot}-out"));
    let check = TcxLink::open_pinned(&name).expect("the daemon's");
    check.update(&lax).expect("root may");
    drop(check);
    lab.kill();
    lab.start(&[]);
    let again = Program::connect(&lab);
    let (back, _) = again.ask(&Request::Reattach { token });
    assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
    assert!(is_counted(&lab, &mut link, slot), "nobody checked it");
}

/// Of a gate of another version nothing goes on. Its slots' pairs go before the checks of what comes out of them.
#[test]
fn no_pair_outlives_its_check_when_another_version_is_replaced() {
    let Some(mut lab) = Lab::new("version") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let Attached { slot, .. } = program.attached();
    let check = folder(&lab).join(format!("slot{slot}-out"));
    if !check.exists() {
        return; // A kernel without tcx links: filters go with their pairs.
    }
    lab.kill();
    let name = folder(&lab).join("slots");
    std::fs::remove_file(&name).expect("it is there");
    let fewer = Map::create(MapKind::Array, "slots", 4, 8, 256).expect("a map");
    fewer.pin(&name).expect("its name is free");
    let here = NetNs::open(&lab.side('a')).expect("it is there");
    let ours = format!("-{slot}");
    let has_pair = move || {
        let links = here.netlink().and_then(|n| n.links()).expect("a list");
        links.iter().any(|link| link.name.ends_with(&ours))
    };
    let watch = std::thread::spawn(move || {
        while check.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        has_pair()
    });
    lab.start(&[]);
    assert!(!watch.join().expect("it looks"), "nobody checks the pair");
}

/// What no grant allows is sent, and the slot's counter says that it was dropped.
fn is_counted(lab: &Lab, link: &mut Link, slot: u32) -> bool {
    let words = Program::connect(lab).tables();
    let tables = Tables::new(words.words()).expect("tables");
    let frame = lab.datagram(7777, 9999, b"not granted");
    assert!(link.transmit(&frame, &[], TxMeta::default()));
    link.flush().expect("it is up");
    let counted = |row: exos_xok::tables::Slot| row.counters[Counter::TxBadSource as usize];
    within(|| tables.slot(slot).map(counted) > Some(0))
}
