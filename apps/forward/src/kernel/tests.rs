//! The table and its program against the forwarder alone. The maps are the kernel's: needs the privilege to make them;
//! without it the tests that do say that they were skipped.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use exos_host::bpf::permitted;
use exos_inet::{Config, Neighbors};
use exos_wire::Mac;

use super::hops::{Addresses, Hops};
use super::table::{Table, packets};
use super::*;
use crate::endpoint::Endpoint;
use crate::flow::{Class, Flow, State};
use crate::kept::KeptFlow;
use crate::limits::{ESTABLISHED_TIME, KERNEL_HOPS_MAX, KERNEL_PAIRS_MAX};
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

/// The kernel has the flows that stand, and no others, whatever becomes of them.
#[test]
fn flows_are_in_the_kernel_while_they_stand() {
    if !allowed("flows_are_in_the_kernel_while_they_stand") {
        return;
    }
    let (mut forwarder, mut stack) = (forwarder(), stack());
    let mut table = table(&forwarder);
    for (n, state) in State::ALL.into_iter().enumerate() {
        if state.transport() != Transport::Tcp || !state.is_of(Reach::Nat) {
            continue;
        }
        for client in [
            format!("10.0.0.1:{}", 2000 + n),
            format!("[fd00::1]:{}", 2000 + n),
        ] {
            let id = restore(&mut forwarder, &client, state);
            table.follow(now(), &mut forwarder, &mut stack, id);
            let stands = state.class() == Class::Established;
            let seen = table.seen(now(), id);
            assert_eq!(seen.is_some(), stands, "{state:?}");
        }
    }
    // Established, and with one FIN of either side.
    assert_eq!((table.count, table.begun, table.refused), (6, 6, 0));
    // All end, one with its place taken by another flow before the kernel hears of it.
    let ids: Vec<FlowId> = forwarder.flows().ids().collect();
    let late = now() + ESTABLISHED_TIME + Duration::from_secs(2);
    forwarder.handle_timeout(late);
    assert!(forwarder.flows().is_empty());
    let again = restore(&mut forwarder, "10.0.0.2:3000", State::Established);
    assert!(ids.contains(&again));
    while let Some(id) = forwarder.poll_changed() {
        table.follow(late, &mut forwarder, &mut stack, id);
    }
    table.follow(late, &mut forwarder, &mut stack, again);
    assert_eq!(table.count, 1);
    let there = |id: &FlowId| table.maps.flows().get(id.0).is_some();
    let left: Vec<FlowId> = ids.into_iter().filter(there).collect();
    assert_eq!(left, [again]);
}

/// A flow of which the kernel has seen packets is as young as they are.
#[test]
fn what_the_kernel_sees_keeps_flows() {
    if !allowed("what_the_kernel_sees_keeps_flows") {
        return;
    }
    let (mut forwarder, mut stack) = (forwarder(), stack());
    let mut table = table(&forwarder);
    let clients = ["10.0.0.1:5000", "[fd00::1]:5000", "10.0.0.1:5001"];
    let ids = clients.map(|client| restore(&mut forwarder, client, State::Established));
    for id in ids {
        table.follow(now(), &mut forwarder, &mut stack, id);
    }
    // The kernel sees the answers of two of them, a while later.
    let begun = now();
    let later = begun + ESTABLISHED_TIME / 2;
    for id in &ids[..2] {
        note_seen(&table, *id, later);
    }
    // What is of the future is of now.
    note_seen(&table, ids[2], later + ESTABLISHED_TIME);
    assert_eq!(
        u64::from(table.seen(begun, ids[2]).unwrap()),
        begun.millis() / 1000
    );
    note_seen(&table, ids[2], begun);
    // One is met by the sweep.
    let seen = |forwarder: &Forwarder, n: usize| u64::from(forwarder.flows().get(ids[n]).seen);
    assert_eq!(seen(&forwarder, 0), begun.millis() / 1000);
    table.top = 1;
    assert!(table.sweep(later, &mut forwarder));
    assert_eq!(seen(&forwarder, 0), later.millis() / 1000);
    assert_eq!(seen(&forwarder, 1), begun.millis() / 1000, "not swept yet");
    // The other is asked for when its time is over, and stays; the third goes.
    let over = begun + ESTABLISHED_TIME + Duration::from_secs(2);
    forwarder.handle_timeout_unless(over, |id| table.seen(over, id));
    assert_eq!(seen(&forwarder, 1), later.millis() / 1000);
    let left = ids.map(|id| forwarder.flows().get(id).is_there);
    assert_eq!(left, [true, true, false]);
    // And at last all.
    let over = later + ESTABLISHED_TIME + Duration::from_secs(2);
    forwarder.handle_timeout_unless(over, |id| table.seen(over, id));
    assert!(forwarder.flows().is_empty());
}

