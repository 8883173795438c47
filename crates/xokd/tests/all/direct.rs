//! Queues of the interface itself. As root; skipped, and said so, otherwise.

use crate::lab;

use std::net::UdpSocket;
use std::time::Duration;

use exos_filter::gate::Counter;
use exos_host::ethtool::Channels;
use exos_host::netns::NetNs;
use exos_host::shared::SharedWords;
use exos_link::{Link, TxMeta};
use exos_xok::Protocol;
use exos_xok::message::{Answer, Mode, PortWish, Refusal, Request, VERSION};
use exos_xok::tables::Tables;
use lab::*;

/// The daemon's tables, mapped for good.
fn tables(lab: &Lab) -> Tables<'static> {
    let (_, fds) = Program::connect(lab).ask(&Request::Hello { version: VERSION });
    let words = SharedWords::open(fds.into_iter().next().expect("the tables")).expect("sealed");
    Tables::new(Box::leak(Box::new(words)).words()).expect("tables")
}

fn counted(tables: &Tables<'_>, slot: u32, counter: Counter) -> u64 {
    tables
        .slot(slot)
        .map_or(0, |s| s.counters[counter as usize])
}

/// Datagrams from side b, each from a port of its own, so that a wire of several queues spreads them.
fn send_many(lab: &Lab, port: u16, count: usize, text: &str) {
    lab.over_there(|| {
        for _ in 0..count {
            let socket = UdpSocket::bind("10.78.0.2:0").expect("free");
            let sent = socket.send_to(text.as_bytes(), (OURS, port));
            sent.expect("a route");
        }
    });
}

/// How many frames with this text have come.
fn take(link: &mut Link, text: &str) -> u64 {
    let mut count = 0;
    while link.receive(|frame, _| count += u64::from(frame.ends_with(text.as_bytes()))) > 0 {}
    count
}

