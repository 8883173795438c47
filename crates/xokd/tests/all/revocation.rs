//! What policy does not allow any more is asked for, and taken when it is not given back: from a program that goes on
//! sending as fast as it can. As root; skipped, and said so, otherwise.

use crate::lab;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use exos_link::{Link, TxMeta};
use exos_xok::message::{Answer, Farewell, Notice, PortWish, Refusal, Request, Revoked};
use exos_xok::tables::Tables;
use exos_xok::{Endpoint, Protocol};
use exos_xokd::limits::REVOKE_TIME;
use lab::*;
use rustix::net::RecvFlags;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

/// Where the peer listens.
const THERE: u16 = 7000;

fn allow(ports: &str) -> String {
    format!("[[allow]]\nuser = \"0\"\nports = [{ports}]\n")
}

/// A program that sends numbered datagrams from two ports, and the peer that takes them.
struct Flood<'a> {
    lab: &'a Lab,
    link: Link,
    peer: UdpSocket,
    ports: [u16; 2],
    /// The next number.
    next: u32,
    /// The last number that arrived from each port.
    arrived: [Option<u32>; 2],
}

impl Flood<'_> {
    fn turn(&mut self) {
        for port in self.ports {
            let frame = self.lab.datagram(port, THERE, &self.next.to_be_bytes());
            self.link.transmit(&frame, &[], TxMeta::default());
        }
        self.link.flush().expect("it is up");
        self.link.receive(|_, _| {});
        self.next += 1;
        let mut number = [0; 4];
        while let Ok((4, from)) = self.peer.recv_from(&mut number) {
            let at = self.ports.iter().position(|port| *port == from.port());
            self.arrived[at.expect("from one of them")] = Some(u32::from_be_bytes(number));
        }
    }

    /// Turns until it is so.
    fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        // Without a pause, and for as long as a machine may need that has much else to do.
        let patience = Instant::now() + Duration::from_secs(120);
        loop {
            self.turn();
            if done(self) {
                return;
            }
            let (arrived, next) = (&self.arrived, self.next);
            assert!(Instant::now() < patience, "{what}: {arrived:?} of {next}");
        }
    }
}

/// The connection was there for the slot: it ends with a word that says so.
#[test]
fn a_slot_that_is_taken_ends_its_connection() {
    let Some(mut lab) = Lab::new("revoked-slot") else {
        return;
    };
    lab.start_by(&allow("\"5000\""));
    let (program, other) = (Program::connect(&lab), Program::connect(&lab));
    let has = program.attached();
    other.tables();
    lab.reload("[[allow]]\nuser = \"1\"\n");
    assert_eq!(program.revoked(), Revoked::Slot);
    let mut last = None;
    let ended = within(|| {
        last = program.notice().or(last.take());
        matches!(last, Some(Notice::Goodbye(_)))
    });
    assert!(ended, "{last:?}");
    assert_eq!(last, Some(Notice::Goodbye(Farewell::Revoked)));
    let end = rustix::net::recv(&program.0, &mut [0; 1][..], RecvFlags::empty());
    assert_eq!(end.map(|(len, _)| len), Ok(0));
    // A program that has no slot is not concerned, and the ring has nobody behind it, as soon as the slot is taken away.
    other.tables();
    let is_gone = || !lab.interfaces().iter().any(|name| name.ends_with("-1"));
    assert!(within(is_gone));
    drop(has);
}

