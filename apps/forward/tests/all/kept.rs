//! Flows that outlive their forwarder: what is kept of them, and what a successor does with it.

use crate::common;

use std::net::SocketAddr;

use common::steps::*;
use exos_forward::flow::Class;
use exos_forward::forwarder::Forwarder;
use exos_forward::kept::{self, KeptFlow, RECORD_LEN, RECORDS_AT, Unreadable};
use exos_forward::packets::packet::Transport;
use exos_forward::packets::reach::Reach;
use exos_forward::service::{Listen, Services};
use exos_testing::Random;

/// A file as the keeper writes it, in memory.
struct Kept {
    bytes: Vec<u8>,
}

impl Kept {
    fn of(forwarder: &mut Forwarder) -> Self {
        forwarder.watch();
        let places = forwarder.flows().capacity();
        let mut bytes = kept::fixed(places).to_vec();
        bytes.resize(RECORDS_AT + places as usize * RECORD_LEN, 0);
        let mut kept = Self { bytes };
        kept.keep_names(forwarder);
        kept
    }

    fn keep_names(&mut self, forwarder: &Forwarder) {
        for (at, names) in kept::names(forwarder.services()) {
            self.bytes[at..at + names.len()].copy_from_slice(&names);
        }
    }

    fn keep(&mut self, forwarder: &mut Forwarder) {
        while let Some(id) = forwarder.poll_changed() {
            let flow = forwarder.flows().get(id);
            let place = forwarder.flows().ids().position(|other| other == id);
            // Ids are places; of those that are there this one is at least so far on.
            assert_eq!(place.is_some(), flow.is_there);
            let at = RECORDS_AT + id.place() * RECORD_LEN;
            self.bytes[at..at + RECORD_LEN].copy_from_slice(&kept::record(flow));
        }
    }

    fn flows(&self) -> Vec<KeptFlow> {
        kept::read(&self.bytes).unwrap()
    }
}

fn restored(forwarder: &mut Forwarder, kept: &Kept) -> usize {
    let flows = kept.flows();
    let restore = |flow: &&KeptFlow| forwarder.restore(START, flow);
    flows.iter().filter(restore).count()
}

/// Its connections go on, both ways, with the same ports; one whose handshake was under way comes to stand; what is over is
/// not there; and so it is when listeners and servers are named in another order.
#[test]
fn a_successor_goes_on() {
    let mut first = forwarder(100);
    let mut kept = Kept::of(&mut first);
    let mut standing = Vec::new();
    for (from, vip, server) in [(CLIENT, VIP, SERVER), (CLIENT6, VIP6, SERVER6)] {
        let ours = open(&mut first, START, at(from), vip);
        standing.push((at(from), at(vip), ours, at(server)));
        kept.keep(&mut first);
        give(&mut first, START, udp(from, at(vip), vec![1])).unwrap();
    }
    for n in 0..20 {
        let ours = open(&mut first, START, client(n), VIP);
        for (src, dst) in [(client(n), at(VIP)), (at(SERVER), ours)] {
            give(&mut first, START, tcp(src, dst, FIN | ACK, ISN + 1)).unwrap();
        }
    }
    kept.keep(&mut first);
    let half = client(30);
    let syn = give(&mut first, START, tcp(half, at(VIP), SYN, 0)).unwrap();
    let half_ours = ends_of(&syn).0;
    give(
        &mut first,
        START,
        tcp(at(SERVER), half_ours, SYN | ACK, 101),
    )
    .unwrap();
    kept.keep(&mut first);
    drop(first);

    let mut wanted = wanted();
    wanted.reverse();
    let services = Services::new(&wanted).unwrap();
    let mut second = Forwarder::new(services, MAC, 50, 2);
    assert_eq!(restored(&mut second, &kept), 25);
    assert_eq!(second.flows().count(Class::Established), 2);
    for (client, vip, ours, server) in standing {
        let onward = give(&mut second, START, tcp(client, vip, ACK, ISN + 1)).unwrap();
        assert_eq!(ends_of(&onward), (ours, server));
        let back = give(&mut second, START, tcp(server, ours, ACK, 101)).unwrap();
        assert_eq!(ends_of(&back), (vip, client));
    }
    give(&mut second, START, tcp(half, at(VIP), ACK, ISN + 1)).unwrap();
    assert_eq!(second.flows().count(Class::Established), 3);
    assert_eq!(
        (
            second.counters().flows_begun,
            second.counters().flows_restored
        ),
        (0, 25)
    );
    assert_eq!(restored(&mut second, &kept), 0, "nothing is restored twice");
}

/// Flows that end are not in the file any more.
#[test]
fn what_has_ended_is_not_kept() {
    let mut first = forwarder(8);
    let mut kept = Kept::of(&mut first);
    for n in 0..1000 {
        give(&mut first, START, tcp(client(n), at(VIP), SYN, 0)).unwrap();
        kept.keep(&mut first);
    }
    let clients: Vec<SocketAddr> = kept.flows().iter().map(|f| f.client.into()).collect();
    assert_eq!(clients.len(), 2, "a quarter of the table");
    assert!(clients.contains(&client(999)) && clients.contains(&client(998)));
}

