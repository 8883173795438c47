//! Datagrams that a downloaded handler deals with, in the kernel and in the program, from the kernel's UDP at the other end of a wire. As
//! root; in namespaces of each test's own.

use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use exos::{Addresses, By, Downloaded, Exos, Interface, OwnPair, Place, Tap};
use exos_filter::{Action, dispatcher};
use exos_host::bpf::{self, Map, Prog, XdpMode};
use exos_host::netlink::VethEnd;
use exos_host::netns::NetNs;
use exos_inet::udp::UdpHandle;

use crate::common::{PATIENCE, skip_without_root, until_so};

#[path = "../../examples/remote_increment.rs"]
#[allow(dead_code)] // Its `main`.
mod remote_increment;

#[path = "../../examples/active_messages.rs"]
#[allow(dead_code)] // Its `main`.
mod active_messages;

/// The index of each namespace's own loopback interface.
const LOOPBACK: u32 = 1;
pub const OURS: &str = "10.79.0.7";

/// Where a handler's messages come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A veth by AF_XDP, whose far end takes what the kernel answers.
    Kernel,
    /// One whose far end does not.
    OneWay,
    /// A veth by packet sockets.
    Packets,
    /// A TAP device.
    Tap,
}

/// A stack at one end of a wire, and a socket of the kernel's at the other that sends to a port of it.
pub struct Wire {
    pub exos: Exos,
    pub peer: UdpSocket,
    there: NetNs,
    here: NetNs,
    /// Messages are dealt with in turns of the stack.
    takes_turns: bool,
}

impl Wire {
    pub fn new(test: &str, port: u16) -> Option<Self> {
        match skip_without_root(test) {
            true => None,
            false => Some(Self::of(Kind::Kernel, port)),
        }
    }

    fn of(kind: Kind, port: u16) -> Self {
        let [here, there] = [0, 1].map(|_| NetNs::anonymous().unwrap());
        there.enter().unwrap();
        let peer = UdpSocket::bind("0.0.0.0:0").unwrap();
        let addresses = Addresses::new([format!("{OURS}/24").parse().unwrap()]).unwrap();
        let exos = match kind {
            Kind::Tap => {
                let name = "wire".into();
                let tap = Exos::attach(Tap { name, addresses }).unwrap();
                up(&there, "10.79.0.2");
                here.enter().unwrap();
                tap
            }
            Kind::Kernel | Kind::OneWay | Kind::Packets => {
                here.enter().unwrap();
                veth(&here, &there);
                let interface = Interface {
                    by: match kind {
                        Kind::Packets => By::PacketSockets,
                        _ => By::Xdp,
                    },
                    ..Interface::new("wire", addresses)
                };
                Exos::attach(interface).unwrap()
            }
        };
        peer.connect((OURS, port)).unwrap();
        Self {
            exos,
            peer,
            there,
            here,
            takes_turns: kind != Kind::Kernel,
        }
    }

    /// Has the far end take what is redirected to it: by a program that passes all packets.
    pub fn pass_all(&self) -> bpf::Link {
        self.over_there(|| {
            let slots = Map::prog_array(1).unwrap();
            let code = dispatcher(slots.raw_fd(), Action::Pass);
            let program = Prog::load(&code.words(), "pass", false).unwrap();
            let netlink = self.there.netlink().unwrap();
            let index = netlink.link_by_name("wire").unwrap().index;
            bpf::Link::attach_xdp(index, &program, XdpMode::Native).unwrap()
        })
    }

    /// With the far end's network.
    pub fn over_there<T>(&self, then: impl FnOnce() -> T) -> T {
        self.there.enter().unwrap();
        let result = then();
        self.here.enter().unwrap();
        result
    }

    /// A turn of the stack, which answers who asks for its hardware address.
    pub fn turn(&mut self) {
        self.exos.receive();
        self.exos.send().unwrap();
    }

