//! A program that says that another follows: when it goes, nobody gets or answers what was its own until that one is there.
//! As root; skipped, and said so, otherwise.

use crate::lab;

use std::net::UdpSocket;
use std::time::Duration;

use exos_xok::Protocol;
use exos_xok::limits::SUCCESSOR_MS_MAX;
use exos_xok::message::{Answer, GrantId, PortWish, Refusal, Request, Revoked};
use lab::*;
use serde_json::Value;

/// What the user may have who has all of it.
const ALL: &str = "[[allow]]\nuser = \"0\"\nports = [\"1-65535\"]\n";
/// What they may have otherwise.
const LITTLE: &str = "[[allow]]\nuser = \"0\"\nports = [\"1-100\"]\n";

/// Claims all ports of our address.
fn all_of(program: &Program, protocol: Protocol) -> Answer {
    program.claim(protocol, PortWish::All)
}

fn promise(program: &Program, grant: GrantId, ms: u32) -> Answer {
    program.ask(&Request::AwaitSuccessor { grant, ms }).0
}

/// A program that has all ports of UDP, and has promised them.
fn promising(lab: &Lab, ms: u32) -> (Program, Attached) {
    let program = Program::connect(lab);
    let attached = program.attached();
    let (grant, _) = port_of(&all_of(&program, Protocol::Udp));
    assert_eq!(promise(&program, grant, ms), Answer::Done);
    (program, attached)
}

/// The daemon's report of the wire.
fn report(lab: &Lab) -> Value {
    Program::connect(lab).report()
}

fn is_awaited(lab: &Lab) -> bool {
    report(lab)["awaited"][0]["claim"] == format!("udp {OURS}")
}

/// Whether it is said that nobody is at a port, which the daemon does when nobody has it.
fn is_refused(lab: &Lab, port: u16) -> bool {
    lab.over_there(|| {
        let socket = UdpSocket::bind("10.78.0.2:0").expect("free");
        socket.connect((OURS, port)).expect("a route");
        let patience = Some(Duration::from_millis(300));
        socket.set_read_timeout(patience).expect("it is a socket");
        let asked = socket.send(b"is anybody there?");
        asked
            .and_then(|_| socket.recv(&mut [0; 10]))
            .is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused)
    })
}

/// Waits for that, as long as a busy machine may need to find out that a program has ended.
fn must_be_refused(lab: &Lab, port: u16) {
    let refused = within(|| is_refused(lab, port));
    assert!(refused, "nobody answers for port {port}");
}

/// The program of a slot goes: whether somebody is awaited then. On a slow machine that may be over before it is seen.
fn is_awaited_after(lab: &Lab, program: Program, slot: u32) -> bool {
    drop(program);
    let mut is_awaited = false;
    let has_gone = within(|| {
        let report = report(lab);
        is_awaited = report["awaited"][0]["claim"] == format!("udp {OURS}");
        let slots = report["slots"].as_array().expect("a list");
        is_awaited || !slots.iter().any(|it| it["slot"] == slot)
    });
    assert!(has_gone, "it is there still");
    is_awaited
}

/// Attempts of which one is in time on the slowest machine.
const ATTEMPTS: u32 = 10;

/// A program that has promised all ports of UDP goes, and somebody is awaited.
fn must_be_awaited(lab: &Lab, ms: u32) {
    let leave = |_| {
        let (program, has) = promising(lab, ms);
        is_awaited_after(lab, program, has.slot)
    };
    assert!((0..ATTEMPTS).any(leave), "nobody is awaited");
}

/// A program goes, another is ready, and nobody answers until that claims: it and its slot. None where the time was over before.
fn ready_to_succeed(lab: &Lab) -> Option<(Program, Attached)> {
    let (first, has) = promising(lab, SUCCESSOR_MS_MAX);
    let mut link = has.link;
    assert!(receives(lab, &mut link, 4000, "for the first"));
    assert_eq!(
        report(lab)["slots"][0]["grants"][0]["successor_ms"],
        SUCCESSOR_MS_MAX
    );
    // Ready to claim: making a place for it takes a while.
    let second = Program::connect(lab);
    let attached = second.attached();
    let was_awaited = is_awaited_after(lab, first, has.slot);
    let before = report(lab)["awaited_dropped"].as_u64();
    let is_answered = is_refused(lab, 4000);
    // Another protocol was not promised.
    let reset = lab.dial(4000).expect_err("nobody has it");
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionRefused);
    let dropped = report(lab);
    if !was_awaited || !is_awaited(lab) {
        return None;
    }
    assert!(!is_answered, "nobody answers");
    assert!(dropped["awaited_dropped"].as_u64() > before, "{dropped}");
    Some((second, attached))
}

/// From the promise to the successor, who has the packets from then on; without a promise of its own it leaves nothing.
#[test]
fn nobody_answers_until_the_successor_is_there() {
    let Some(mut lab) = Lab::new("successor") else {
        return;
    };
    lab.start_by(ALL);
    let ready = (0..ATTEMPTS).find_map(|_| ready_to_succeed(&lab));
    let (second, Attached { mut link, .. }) = ready.expect("in one of many attempts");
    let (grant, _) = port_of(&all_of(&second, Protocol::Udp));
    assert!(receives(&lab, &mut link, 4000, "for the second"));
    assert_eq!(report(&lab)["awaited"], Value::Array(Vec::new()));
    // The time of the first one's promise is no longer anybody's business.
    assert_eq!(promise(&second, grant, 0), Answer::Done);
    drop(second);
    must_be_refused(&lab, 4000);
}