/// Of a server or listener that is no longer named nothing goes on.
#[test]
fn who_is_gone_is_gone() {
    let mut first = forwarder(8);
    let mut kept = Kept::of(&mut first);
    open(&mut first, START, at(CLIENT), VIP);
    kept.keep(&mut first);
    let only = |vip: &str, server: &str| {
        let listen = Listen {
            transport: Transport::Tcp,
            at: at(vip),
            reach: Reach::Nat,
            to: vec![(at(server), 1, at(VIP).ip())],
        };
        Forwarder::new(Services::new(&[listen]).unwrap(), MAC, 8, 1)
    };
    assert_eq!(restored(&mut only(VIP, "10.0.0.12:8080"), &kept), 0);
    assert_eq!(restored(&mut only("10.0.0.20:81", SERVER), &kept), 0);
    assert_eq!(restored(&mut only(VIP, SERVER), &kept), 1);
}

/// A server that comes while others run is named in the place of one that has gone, and what is kept is of the right one.
#[test]
fn names_follow_servers_that_come_and_go() {
    let mut first = forwarder(8);
    let mut kept = Kept::of(&mut first);
    let ours = at(VIP).ip();
    let other = "10.0.0.12:8080";
    let services = first.services_mut();
    services.remove_server(0, at(SERVER)).unwrap();
    services.add_server(0, at(other), 1, ours).unwrap();
    assert_eq!(services.servers.len(), 4, "in the same place");
    kept.keep_names(&first);
    open_at(&mut first, at(CLIENT), at(other));
    kept.keep(&mut first);
    let servers: Vec<SocketAddr> = kept.flows().iter().map(|f| f.server.into()).collect();
    assert_eq!(servers, [at(other)]);
}

/// A SYN of this client, which goes to this server.
fn open_at(forwarder: &mut Forwarder, client: SocketAddr, server: SocketAddr) {
    let syn = give(forwarder, START, tcp(client, at(VIP), SYN, 0)).unwrap();
    assert_eq!(ends_of(&syn).1, server);
}

#[test]
fn files_of_others_are_named_as_such() {
    let good = Kept::of(&mut forwarder(4)).bytes;
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        kept::read(&bytes)
    };
    assert_eq!(kept::read(b""), Err(Unreadable::Strange));
    assert_eq!(kept::read(&[b'x'; 5000]), Err(Unreadable::Strange));
    assert_eq!(with(8, 1), Err(Unreadable::Version(1)));
    assert_eq!(
        with(15, 255),
        Err(Unreadable::Damaged),
        "more places than any table"
    );
    assert_eq!(kept::read(&good[..100]), Err(Unreadable::Damaged));
    let short = &good[..RECORDS_AT - 1];
    assert_eq!(kept::read(short), Err(Unreadable::Damaged));
    assert_eq!(kept::read(&good), Ok(vec![]));
}

/// Damaged files bring flows or none, and a forwarder that has taken them works.
#[test]
fn damage_does_no_harm() {
    let mut first = forwarder(60);
    let mut kept = Kept::of(&mut first);
    for n in 0..40 {
        open(&mut first, START, client(n), VIP);
    }
    kept.keep(&mut first);
    let named = kept::names(first.services()).map(|(at, names)| at..at + names.len());
    let mut taken = 0;
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut bytes = kept.bytes.clone();
        for _ in 0..20 {
            let place = match random.below(40) {
                0 => 0..16,
                1 => named[0].clone(),
                2 => named[1].clone(),
                _ => RECORDS_AT..RECORDS_AT + 40 * RECORD_LEN,
            };
            let at = place.start + random.below(place.len());
            bytes[at] = random.byte();
        }
        let Ok(flows) = kept::read(&bytes) else {
            continue;
        };
        let mut second = forwarder(60);
        taken += flows
            .iter()
            .filter(|flow| second.restore(START, flow))
            .count();
        for n in 0..50 {
            let syn = tcp(client(n), at(VIP), SYN, 0);
            assert!(give(&mut second, START, syn).is_ok(), "seed {seed}");
        }
    }
    assert!(taken > 2000, "most are still read: {taken}");
}

/// Flows go on by the reach that they had, and not by another.
#[test]
fn a_flow_keeps_its_reach() {
    let reaches = Reach::ALL;
    for reach in reaches {
        let mut first = forwarder_by(reach, 10);
        let mut kept = Kept::of(&mut first);
        for (n, flags) in [SYN, ACK].into_iter().enumerate() {
            give_any(&mut first, START, tcp(at(CLIENT), at(VIP), flags, ISN + 1)).unwrap();
            if n == 0 && reach.hears_servers() {
                let to = match reach {
                    Reach::Nat => SocketAddr::new(at(VIP).ip(), at(CLIENT).port()),
                    _ => at(CLIENT),
                };
                give(&mut first, START, tcp(at(SERVER), to, SYN | ACK, 101)).unwrap();
            }
        }
        kept.keep(&mut first);
        for other in reaches {
            let mut second = forwarder_by(other, 10);
            assert_eq!(restored(&mut second, &kept), usize::from(other == reach));
            if other != reach {
                continue;
            }
            let segment = tcp(at(CLIENT), at(VIP), ACK, ISN + 1);
            let before = give_any(&mut first, START, segment.clone()).unwrap();
            assert_eq!(give_any(&mut second, START, segment).unwrap(), before);
            assert_eq!(second.counters().forwarded_without_flow, 0);
            if reach == Reach::Transparent {
                let back = give(&mut second, START, tcp(at(SERVER), at(CLIENT), ACK, 101));
                assert_eq!(ends_of(&back.unwrap()), (at(VIP), at(CLIENT)));
            }
        }
    }
}