    /// What is sent before the hosts know each other waits.
    pub fn wait_for_answers(&mut self, message: &[u8]) {
        if self.takes_turns {
            self.answer(message).unwrap();
            return;
        }
        let soon = Some(Duration::from_millis(10));
        self.peer.set_read_timeout(soon).unwrap();
        self.peer.send(message).unwrap();
        until_so("an answer", || {
            self.turn();
            self.peer.recv(&mut [0]).is_ok()
        });
        self.peer.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    pub fn answer(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        self.peer.send(message).unwrap();
        let mut answer = [0; 1500];
        if self.takes_turns {
            self.peer.set_nonblocking(true).unwrap();
            let patience = Instant::now() + PATIENCE;
            let no_answer_yet = || self.peer.peek(&mut [0; 1500]).is_err();
            while no_answer_yet() && Instant::now() < patience {
                self.exos.receive();
                self.exos.send().unwrap();
            }
        }
        let len = self.peer.recv(&mut answer).ok()?;
        Some(answer[..len].to_vec())
    }

    /// What comes to the program's socket, as many datagrams.
    pub fn heard(&mut self, socket: UdpHandle, count: usize) -> Vec<Vec<u8>> {
        let mut heard = Vec::new();
        let patience = Instant::now() + PATIENCE;
        while heard.len() < count {
            assert!(Instant::now() < patience, "{heard:?}");
            self.turn();
            while let Some(datagram) = self.exos.stack.udp.receive(socket).unwrap() {
                heard.push(datagram.payload.to_vec());
            }
        }
        heard
    }

    /// How much the stack or its link has counted by this name.
    pub fn counted(&self, name: &str) -> u64 {
        let counters = self.exos.counters();
        let found = counters.iter().find(|(known, _)| known == name);
        found.map_or(0, |(_, count)| *count)
    }

    fn ask(&mut self, counter: u32, by: u64) -> Option<u64> {
        let message = [&counter.to_be_bytes()[..], &by.to_be_bytes()].concat();
        let answer = self.answer(&message)?;
        assert_eq!((answer.len(), &answer[..4]), (12, &message[..4]));
        Some(u64::from_be_bytes(answer[4..].try_into().unwrap()))
    }
}

/// A wire between two namespaces.
fn veth(here: &NetNs, there: &NetNs) {
    let far = VethEnd {
        netns: Some(there.as_fd()),
        ..VethEnd::named("wire")
    };
    let netlink = here.netlink().unwrap();
    netlink
        .create_veth_pair(&VethEnd::named("wire"), &far)
        .unwrap();
    up(here, "10.79.0.1");
    up(there, "10.79.0.2");
}

/// Gives a namespace's end of the wire an address.
fn up(netns: &NetNs, address: &str) {
    let netlink = netns.netlink().unwrap();
    let index = netlink.link_by_name("wire").unwrap().index;
    netlink
        .add_address(index, address.parse().unwrap(), 24)
        .unwrap();
    netlink.set_up(index, true).unwrap();
    netlink.set_up(LOOPBACK, true).unwrap();
    // As long as a stack may be without a turn.
    netns
        .set_sysctl("net/ipv4/neigh/wire/mcast_solicit", "60")
        .unwrap();
}

/// The wire of each kind, with a handler on it; and whether it is in the place where it is to be.
pub fn on_each(
    test: &str,
    download: impl Fn(&mut Exos) -> Downloaded,
    then: impl Fn(&mut Wire, &Downloaded),
) {
    if skip_without_root(test) {
        return;
    }
    for kind in [Kind::Kernel, Kind::OneWay, Kind::Packets, Kind::Tap] {
        let mut wire = Wire::of(kind, 4000);
        let _far_end = (kind == Kind::Kernel).then(|| wire.pass_all());
        let downloaded = download(&mut wire.exos);
        let (place, why) = match kind {
            Kind::Kernel => (Place::Kernel, None),
            Kind::OneWay => (Place::Compiled, Some("neither GRO nor an XDP program")),
            Kind::Packets | Kind::Tap => (Place::Compiled, Some("AF_XDP only")),
        };
        assert_eq!(downloaded.place(), place, "{kind:?}");
        let said = downloaded.not_in_kernel().map(ToString::to_string);
        assert!(
            said.iter().all(|said| said.contains(why.unwrap())),
            "{kind:?}: {said:?}"
        );
        assert_eq!(said.is_some(), why.is_some());
        then(&mut wire, &downloaded);
    }
}

fn counters_of(exos: &mut Exos) -> Downloaded {
    remote_increment::download(exos).unwrap()
}

#[test]
fn a_handler_answers_while_the_program_does_not_run() {
    let Some(mut wire) = Wire::new("a_handler_answers_while_the_program_does_not_run", 4000) else {
        return;
    };
    let _far_end = wire.pass_all();
    let counters = remote_increment::download(&mut wire.exos).unwrap();
    wire.wait_for_answers(&[0; 12]);
    for before in 0..1000 {
        assert_eq!(wire.ask(7, 1), Some(before));
    }
    assert_eq!(remote_increment::sum(&counters), 1000);
    assert!(wire.counted("link_xdp_answered") >= 1001);
}

/// Nobody takes its answers for answers to SYNs, to which nobody came back.
#[test]
fn a_handler_takes_the_place_of_the_one_for_syns() {
    let Some(mut wire) = Wire::new("a_handler_takes_the_place_of_the_one_for_syns", 4000) else {
        return;
    };
    let _far_end = wire.pass_all();
    let options = exos_inet::tcp::ListenOptions::default();
    let listener = wire.exos.stack.tcp.listen(None, 80, options).unwrap();
    wire.exos.answer_syns_in_kernel(listener).unwrap();
    let counters = remote_increment::download(&mut wire.exos).unwrap();
    assert_eq!(counters.place(), Place::Kernel);
    wire.wait_for_answers(&[0; 12]);
    // Longer than it is watched whether anybody comes back.
    let begin = Instant::now();
    let mut asked = 0;
    while begin.elapsed() < Duration::from_millis(2500) {
        assert_eq!(wire.ask(7, 1), Some(asked));
        asked += 1;
        let said = wire.exos.see_to_handlers();
        assert!(said.is_none(), "{said:?}");
        wire.turn();
    }
    assert_eq!(wire.ask(7, 1), Some(asked), "the kernel still answers");
}

#[test]
fn what_a_handler_gives_up_comes_to_the_programs_socket() {
    let test = "what_a_handler_gives_up_comes_to_the_programs_socket";
    on_each(test, counters_of, |wire, counters| {
        let own = wire.exos.stack.udp.bind(None, 4000).unwrap();
        let unknown = [&5000u32.to_be_bytes()[..], &[0; 8]].concat();
        wire.peer.send(&unknown).unwrap();
        wire.peer.send(b"short").unwrap();
        assert_eq!(wire.heard(own, 2), [unknown, b"short".to_vec()]);
        wire.exos.remove_handler();
        wire.peer.send(&[0; 12]).unwrap();
        assert_eq!(wire.heard(own, 1), [[0; 12]], "nothing handles any more");
        assert_eq!(remote_increment::sum(counters), 0);
    });
}

#[test]
fn counters_are_right_wherever_they_are_kept() {
    let test = "counters_are_right_wherever_they_are_kept";
    on_each(test, counters_of, |wire, counters| {
        wire.wait_for_answers(&[0; 12]);
        for before in 0..100 {
            assert_eq!(wire.ask(7, 3), Some(3 * before));
        }
        assert_eq!(remote_increment::sum(counters), 300);
        let answered = match counters.place() {
            Place::Kernel => "link_xdp_answered",
            Place::Compiled | Place::Interpreted => "handler_answered",
        };
        assert!(wire.counted(answered) >= 101);
    });
}

/// The first is the kernel's, the second is nothing for it, the third again. The program's turns are no help to the kernel's.
#[test]
fn a_handler_takes_the_place_of_the_one_before_wherever_that_is() {
    let test = "a_handler_takes_the_place_of_the_one_before_wherever_that_is";
    let Some(mut wire) = Wire::new(test, 4000) else {
        return;
    };
    let _far_end = wire.pass_all();
    wire.takes_turns = true;
    for (place, answer) in [
        (Place::Kernel, 1),
        (Place::Compiled, 2),
        (Place::Kernel, 3),
        (Place::Kernel, 4),
        (Place::Compiled, 5),
        (Place::Compiled, 6),
    ] {
        let ways = match place {
            Place::Kernel => "x = 0;".into(),
            _ => too_many_ways(),
        };
        let text = format!(
            "handler h {{ words w[1048576]; need 20; {ways} p = &w[x]; add(p, 1);
                 reply 1 {{ u8(0) = {answer}; }} }}"
        );
        let downloaded = wire.exos.download(exos::ash::parse(&text).unwrap(), 4000);
        assert_eq!(downloaded.unwrap().place(), place, "{answer}");
        let by = match place {
            Place::Kernel => "link_xdp_answered",
            _ => "handler_answered",
        };
        let before = wire.counted(by);
        assert_eq!(wire.answer(&[0; 20]).unwrap(), [answer]);
        assert_eq!(wire.counted(by), before + 1, "{answer}");
    }
}

