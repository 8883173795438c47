//! A program on two cores, over a veth of two queues, with the kernel's TCP at the other end. As root; in a namespace of
//! the test's own.

mod echo;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use exos::{Attachment, Exos, LinkName};
use exos_host::netns::NetNs;
use exos_inet::tcp::ListenOptions;

const CONNECTIONS: usize = 100;

/// Sends back what comes, until told to stop; returns its counters.
fn serve(mut exos: Exos, stop: &AtomicBool) -> Vec<(String, u64)> {
    let options = ListenOptions::default();
    exos.stack.tcp.listen(None, 80, options).unwrap();
    while !stop.load(Ordering::Relaxed) {
        echo::turn(&mut exos);
    }
    exos.counters()
}

fn counter(counters: &[(String, u64)], name: &str) -> u64 {
    let found = counters.iter().find(|(n, _)| n == name);
    found.expect("every stack has it").1
}

/// One after the other, half of them over IPv6: each sends some and gets it back.
fn visit(addresses: [SocketAddr; 2]) {
    for n in 0..CONNECTIONS {
        let sent: Vec<u8> = (0..20_000).map(|i| (i * (n + 1)) as u8).collect();
        let patience = Duration::from_secs(20);
        let mut socket = TcpStream::connect_timeout(&addresses[n % 2], patience).unwrap();
        socket.set_read_timeout(Some(patience)).unwrap();
        socket.write_all(&sent).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        socket.read_to_end(&mut back).unwrap();
        assert!(back == sent, "{} bytes came back", back.len());
    }
}

#[test]
fn both_cores_accept_and_nobody_outside_sees_that_they_are_two() {
    let here = NetNs::anonymous().and_then(|here| here.enter().map(|()| here));
    if !rustix::process::geteuid().is_root() || here.is_err() {
        eprintln!(
            "SKIPPED: both_cores_accept_and_nobody_outside_sees_that_they_are_two needs root"
        );
        return;
    }
    let wanted = Attachment {
        cores: 2,
        ..Attachment::new(LinkName::OwnPair, 80)
    };
    let mut first = Exos::attach(&wanted).unwrap();
    let addresses = first.pair().unwrap().addresses;
    let addresses = addresses.map(|(ip, _)| SocketAddr::new(ip, 80));
    let second = first.take_cores().pop().unwrap();
    assert!(first.take_cores().is_empty());
    let stop = AtomicBool::new(false);
    let counters = thread::scope(|scope| {
        let second = scope.spawn(|| serve(second.start().unwrap(), &stop));
        // The first stays where it was made; the visitor is the one that moves.
        let visitor = scope.spawn(|| {
            visit(addresses);
            stop.store(true, Ordering::Relaxed);
        });
        let first = serve(first, &stop);
        visitor.join().unwrap();
        [first, second.join().unwrap()]
    });
    let of = |name| counters.each_ref().map(|all| counter(all, name));
    let accepted = of("tcp_accepted");
    assert_eq!(accepted.iter().sum::<u64>(), CONNECTIONS as u64);
    assert!(accepted.iter().all(|n| *n > 10), "{accepted:?}");
    assert_eq!(of("tcp_resets_sent"), [0, 0]);
    assert_eq!(of("cores_frames_lost"), [0, 0]);
    // Every frame to us went to a core, and what the first sent of them to the other is less than it kept.
    let handed_on: u64 = of("cores_frames_handed_on").iter().sum();
    let received: u64 = of("frames_received").iter().sum();
    assert!(handed_on * 4 < received, "{handed_on} of {received}");
}

#[test]
fn several_cores_need_as_many_queues() {
    let refused = |wanted: &Attachment| match Exos::attach(wanted) {
        Ok(_) => panic!("it cannot be"),
        Err(error) => error.to_string(),
    };
    let wanted = |link: &str| Attachment {
        cores: 2,
        addresses: vec!["192.0.2.7/24".parse().unwrap()],
        ..Attachment::new(link.parse().unwrap(), 80)
    };
    let error = refused(&wanted("tap:exos0"));
    assert!(error.contains("one queue here"), "{error}");
    let error = refused(&wanted("xdp:lo:1"));
    assert!(error.contains("without the queue"), "{error}");
    let error = refused(&wanted("xdp:lo"));
    assert!(
        error.contains("lo has 1 queues, and 2 cores") && error.contains("--cores 1"),
        "{error}"
    );
}