/// The successor may claim more than was promised, and has all of that.
#[test]
fn a_successor_that_claims_more_has_all_of_it() {
    let Some(mut lab) = Lab::new("more") else {
        return;
    };
    lab.start_by("[[allow]]\nuser = \"0\"\nprotocols = [\"ip\", \"udp\"]\nports = [\"1-65535\"]\n");
    let second = Program::connect(&lab);
    let Attached { mut link, .. } = second.attached();
    must_be_awaited(&lab, SUCCESSOR_MS_MAX);
    port_of(&all_of(&second, Protocol::Any));
    assert!(receives(&lab, &mut link, 4000, "for the second"));
    assert_eq!(report(&lab)["awaited"], Value::Array(Vec::new()));
}

/// After the time that was said the daemon answers as without a successor, and anybody may have it.
#[test]
fn nobody_is_awaited_for_ever() {
    let Some(mut lab) = Lab::new("late-successor") else {
        return;
    };
    lab.start_by(ALL);
    must_be_awaited(&lab, 3000);
    must_be_refused(&lab, 4000);
    assert_eq!(report(&lab)["awaited"], Value::Array(Vec::new()));
}

/// What policy does not allow any more is answered for at once, also while a successor is awaited; and what it took back from a
/// program that was there awaits nobody.
#[test]
fn policy_ends_the_waiting() {
    let Some(mut lab) = Lab::new("no-successor") else {
        return;
    };
    lab.start_by(ALL);
    must_be_awaited(&lab, SUCCESSOR_MS_MAX);
    lab.reload(LITTLE);
    // It does not end by its time: then the last that is seen of it is near its end.
    let mut left_ms = SUCCESSOR_MS_MAX.into();
    let ended = within(|| {
        let left = report(&lab)["awaited"][0]["left_ms"].as_u64();
        left_ms = left.unwrap_or(left_ms);
        left.is_none()
    });
    assert!(ended && left_ms > 500, "{left_ms} ms were left");
    must_be_refused(&lab, 4000);
    lab.reload(ALL);
    let (program, _) = loop {
        // The daemon reads its policy in its own time.
        let program = Program::connect(&lab);
        let attached = program.attached();
        if let Answer::Granted { grant, .. } = all_of(&program, Protocol::Udp) {
            assert_eq!(promise(&program, grant, SUCCESSOR_MS_MAX), Answer::Done);
            break (program, attached);
        }
    };
    lab.reload(LITTLE);
    assert!(matches!(program.revoked(), Revoked::Grant(_)));
    // It does not wait until it is taken.
    drop(program);
    let gone = within(|| report(&lab)["slots"] == Value::Array(Vec::new()));
    assert!(gone, "its slot is there");
    assert_eq!(report(&lab)["awaited"], Value::Array(Vec::new()));
}

/// Both by way of a daemon that is killed: what is promised, and what is awaited. False where the time was over before it was seen.
fn outlive_the_daemon(lab: &mut Lab) -> bool {
    let (program, attached) = promising(lab, SUCCESSOR_MS_MAX);
    // Of an answer that came before, what it did is written down when another connection is heard.
    report(lab);
    lab.kill();
    lab.start_by(ALL);
    let again = Program::connect(lab);
    let token = attached.token;
    let (back, _) = again.ask(&Request::Reattach { token });
    assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
    drop(program);
    let was_awaited = is_awaited_after(lab, again, attached.slot);
    // In the packet path it is as it was, with no daemon at all.
    lab.kill();
    lab.start_by(ALL);
    was_awaited && is_awaited(lab)
}

/// A daemon that is killed leaves both to the next one: what is promised, and what is awaited.
#[test]
fn promises_outlive_the_daemon() {
    let Some(mut lab) = Lab::new("promises") else {
        return;
    };
    lab.start_by(ALL);
    let knows = (0..ATTEMPTS).any(|_| outlive_the_daemon(&mut lab));
    assert!(knows, "the next one knows");
    let successor = Program::connect(&lab);
    let Attached { mut link, .. } = successor.attached();
    port_of(&all_of(&successor, Protocol::Udp));
    assert!(receives(&lab, &mut link, 4000, "for the successor"));
}

/// What cannot be promised.
#[test]
fn what_is_not_wholly_ones_own_is_promised_to_nobody() {
    let Some(mut lab) = Lab::new("unpromised") else {
        return;
    };
    let policy = format!(
        "[[interface]]\nname = \"wire\"\nshare_address = true\naddresses = [\"{OURS}/24\"]\n{ALL}"
    );
    let file = lab.policy();
    std::fs::write(&file, policy).expect("room");
    lab.run(&["--policy", file.to_str().expect("a name")]);
    let program = Program::connect(&lab);
    let refused = |grant, ms| {
        let answer = promise(&program, grant, ms);
        refusal(&answer).0
    };
    assert_eq!(refused(1, 1), Refusal::BadRequest, "without a slot");
    program.attached();
    let (port, _) = port_of(&program.claim(Protocol::Udp, PortWish::Number(5353)));
    assert_eq!(refused(port, 1), Refusal::BadRequest, "one port");
    let (whole, _) = port_of(&all_of(&program, Protocol::Tcp));
    assert_eq!(refused(whole, SUCCESSOR_MS_MAX + 1), Refusal::BadRequest);
    assert_eq!(refused(whole + 1, 1), Refusal::NotFound);
    let hosts = Request::Claim {
        protocol: Protocol::Udp,
        local: Some("10.78.0.1".parse().expect("an address")),
        port: PortWish::All,
        remote: None,
    };
    let (hosts, _) = port_of(&program.ask(&hosts).0);
    assert_eq!(refused(hosts, 1), Refusal::Unsupported);
    assert_eq!(promise(&program, whole, SUCCESSOR_MS_MAX), Answer::Done);
}
