//! Records come back as they were written, and never half.

use std::net::Ipv6Addr;
use std::sync::atomic::AtomicBool;

use exos_wire::Mac;
use proptest::prelude::*;

use super::rows::HEADER_WORDS;
use super::*;
use crate::claim::{Claim, Endpoint, Protocol};
use crate::limits::{SLOTS_MAX, TABLE_COUNTERS};

fn memory() -> Vec<AtomicU64> {
    (0..WORDS).map(|_| AtomicU64::new(0)).collect()
}

fn v4(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn v6(n: u128) -> IpAddr {
    IpAddr::from(Ipv6Addr::from(0x2001_0db8 << 96 | n))
}

fn neighbour(ip: IpAddr, confirmed_ns: u64) -> Neighbour {
    Neighbour {
        interface: 3,
        ip,
        mac: Mac([2, 0, 0, 0, 0, 1]),
        state: NeighbourState::Reachable,
        confirmed_ns,
    }
}

#[test]
fn every_table_gives_back_what_was_put_in() {
    let memory = memory();
    let writer = TablesWriter::new(&memory, 42);
    let tables = Tables::new(&memory).expect("they are tables");
    let interface = Interface {
        index: 3,
        name: "enp1s0f0np0abcd".to_owned(),
        mac: Mac([2, 1, 2, 3, 4, 5]),
        mtu: 9000,
        running: true,
    };
    let address = Address {
        interface: 3,
        ip: v6(7),
        prefix: 64,
        ours_alone: true,
    };
    let route = Route {
        interface: 3,
        destination: v4(0),
        prefix: 24,
        gateway: Some(v4(1)),
    };
    let slot = Slot {
        number: 255,
        pid: 4711,
        uid: 1000,
        interface: 3,
        direct: false,
        weight: 2,
        grants: 1,
        since_ns: 5,
        program: "sixteen-bytes-ok".to_owned(),
        counters: std::array::from_fn(|i| i as u64),
    };
    let claim = Claim {
        interface: 3,
        protocol: Protocol::Tcp,
        local: v4(7),
        port: 65_535,
        remote: Some(Endpoint {
            ip: v4(9),
            port: 80,
        }),
    };
    let grant = Grant {
        id: 9,
        slot: 255,
        holders: 2,
        claim,
    };
    writer.set(15, Some(&interface));
    writer.set(0, Some(&address));
    writer.set(127, Some(&route));
    writer.set(255, Some(&slot));
    writer.set(Grant::ROWS - 1, Some(&grant));
    writer.set_neighbour(&neighbour(v4(9), 1));
    assert_eq!(tables.daemon(), 42);
    assert!(tables.interfaces().eq([interface]));
    assert!(tables.addresses().eq([address]));
    assert!(tables.routes().eq([route]));
    assert_eq!(tables.slot(255), Some(slot));
    assert_eq!(tables.slot(SLOTS_MAX as u32), None);
    assert!(tables.grants().eq([grant]));
    assert!(tables.neighbours().eq([neighbour(v4(9), 1)]));
    writer.set::<Grant>(Grant::ROWS - 1, None);
    assert_eq!(tables.grants().count(), 0);
}

#[test]
fn the_longest_prefix_is_the_route() {
    let memory = memory();
    let writer = TablesWriter::new(&memory, 1);
    let route = |destination, prefix, gateway| Route {
        interface: 3,
        destination,
        prefix,
        gateway,
    };
    let default = route(v4(0), 0, Some(v4(1)));
    let link = route(v4(0), 24, None);
    let default6 = route(v6(0), 0, Some(v6(1)));
    let link6 = route(v6(0), 64, None);
    writer.replace(&[default, link, default6, link6]);
    let tables = writer.tables();
    assert_eq!(tables.route(3, v4(9)), Some(link));
    assert_eq!(tables.route(3, IpAddr::from([8, 8, 8, 8])), Some(default));
    assert_eq!(tables.route(3, v6(9)), Some(link6));
    assert_eq!(tables.route(3, v6(1 << 64)), Some(default6));
    assert_eq!(tables.route(4, v4(9)), None);
    assert_eq!(writer.replace(&[link]), 0);
    assert!(tables.routes().eq([link]));
}

#[test]
fn memory_that_is_no_tables_is_refused() {
    let memory = memory();
    assert!(matches!(Tables::new(&memory), Err(BadTables::NotTables)));
    assert!(matches!(Tables::new(&[]), Err(BadTables::NotTables)));
    let _ = TablesWriter::new(&memory, 1);
    assert!(matches!(
        Tables::new(&memory[..WORDS - 1]),
        Err(BadTables::TooShort)
    ));
    memory[1].store(9, Ordering::Relaxed);
    assert!(matches!(
        Tables::new(&memory),
        Err(BadTables::OtherLayout(9))
    ));
}

#[test]
fn a_record_whose_writer_died_is_absent_until_the_next_writer() {
    let memory = memory();
    let writer = TablesWriter::new(&memory, 1);
    writer.set_neighbour(&neighbour(v4(9), 1));
    let at = (0..Neighbour::ROWS)
        .find(|at| read::<Neighbour>(&memory, *at).is_some())
        .expect("it stands somewhere");
    memory[Neighbour::AT + at * Neighbour::WORDS].fetch_add(1, Ordering::Relaxed);
    assert_eq!(writer.tables().neighbour(3, v4(9)), None);
    writer.set(at, Some(&neighbour(v4(9), 2)));
    assert_eq!(
        writer.tables().neighbour(3, v4(9)),
        Some(neighbour(v4(9), 2))
    );
}

#[test]
fn the_neighbour_confirmed_longest_ago_makes_room() {
    let memory = memory();
    let writer = TablesWriter::new(&memory, 1);
    let first = |n: u128| places(3, v6(n)).next();
    let crowd: Vec<_> = (0_u128..)
        .filter(|n| first(*n) == first(0))
        .take(TABLE_NEIGHBOUR_PROBES + 1)
        .collect();
    for (age, n) in crowd.iter().enumerate() {
        assert!(writer.set_neighbour(&neighbour(v6(*n), age as u64)));
    }
    let known = |n: u128| writer.tables().neighbour(3, v6(n)).is_some();
    assert!(!known(crowd[0]));
    assert!(crowd[1..].iter().all(|n| known(*n)));
    assert!(!writer.set_neighbour(&neighbour(v6(crowd[1]), 99)));
    assert!(writer.remove_neighbour(3, v6(crowd[1])) && !known(crowd[1]));
    assert!(!writer.remove_neighbour(3, v6(crowd[1])));
}

/// A record all of whose fields follow from one number: a mixture of two shows.
fn whole(n: u64) -> Slot {
    Slot {
        number: 7,
        pid: n as u32,
        uid: n as u32,
        interface: n as u32,
        direct: n & 1 == 1,
        weight: n as u32,
        grants: n as u32,
        since_ns: n,
        program: format!("{n}"),
        counters: [n; TABLE_COUNTERS],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_reader_beside_a_writer_never_sees_a_mixture(seed in 1..1_000_000_u64) {
        let memory = memory();
        let writer = TablesWriter::new(&memory, 1);
        let tables = writer.tables();
        let over = AtomicBool::new(false);
        let (over, writer) = (&over, &writer);
        let (seen, last) = std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in seed..seed + 20_000 {
                    writer.set(7, Some(&whole(n)));
                }
                over.store(true, Ordering::Release);
            });
            let (mut seen, mut last) = (0, 0);
            while !over.load(Ordering::Acquire) {
                if let Some(slot) = tables.slot(7) {
                    assert_eq!(slot, whole(slot.since_ns));
                    assert!(slot.since_ns >= last, "time went backwards");
                    last = slot.since_ns;
                    seen += 1;
                }
            }
            (seen, last)
        });
        prop_assert!(last < seed + 20_000);
        prop_assert_eq!(tables.slot(7), Some(whole(seed + 19_999)));
        let _ = seen; // With one core the writer may be done before the reader starts.
    }

    #[test]
    fn any_memory_can_be_read(words in proptest::collection::vec(any::<u64>(), 64), stride in 1..9_usize) {
        let memory = memory();
        let _ = TablesWriter::new(&memory, 1);
        for (at, word) in memory[HEADER_WORDS..].iter().step_by(stride).enumerate() {
            word.store(words[at % words.len()] & !u64::from(at % 7 == 0), Ordering::Relaxed);
        }
        let tables = Tables::new(&memory).expect("they are tables");
        let some = tables.interfaces().count() + tables.addresses().count() + tables.slots().take(9).count();
        prop_assert!(some <= 16 + 256 + 9);
        let _ = tables.neighbour(3, v4(1));
        prop_assert!(tables.route(3, v4(1)).is_none_or(|route| route.contains(v4(1))));
    }
}

