//! The table and its program against the forwarder alone. The maps are the kernel's: needs the privilege to make them;
//! without it the tests that do say that they were skipped.

mod flows;
mod hops;
mod links;
mod reaches;
mod tallies;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use exos_host::bpf::permitted;
use exos_inet::{Config, Neighbors};
use exos_wire::Mac;

use super::table::{Table, packets};
use super::*;
use crate::flow::{Class, Flow, State};
use crate::kept::KeptFlow;
use crate::limits::{ESTABLISHED_TIME, KERNEL_PAIRS_MAX};
use crate::packets::endpoint::Endpoint;
use crate::packets::reach::Reach;
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
        ("10.0.0.20".parse().unwrap(), 8),
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

/// Listeners over both families, and the servers behind each.
const PLACES: [(&str, [&str; 2]); 2] = [
    ("10.0.0.20:80", ["10.0.0.11:8080", "10.0.0.12:8080"]),
    ("[fd00::20]:80", ["[fd00::11]:8080", "[fd00::12]:8080"]),
];

/// A server of these as it is by a reach: with the listener's port where packets keep theirs.
fn server_by(reach: Reach, server: &str) -> SocketAddr {
    let server = at(server);
    match reach.may_change_port() {
        true => server,
        false => SocketAddr::new(server.ip(), 80),
    }
}

/// The address of ours that servers of this family see, if they see one.
fn ours(ipv6: bool) -> IpAddr {
    let text = if ipv6 { "fd00::21" } else { "10.0.0.21" };
    text.parse().unwrap()
}

/// TCP over both families.
fn forwarder() -> Forwarder {
    forwarder_by(Reach::Nat, &[Transport::Tcp])
}

fn forwarder_by(reach: Reach, transports: &[Transport]) -> Forwarder {
    let listen = |transport, (vip, servers): (&str, [&str; 2])| Listen {
        transport,
        at: at(vip),
        reach,
        to: servers
            .map(|server| (server_by(reach, server), 1, ours(at(vip).is_ipv6())))
            .to_vec(),
    };
    let wanted = transports
        .iter()
        .flat_map(|transport| PLACES.map(|place| listen(*transport, place)));
    let wanted: Vec<Listen> = wanted.collect();
    let mut forwarder = Forwarder::new(Services::new(&wanted).unwrap(), MAC, 100, 1);
    forwarder.watch();
    forwarder
}

/// A flow of the first server that stands so, as if a forwarder before had left it.
fn restore(forwarder: &mut Forwarder, client: &str, state: State) -> FlowId {
    restore_by(forwarder, Reach::Nat, client, state, 0)
}

/// A flow that stands so, by this reach to this server.
fn restore_by(
    forwarder: &mut Forwarder,
    reach: Reach,
    client: &str,
    state: State,
    server: usize,
) -> FlowId {
    let client: Endpoint = at(client).into();
    let (listener, servers) = PLACES[usize::from(client.address.is_ipv6())];
    let kept = KeptFlow {
        transport: state.transport(),
        client,
        listener: at(listener).into(),
        server: server_by(reach, servers[server]).into(),
        ours: ours(client.address.is_ipv6()).into(),
        our_port: if reach == Reach::Nat { client.port } else { 0 },
        reach,
        server_isn: 7,
        state,
    };
    assert!(forwarder.restore(now(), &kept));
    forwarder.poll_changed().unwrap()
}

/// What the kernel is told of a flow is what user space does with its packets, either way.
#[test]
fn both_ways_are_those_of_user_space() {
    for (reach, client) in [Reach::Nat, Reach::Transparent]
        .into_iter()
        .flat_map(|reach| ["10.0.0.1:5000", "[fd00::1]:5000"].map(|client| (reach, client)))
    {
        let mut forwarder = forwarder_by(reach, &[Transport::Tcp]);
        let id = restore_by(&mut forwarder, reach, client, State::Established, 0);
        let flow: &Flow = forwarder.flows().get(id);
        let services = forwarder.services();
        let packets = packets(services, flow);
        assert!(!packets.is_one_way);
        let ends = packets.ends;
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
