//! The daemon with real interfaces: as root, in network namespaces of this test's own. Skipped, and said so, otherwise.
//!
//! A wire joins side a, where the daemon serves 10.78.0.7, and side b, a Linux host.

use crate::lab;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use exos_filter::gate::{FlowKey, FlowValue};
use exos_host::bpf::Map;
use exos_host::netns::NetNs;
use exos_host::shared::SharedWords;
use exos_xok::message::{Answer, PortWish, Refusal, Request, VERSION};
use exos_xok::tables::Tables;
use exos_xok::{Endpoint, Protocol};
use lab::*;

#[test]
fn what_nobody_claims_is_answered_and_what_is_claimed_arrives() {
    let Some(mut lab) = Lab::new("basic") else {
        return;
    };
    lab.start(&[]);
    let reset = lab.dial(8080).expect_err("nobody is there");
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionRefused);
    let program = Program::connect(&lab);
    let (welcome, fds) = program.ask(&Request::Hello { version: VERSION });
    assert!(matches!(
        welcome,
        Answer::Welcome {
            version: VERSION,
            ..
        }
    ));
    let words = SharedWords::open(fds.into_iter().next().expect("the tables")).expect("sealed");
    let tables = Tables::new(words.words()).expect("tables");
    let peer = "10.78.0.2".parse().expect("an address");
    let index = tables.interfaces().next().expect("one").index;
    assert!(tables.neighbour(index, peer).is_some(), "it has asked us");
    let Attached { slot, mut link, .. } = program.attached();
    let (_, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    assert_eq!(claim.to_string(), format!("udp {OURS}:5353"));
    assert!(receives(&lab, &mut link, 5353, "for us"));
    assert!(tables.grants().any(|g| g.slot == slot && g.claim == claim));
    let other = Program::connect(&lab);
    other.attach();
    let held = other.claim(Protocol::Udp, PortWish::Number(5353));
    let (code, text) = refusal(&held);
    assert_eq!(code, Refusal::Held);
    assert!(text.contains("held by test (pid "), "{text}");
    let low = other.claim(Protocol::Tcp, PortWish::Number(80));
    assert_eq!(refusal(&low).0, Refusal::NotAllowed);
    // What is not granted does not leave: a frame of zeros to start with, from nobody.
    assert!(link.transmit(&[0; 60], &[], exos_link::TxMeta::default()));
    link.flush().expect("it is up");
    let refused = || {
        tables
            .slot(slot)
            .is_some_and(|s| s.counters.iter().sum::<u64>() > 2)
    };
    assert!(within(refused), "it was counted");
    drop((program, link));
    assert!(within(|| tables.slot(slot).is_none()));
    let (grant, _) = port_of(&other.claim(Protocol::Udp, PortWish::Number(5353)));
    assert!(matches!(
        other.ask(&Request::Release { grant }).0,
        Answer::Done
    ));
    drop(other);
    lab.stop();
    assert_eq!(lab.interfaces(), ["lo", "wire"], "nothing is left");
}

#[test]
fn programs_keep_what_they_have_when_the_daemon_is_killed() {
    let Some(mut lab) = Lab::new("killed") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let Attached {
        slot,
        token,
        mut link,
        ..
    } = program.attached();
    let (grant, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Ephemeral));
    // The peer has to know our Ethernet address: nobody answers for it while there is no daemon.
    assert!(receives(&lab, &mut link, claim.port, "with a daemon"));
    lab.kill();
    assert!(receives(&lab, &mut link, claim.port, "without a daemon"));
    lab.start(&[]);
    let again = Program::connect(&lab);
    let (stranger, _) = again.ask(&Request::Reattach {
        token: exos_xok::message::Secret([0; 16]),
    });
    assert_eq!(refusal(&stranger).0, Refusal::NotFound);
    let (back, _) = again.ask(&Request::Reattach { token });
    let Answer::Attached {
        slot: same, grants, ..
    } = back
    else {
        panic!("{back:?}")
    };
    assert_eq!((same, grants), (slot, vec![(grant, claim)]));
    // The next takes over in order, and the one before ends well.
    let mut before = lab.daemon.take().expect("it runs");
    lab.start(&["--replace"]);
    assert!(before.wait().expect("it ends").success());
    assert!(receives(&lab, &mut link, claim.port, "under another"));
    drop(again);
    let third = Program::connect(&lab);
    assert!(matches!(
        third.ask(&Request::Reattach { token }).0,
        Answer::Attached { .. }
    ));
    lab.kill();
    drop((third, link));
    assert!(lab.clean().status.success());
    assert_eq!(lab.interfaces(), ["lo", "wire"], "nothing is left");
}

