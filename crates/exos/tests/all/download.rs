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

use crate::common::{PATIENCE, skip_without_root};

#[path = "../../examples/remote_increment.rs"]
#[allow(dead_code)] // Its `main`.
mod remote_increment;

const OURS: &str = "10.79.0.7";

/// A stack at one end of a wire, and a socket of the kernel's at the other that sends to its port 4000.
struct Wire {
    exos: Exos,
    peer: UdpSocket,
    there: NetNs,
    here: NetNs,
}

impl Wire {
    fn new(test: &str) -> Option<Self> {
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
        }
        let ours = Addresses::new([format!("{OURS}/24").parse().unwrap()]).unwrap();
        let exos = Exos::attach(Interface::new("wire", ours)).unwrap();
        peer.connect((OURS, 4000)).unwrap();
        Some(Self {
            exos,
            peer,
            there,
            here,
        })
    }

    /// Has the far end take what is redirected to it: by a program that passes all packets.
    fn pass_all(&self) -> bpf::Link {
        self.there.enter().unwrap();
        let slots = Map::prog_array(1).unwrap();
        let code = dispatcher(slots.raw_fd(), Action::Pass);
        let program = Prog::load(&code.words(), "pass", false).unwrap();
        let netlink = self.there.netlink().unwrap();
        let index = netlink.link_by_name("wire").unwrap().index;
        let link = bpf::Link::attach_xdp(index, &program, XdpMode::Native).unwrap();
        self.here.enter().unwrap();
        link
    }

    /// A turn of the stack, which answers who asks for its hardware address.
    fn turn(&mut self) {
        self.exos.receive();
        self.exos.send().unwrap();
    }

    fn ask(&self, counter: u32, by: u64) -> Option<u64> {
        let message = [&counter.to_be_bytes()[..], &by.to_be_bytes()].concat();
        self.peer.send(&message).unwrap();
        let mut answer = [0; 64];
        loop {
            assert_eq!(self.peer.recv(&mut answer).ok()?, 12);
            // An answer to an earlier question may have waited.
            if answer[..4] == message[..4] {
                return Some(u64::from_be_bytes(answer[4..12].try_into().unwrap()));
            }
        }
    }
}

#[test]
fn a_handler_answers_while_the_program_does_not_run() {
    let Some(mut wire) = Wire::new("a_handler_answers_while_the_program_does_not_run") else {
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
    wire.peer
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    // What is sent before the hosts know each other waits, or is lost.
    let first = (0..100).find_map(|_| {
        wire.turn();
        wire.ask(9, 0)
    });
    assert_eq!(first, Some(0));
    wire.peer.set_read_timeout(Some(PATIENCE)).unwrap();
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
    let Some(mut wire) = Wire::new("what_a_handler_gives_up_comes_to_the_programs_socket") else {
        return;
    };
    let _far_end = wire.pass_all();
    let counters = remote_increment::download(&mut wire.exos).unwrap();
    let own = wire.exos.stack.udp.bind(None, 4000).unwrap();
    let unknown = [&5000u32.to_be_bytes()[..], &[0; 8]].concat();
    wire.peer.send(&unknown).unwrap();
    wire.peer.send(b"short").unwrap();
    let mut heard = Vec::new();
    let patience = Instant::now() + PATIENCE;
    while heard.len() < 2 {
        assert!(Instant::now() < patience, "{heard:?}");
        wire.turn();
        while let Some(datagram) = wire.exos.stack.udp.receive(own).unwrap() {
            heard.push(datagram.payload.to_vec());
        }
    }
    assert_eq!(heard, [unknown, b"short".to_vec()]);
    wire.exos.remove_handler();
    wire.peer.send(&[0; 12]).unwrap();
    while wire.exos.stack.udp.receive(own).unwrap().is_none() {
        assert!(Instant::now() < patience, "nothing handles any more");
        wire.turn();
    }
    assert_eq!(remote_increment::sum(&counters), 0);
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