/// An address that the next daemon's policy has not is taken back like anything else.
#[test]
fn what_the_next_policy_has_no_address_for_is_taken() {
    let Some(mut lab) = Lab::new("moved") else {
        return;
    };
    lab.start_by("[[allow]]\nuser = \"0\"\n");
    let program = Program::connect(&lab);
    let Attached {
        token, link: _link, ..
    } = program.attached();
    let (grant, _) = port_of(&program.claim(Protocol::Udp, PortWish::Number(5000)));
    lab.kill();
    let policy =
        "[[interface]]\nname = \"wire\"\naddresses = [\"10.78.0.8/24\"]\n[[allow]]\nuser = \"0\"\n";
    std::fs::write(lab.policy(), policy).expect("room");
    let file = lab.policy();
    lab.run(&["--policy", file.to_str().expect("a name")]);
    let again = Program::connect(&lab);
    again.tell(&Request::Reattach { token });
    let (back, _) = again.answer();
    assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
    let part = Request::Narrow {
        grant,
        remote: Endpoint {
            ip: "10.78.0.2".parse().expect("an address"),
            port: 9,
        },
        port: 0,
    };
    let (kept, _) = again.ask(&part);
    let (code, text) = refusal(&kept);
    // Its time runs since the start: it may be over.
    let asked_back = code == Refusal::NotAllowed && text.contains("has not the address 10.78.0.7");
    assert!(asked_back || code == Refusal::NotFound, "{text}");
    let words = again.tables();
    let tables = Tables::new(words.words()).expect("tables");
    let taken = within(|| tables.grants().next().is_none());
    assert!(taken, "it is taken");
    let claimed = again.claim(Protocol::Udp, PortWish::Number(5000));
    assert_eq!(port_of(&claimed).1.local.to_string(), "10.78.0.8");
}

/// Claims what is allowed, and hears that it is asked for when it is not any more.
fn ask_back(lab: &Lab, program: &Program) {
    let [udp, tcp] = [Protocol::Udp, Protocol::Tcp].map(|protocol| {
        let mut grant = None;
        let is_granted = within(|| {
            let answer = program.claim(protocol, PortWish::Number(5000));
            grant = matches!(answer, Answer::Granted { .. }).then(|| port_of(&answer).0);
            grant.is_some()
        });
        assert!(is_granted, "it is allowed");
        Revoked::Grant(grant.expect("just so"))
    });
    lab.reload(&allow("\"6000\""));
    let asked = [program.revoked(), program.revoked()];
    assert!(asked.contains(&udp) && asked.contains(&tcp), "{asked:?}");
}

#[test]
fn a_grant_that_is_not_given_back_is_taken_and_the_others_go_on() {
    let Some(mut lab) = Lab::new("revoked") else {
        return;
    };
    lab.start_by(&allow("\"5000\", \"6000\""));
    let program = Program::connect(&lab);
    let words = program.tables();
    let tables = Tables::new(words.words()).expect("tables");
    let Attached { link, .. } = program.attached();
    let (_, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Number(5000)));
    port_of(&program.claim(Protocol::Udp, PortWish::Number(6000)));
    let has = || tables.grants().any(|grant| grant.claim == claim);
    let peer = lab.over_there(|| UdpSocket::bind(("10.78.0.2", THERE)).expect("free"));
    peer.set_nonblocking(true).expect("a socket");
    let mut flood = Flood {
        lab: &lab,
        link,
        peer,
        ports: [5000, 6000],
        next: 0,
        arrived: [None; 2],
    };
    flood.until("both arrive", |f| f.arrived.iter().all(|n| *n > Some(20)));
    // On a slow machine what is asked for is taken before it is allowed again, or before anything of it arrives: then once more.
    let is_kept = |_| {
        ask_back(&lab, &program);
        lab.reload(&allow("\"5000\", \"6000\""));
        std::thread::sleep(REVOKE_TIME + Duration::from_millis(500));
        has()
    };
    assert!((0..10).any(is_kept), "it was allowed again");
    // Asked for: until it is taken, everything arrives.
    let still_arrives = |_| {
        lab.reload(&allow("\"5000\", \"6000\""));
        ask_back(&lab, &program);
        let asked_at = flood.next;
        flood.until("it arrives or is taken", |f| {
            f.arrived[0] > Some(asked_at) || !has()
        });
        flood.arrived[0] > Some(asked_at)
    };
    assert!((0..10).any(still_arrives), "there is a deadline");
    // Taken: nothing that is sent after that arrives, and all of the other port does.
    flood.until("it is taken", |_| !has());
    let taken_at = flood.next;
    flood.until("the other arrives", |f| f.arrived[1] > Some(taken_at + 100));
    assert!(flood.arrived[0] < Some(taken_at), "{:?}", flood.arrived);
    // Peers hear that nobody is there.
    let reset = lab.dial(5000).expect_err("nobody has it any more");
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionRefused);
    let again = program.claim(Protocol::Udp, PortWish::Number(5000));
    assert_eq!(refusal(&again).0, exos_xok::message::Refusal::NotAllowed);
}