/// A program's interface has its number in a namespace of its own. In the daemon's nobody has that number, or a stranger.
#[test]
fn programs_are_taken_up_whatever_numbers_the_hosts_interfaces_have() {
    for (test, stays) in [("no-second", false), ("other-second", true)] {
        let others = |namespace: &str| {
            let ip = |words: &str| {
                let mut ip = std::process::Command::new("ip");
                let ran = ip.args(["-n", namespace, "link"]).args(words.split(' '));
                assert!(ran.status().expect("iproute2").success(), "{words}");
            };
            ip("add other type veth peer name beside");
            if !stays {
                ip("del other");
            }
        };
        let Some(mut lab) = Lab::prepared(test, 1, others) else {
            return;
        };
        lab.start(&[]);
        let program = Program::connect(&lab);
        let Attached {
            slot,
            token,
            mut link,
            ..
        } = program.attached();
        let held = port_of(&program.claim(Protocol::Udp, PortWish::Ephemeral));
        assert!(receives(&lab, &mut link, held.1.port, "with a daemon"));
        lab.kill();
        lab.start(&[]);
        let again = Program::connect(&lab);
        let (back, _) = again.ask(&Request::Reattach { token });
        let Answer::Attached {
            slot: same, grants, ..
        } = back
        else {
            panic!("{back:?}")
        };
        assert_eq!((same, grants), (slot, vec![held]));
        assert!(receives(&lab, &mut link, held.1.port, "under another"));
    }
}

/// The host's own address, shared: what is granted is the program's and cannot be the host's, all else stays the host's.
#[test]
fn ports_of_a_shared_address_are_the_programs_or_the_hosts() {
    const SHARED: &str = "10.78.0.1";
    let Some(mut lab) = Lab::new("shared") else {
        return;
    };
    lab.launch(&["--share-address"]);
    let bind_tcp = |lab: &Lab, port| lab.on_the_host(move || TcpListener::bind((SHARED, port)));
    let bind_udp = |lab: &Lab, port| lab.on_the_host(move || UdpSocket::bind((SHARED, port)));
    let everywhere = lab.on_the_host(|| TcpListener::bind("0.0.0.0:2222"));
    let everywhere = everywhere.expect("free");
    let program = Program::connect(&lab);
    let Attached {
        token, mut link, ..
    } = program.attached();
    let held = program.claim(Protocol::Tcp, PortWish::Number(2222));
    let (code, text) = refusal(&held);
    assert_eq!(code, Refusal::Held);
    assert!(text.contains("another program of this host"), "{text}");
    let (tcp, _) = port_of(&program.claim(Protocol::Tcp, PortWish::Number(8080)));
    port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    bind_tcp(&lab, 8080).expect_err("the program has it");
    bind_udp(&lab, 5353).expect_err("the program has it");
    assert!(receives_at(&lab, &mut link, (SHARED, 5353), "granted"));
    // The host neither answers nor resets what goes to the program, and goes on serving the rest.
    let silent = lab.over_there(|| {
        let to = "10.78.0.1:8080".parse().expect("an address");
        TcpStream::connect_timeout(&to, Duration::from_millis(300))
    });
    let silent = silent.expect_err("the program does not answer").kind();
    assert_eq!(silent, std::io::ErrorKind::TimedOut);
    lab.over_there(|| TcpStream::connect((SHARED, 2222)))
        .expect("the host's listener answers");
    drop(everywhere);
    // The next daemon holds the ports again.
    lab.kill();
    lab.launch(&["--share-address"]);
    bind_tcp(&lab, 8080).expect_err("the program has it still");
    let again = Program::connect(&lab);
    assert!(matches!(
        again.ask(&Request::Reattach { token }).0,
        Answer::Attached { .. }
    ));
    again.ask(&Request::Release { grant: tcp });
    bind_tcp(&lab, 8080).expect("it was given back");
    bind_udp(&lab, 5353).expect_err("this one was not");
    drop((again, link));
    assert!(within(|| bind_udp(&lab, 5353).is_ok()));
}