/// What the kernel has forwarded is traffic of listener and server, once.
#[test]
fn tallies_are_told_once() {
    if !allowed("tallies_are_told_once") {
        return;
    }
    let mut forwarder = forwarder();
    let mut table = table(&forwarder);
    let take = |table: &mut Table, forwarder: &mut Forwarder, pair| {
        table.tallies.take(&table.maps, pair, forwarder)
    };
    let pair = take(&mut table, &mut forwarder, (1, 1)).unwrap();
    assert_eq!(take(&mut table, &mut forwarder, (1, 1)), Some(pair));
    let [to_server, to_client] = [2 * pair, 2 * pair + 1];
    let traffic = |forwarder: &Forwarder, place: usize| {
        let services = forwarder.services();
        let of_server = services.servers[place].traffic.list();
        assert_eq!(services.listeners[place].traffic.list(), of_server);
        of_server.map(|(_, count)| count)
    };
    write_tally(&table, to_server, 3, 300);
    write_tally(&table, to_client, 7, 9000);
    table.read_tallies(&mut forwarder);
    table.read_tallies(&mut forwarder);
    assert_eq!(traffic(&forwarder, 1), [3, 300, 7, 9000]);
    write_tally(&table, to_client, 8, 9100);
    table.read_tallies(&mut forwarder);
    assert_eq!(traffic(&forwarder, 1), [3, 300, 8, 9100]);
    assert_eq!(traffic(&forwarder, 0), [0; 4]);
    assert_eq!(table.tallies.total[1].bytes, 9100);
}

/// A pair of a listener and a server without flows makes room for another, once there is none left; what was counted for it
/// until then is told, and nothing of it is the other's.
#[test]
fn tallies_without_flows_are_given_to_others() {
    if !allowed("tallies_without_flows_are_given_to_others") {
        return;
    }
    let mut forwarder = forwarder();
    let mut table = table(&forwarder);
    let mut take = |n: u32| {
        // Of the pairs that there are, and of some that there are not but in this test.
        let pair = ((n % 2) as u16, (n / 2) as u16);
        table.tallies.take(&table.maps, pair, &mut forwarder)
    };
    for n in 0..KERNEL_PAIRS_MAX {
        assert_eq!(take(n), Some(n));
    }
    assert_eq!(take(KERNEL_PAIRS_MAX), None);
    // The first one, of listener 0 and server 0.
    table.tallies.give(0);
    write_tally(&table, 1, 5, 500);
    let to_client = |forwarder: &Forwarder, server: usize| {
        let traffic = &forwarder.services().servers[server].traffic;
        (traffic.packets_to_clients, traffic.bytes_to_clients)
    };
    assert_eq!(
        table.tallies.take(&table.maps, (0, 1), &mut forwarder),
        Some(2)
    );
    assert_eq!(
        table.tallies.take(&table.maps, (7, 1), &mut forwarder),
        Some(0)
    );
    assert_eq!(to_client(&forwarder, 0), (5, 500));
    assert_eq!(
        table.tallies.take(&table.maps, (0, 0), &mut forwarder),
        None
    );
}

/// What the program has counted of one way, on the last processor that there may be.
fn write_tally(table: &Table, tally: u32, packets: u64, bytes: u64) {
    let tallies = &table.maps.tallies;
    let mut value = vec![0; tallies.user_value_size()];
    let at = value.len() - 16;
    value[at..at + 8].copy_from_slice(&packets.to_ne_bytes());
    value[at + 8..].copy_from_slice(&bytes.to_ne_bytes());
    tallies.update(&tally.to_ne_bytes(), &value).unwrap();
}

/// What the kernel does not take leaves nothing behind: neither hops nor tallies are named by it.
#[test]
fn what_is_refused_leaves_nothing() {
    if !allowed("what_is_refused_leaves_nothing") {
        return;
    }
    let (mut forwarder, mut stack) = (forwarder(), stack());
    let mut table = table(&forwarder);
    // No entry of the index is free.
    let entries = table.maps.index.words();
    entries
        .iter()
        .for_each(|entry| entry.store(1, Ordering::Relaxed));
    let ids = ["10.0.0.1:5000", "[fd00::1]:5000"]
        .map(|client| restore(&mut forwarder, client, State::Established));
    for id in ids {
        table.follow(now(), &mut forwarder, &mut stack, id);
        assert_eq!(table.seen(now(), id), None);
    }
    assert_eq!((table.count, table.begun, table.refused), (0, 0, 2));
    assert!(table.hops_are_free());
    assert_eq!(table.tallies.users(), 0);
    // With room they are taken, and what they named is free again when they end.
    let entries = table.maps.index.words();
    entries
        .iter()
        .for_each(|entry| entry.store(0, Ordering::Relaxed));
    for id in ids {
        table.follow(now(), &mut forwarder, &mut stack, id);
    }
    assert_eq!((table.count, table.tallies.users()), (2, 2));
    assert!(!table.hops_are_free());
    forwarder.handle_timeout(now() + ESTABLISHED_TIME + Duration::from_secs(2));
    for id in ids {
        table.follow(now(), &mut forwarder, &mut stack, id);
    }
    assert_eq!((table.count, table.tallies.users()), (0, 0));
    assert!(table.hops_are_free());
}

