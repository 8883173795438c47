//! SYNs answered in the kernel, with the kernel's TCP as the client: over a veth whose other end takes what is answered,
//! and over one that drops it. As root; in a namespace of the test's own.

use crate::echo;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use exos::{Addresses, ErrorKind, Exos, OwnPair, Tap};
use exos_filter::{Action, dispatcher};
use exos_host::bpf::{self, Map, Prog, XdpMode};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_inet::tcp::ListenOptions;

const CONNECTIONS: u64 = 50;

fn enter(test: &str) -> bool {
    let here = NetNs::anonymous().and_then(|here| here.enter().map(|()| here));
    let may = rustix::process::geteuid().is_root() && here.is_ok();
    if !may {
        eprintln!("SKIPPED: {test} needs root");
    }
    may
}

/// Sends back what comes, until told to stop. Gives what was said of the handler.
fn serve(exos: &mut Exos, stop: &AtomicBool) -> Option<String> {
    let mut said = None;
    while !stop.load(Ordering::Relaxed) {
        echo::turn(exos);
        if let Some(error) = exos.see_to_handlers() {
            said = Some(error.to_string());
        }
    }
    said
}

fn attached() -> (Exos, SocketAddr) {
    let mut exos = Exos::attach(OwnPair::new()).unwrap();
    let listener = exos
        .stack
        .tcp
        .listen(None, 80, ListenOptions::default())
        .unwrap();
    exos.answer_syns_in_kernel(listener).unwrap();
    let ip = exos.pair().unwrap().addresses[0].ip;
    (exos, SocketAddr::new(ip, 80))
}

/// A program at the host's end that passes all packets.
fn pass_all(exos: &Exos) -> bpf::Link {
    let slots = Map::prog_array(1).unwrap();
    let code = dispatcher(slots.raw_fd(), Action::Pass);
    let program = Prog::load(&code.words(), "pass", false).unwrap();
    let host = &exos.pair().unwrap().host_name;
    let index = Netlink::new().unwrap().link_by_name(host).unwrap().index;
    bpf::Link::attach_xdp(index, &program, XdpMode::Native).unwrap()
}

/// Connects again and again; each time the same bytes come back.
fn visit(address: SocketAddr, times: u64) {
    for n in 0..times {
        let sent: Vec<u8> = (0..20_000).map(|i: u64| (i * (n + 1)) as u8).collect();
        let mut socket = TcpStream::connect(address).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        socket.write_all(&sent).unwrap();
        let mut back = vec![0; sent.len()];
        socket.read_exact(&mut back).unwrap();
        assert!(back == sent, "other bytes came back");
    }
}

/// Serves while `visits` run; gives what was said of the handler.
fn while_serving(exos: &mut Exos, visits: impl FnOnce() + Send) -> Option<String> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            visits();
            stop.store(true, Ordering::Relaxed);
        });
        serve(exos, &stop)
    })
}

fn counter(exos: &Exos, name: &str) -> u64 {
    let counters = exos.counters();
    let found = counters.iter().find(|(n, _)| n == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {counters:?}"))
        .1
}

#[test]
fn the_stack_sees_no_syn() {
    if !enter("the_stack_sees_no_syn") {
        return;
    }
    let (mut exos, address) = attached();
    let _other_end = pass_all(&exos);
    let said = while_serving(&mut exos, || visit(address, CONNECTIONS));
    assert_eq!(said, None);
    // The first may be sent again: until the program says where it is, it waits.
    let answered = counter(&exos, "link_xdp_answered");
    assert!(answered >= CONNECTIONS, "{answered}");
    assert_eq!(counter(&exos, "tcp_syn_cookies_accepted"), CONNECTIONS);
    assert_eq!(counter(&exos, "tcp_accepted"), CONNECTIONS);
    assert_eq!(counter(&exos, "tcp_syn_cookies_sent"), 0);
    // And again without.
    exos.answer_syns_here();
    while_serving(&mut exos, || visit(address, CONNECTIONS));
    assert_eq!(counter(&exos, "link_xdp_answered"), answered);
    assert_eq!(counter(&exos, "tcp_accepted"), 2 * CONNECTIONS);
}

#[test]
fn answers_that_do_not_arrive_are_noticed() {
    if !enter("answers_that_do_not_arrive_are_noticed") {
        return;
    }
    let (mut exos, address) = attached();
    let said = while_serving(&mut exos, || visit(address, 3));
    let said = said.expect("it is noticed");
    assert!(said.contains("XDP program too"), "{said}");
    assert_eq!(counter(&exos, "tcp_accepted"), 3);
    assert_eq!(counter(&exos, "tcp_syn_cookies_accepted"), 0);
}

#[test]
fn only_on_links_with_a_program_of_ours() {
    if !enter("only_on_links_with_a_program_of_ours") {
        return;
    }
    let tap = Tap {
        name: "exos0".into(),
        addresses: Addresses::new(["192.0.2.7/24".parse().unwrap()]).unwrap(),
    };
    let mut exos = Exos::attach(tap).unwrap();
    let listener = exos
        .stack
        .tcp
        .listen(None, 80, ListenOptions::default())
        .unwrap();
    let error = exos.answer_syns_in_kernel(listener).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NeedsInterface);
    assert!(error.to_string().contains("on AF_XDP only"), "{error}");
}