/// A program that asks again for what it has keeps it, in the books as in the packet path, although the host took the port while there
/// was no daemon.
#[test]
fn what_the_host_took_meanwhile_is_not_lost_by_asking_again() {
    let Some(mut lab) = Lab::new("meanwhile") else {
        return;
    };
    lab.launch(&["--share-address"]);
    let program = Program::connect(&lab);
    let Attached {
        token, mut link, ..
    } = program.attached();
    let (grant, _) = port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    lab.kill();
    let host = lab.on_the_host(|| UdpSocket::bind(("10.78.0.1", 5353)));
    let host = host.expect("nobody holds it now");
    lab.launch(&["--share-address"]);
    let again = Program::connect(&lab);
    let (back, _) = again.ask(&Request::Reattach { token });
    assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
    let claimed = again.claim(Protocol::Udp, PortWish::Number(5353));
    assert_eq!(port_of(&claimed).0, grant, "it has it already");
    port_of(&again.claim(Protocol::Udp, PortWish::Number(5354)));
    assert!(receives_at(&lab, &mut link, ("10.78.0.1", 5353), "still"));
    // What is in the books can be given back, and then nothing is left of it.
    assert_eq!(again.ask(&Request::Release { grant }).0, Answer::Done);
    let (mut kept, mut behind) = (false, false);
    for (port, text) in [(5353, "no more"), (5354, "behind it")] {
        lab.tell(("10.78.0.1", port), text);
    }
    let came = within(|| {
        link.receive(|frame, _| {
            kept |= frame.ends_with(b"no more");
            behind |= frame.ends_with(b"behind it");
        });
        behind
    });
    assert!(came && !kept, "the host has the packets now");
    drop(host);
}

/// The processor time of the daemon so far.
fn spent(lab: &Lab) -> Duration {
    let pid = lab.daemon.as_ref().expect("it runs").id();
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("it runs");
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.expect("nanoseconds"))
}

/// Runs `ip` with these lines in the namespace of the daemon.
fn ip(lab: &Lab, lines: &str) {
    let mut command = Command::new("ip");
    command.args(["-n", &lab.side('a'), "-batch", "-"]);
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .expect("ip is of iproute2");
    let mut to = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut to, lines.as_bytes()).expect("it reads");
    drop(to);
    assert!(child.wait().expect("ours").success());
}

/// The gateways that a newcomer is told are the host's of the moment, and telling them costs the same on a host that has
/// many routes.
#[test]
fn greeting_costs_the_same_however_many_routes() {
    const GREETINGS: u32 = 100;
    let Some(mut lab) = Lab::new("routes") else {
        return;
    };
    lab.launch(&["--share-address"]);
    let program = Program::connect(&lab);
    let gateways = || match program.ask(&Request::Hello { version: VERSION }).0 {
        Answer::Welcome { interfaces, .. } => interfaces[0].gateways.clone(),
        other => panic!("{other:?}"),
    };
    let cost = || {
        let before = spent(&lab);
        (0..GREETINGS).for_each(|_| drop(gateways()));
        spent(&lab) - before
    };
    assert!(gateways().is_empty());
    ip(&lab, "route add default via 10.78.0.2\n");
    let gateway: std::net::IpAddr = "10.78.0.2".parse().expect("an address");
    assert_eq!(gateways(), [gateway], "at once");
    let few = cost();
    let may = few * 5 + Duration::from_millis(500);
    let route = |n: u32| {
        format!(
            "route add 172.16.{}.{}/32 via 10.78.0.2\n",
            n / 256,
            n % 256
        )
    };
    ip(&lab, &(0..10_000).map(route).collect::<String>());
    assert_eq!(gateways(), [gateway], "beside many others");
    // Asking for all of them takes some 80 ms each time; the clock that counts is coarse, and counts what others take from a virtual
    // machine's processor.
    let mut many = Vec::new();
    let is_same = (0..5).any(|_| {
        many.push(cost());
        *many.last().expect("just so") < may
    });
    assert!(is_same, "{many:?} of processor time, with few {few:?}");
    ip(&lab, "route del default\n");
    assert!(gateways().is_empty(), "gone at once");
}

/// A program of an older or newer version is told so, with both versions, and may go on to ask as one of this.
#[test]
fn a_program_of_another_version_is_told_both() {
    let Some(mut lab) = Lab::new("version") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    for version in [VERSION - 1, VERSION + 1, u16::MAX] {
        let (answer, fds) = program.ask(&Request::Hello { version });
        let (code, text) = refusal(&answer);
        assert_eq!((code, fds.len()), (Refusal::Version, 0));
        let both = format!("this daemon speaks version {VERSION} and the program {version};");
        assert!(text.starts_with(&both), "{text}");
    }
    let (welcome, _) = program.ask(&Request::Hello { version: VERSION });
    assert!(matches!(welcome, Answer::Welcome { .. }), "{welcome:?}");
}

/// The daemon's report, with what it says of the one who asks.
pub fn report(program: &Program) -> serde_json::Value {
    let (answer, fds) = program.ask(&Request::Status);
    let Answer::Report { bytes, asker } = answer else {
        panic!("{answer:?}")
    };
    let mut text = vec![0; bytes as usize];
    let file = std::fs::File::from(fds.into_iter().next().expect("a report"));
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut text, 0).expect("all of it");
    let mut report: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    report["asker"] = serde_json::from_str(&asker).expect("JSON");
    report
}