/// A datagram with this source that no grant allows.
fn forged(source: [u8; 4], to: ([u8; 6], [u8; 4], u16), text: &str) -> Vec<u8> {
    let (mac, destination, port) = to;
    let udp_len = 8 + text.len() as u16;
    let mut ip = [0; 20];
    (ip[0], ip[8], ip[9]) = (0x45, 64, 17);
    ip[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
    ip[12..16].copy_from_slice(&source);
    ip[16..20].copy_from_slice(&destination);
    let sum = exos_wire::checksum::Sum::of(&ip).finish();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let ports = [77_u16, port, udp_len, 0].map(u16::to_be_bytes).concat();
    let somebody = [2, 0, 0, 0, 0, 0x99];
    [&mac[..], &somebody, &[8, 0], &ip, &ports, text.as_bytes()].concat()
}

/// Both sides of the wire use two of their queues.
fn leave_two_in_use(lab: &Lab) {
    for side in ['a', 'b'] {
        let side = NetNs::open(&lab.side(side)).expect("it is there");
        let ethtool = side.ethtool().expect("a socket");
        let two = Channels {
            rx: 2,
            tx: 2,
            ..Channels::default()
        };
        ethtool.set_channels("wire", two).expect("a veth has them");
    }
}

/// What is granted comes, on the program's queue alone; what it sends nobody looks at.
#[test]
fn a_queue_receives_what_is_granted_and_sends_anything() {
    let Some(mut lab) = Lab::with_queues("queue", 4) else {
        return;
    };
    // Nothing comes by queues that are not in use, and nobody gets them.
    leave_two_in_use(&lab);
    lab.start(&[]);
    let tables = tables(&lab);
    let program = Program::connect(&lab);
    let mut has = program.attached_by(Mode::Direct(Some(0)));
    assert!(has.direct);
    assert_eq!(
        has.descriptors, 2,
        "no packet socket of the host's namespace"
    );
    port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    // The first one has the neighbour found.
    send_many(&lab, 9999, 16, "not granted");
    send_many(&lab, 5353, 64, "granted");
    let mut came = 0;
    let wrong = || counted(&tables, has.slot, Counter::WrongQueue);
    let all = within(|| {
        has.link.receive(|frame, _| {
            assert!(!frame.ends_with(b"not granted"), "somebody else's");
            came += u64::from(frame.ends_with(b"granted"));
        });
        came + wrong() == 64
    });
    assert!(all, "{came} came, {} on the wrong queue", wrong());
    assert!(came > 0 && wrong() > 0, "{came} came, {} did not", wrong());
    let second = Program::connect(&lab);
    assert!(second.attached_by(Mode::Direct(None)).direct);
    a_third_gets_none(&lab);
    // The host does not reach it.
    lab.on_the_host(|| {
        let socket = UdpSocket::bind("10.78.0.1:0").expect("free");
        socket
            .send_to(b"from the host", (OURS, 5353))
            .expect("a route");
    });
    let dropped = || counted(&tables, has.slot, Counter::NoRing) == 1;
    assert!(within(dropped), "it was counted");
    sends_in_nobodys_name(&lab, &mut has.link);
}

/// Another has the other queue: a third gets none, and is shared where it does not ask for one, as root's rule has it.
fn a_third_gets_none(lab: &Lab) {
    let third = Program::connect(lab);
    for (mode, code, words) in [
        (Mode::Direct(None), Refusal::Held, "held by test (pid "),
        (Mode::Direct(Some(1)), Refusal::Held, "queue 1 is held by"),
        (
            Mode::Direct(Some(2)),
            Refusal::NotFound,
            "no queue 2; name one below 2",
        ),
    ] {
        let (refused, _) = third.attach_by(mode);
        let (found, text) = refusal(&refused);
        assert_eq!(found, code, "{text}");
        assert!(text.contains(words), "{text}");
    }
    assert!(!third.attached().direct);
}

/// A datagram from an address that no grant covers leaves, and arrives.
fn sends_in_nobodys_name(lab: &Lab, link: &mut Link) {
    let peer = lab.over_there(|| UdpSocket::bind("10.78.0.2:4444").expect("free"));
    peer.set_read_timeout(Some(PATIENCE)).expect("a time");
    let there = lab.over_there(|| exos_host::netlink::Netlink::new().expect("a socket"));
    let wire = there.link_by_name("wire").expect("it is there");
    let to = (wire.mac.expect("Ethernet"), [10, 78, 0, 2], 4444);
    let frame = forged([10, 78, 0, 99], to, "from nobody");
    assert!(link.transmit(&frame, &[], TxMeta::default()));
    link.flush().expect("it is up");
    let mut text = [0; 64];
    let (len, from) = peer.recv_from(&mut text).expect("nobody stopped it");
    assert_eq!(&text[..len], b"from nobody");
    assert_eq!(from.to_string(), "10.78.0.99:77");
}

/// The queue is the program's through the death of the daemon, and free after the program's own.
#[test]
fn a_queue_outlives_the_daemon_and_not_its_program() {
    let Some(mut lab) = Lab::new("queue-kept") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let mut has = program.attached_by(Mode::Direct(None));
    let (grant, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    assert!(receives(&lab, &mut has.link, 5353, "with a daemon"));
    lab.kill();
    assert!(receives(&lab, &mut has.link, 5353, "without a daemon"));
    lab.start(&[]);
    let again = Program::connect(&lab);
    let (back, _) = again.ask(&Request::Reattach { token: has.token });
    let Answer::Attached {
        slot,
        facts,
        grants,
        ..
    } = back
    else {
        panic!("{back:?}")
    };
    assert_eq!((slot, facts.direct), (has.slot, true));
    assert_eq!(grants, [(grant, claim)]);
    assert!(receives(&lab, &mut has.link, 5353, "under another"));
    let other = Program::connect(&lab);
    let (refused, _) = other.attach_by(Mode::Direct(None));
    assert_eq!(refusal(&refused).0, Refusal::Held);
    // The ring goes with its program, the rest when the connection has closed.
    drop((program, again, has));
    let mut next = None;
    let lent = within(|| {
        let (answer, fds) = other.attach_by(Mode::Direct(Some(0)));
        next = matches!(answer, Answer::Attached { .. }).then_some(fds);
        next.is_some()
    });
    assert!(lent, "the queue is free");
    drop((other, next));
    lab.stop();
    assert_eq!(lab.interfaces(), ["lo", "wire"], "nothing is left");
}

/// Anyone who asks for a queue too early is told when to ask again, and nobody waits for them. Who keeps its socket all the
/// same is not waited for either.
#[test]
fn a_queue_that_was_given_back_and_is_kept() {
    let Some(mut lab) = Lab::new("queue-busy") else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let has = program.attached_by(Mode::Direct(Some(0)));
    drop(program);
    let other = Program::connect(&lab);
    let ask = || {
        let (answer, _) = other.attach_by(Mode::Direct(Some(0)));
        let (code, text) = refusal(&answer);
        (code, text.to_owned())
    };
    // The end of the connection may be heard after what is asked on another.
    let mut first = ask();
    let noticed = within(|| {
        let held = first.0 == Refusal::Held;
        first = if held { ask() } else { first.clone() };
        !held
    });
    assert!(noticed && first.0 == Refusal::Busy, "{first:?}");
    assert!(first.1.contains("try again in"), "{first:?}");
    let kept = within(|| ask().0 == Refusal::System);
    assert!(kept, "it is somebody's: {:?}", ask());
    drop(has);
    let mut next = None;
    let lent = within(|| {
        let (answer, fds) = other.attach_by(Mode::Direct(Some(0)));
        next = matches!(answer, Answer::Attached { .. }).then_some(fds);
        next.is_some()
    });
    assert!(lent, "nobody keeps it");
}

/// A policy that does not say direct any more takes what comes in; who prefers it gets it unasked.
#[test]
fn policy_lends_queues_and_takes_them_back() {
    let Some(mut lab) = Lab::new("queue-policy") else {
        return;
    };
    let file = std::env::temp_dir().join(format!("{}.toml", lab.side('p')));
    let write = |modes: &str| {
        let text = format!(
            "[[interface]]\nname = \"wire\"\naddresses = [\"{OURS}/24\"]\n\n[[allow]]\nuser = \"0\"\nmodes = [{modes}]\n"
        );
        std::fs::write(&file, text).expect("a temporary file");
    };
    write("\"direct\", \"shared\"");
    lab.run(&["--policy", file.to_str().expect("a path")]);
    let program = Program::connect(&lab);
    let mut has = program.attached();
    assert!(has.direct, "it is preferred");
    port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    assert!(receives(&lab, &mut has.link, 5353, "allowed"));
    let second = Program::connect(&lab);
    assert!(!second.attached().direct, "where none is free it is shared");
    write("\"shared\"");
    let pid = rustix::process::Pid::from_child(lab.daemon.as_ref().expect("it runs"));
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it is ours");
    let third = Program::connect(&lab);
    let refused = || {
        let (answer, _) = third.attach_by(Mode::Direct(None));
        refusal(&answer).0 == Refusal::NotAllowed
    };
    assert!(within(refused), "the policy was read");
    // It was asked to give it back, does not, and after two seconds it is taken.
    let stopped = within(|| {
        take(&mut has.link, "still");
        send_many(&lab, 5353, 1, "still");
        std::thread::sleep(Duration::from_millis(100));
        take(&mut has.link, "still") == 0
    });
    assert!(stopped, "what comes in is taken");
    std::fs::remove_file(&file).expect("it is ours");
}
