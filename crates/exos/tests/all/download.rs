//! Datagrams that a downloaded handler deals with in the kernel, from the kernel's UDP at the other end of a wire. As root; in
//! namespaces of each test's own.

use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use exos::{Addresses, Exos, Interface, OwnPair};
use exos_filter::{Action, dispatcher};
use exos_host::bpf::{self, Map, Prog, XdpMode};
use exos_host::netlink::VethEnd;
use exos_host::netns::NetNs;
use exos_inet::udp::UdpHandle;

use crate::common::{PATIENCE, skip_without_root};

#[path = "../../examples/remote_increment.rs"]
#[allow(dead_code)] // Its `main`.
mod remote_increment;

#[path = "../../examples/active_messages.rs"]
#[allow(dead_code)] // Its `main`.
mod active_messages;

/// The index of each namespace's own loopback interface.
const LOOPBACK: u32 = 1;
pub const OURS: &str = "10.79.0.7";

/// A stack at one end of a wire, and a socket of the kernel's at the other that sends to a port of it.
pub struct Wire {
    pub exos: Exos,
    pub peer: UdpSocket,
    there: NetNs,
    here: NetNs,
}

impl Wire {
    pub fn new(test: &str, port: u16) -> Option<Self> {
        if skip_without_root(test) {
            return None;
        }
        let [here, there] = [0, 1].map(|_| NetNs::anonymous().unwrap());
        there.enter().unwrap();
        let peer = UdpSocket::bind("0.0.0.0:0").unwrap();
        here.enter().unwrap();
        let far = VethEnd {
            netns: Some(there.as_fd()),
            ..VethEnd::named("wire")
        };
        let netlink = here.netlink().unwrap();
        netlink
            .create_veth_pair(&VethEnd::named("wire"), &far)
            .unwrap();
        for (netns, address) in [(&here, "10.79.0.1"), (&there, "10.79.0.2")] {
            let netlink = netns.netlink().unwrap();
            let index = netlink.link_by_name("wire").unwrap().index;
            netlink
                .add_address(index, address.parse().unwrap(), 24)
                .unwrap();
            netlink.set_up(index, true).unwrap();
            netlink.set_up(LOOPBACK, true).unwrap();
        }
        let ours = Addresses::new([format!("{OURS}/24").parse().unwrap()]).unwrap();
        let exos = Exos::attach(Interface::new("wire", ours)).unwrap();
        peer.connect((OURS, port)).unwrap();
        Some(Self {
            exos,
            peer,
            there,
            here,
        })
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
    fn turn(&mut self) {
        self.exos.receive();
        self.exos.send().unwrap();
    }

    /// What is sent before the hosts know each other waits, or is lost.
    fn wait_for_answers(&mut self, message: &[u8]) {
        let soon = Some(Duration::from_millis(100));
        self.peer.set_read_timeout(soon).unwrap();
        let answered = (0..100).any(|_| {
            self.turn();
            self.answer(message).is_some()
        });
        assert!(answered);
        // Answers to earlier questions may wait.
        while self.peer.recv(&mut [0]).is_ok() {}
        self.peer.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.peer.send(message).unwrap();
        let mut answer = [0; 1500];
        let len = self.peer.recv(&mut answer).ok()?;
        Some(answer[..len].to_vec())
    }

    /// What comes to the program's socket, as many datagrams.
    fn heard(&mut self, socket: UdpHandle, count: usize) -> Vec<Vec<u8>> {
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

    fn ask(&self, counter: u32, by: u64) -> Option<u64> {
        let message = [&counter.to_be_bytes()[..], &by.to_be_bytes()].concat();
        let answer = self.answer(&message)?;
        assert_eq!((answer.len(), &answer[..4]), (12, &message[..4]));
        Some(u64::from_be_bytes(answer[4..].try_into().unwrap()))
    }
}

#[test]
fn a_handler_answers_while_the_program_does_not_run() {
    let Some(mut wire) = Wire::new("a_handler_answers_while_the_program_does_not_run", 4000) else {
        return;
    };
    let refused = remote_increment::download(&mut wire.exos)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("neither GRO nor an XDP program"),
        "{refused}"
    );
    let _far_end = wire.pass_all();
    let counters = remote_increment::download(&mut wire.exos).unwrap();
    wire.wait_for_answers(&[0; 12]);
    for before in 0..1000 {
        assert_eq!(wire.ask(7, 1), Some(before));
    }
    assert_eq!(remote_increment::sum(&counters), 1000);
    let counted = wire.exos.counters();
    let answered = counted.iter().find(|(name, _)| name == "link_xdp_answered");
    assert!(answered.unwrap().1 >= 1001);
}

#[test]
fn what_a_handler_gives_up_comes_to_the_programs_socket() {
    let Some(mut wire) = Wire::new("what_a_handler_gives_up_comes_to_the_programs_socket", 4000)
    else {
        return;
    };
    let _far_end = wire.pass_all();
    let counters = remote_increment::download(&mut wire.exos).unwrap();
    let own = wire.exos.stack.udp.bind(None, 4000).unwrap();
    let unknown = [&5000u32.to_be_bytes()[..], &[0; 8]].concat();
    wire.peer.send(&unknown).unwrap();
    wire.peer.send(b"short").unwrap();
    assert_eq!(wire.heard(own, 2), [unknown, b"short".to_vec()]);
    wire.exos.remove_handler();
    wire.peer.send(&[0; 12]).unwrap();
    assert_eq!(wire.heard(own, 1), [[0; 12]], "nothing handles any more");
    assert_eq!(remote_increment::sum(&counters), 0);
}

#[test]
fn messages_say_what_is_done_with_them() {
    let Some(mut wire) = Wire::new("messages_say_what_is_done_with_them", 4000) else {
        return;
    };
    let _far_end = wire.pass_all();
    let matrix = active_messages::download(&mut wire.exos).unwrap();
    let own = wire.exos.stack.udp.bind(None, 4000).unwrap();
    let names = matrix.memory().table("names").unwrap();
    wire.wait_for_answers(b"\x03version");
    let number = |answer: Option<Vec<u8>>| u64::from_be_bytes(answer.unwrap().try_into().unwrap());
    let fetch = |name: &[u8]| wire.answer(&[b"\x03", name].concat());
    assert_eq!(number(fetch(b"version")), 1);
    names.insert(b"version", 2).unwrap();
    assert_eq!(number(fetch(b"version")), 2);
    let lock = |what: u8, owner: u64| {
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
        let numbers = (0..16u64).map(|n| 1000 * u64::from(row) + 100 * u64::from(column) + n);
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
    assert_eq!(active_messages::arrived(&matrix), 16);
    let expected = (0..16u64).flat_map(|row| (0..16).map(move |column| (row, column)));
    let expected = expected
        .map(|(row, column)| 1000 * (row / 4) + 100 * (column / 4) + row % 4 * 4 + column % 4);
    assert!(active_messages::numbers(&matrix).eq(expected));
}

#[test]
fn a_pair_of_ones_own_is_no_interface_for_replies() {
    let test = "a_pair_of_ones_own_is_no_interface_for_replies";
    if skip_without_root(test) {
        return;
    }
    NetNs::anonymous().unwrap().enter().unwrap();
    let mut exos = Exos::attach(OwnPair::new()).unwrap();
    let refused = remote_increment::download(&mut exos)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("attach to an interface"), "{refused}");
}

#[test]
fn a_handler_of_too_many_ways_is_refused_with_the_reason() {
    let test = "a_handler_of_too_many_ways_is_refused_with_the_reason";
    let Some(mut wire) = Wire::new(test, 4000) else {
        return;
    };
    // The verifier would follow a million sums.
    let ifs: String = (0..20)
        .map(|bit| format!("if u8({bit}) > 7 {{ x = x + {}; }}", 1 << bit))
        .collect();
    let text = format!(
        "handler h {{ words w[1048576]; need 20; x = 0; {ifs} p = &w[x]; add(p, 1); done; }}"
    );
    let handler = exos::ash::parse(&text).unwrap();
    let refused = wire.exos.download(handler, 4000).unwrap_err();
    assert_eq!(refused.kind, exos::ErrorKind::Invalid);
    assert!(refused.to_string().contains("too many ways"), "{refused}");
}
