//! The daemon with real interfaces: as root, in network namespaces of this test's own. Skipped, and said so, otherwise.
//!
//! A wire joins side a, where the daemon serves 10.78.0.7, and side b, a Linux host.

mod lab;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use exos_host::shared::SharedWords;
use exos_xok::Protocol;
use exos_xok::message::{Answer, PortWish, Refusal, Request, VERSION};
use exos_xok::tables::Tables;
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
    assert!(within(Duration::from_secs(3), refused), "it was counted");
    drop((program, link));
    assert!(within(Duration::from_secs(1), || tables
        .slot(slot)
        .is_none()));
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
    assert!(within(Duration::from_secs(2), || bind_udp(&lab, 5353).is_ok()));
}

/// What a scraper gets, in the namespace that the daemon was started in.
fn scrape(port: u16) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        .expect("room");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

#[test]
fn scrapers_read_the_counters_of_each_program() {
    let Some(mut lab) = Lab::new("metrics") else {
        return;
    };
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    lab.start(&["--metrics", &format!("127.0.0.1:{port}")]);
    let program = Program::connect(&lab);
    let Attached { slot, mut link, .. } = program.attached();
    port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    assert!(receives(&lab, &mut link, 5353, "counted"));
    let labels = format!("interface=\"wire\",slot=\"{slot}\",program=\"test\",uid=\"0\"");
    let text = scrape(port);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for line in [
        format!("exos_rx_packets_total{{{labels}}} 1"),
        format!("exos_grants{{{labels}}} 1"),
        "# TYPE exos_rx_packets_total counter".to_owned(),
        "exos_slots 1".to_owned(),
    ] {
        assert!(text.lines().any(|l| l == line), "no {line:?} in:\n{text}");
    }
    // A frame of zeros comes from nobody: dropped, and counted under a name.
    assert!(link.transmit(&[0; 60], &[], exos_link::TxMeta::default()));
    link.flush().expect("it is up");
    let dropped = format!("exos_tx_bad_mac_total{{{labels}}} 1");
    assert!(within(Duration::from_secs(3), || {
        scrape(port).lines().any(|l| l == dropped)
    }));
}