/// Addresses with the same places as this one, beside it.
fn colliding(ip: IpAddr) -> impl Iterator<Item = IpAddr> {
    let first = move |ip| places(3, ip).next();
    (1_u128..)
        .map(v6)
        .filter(move |other| *other != ip && first(*other) == first(ip))
}

#[test]
fn addresses_at_which_nobody_is_take_no_neighbours_place() {
    let memory = memory();
    let writer = TablesWriter::new(&memory, 1);
    let gateway = Neighbour {
        state: NeighbourState::Stale,
        ..neighbour(v6(0), 1)
    };
    writer.set_neighbour(&gateway);
    let rubbish = |(n, ip): (usize, IpAddr), state| Neighbour {
        state,
        ..neighbour(ip, 2 + n as u64)
    };
    let many = || {
        colliding(gateway.ip)
            .take(3 * TABLE_NEIGHBOUR_PROBES)
            .enumerate()
    };
    for state in [NeighbourState::Incomplete, NeighbourState::Failed] {
        for one in many() {
            writer.set_neighbour(&rubbish(one, state));
            assert_eq!(writer.tables().neighbour(3, gateway.ip), Some(gateway));
        }
    }
    // Neighbours that are there take the places of those that are not.
    for one in many().take(TABLE_NEIGHBOUR_PROBES - 1) {
        assert!(writer.set_neighbour(&rubbish(one, NeighbourState::Reachable)));
    }
    // All places are neighbours' now.
    let absent = many().last().expect("many");
    assert!(!writer.set_neighbour(&rubbish(absent, NeighbourState::Incomplete)));
    assert_eq!(writer.tables().neighbour(3, absent.1), None);
    assert_eq!(writer.tables().neighbour(3, gateway.ip), Some(gateway));
    // Anyone who is known to be gone makes room for anyone who is asked for.
    let gone = Neighbour {
        state: NeighbourState::Failed,
        ..gateway
    };
    assert!(writer.set_neighbour(&gone));
    assert!(writer.set_neighbour(&rubbish(absent, NeighbourState::Incomplete)));
    assert_eq!(writer.tables().neighbour(3, gateway.ip), None);
}