#[test]
fn a_slot_and_a_share_are_asked_for_too() {
    let Some(mut lab) = Lab::new("share") else {
        return;
    };
    let weight = |n: u32| format!("[[allow]]\nuser = \"0\"\nweight = {n}\n");
    lab.start_by(&weight(4));
    let (program, other) = (Program::connect(&lab), Program::connect(&lab));
    let words = program.tables();
    let tables = Tables::new(words.words()).expect("tables");
    let Attached { slot, .. } = program.attached();
    let weight_of = || tables.slot(slot).map(|s| s.weight);
    other.attached();
    // More is given at once, less is asked for: half of the link, now that both have one part.
    lab.reload(&weight(8));
    assert!(within(|| weight_of() == Some(8)));
    let begun = Instant::now();
    lab.reload(&weight(1));
    let Revoked::Rate(rate) = program.revoked() else {
        panic!("its weight is less than before")
    };
    assert!((1..125_000_000).contains(&rate), "{rate}");
    let weight = weight_of();
    let is_late = begun.elapsed() >= REVOKE_TIME;
    assert!(weight == Some(8) || is_late, "there is a deadline");
    assert!(within(|| weight_of() == Some(1)));
    // All of it: the daemon is killed meanwhile, and its successor goes by another policy.
    lab.reload("[[allow]]\nuser = \"65534\"\n");
    assert_eq!(program.revoked(), Revoked::Slot);
    assert!(within(|| weight_of().is_none()));
}

#[test]
fn a_successor_that_goes_by_another_policy_asks_who_comes_back() {
    let Some(mut lab) = Lab::new("successor") else {
        return;
    };
    lab.start_by(&allow("\"5000\", \"6000\""));
    let program = Program::connect(&lab);
    let Attached {
        token, link: _link, ..
    } = program.attached();
    let (lost, _) = port_of(&program.claim(Protocol::Udp, PortWish::Number(5000)));
    port_of(&program.claim(Protocol::Udp, PortWish::Number(6000)));
    lab.kill();
    lab.start_by(&allow("\"6000\""));
    let again = Program::connect(&lab);
    again.ask(&Request::Reattach { token });
    assert_eq!(again.revoked(), Revoked::Grant(lost));
    let words = again.tables();
    let tables = Tables::new(words.words()).expect("tables");
    let left = || tables.grants().map(|g| g.claim.port).collect::<Vec<_>>();
    assert!(within(|| left() == [6000]));
}

#[test]
fn copies_that_policy_does_not_allow_any_more_end_at_once() {
    let Some(mut lab) = Lab::new("copies") else {
        return;
    };
    let dump = |what: &str| format!("[[allow]]\nuser = \"65534\"\ndump = \"{what}\"\n");
    lab.start_by(&dump("all"));
    let [all, own] = [true, false].map(|all| {
        // Root may look at all, whatever the policy.
        let client = as_nobody(|| Program::connect(&lab));
        let request = Request::Tap {
            interface: String::new(),
            filter: String::new(),
            snap: 64,
            all,
        };
        let (answer, ring) = client.ask(&request);
        assert_eq!(ring.len(), 1, "{answer:?}");
        client
    });
    lab.reload(&dump("own"));
    let hung_up = |client: &Program| {
        let mut byte = [0];
        let flags = rustix::net::RecvFlags::DONTWAIT;
        rustix::net::recv(&client.0, &mut byte, flags).is_ok_and(|(n, _)| n == 0)
    };
    assert!(within(|| hung_up(&all)));
    assert!(!hung_up(&own));
}

/// Does it in this thread as the user 65534, whom the daemon then takes it for.
fn as_nobody<T>(work: impl FnOnce() -> T) -> T {
    let effective = |user| {
        let root = Uid::ROOT;
        set_thread_res_uid(root, user, root).expect("root may be whom it likes");
    };
    effective(Uid::from_raw(65534));
    let done = work();
    effective(Uid::ROOT);
    done
}