/// Flows of a listener that has come since are not for the program that does not know them; another takes over all.
#[test]
fn shapes_that_come_are_for_another_program() {
    if !allowed("shapes_that_come_are_for_another_program") {
        return;
    }
    let (mut forwarder, mut stack) = (forwarder(), stack());
    let known = [Shape {
        ipv6: false,
        tcp: true,
    }];
    let ids = ["10.0.0.1:5000", "[fd00::1]:5000", "10.0.0.1:5001"]
        .map(|client| restore(&mut forwarder, client, State::Established));
    let mut before = Table::new(100, &known, KEY).unwrap();
    for id in ids {
        before.follow(now(), &mut forwarder, &mut stack, id);
    }
    let have = |table: &Table| ids.map(|id| table.seen(now(), id).is_some());
    assert_eq!(have(&before), [true, false, true]);
    assert_eq!((before.begun, before.refused), (2, 1));
    before.tallies.total[0].packets = 9;
    let mut table = table(&forwarder);
    for id in ids {
        table.follow(now(), &mut forwarder, &mut stack, id);
    }
    table.go_on_from(&before);
    assert_eq!(have(&table), [true; 3]);
    assert_eq!((table.begun, table.refused), (3, 1), "none has begun twice");
    assert_eq!(table.tallies.total[0].packets, 9);
}

/// What was written where.
#[derive(Default)]
struct Written(RefCell<Vec<(u32, Option<Mac>)>>);

impl Addresses for Written {
    fn set(&self, hop: u32, mac: Option<Mac>) {
        self.0.borrow_mut().push((hop, mac));
    }
}

impl Written {
    fn take(&self) -> Vec<(u32, Option<Mac>)> {
        self.0.take()
    }
}

/// A neighbour is one hop for all flows to him; a new link address of his is written once.
#[test]
fn hops_follow_neighbours() {
    let (mut stack, mut hops, out) = (stack(), Hops::default(), Written::default());
    let server: IpAddr = "10.0.0.11".parse().unwrap();
    let take = |hops: &mut Hops, stack: &mut Stack, to| hops.take(now(), stack, &out, to);
    let hop = take(&mut hops, &mut stack, server).unwrap();
    assert_eq!(take(&mut hops, &mut stack, server), Some(hop));
    assert_eq!(out.take(), [(hop, None)], "he is asked for");
    hops.refresh(now(), &mut stack, &out);
    out.take();
    for mac in [SERVER_MAC, Mac([2, 0, 0, 0, 0, 12])] {
        stack.set_neighbor(now(), server, mac);
        hops.refresh(now(), &mut stack, &out);
        hops.refresh(now(), &mut stack, &out);
        assert_eq!(out.take(), [(hop, Some(mac))]);
    }
    hops.give(&out, hop);
    assert_eq!(out.take(), [], "another flow names it");
    hops.give(&out, hop);
    assert_eq!(out.take(), [(hop, None)]);
    // Nobody leads there.
    let nowhere = "192.0.2.1".parse().unwrap();
    assert_eq!(take(&mut hops, &mut stack, nowhere), None);
}

/// Numbers are given out again as late as can be, and no more than there are.
#[test]
fn hops_are_bounded() {
    let mut config = Config::new(MAC, 1500);
    config.neighbors = Neighbors::External;
    config.addresses = vec![("10.0.0.20".parse().unwrap(), 8)];
    let mut stack = Stack::new(config, 1, now()).unwrap();
    let (mut hops, out) = (Hops::default(), Written::default());
    let host = |n: u32| IpAddr::from((0x0a01_0000 + n).to_be_bytes());
    let mut take = |hops: &mut Hops, n| hops.take(now(), &mut stack, &out, host(n));
    for n in 0..KERNEL_HOPS_MAX {
        assert_eq!(take(&mut hops, n), Some(n));
    }
    assert_eq!(take(&mut hops, KERNEL_HOPS_MAX), None);
    hops.give(&out, 7);
    hops.give(&out, 5);
    let next = [1, 2, 3].map(|n| take(&mut hops, KERNEL_HOPS_MAX + n));
    assert_eq!(next, [Some(7), Some(5), None]);
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
