//! A server on loopback that lies before it says the truth, and one that loses the case of letters, over the kernel's sockets.

use crate::net::{Message, addresses, lower_question, record};
use crate::real::{LOOPBACK, driver};
use exos_names::Families;
use simple_dns::{Name, QTYPE, TYPE};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;

/// A datagram to send, and whether from another port.
type Answer = (Vec<u8>, bool);

/// Serves this many queries of UDP in a thread; `answers` says what is sent for each.
fn serve(
    count: usize,
    answers: fn(&Message) -> Vec<Answer>,
) -> (SocketAddr, thread::JoinHandle<()>) {
    serve_at(UdpSocket::bind((LOOPBACK, 0)).unwrap(), count, answers)
}

/// As above, over this socket.
fn serve_at(
    socket: UdpSocket,
    count: usize,
    answers: fn(&Message) -> Vec<Answer>,
) -> (SocketAddr, thread::JoinHandle<()>) {
    let other = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    let server = thread::spawn(move || {
        for _ in 0..count {
            let mut bytes = [0; 2000];
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            for (answer, elsewhere) in answers(&Message(bytes[..length].to_vec())) {
                let socket = if elsewhere { &other } else { &socket };
                socket.send_to(&answer, from).unwrap();
            }
        }
    });
    (address, server)
}

/// A port that is free for both protocols.
fn both() -> (UdpSocket, TcpListener) {
    let tries = std::iter::repeat_with(|| {
        let udp = UdpSocket::bind((LOOPBACK, 0)).unwrap();
        let tcp = TcpListener::bind(udp.local_addr().unwrap()).ok()?;
        Some((udp, tcp))
    });
    tries.take(100).flatten().next().unwrap()
}

fn lies(asked: &Message) -> Vec<Answer> {
    let lie = asked.with_address(66);
    let mut identifier = lie.clone();
    identifier[1] ^= 1;
    let mut name = asked.reply();
    name.questions[0].qname = Name::new_unchecked("other.example");
    let mut kind = asked.reply();
    kind.questions[0].qtype = QTYPE::TYPE(TYPE::MX);
    let mut short = lie.clone();
    short.truncate(11);
    let mut truth = asked.reply();
    truth
        .answers
        .extend(record(&format!("{} 60 A 192.0.2.1", asked.name())));
    truth
        .answers
        .extend(record("other.example 60 A 192.0.2.66"));
    truth
        .name_servers
        .extend(record("example 60 NS victim.example"));
    truth
        .additional_records
        .extend(record("victim.example 60 A 192.0.2.66"));
    vec![
        (lie.clone(), true),
        (identifier, false),
        (name.build_bytes_vec().unwrap(), false),
        (kind.build_bytes_vec().unwrap(), false),
        (asked.0.clone(), false),
        (short, false),
        (Vec::new(), false),
        (truth.build_bytes_vec_compressed().unwrap(), false),
        (lie, false),
    ]
}

#[test]
fn lies_are_dropped_and_the_truth_is_taken() {
    let (address, server) = serve(2, lies);
    let mut driver = driver(&[address], "options timeout:30");
    for name in ["host.example", "victim.example"] {
        let found = driver.lookup(name, Families::Ipv4).unwrap();
        assert_eq!(found, addresses(&["192.0.2.1"]));
    }
    server.join().unwrap();
    let counters = driver.counters();
    assert_eq!(counters.queries_udp, 2);
    assert_eq!(
        (
            counters.drop_source,
            counters.drop_identifier,
            counters.drop_question
        ),
        (0, 2, 4),
        "what another port sends, the kernel keeps from a connected socket"
    );
    assert_eq!((counters.drop_malformed, counters.records_ignored), (6, 2));
    assert_eq!(driver.cached(), 2);
}

/// Its answers by UDP come in small letters. Over TCP, too: then it is believed, and sent small letters from then on.
#[test]
fn a_server_that_loses_the_case() {
    let small = |asked: &Message| vec![(lower_question(asked.with_address(66)), false)];
    let (socket, listener) = both();
    let (address, server) = serve_at(socket, 2, small);
    let tcp = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut message).unwrap();
        let answer = lower_question(Message(message).with_address(1));
        let length = (answer.len() as u16).to_be_bytes();
        // In two pieces.
        stream
            .write_all(&[&length[..], &answer[..20]].concat())
            .unwrap();
        thread::sleep(std::time::Duration::from_millis(20));
        stream.write_all(&answer[20..]).unwrap();
    });
    let mut driver = driver(&[address], "options timeout:30");
    assert_eq!(
        driver
            .lookup("a-long-name.example", Families::Ipv4)
            .unwrap(),
        addresses(&["192.0.2.1"])
    );
    tcp.join().unwrap();
    assert_eq!(
        driver
            .lookup("another-long-name.example", Families::Ipv4)
            .unwrap(),
        addresses(&["192.0.2.66"])
    );
    server.join().unwrap();
    let counters = driver.counters();
    assert_eq!(
        (
            counters.case_lost,
            counters.queries_udp,
            counters.queries_tcp
        ),
        (1, 2, 1)
    );
}