/// The descriptor of the memory before is closed, and its number that of the next one's.
#[test]
fn a_handler_that_was_dropped_leaves_nothing_to_the_next() {
    let test = "a_handler_that_was_dropped_leaves_nothing_to_the_next";
    let Some(mut wire) = Wire::new(test, 4000) else {
        return;
    };
    let _far_end = wire.pass_all();
    for _ in 0..2 {
        let counters = counters_of(&mut wire.exos);
        assert_eq!(counters.place(), Place::Kernel);
        wire.wait_for_answers(&[0; 12]);
        assert_eq!(wire.ask(7, 1), Some(0));
        assert_eq!(wire.ask(7, 1), Some(1));
        assert_eq!(remote_increment::sum(&counters), 2);
        wire.exos.remove_handler();
    }
}

/// The verifier would follow a million sums.
pub fn too_many_ways() -> String {
    let each = (0..20).map(|bit| format!("if u8({bit}) > 7 {{ x = x + {}; }}", 1 << bit));
    format!("x = 0; {}", each.collect::<String>())
}

#[test]
fn messages_say_what_is_done_with_them() {
    let download = |exos: &mut Exos| active_messages::download(exos).unwrap();
    on_each(
        "messages_say_what_is_done_with_them",
        download,
        |wire, matrix| {
            let own = wire.exos.stack.udp.bind(None, 4000).unwrap();
            let names = matrix.memory().table("names").unwrap();
            wire.wait_for_answers(b"\x03version");
            let number =
                |answer: Option<Vec<u8>>| u64::from_be_bytes(answer.unwrap().try_into().unwrap());
            for version in [1, 2] {
                names.insert(b"version", version).unwrap();
                assert_eq!(number(wire.answer(b"\x03version")), version);
            }
            let mut lock = |what: u8, owner: u64| {
                let message = [&[what, 5, 0, 0], &owner.to_be_bytes()[..]].concat();
                number(wire.answer(&message))
            };
            assert_eq!(
                [lock(0, 11), lock(0, 12)],
                [0, 11],
                "the second finds it locked"
            );
            assert_eq!([lock(1, 12), lock(1, 11), lock(0, 12)], [11, 11, 0]);
            let tile = |row: u8, column: u8| {
                let numbers =
                    (0..16u64).map(|n| 1000 * u64::from(row) + 100 * u64::from(column) + n);
                let numbers: Vec<_> = numbers.flat_map(u64::to_be_bytes).collect();
                [&[2, 0, row, column], &numbers[..]].concat()
            };
            for (row, column) in (0..4).flat_map(|row| (0..4).map(move |column| (row, column))) {
                wire.peer.send(&tile(row, column)).unwrap();
            }
            // Of these nothing is carried out.
            let given_up = [
                tile(4, 0),
                tile(0, 0)[..131].to_vec(),
                b"\x03no such name".to_vec(),
            ];
            for message in &given_up {
                wire.peer.send(message).unwrap();
            }
            assert_eq!(wire.heard(own, given_up.len()), given_up);
            assert_eq!(active_messages::arrived(matrix), 16);
            let done = ["link_xdp_done", "handler_done"].map(|name| wire.counted(name));
            let expected = match matrix.place() {
                Place::Kernel => [16, 0],
                _ => [0, 16],
            };
            assert_eq!(done, expected, "kernel, program");
            let expected = (0..16u64).flat_map(|row| (0..16).map(move |column| (row, column)));
            let expected = expected.map(|(row, column)| {
                1000 * (row / 4) + 100 * (column / 4) + row % 4 * 4 + column % 4
            });
            assert!(active_messages::numbers(matrix).eq(expected));
        },
    );
}

#[test]
fn a_pair_of_ones_own_is_no_interface_for_replies() {
    let test = "a_pair_of_ones_own_is_no_interface_for_replies";
    if skip_without_root(test) {
        return;
    }
    NetNs::anonymous().unwrap().enter().unwrap();
    let mut exos = Exos::attach(OwnPair::new()).unwrap();
    let handler = counters_of(&mut exos).handler().clone();
    let refused = exos.download_into_kernel(handler, 4000).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("attach to an interface"), "{refused}");
}

#[test]
fn a_handler_of_too_many_ways_is_refused_with_the_reason() {
    let test = "a_handler_of_too_many_ways_is_refused_with_the_reason";
    let Some(mut wire) = Wire::new(test, 4000) else {
        return;
    };
    let ways = too_many_ways();
    let text =
        format!("handler h {{ words w[1048576]; need 20; {ways} p = &w[x]; add(p, 1); done; }}");
    let handler = exos::ash::parse(&text).unwrap();
    let refused = wire.exos.download_into_kernel(handler, 4000).unwrap_err();
    assert_eq!(refused.kind, exos::ErrorKind::Invalid);
    assert!(refused.to_string().contains("too many ways"), "{refused}");
}
