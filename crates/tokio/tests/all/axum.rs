//! axum on our listener, by two cores: the example, with the kernel's sockets as clients.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use exos::{Exos, OwnPair};
use tokio::sync::watch;

use crate::common::{PATIENCE, enter};

#[path = "../../examples/axum_server.rs"]
#[allow(dead_code)] // Its `main`.
mod axum_server;

const PORT: u16 = 8080;

/// What the server says on a connection of its own.
fn get(at: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect_timeout(&at, PATIENCE).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        socket,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    answer
}

#[test]
fn axum_serves_on_each_of_two_cores() {
    if !enter("axum_serves_on_each_of_two_cores") {
        return;
    }
    let exos = Exos::attach(OwnPair::new().with_cores(2)).unwrap();
    let at = SocketAddr::new(exos.pair().unwrap().addresses[0].ip, PORT);
    let (end, ended) = watch::channel(());
    let visitor = thread::spawn(move || {
        // Which core has a connection is by a hash of its ports.
        let has = |core: &str| (0..200).any(|_| get(at, "/core").ends_with(core));
        let both = has("\r\n\r\ncore 1\n") && has("\r\n\r\ncore 2\n");
        let counted = (1..=20).all(|n| get(at, "/count").ends_with(&format!("\r\n\r\n{n}\n")));
        let missing = get(at, "/other");
        drop(end);
        (both, counted, missing)
    });
    axum_server::run(exos, PORT, &ended).unwrap();
    let (both, counted, missing) = visitor.join().unwrap();
    assert!(both, "a core has no connections");
    assert!(counted, "the cores do not count together");
    assert!(missing.starts_with("HTTP/1.1 404 "), "{missing}");
}
