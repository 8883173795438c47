//! More programs on one queue than a byte could number. As root, in network namespaces of this test's own. Skipped, and said
//! so, otherwise.

use crate::lab;

use std::net::UdpSocket;

use exos_link::{Link, TxMeta};
use exos_xok::Protocol;
use exos_xok::message::{Answer, Mode, PortWish, Request};
use exos_xok::tables::Tables;
use lab::*;

/// Programs: the last ones' slots need more than eight bits.
const PROGRAMS: u32 = 257;

const FIRST_PORT: u16 = 4000;

/// Answers what has arrived, as a datagram from `port` to `to`; whether anything had.
fn answers(lab: &Lab, link: &mut Link, (port, to): (u16, u16)) -> bool {
    let mut arrived = 0;
    link.receive(|_, _| arrived += 1);
    if arrived == 0 {
        return false;
    }
    let frame = lab.datagram(port, to, b"answer");
    assert!(link.transmit(&frame, &[], TxMeta::default()), "room");
    link.flush().expect("it is up");
    true
}

/// A program with one port.
fn attach(lab: &Lab, port: u16) -> (Program, Attached) {
    let program = Program::connect(lab);
    let attached = Attached::from(program.ask(&Request::Attach {
        interface: String::new(),
        mode: Mode::Shared,
        chunks: 128,
        program: "one of many".to_owned(),
    }));
    port_of(&program.claim(Protocol::Udp, PortWish::Number(port)));
    (program, attached)
}

/// Each gets what is sent to its port from over there, and answers it.
fn all_answer(lab: &Lab, socket: &UdpSocket, all: &mut [(Program, Attached)]) {
    let back = socket.local_addr().expect("it is bound").port();
    for (port, (_, attached)) in (FIRST_PORT..).zip(all) {
        lab.over_there(|| socket.send_to(b"question", (OURS, port)).expect("a route"));
        let link = &mut attached.link;
        let answered = within(|| answers(lab, link, (port, back)));
        assert!(answered, "port {port} gets nothing");
        let mut buffer = [0; 16];
        let (len, from) = lab.over_there(|| socket.recv_from(&mut buffer).expect("it answers"));
        assert_eq!((&buffer[..len], from.port()), (&b"answer"[..], port));
    }
}

/// All ask before any is answered: the daemon only looks for those that have not come back when it has heard those that ask.
fn come_back(lab: &Lab, all: &mut [(Program, Attached)]) {
    for (program, attached) in &mut *all {
        *program = Program::connect(lab);
        let token = attached.token;
        program.tell(&Request::Reattach { token });
    }
    for (program, attached) in all {
        let (answer, _) = program.answer();
        assert!(matches!(answer, Answer::Attached { slot, .. } if slot == attached.slot));
    }
}

/// All get and send what is theirs, live through a restart of the daemon, and are gone when they all end at once.
#[test]
fn more_than_a_byte_numbers_share_a_queue() {
    let Some(mut lab) = Lab::new("many") else {
        return;
    };
    lab.start_by(&format!(
        "[[allow]]\nuser = \"root\"\nprograms_max = {PROGRAMS}\nmemory_max = \"4GiB\"\n"
    ));
    let programs = (0..PROGRAMS).map(|number| attach(&lab, FIRST_PORT + number as u16));
    let mut all: Vec<(Program, Attached)> = programs.collect();
    let last = &all.last().expect("some").1;
    assert_eq!(last.slot, PROGRAMS);
    let (more, _) = Program::connect(&lab).attach();
    let (_, text) = refusal(&more);
    assert!(text.contains("programs_max = 257"), "{text}");

    let socket = lab.over_there(|| UdpSocket::bind("10.78.0.2:0").expect("free"));
    let patience = Some(PATIENCE);
    socket.set_read_timeout(patience).expect("it is a socket");
    all_answer(&lab, &socket, &mut all);

    // They are adopted, and come back.
    lab.kill();
    let policy = lab.policy();
    lab.run(&["--policy", policy.to_str().expect("a name")]);
    come_back(&lab, &mut all);
    all_answer(&lab, &socket, &mut all);
    let words = all[0].0.tables();
    let slots = || Tables::new(words.words()).expect("tables").slots().count();
    assert_eq!(slots(), PROGRAMS as usize);

    // Without a word, and together.
    drop(all);
    let pairs = || {
        lab.interfaces()
            .iter()
            .filter(|i| i.starts_with("xok"))
            .count()
    };
    assert!(within(|| slots() == 0 && pairs() == 1), "{}", pairs());
    let program = Program::connect(&lab);
    let mut attached = program.attached();
    assert!(attached.slot <= PROGRAMS, "numbers are given again");
    port_of(&program.claim(Protocol::Udp, PortWish::Number(FIRST_PORT)));
    assert!(receives(
        &lab,
        &mut attached.link,
        FIRST_PORT,
        "for a program that comes next"
    ));
}