/// Neighbours of whole prefixes, which differ in their last bits: all of them are known, in whatever order they come, and as
/// whatever they are known.
#[test]
fn all_neighbours_of_a_prefix_find_places() {
    let v4 = |n: u32| IpAddr::from((0x0a4d_0000 + n).to_be_bytes());
    let v6 = |n: u32| IpAddr::from((0xfd77_u128 << 112 | u128::from(n)).to_be_bytes());
    let prefixes: [&dyn Fn(u32) -> IpAddr; 2] = [&v4, &v6];
    for (prefix, count) in prefixes
        .into_iter()
        .zip([254, 1022])
        .chain(prefixes.into_iter().zip([1022, 254]))
    {
        // 389 has no factor in common with either count.
        for step in [1, 389] {
            let memory = memory();
            let writer = TablesWriter::new(&memory, 1);
            for n in 0..count {
                let ip = prefix(1 + n * step % count);
                let state = [NeighbourState::Stale, NeighbourState::Reachable][n as usize % 2];
                assert!(writer.set_neighbour(&Neighbour {
                    state,
                    ..neighbour(ip, u64::from(n))
                }));
            }
            let known = (1..=count).filter(|n| writer.tables().neighbour(3, prefix(*n)).is_some());
            assert_eq!(known.count(), count as usize, "of {} by {step}", prefix(0));
        }
    }
}

/// A neighbour that has just been heard of is not kept out by neighbours who were certain long ago.
#[test]
fn whoever_is_heard_of_finds_a_place_among_the_reachable() {
    let memory = memory();
    let writer = TablesWriter::new(&memory, 1);
    let places = colliding(v6(0)).take(TABLE_NEIGHBOUR_PROBES);
    for (age, ip) in places.enumerate() {
        writer.set_neighbour(&neighbour(ip, age as u64));
    }
    let heard = Neighbour {
        state: NeighbourState::Stale,
        ..neighbour(v6(0), 99)
    };
    assert!(writer.set_neighbour(&heard));
    assert_eq!(writer.tables().neighbour(3, heard.ip), Some(heard));
    let oldest = colliding(v6(0)).next().expect("many");
    assert_eq!(writer.tables().neighbour(3, oldest), None);
}
