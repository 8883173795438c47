//! Counts the instructions that handshakes take of either side, with a request of 100 bytes and its answer: two sessions in memory.
//!
//! ```text
//! cargo build --release --workspace --examples
//! valgrind --tool=callgrind --toggle-collect='*counted_server*' target/release/examples/handshake_cost resumed 2000
//! ```
//!
//! `counted_client` is the other side. What is collected, divided by the handshakes, are the instructions of one; the median of each side's times is
//! printed, of which the cryptography by itself is what `exos bench http --groups tls` says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use exos_tls::client::{Client, Trust, Way};
use exos_tls::policy::{MinimumVersion, server_provider};
use exos_tls::{Session, self_signed};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;

/// As `exos serve` has it.
fn server_config() -> Arc<ServerConfig> {
    let made = self_signed::certificate(&["localhost".to_owned()]);
    let (certificate, key) = made.expect("a name");
    let builder = ServerConfig::builder_with_provider(server_provider(&[]));
    let builder = builder.with_protocol_versions(MinimumVersion::V12.versions());
    let builder = builder.expect("suites of both").with_no_client_auth();
    let config = builder.with_single_cert(vec![certificate], key);
    let mut config = config.expect("a certificate and its key");
    config.enable_secret_extraction = true;
    config.ticketer = Ticketer::new().expect("random numbers");
    config.send_tls13_tickets = 1;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Takes what came, and answers a request when one is there.
#[inline(never)]
fn counted_server(session: &mut Session, came: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let taken = session.receive(came, &mut out);
    assert_eq!(taken.expect("a good client"), came.len());
    let asked = session.readable().len();
    if asked > 0 {
        session.consume(asked);
        let sealed = session.seal(&[&[b'a'; 150], &[b'b'; 100]], &mut out);
        sealed.expect("a session that stands");
    }
    out
}

/// Takes what came, and asks when the session stands.
#[inline(never)]
fn counted_client(session: &mut Session, came: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let was_standing = session.is_established();
    let taken = session.receive(came, &mut out);
    assert_eq!(taken.expect("a good server"), came.len());
    if session.is_established() && !was_standing {
        let sealed = session.seal(&[&[b'q'; 100]], &mut out);
        sealed.expect("a session that stands");
    }
    out
}

/// The time that each side takes of one.
fn one(server: &Arc<ServerConfig>, client: &Client, way: Way) -> [Duration; 2] {
    let mut took = [Duration::ZERO; 2];
    let begun = Instant::now();
    let mut client = client.begin(way).expect("a client");
    let mut to_server = counted_client(&mut client, &[]);
    took[1] += begun.elapsed();
    let mut server = Session::server(server.clone()).expect("a server");
    while !to_server.is_empty() {
        let begun = Instant::now();
        let to_client = counted_server(&mut server, &to_server);
        took[0] += begun.elapsed();
        let begun = Instant::now();
        to_server = counted_client(&mut client, &to_client);
        took[1] += begun.elapsed();
    }
    assert_eq!(client.readable().len(), 250);
    assert_eq!(client.about().is_resumed, way == Way::Resumed);
    took
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let way = match arguments.next().as_deref() {
        Some("full") => Way::Full,
        _ => Way::Resumed,
    };
    let count = arguments.next().map(|it| it.parse().expect("a number"));
    let count: u32 = count.unwrap_or(20_000);
    let server = server_config();
    let client = Client::new(&Trust::Anybody, "localhost", &["http/1.1"]).expect("a name");
    one(&server, &client, Way::Full); // It leaves a ticket.
    let took: Vec<_> = (0..count).map(|_| one(&server, &client, way)).collect();
    let median_us = |side: usize| {
        let mut times: Vec<_> = took.iter().map(|it| it[side]).collect();
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6
    };
    let (server_us, client_us) = (median_us(0), median_us(1));
    println!("{count} handshakes, median us: server {server_us:.1}, client {client_us:.1}");
}
