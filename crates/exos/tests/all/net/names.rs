//! Names are looked up over the stack, of a server of the kernel's, and connected to.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;

use exos::names::{Config, Families};
use exos::net::Names;

use super::attach;
use crate::common::PATIENCE;

/// An answer to the query: its addresses of the family that was asked for, or that it is to be asked for by TCP.
fn answer(query: &[u8], addresses: &[IpAddr], truncated: bool) -> Vec<u8> {
    let mut end = 12;
    while query[end] != 0 {
        end += usize::from(query[end]) + 1;
    }
    let is_ipv6 = query[end + 2] == 28;
    let mut bytes = query[..end + 5].to_vec();
    let records: Vec<_> = addresses
        .iter()
        .filter(|ip| ip.is_ipv6() == is_ipv6)
        .collect();
    (bytes[2], bytes[3]) = (0x81 | if truncated { 2 } else { 0 }, 0x80);
    (bytes[6], bytes[7]) = (0, if truncated { 0 } else { records.len() as u8 });
    bytes[8..12].fill(0);
    for ip in records.iter().filter(|_| !truncated) {
        let data = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        bytes.extend([
            0xc0,
            12,
            0,
            query[end + 2],
            0,
            1,
            0,
            0,
            0,
            60,
            0,
            data.len() as u8,
        ]);
        bytes.extend(data);
    }
    bytes
}

/// Answers by UDP that it is too long, and by TCP.
fn serve(at: IpAddr, addresses: Vec<IpAddr>) -> SocketAddr {
    let tcp = TcpListener::bind((at, 0)).unwrap();
    let at = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(at).unwrap();
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((count, from)) = udp.recv_from(&mut query) {
            udp.send_to(&answer(&query[..count], &[], true), from)
                .unwrap();
        }
    });
    thread::spawn(move || {
        for socket in tcp.incoming() {
            let mut socket = socket.unwrap();
            let mut len = [0; 2];
            if socket.read_exact(&mut len).is_err() {
                continue;
            }
            let mut query = vec![0; usize::from(u16::from_be_bytes(len))];
            socket.read_exact(&mut query).unwrap();
            let bytes = answer(&query, &addresses, false);
            socket
                .write_all(&(bytes.len() as u16).to_be_bytes())
                .unwrap();
            socket.write_all(&bytes).unwrap();
        }
    });
    at
}

#[test]
fn a_name_is_looked_up_and_connected_to() {
    let Some((net, host)) = attach("a_name_is_looked_up_and_connected_to") else {
        return;
    };
    // Nobody answers at the IPv6 address, so that the other is tried beside it.
    let nowhere: IpAddr = match net.with(|exos| exos.pair().unwrap().host_addresses[1].ip) {
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) ^ 0x1234).into(),
        ip => panic!("{ip} is no IPv6 address"),
    };
    let server = serve(host, vec![nowhere, host]);
    let config = format!("nameserver {}\n", server.ip());
    let mut config = Config::parse(&config, "", &|_| None);
    config.servers = vec![server];
    let names = Names::new(&net, config);
    let found = names.lookup("www.example", Families::Both).unwrap();
    assert_eq!(found, [nowhere, host]);
    let asked = names.counters();
    // And once more where the server took too long.
    let counted = [asked.queries_udp, asked.queries_tcp, asked.truncated];
    let may = 2..=2 + asked.timeouts;
    assert!(counted.iter().all(|count| may.contains(count)), "{asked:?}");
    assert_eq!(names.lookup("WWW.example", Families::Ipv4).unwrap(), [host]);
    assert_eq!(
        names.counters().queries_udp,
        asked.queries_udp,
        "it is in the cache"
    );
    assert_eq!(names.lookup("127.0.0.1", Families::Both).unwrap().len(), 1);

    let listener = TcpListener::bind((host, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(b"found").unwrap();
    });
    let mut stream = names.connect("www.example", port, Some(PATIENCE)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(
        (text.as_str(), stream.local_addr().unwrap().is_ipv4()),
        ("found", true)
    );
    serving.join().unwrap();
    // Now by the address that has answered, at once; and nobody listens there any more.
    let brief = Some(Duration::from_millis(400));
    let refused = names.connect("www.example", port, brief).unwrap_err();
    let gone = [
        ErrorKind::ConnectionRefused,
        ErrorKind::HostUnreachable,
        ErrorKind::TimedOut,
    ];
    assert!(gone.contains(&refused.kind()), "{refused}");

    // The stack is a program's own again when nothing else holds it.
    let Err(net) = net.into_exos() else {
        panic!("names and a stream hold it");
    };
    drop((names, stream));
    let mut exos = net.into_exos().ok().expect("nothing holds it");
    assert!(exos.stack.poll_event().is_none());
    assert_eq!(exos.stack.tcp.connections_where(|_| true).len(), 0);
}