/// The counters of a slot, as the daemon reports them.
pub fn counters(program: &Program, slot: u32) -> serde_json::Value {
    let report = report(program);
    let slots = report["interfaces"][0]["slots"].as_array().expect("slots");
    let mine = slots.iter().find(|s| s["slot"] == slot).expect("its slot");
    assert_eq!(mine["program"], "test");
    mine["counters"].clone()
}

#[test]
fn the_report_has_the_counters_of_each_program() {
    let Some(mut lab) = Lab::new("report") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let Attached { slot, mut link, .. } = program.attached();
    port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    assert!(receives(&lab, &mut link, 5353, "counted"));
    // A frame of zeros comes from nobody: dropped, and counted under a name.
    assert!(link.transmit(&[0; 60], &[], exos_link::TxMeta::default()));
    link.flush().expect("it is up");
    assert!(within(|| {
        let counters = counters(&program, slot);
        counters["rx_packets"] == 1 && counters["tx_bad_mac"] == 1
    }));
    every_field_is_described(&report(&program));
}

/// Programs read everything that a report has, by the types that its page is made of.
pub(crate) fn every_field_is_described(report: &serde_json::Value) {
    use serde_json::Value;
    fn compare(report: &Value, read: &Value, at: &str) {
        match report {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let same = read.get(name);
                    let same = same.unwrap_or_else(|| panic!("{at}/{name} is not described"));
                    compare(value, same, &format!("{at}/{name}"));
                }
            }
            Value::Array(values) => {
                let pairs = values.iter().zip(read.as_array().expect("a list"));
                pairs.for_each(|(value, same)| compare(value, same, at));
            }
            _ => assert_eq!(report, read, "{at}"),
        }
    }
    let read = exos_program::status::Status::parse(&report.to_string()).expect("a report");
    compare(report, &serde_json::to_value(&read).expect("JSON"), "");
}

/// The table of the packet path, filled up with what is nobody's, by a hand that is not the daemon's.
fn fill_flows(lab: &Lab) -> (Map, Vec<[u8; FlowKey::LEN]>) {
    let here = NetNs::open(&lab.side('a')).expect("it is there");
    let wire = here.netlink().and_then(|n| n.link_by_name("wire"));
    let index = wire.expect("it is there").index;
    let name = exos_xokd::interface::gate_name(here.inode().expect("it has one"), index);
    let folder = std::path::Path::new("/sys/fs/bpf/exos").join(name);
    let flows = Map::open_pinned(&folder.join("flows")).expect("the daemon made it");
    let key = |n: u32| {
        let mut key = [0xff; FlowKey::LEN];
        key[..4].copy_from_slice(&n.to_ne_bytes());
        key
    };
    let fits = |key: &[u8; FlowKey::LEN]| flows.update(key, &[0; FlowValue::LEN]).is_ok();
    let filled = (0..).map(key).take_while(fits).collect();
    (flows, filled)
}

#[test]
fn a_grant_that_the_kernel_has_no_room_for_is_refused_and_nobodys() {
    let Some(mut lab) = Lab::new("full") else {
        return;
    };
    lab.start(&[]);
    let (program, other) = (Program::connect(&lab), Program::connect(&lab));
    let words = program.tables();
    let tables = Tables::new(words.words()).expect("tables");
    program.attach();
    let Attached { mut link, .. } = other.attached();
    let udp = |program: &Program, port| program.claim(Protocol::Udp, PortWish::Number(port));
    let (held, _) = port_of(&udp(&program, 5000));
    let (flows, filled) = fill_flows(&lab);
    let ip = "10.78.0.2".parse().expect("an address");
    let narrow = Request::Narrow {
        grant: held,
        remote: Endpoint { ip, port: 9 },
        port: 0,
    };
    let refused = [
        udp(&program, 5001),
        udp(&other, 5001),
        program.claim(Protocol::Udp, PortWish::Ephemeral),
        program.ask(&narrow).0,
    ];
    for answer in &refused {
        let (code, text) = refusal(answer);
        assert_eq!(code, Refusal::System);
        assert!(text.contains("flows"), "{text}");
    }
    assert_eq!(
        port_of(&udp(&program, 5000)).0,
        held,
        "that one has its place"
    );
    let ids: Vec<u32> = tables.grants().map(|grant| grant.id).collect();
    assert_eq!(ids, [held]);
    for key in filled {
        flows.delete(&key).expect("it is there");
    }
    port_of(&udp(&other, 5001));
    assert!(receives(&lab, &mut link, 5001, "for the other"));
    port_of(&program.ask(&narrow).0);
}
