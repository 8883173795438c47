//! Connections that a proxy passes on, behind the server on the kernel's sockets; the proxy is the test. Time passes for the server alone.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use exos::clock;
use exos_cheetah::Server;
use exos_cheetah::connections::{Bounds, Carried as _};
use exos_cheetah::sockets::SocketServer;

use crate::common;

const LONG: Duration = Duration::from_secs(60);

struct World {
    server: SocketServer,
    address: SocketAddr,
}

impl World {
    /// A server that believes proxies in this network, and lets each client have one connection.
    fn new(network: &str) -> World {
        let server = Server::new(common::site(), clock::unix_secs());
        let address = "127.0.0.1:0".parse().unwrap();
        let mut server = SocketServer::listen(address, server, None).unwrap();
        server.trust_proxies(&[network.parse().unwrap()]);
        let bounds = Bounds {
            peer_connections: Some(1),
            ..Bounds::default()
        };
        server.set_bounds(bounds, None);
        let address = server.address().unwrap();
        World { server, address }
    }

    fn connect(&self) -> TcpStream {
        let made = TcpStream::connect(self.address).unwrap();
        made.set_nodelay(true).unwrap();
        made.set_nonblocking(true).unwrap();
        made
    }

    fn turn(&mut self) {
        let soon = Some(clock::now() + Duration::from_millis(1));
        self.server.turn(soon).unwrap();
    }

    /// What comes on a connection until this many bytes are there, or its end; nothing where it is reset.
    fn read(&mut self, from: &mut TcpStream, len: usize) -> Option<String> {
        let (mut got, mut part) = (Vec::new(), [0; 4096]);
        let until = clock::now() + LONG;
        while got.len() < len {
            assert!(clock::now() < until, "nothing comes");
            self.turn();
            match from.read(&mut part) {
                Ok(0) => break,
                Ok(count) => got.extend_from_slice(&part[..count]),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
        Some(String::from_utf8(got).unwrap())
    }

    fn counter(&self, name: &str) -> u64 {
        let all = self.server.counters();
        let found = all.iter().find(|(known, _)| known == name);
        found.map(|(_, count)| *count).unwrap()
    }
}

const GET: &str = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn a_client_is_who_a_proxy_says() {
    let mut world = World::new("127.0.0.0/8");
    let mut clients = Vec::new();
    // Of each client one: those of one proxy are several clients.
    for (at, client) in ["192.0.2.1", "192.0.2.2"].into_iter().enumerate() {
        let header = format!("PROXY TCP4 {client} 198.51.100.1 5000 80\r\n");
        let mut made = world.connect();
        // In pieces, and with the request in one.
        let pieces: Vec<&str> = match at {
            0 => header.split_inclusive(' ').collect(),
            _ => vec![&header],
        };
        for piece in pieces {
            made.write_all(piece.as_bytes()).unwrap();
            world.turn();
        }
        made.write_all(GET.as_bytes()).unwrap();
        let answer = world.read(&mut made, 12).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        clients.push(made);
    }
    let mut second = world.connect();
    let header = format!("PROXY TCP4 192.0.2.2 198.51.100.1 5000 80\r\n{GET}");
    second.write_all(header.as_bytes()).unwrap();
    assert_eq!(world.read(&mut second, 12), None, "one client has one");
    // What a proxy opens for itself is its own.
    let mut own = world.connect();
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let header = [&signature[..], &[0x20, 0, 0, 0], GET.as_bytes()].concat();
    own.write_all(&header).unwrap();
    assert!(
        world
            .read(&mut own, 12)
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
    assert_eq!(world.counter("proxy_protocol_connections"), 4);
    drop(clients);
}

#[test]
fn a_proxy_that_says_nothing_is_sent_away() {
    let mut world = World::new("127.0.0.0/8");
    for begin in [GET, "PROXY TCP4 a b c d\r\n", "\u{16}\u{3}\u{1}"] {
        let mut made = world.connect();
        made.write_all(begin.as_bytes()).unwrap();
        assert_eq!(world.read(&mut made, 1), None, "{begin}");
    }
    let mut ended = world.connect();
    ended.write_all(b"PROXY ").unwrap();
    ended.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(world.read(&mut ended, 1), None);
    assert_eq!(world.counter("proxy_protocol_refusals"), 4);
    let mut late = world.connect();
    late.write_all(b"PROXY TCP4 ").unwrap();
    let accepted = |world: &World| world.counter("sockets_accepted");
    while accepted(&world) < 5 {
        world.turn();
    }
    let later = clock::now() + Duration::from_secs(6);
    world.server.handle(later, clock::unix_secs());
    assert_eq!(world.counter("proxy_protocol_timeouts"), 1);
    assert_eq!(world.read(&mut late, 1), None);
}

/// Others ask as ever, and what they say of themselves is no request.
#[test]
fn a_client_that_is_no_proxy_is_not_believed() {
    let mut world = World::new("192.0.2.0/24");
    let mut plain = world.connect();
    plain.write_all(GET.as_bytes()).unwrap();
    assert!(
        world
            .read(&mut plain, 12)
            .unwrap()
            .starts_with("HTTP/1.1 200")
    );
    drop(plain);
    while world.server.cheetah().connections() > 0 {
        world.turn();
    }
    let mut forger = world.connect();
    let header = format!("PROXY TCP4 192.0.2.2 198.51.100.1 5000 80\r\n{GET}");
    forger.write_all(header.as_bytes()).unwrap();
    assert!(
        world
            .read(&mut forger, 12)
            .unwrap()
            .starts_with("HTTP/1.1 400")
    );
}
