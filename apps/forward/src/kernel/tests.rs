//! The table and its program against the forwarder alone. The maps are the kernel's: needs the privilege to make them;
//! without it the tests that do say that they were skipped.

mod flows;
mod hops;
mod tallies;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use exos_host::bpf::permitted;
use exos_inet::{Config, Neighbors};
use exos_wire::Mac;

use super::table::{Table, packets};
use super::*;
use crate::endpoint::Endpoint;
use crate::flow::{Class, Flow, State};
use crate::kept::KeptFlow;
use crate::limits::{ESTABLISHED_TIME, KERNEL_PAIRS_MAX};
use crate::reach::Reach;
use crate::service::Listen;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
const SERVER_MAC: Mac = Mac([2, 0, 0, 0, 0, 11]);
const KEY: HashKey = HashKey::new([1, 2]);

fn allowed(test: &str) -> bool {
    match permitted() {
        Ok(()) => true,
        Err(error) => {
            // Past the test harness, which keeps to itself what passing tests print.
            let text = format!("SKIPPED: {test}: {error}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
            false
        }
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A second of the monotonic clock; what is written to maps is of it.
fn now() -> Instant {
    Instant::from_millis(exos::clock::now().millis() / 1000 * 1000)
}

fn stack() -> Stack {
    let mut config = Config::new(MAC, 1500);
    config.neighbors = Neighbors::External;
    config.addresses = vec![
        ("10.0.0.20".parse().unwrap(), 24),
        ("fd00::20".parse().unwrap(), 64),
    ];
    Stack::new(config, 1, now()).unwrap()
}

fn table(forwarder: &Forwarder) -> Table {
    Table::new(100, &shapes(forwarder.services()), KEY).unwrap()
}

/// The program has seen a packet of a flow then.
fn note_seen(table: &Table, id: FlowId, at: Instant) {
    let words = table.maps.records.words();
    let stride = words.len() / 100;
    words[id.place() * stride + 1].store(at.micros() * 1000, Ordering::Relaxed);
}

/// TCP over both families.
fn forwarder() -> Forwarder {
    let listen = |vip: &str, server: &str| Listen {
        transport: Transport::Tcp,
        at: at(vip),
        reach: Reach::Nat,
        to: vec![(at(server), 1, at(vip).ip())],
    };
    let wanted = [
        listen("10.0.0.20:80", "10.0.0.11:8080"),
        listen("[fd00::20]:80", "[fd00::11]:8080"),
    ];
    let mut forwarder = Forwarder::new(Services::new(&wanted).unwrap(), MAC, 100, 1);
    forwarder.watch();
    forwarder
}

/// A flow that stands so, as if a forwarder before had left it.
fn restore(forwarder: &mut Forwarder, client: &str, state: State) -> FlowId {
    let client: Endpoint = at(client).into();
    let (listener, server) = match client.address.is_ipv6() {
        false => (at("10.0.0.20:80"), at("10.0.0.11:8080")),
        true => (at("[fd00::20]:80"), at("[fd00::11]:8080")),
    };
    let kept = KeptFlow {
        transport: Transport::Tcp,
        client,
        listener: listener.into(),
        server: server.into(),
        ours: Endpoint::from(listener).address,
        our_port: client.port,
        reach: Reach::Nat,
        server_isn: 7,
        state,
    };
    assert!(forwarder.restore(now(), &kept));
    forwarder.poll_changed().unwrap()
}

/// What the kernel is told of a flow is what user space does with its packets, either way.
#[test]
fn both_ways_are_those_of_user_space() {
    let mut forwarder = forwarder();
    for client in ["10.0.0.1:5000", "[fd00::1]:5000"] {
        let id = restore(&mut forwarder, client, State::Established);
        let flow: &Flow = forwarder.flows().get(id);
        let services = forwarder.services();
        let ends = packets(services, flow).ends;
        let ways = [
            [(ends.client, ends.listener), (ends.ours, ends.server)],
            [(ends.server, ends.ours), (ends.listener, ends.client)],
        ];
        for ([from, to], to_server) in ways.into_iter().zip([true, false]) {
            let rewrite = services.rewrite(flow, to_server);
            let back = services.rewrite(flow, !to_server);
            assert_eq!(to, (rewrite.src.into(), rewrite.dst.into()));
            // What comes one way has the ends, turned round, of what leaves the other way.
            assert_eq!(from, (back.dst.into(), back.src.into()));
        }
        let listener = services.listeners[usize::from(flow.key.listener)].at;
        assert_eq!(ends.listener, listener.into());
    }
}

/// A sweep takes as long with a million flows as with one, and its steps are never a burst.
#[test]
fn sweeps_are_paced() {
    for places in [1u32, 512, 513, 10_000, 1_000_000] {
        let sweep = until_next_step(places) * places.div_ceil(SWEEP_STEP);
        assert!(
            sweep <= SWEEP_TIME && sweep >= SWEEP_TIME * 9 / 10,
            "{places}: {sweep:?}"
        );
    }
    assert_eq!(until_next_step(0), SWEEP_TIME);
}
