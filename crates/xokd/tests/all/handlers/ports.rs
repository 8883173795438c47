//! What handlers answer, one and several: each its own port.

use std::ops::Range;
use std::sync::atomic::Ordering;

use exos_filter::gate::limits::HANDLERS_MAX;
use exos_host::bpf::MappedArray;
use exos_xok::Protocol;
use exos_xok::message::{PortWish, Refusal};

use super::{Asker, COUNTERS, Holder, PORT, lab_of, refused};
use crate::daemon::report;
use crate::lab::*;

#[test]
fn a_handler_answers_for_a_program_that_does_nothing() {
    let Some((lab, _takes)) = lab_of("handler-answers") else {
        return;
    };
    let mut holder = Holder::new(&lab, PORT);
    let memory = holder.download(PORT, COUNTERS, 1024).expect("it is sound");
    let asker = Asker::new(&lab);
    for before in 0..100 {
        assert_eq!(asker.ask(7, 1), before);
    }
    assert_eq!(memory.words()[7].load(Ordering::Relaxed), 100);
    memory.words()[7].store(5000, Ordering::Relaxed);
    assert_eq!(
        asker.ask(7, 1),
        5000,
        "the program's memory is the handler's"
    );
    assert!(holder.receives(&lab, "short"), "what is given up comes");
    holder.must_count("handler_answered", 101);
    holder.must_count("handler_gave_up", 1);
    holder.must_count("tx_packets", 101);

    holder.remove(None);
    assert!(
        holder.receives(&lab, "more than twelve bytes"),
        "nothing handles any more"
    );
    assert_eq!(memory.words()[7].load(Ordering::Relaxed), 5001);
}

const PORTS: Range<u16> = PORT..PORT + HANDLERS_MAX as u16;

/// A program that has a handler of each of [`PORTS`], and one port more; and who asks each.
struct Several {
    holder: Holder,
    memories: Vec<MappedArray>,
    askers: Vec<Asker>,
}

impl Several {
    fn new(lab: &Lab) -> Self {
        let holder = Holder::new(lab, PORT);
        for port in PORT + 1..=PORTS.end {
            port_of(&holder.program.claim(Protocol::Udp, PortWish::Number(port)));
        }
        let download = |port| holder.download(port, COUNTERS, 1024);
        Self {
            memories: PORTS.map(|port| download(port).expect("a place")).collect(),
            askers: PORTS.map(|port| Asker::of(lab, port)).collect(),
            holder,
        }
    }

    /// Each but this has counted so far.
    fn must_answer(&self, so_far: u64, but: Option<usize>) {
        let others = self.askers.iter().enumerate();
        for (_, asker) in others.filter(|(at, _)| Some(*at) != but) {
            assert_eq!(asker.ask(7, 1), so_far);
        }
    }
}

/// As many as there may be, each on memory of its own; in the place of one, and without it, the others go on.
#[test]
fn each_port_has_a_handler_of_its_own() {
    let Some((lab, _takes)) = lab_of("handlers-of-ports") else {
        return;
    };
    let mut all = Several::new(&lab);
    let (code, text) = refused(&all.holder, PORTS.end, COUNTERS);
    assert_eq!(code, Refusal::Limit, "{text}");
    all.must_answer(0, None);
    let other = all.holder.download(PORT + 3, COUNTERS, 1024);
    all.memories[3] = other.expect("in the place of the one before");
    all.must_answer(1, Some(3));
    assert_eq!(all.askers[3].ask(7, 1), 0);
    assert_eq!(all.memories[3].words()[7].load(Ordering::Relaxed), 1);
    all.holder.remove(Some(PORT + 3));
    all.holder.remove(Some(PORTS.end));
    all.must_answer(2, Some(3));
    let text = "more than twelve bytes";
    assert!(receives(&lab, &mut all.holder.link, PORT + 3, text));
    all.holder.remove(None);
    for port in [PORT, PORTS.end - 1] {
        assert!(receives(&lab, &mut all.holder.link, port, text), "{port}");
    }
}

/// A successor knows from the kernel alone which there are.
#[test]
fn handlers_of_several_ports_are_taken_over() {
    let Some((mut lab, _takes)) = lab_of("handlers-adopted") else {
        return;
    };
    let mut all = Several::new(&lab);
    all.must_answer(0, None);
    lab.kill();
    all.must_answer(1, None);
    lab.start(&[]);
    all.must_answer(2, None);
    all.holder.come_back(&lab);
    let (code, text) = refused(&all.holder, PORTS.end, COUNTERS);
    assert_eq!(code, Refusal::Limit, "{text}");
    all.holder.remove(Some(PORT + 3));
    let last = all.holder.download(PORTS.end, COUNTERS, 1024);
    last.expect("there is a place");
    assert_eq!(Asker::of(&lab, PORTS.end).ask(7, 1), 0);
    all.must_answer(3, Some(3));
    let report = report(&all.holder.program);
    let handled = &report["interfaces"][0]["slots"][0]["handled_ports"];
    let handled = handled.as_array().expect("a list");
    assert_eq!(handled.len(), HANDLERS_MAX, "{report}");
    assert!(handled.contains(&"udp 4000".into()), "{report}");
    assert!(!handled.contains(&"udp 4003".into()), "{report}");
}

/// A veth hands over packets in buffers hardly longer than they: then the packet is moved, whole.
#[test]
fn a_reply_may_be_longer_than_the_packet_has_room_for() {
    let Some((lab, _takes)) = lab_of("handler-room") else {
        return;
    };
    let mut holder = Holder::new(&lab, PORT);
    let echo = "handler echo { reply 220 { } }";
    holder.download(PORT, echo, 1).expect("it is sound");
    let asker = Asker::new(&lab);
    for length in [
        1, 13, 21, 22, 23, 63, 64, 65, 85, 86, 87, 150, 219, 220, 300, 1472,
    ] {
        let message: Vec<u8> = (0..length).map(|n| (n * 7 + length) as u8).collect();
        asker.0.send(&message).expect("a neighbour");
        let mut reply = [1; 300];
        assert_eq!(asker.0.recv(&mut reply).expect("a reply"), 220, "{length}");
        let same = length.min(220);
        assert_eq!(reply[..same], message[..same]);
        assert!(reply[same..220].iter().all(|byte| *byte == 0), "{length}");
    }
    // Where there is no room the message is the program's, as it came.
    let long = "handler echo { reply 1400 { } }";
    holder.download(PORT, long, 1).expect("it is sound");
    assert!(holder.receives(&lab, "a message that is not answered"));
}
