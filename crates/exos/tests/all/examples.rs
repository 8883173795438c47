//! The examples run, with the kernel's sockets at the other end. As root; in a namespace of each test's own.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::thread;

use exos::net::Net;
use exos::{Exos, OwnPair, Reason};
use exos_host::netns::NetNs;

use crate::common::{PATIENCE, skip_without_root};
use crate::echo::example as echo_server;

#[path = "../../examples/client.rs"]
#[allow(dead_code)] // Its `main`, and so below.
mod client;
#[path = "../../examples/samples.rs"]
#[allow(dead_code)]
mod samples;
#[path = "../../examples/several_cores.rs"]
#[allow(dead_code)]
mod several_cores;
#[path = "../../examples/udp_echo.rs"]
#[allow(dead_code)]
mod udp_echo;

/// What `main` of an example attaches to, in a namespace that the calling thread is in; none without root.
fn attach(test: &str, cores: u32) -> Option<Exos> {
    if skip_without_root(test) {
        return None;
    }
    NetNs::anonymous().unwrap().enter().unwrap();
    Some(Exos::attach(OwnPair::new().with_cores(cores)).unwrap())
}

/// Its IPv4 address, with port 7.
fn echo_port(exos: &Exos) -> SocketAddr {
    let [ours, _] = exos.pair().unwrap().addresses;
    SocketAddr::new(ours.ip, 7)
}

/// Says `text` to a server, and returns all that it answers.
fn visit(server: SocketAddr, text: &str) -> String {
    let mut socket = TcpStream::connect_timeout(&server, PATIENCE).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(text.as_bytes()).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut back = String::new();
    socket.read_to_string(&mut back).unwrap();
    back
}

#[test]
fn the_echo_server_answers_and_ends_when_it_is_woken() {
    let test = "the_echo_server_answers_and_ends_when_it_is_woken";
    let Some(mut exos) = attach(test, 1) else {
        return;
    };
    let server = echo_port(&exos);
    let (wake, mut waker) = UnixStream::pair().unwrap();
    let visitor = thread::spawn(move || {
        let back = visit(server, "hello");
        waker.write_all(b"end").unwrap();
        back
    });
    echo_server::run(&mut exos, wake.as_fd(), || visitor.is_finished()).unwrap();
    assert_eq!(visitor.join().unwrap(), "hello");
}

#[test]
fn the_client_shows_what_the_server_answers() {
    let Some(mut exos) = attach("the_client_shows_what_the_server_answers", 1) else {
        return;
    };
    let host = exos.pair().unwrap().host_addresses[0].ip;
    let listener = TcpListener::bind((host, 0)).unwrap();
    let server = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut asked = String::new();
        socket.read_to_string(&mut asked).unwrap();
        socket.write_all(b"and to you").unwrap();
        asked
    });
    let mut shown = Vec::new();
    let end = client::run(&mut exos, server, "good day", |bytes| {
        shown.write_all(bytes)
    });
    assert_eq!(end.unwrap(), Reason::Done);
    assert_eq!(shown, b"and to you");
    assert_eq!(serving.join().unwrap(), "good day");
    let refused = client::run(&mut exos, server, "good day", |_| Ok(()));
    assert_eq!(refused.unwrap(), Reason::Refused, "the listener is gone");
}

#[test]
fn the_udp_echo_answers() {
    let Some(mut exos) = attach("the_udp_echo_answers", 1) else {
        return;
    };
    let server = echo_port(&exos);
    let visitor = thread::spawn(move || {
        let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let socket = UdpSocket::bind((any, 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = [0; 2000];
        for text in ["hello", "", "again"] {
            socket.send(text.as_bytes()).unwrap();
            let count = socket.recv(&mut answer).unwrap();
            assert_eq!(&answer[..count], text.as_bytes());
        }
    });
    udp_echo::run(&mut exos, || visitor.is_finished()).unwrap();
    visitor.join().unwrap();
}

#[test]
fn each_of_several_cores_has_connections() {
    let Some(exos) = attach("each_of_several_cores_has_connections", 2) else {
        return;
    };
    let server = echo_port(&exos);
    let visitor = thread::spawn(move || {
        let greeted = |text: &str| {
            let mut greetings = (0..200).map(|_| visit(server, ""));
            greetings.any(|greeting| greeting == text)
        };
        // Which core has a connection is by a hash of its ports.
        greeted("you are on core 1\n") && greeted("you are on core 2\n")
    });
    several_cores::run(exos, || visitor.is_finished()).unwrap();
    assert!(visitor.join().unwrap(), "a core has no connections");
}

/// What comes in pieces of any length is one stream of numbers, through pipes and in passes.
#[test]
fn samples_are_numbers_as_they_come() {
    if skip_without_root("samples_are_numbers_as_they_come") {
        return;
    }
    NetNs::anonymous().unwrap().enter().unwrap();
    let net = Net::attach(OwnPair::new()).unwrap();
    let host = net.with(|exos| exos.pair().unwrap().host_addresses[0].ip);
    let numbers: Vec<u32> = (1..50_000u32)
        .map(|n| n.wrapping_mul(0x9e37_79b9))
        .collect();
    let key = 0x1234_5678;
    let masked: Vec<u8> = numbers
        .iter()
        .flat_map(|number| (number ^ key).to_be_bytes())
        .collect();
    let expected = samples::Samples {
        count: numbers.len() as u64,
        sum: numbers.iter().map(|&number| u64::from(number)).sum(),
        checksum: exos::wire::Sum::of(&masked).value(),
    };
    for way in [samples::through_pipes, samples::in_passes] {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let sent = masked.clone();
        let sending = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_nodelay(true).unwrap();
            let (small, rest) = sent.split_at(2_000);
            for piece in small.chunks(13).chain(rest.chunks(4_001)) {
                socket.write_all(piece).unwrap();
            }
        });
        let stream = exos::net::TcpStream::connect(&net, at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut taken = Vec::new();
        let samples = way(&stream, key, &mut |bytes| {
            let words = bytes.as_chunks::<4>().0.iter();
            taken.extend(words.map(|word| u32::from_ne_bytes(*word)));
        });
        assert_eq!(samples.unwrap(), expected);
        assert!(taken == numbers, "numbers in this machine's order");
        sending.join().unwrap();
    }
}
