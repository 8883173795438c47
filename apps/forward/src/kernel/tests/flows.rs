//! Which flows the kernel has, for how long, and what is left of one that it has not.

use strum::VariantArray as _;

use super::*;

/// The kernel has the flows that stand, and no others, whatever becomes of them.
#[test]
fn flows_are_in_the_kernel_while_they_stand() {
    if !allowed("flows_are_in_the_kernel_while_they_stand") {
        return;
    }
    let (mut forwarder, mut stack) = (forwarder(), stack());
    let mut table = table(&forwarder);
    for (n, &state) in State::VARIANTS.iter().enumerate() {
        if state.transport() != Transport::Tcp || !state.is_of(Reach::Nat) {
            continue;
        }
        for client in [
            format!("10.0.0.1:{}", 2000 + n),
            format!("[fd00::1]:{}", 2000 + n),
        ] {
            let id = restore(&mut forwarder, &client, state);
            table.follow(now(), &mut forwarder, &mut [&mut stack], id);
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
        table.follow(late, &mut forwarder, &mut [&mut stack], id);
    }
    table.follow(late, &mut forwarder, &mut [&mut stack], again);
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
        table.follow(now(), &mut forwarder, &mut [&mut stack], id);
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
        table.follow(now(), &mut forwarder, &mut [&mut stack], id);
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
        table.follow(now(), &mut forwarder, &mut [&mut stack], id);
    }
    assert_eq!((table.count, table.tallies.users()), (2, 2));
    assert!(!table.hops_are_free());
    forwarder.handle_timeout(now() + ESTABLISHED_TIME + Duration::from_secs(2));
    for id in ids {
        table.follow(now(), &mut forwarder, &mut [&mut stack], id);
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
        before.follow(now(), &mut forwarder, &mut [&mut stack], id);
    }
    let have = |table: &Table| ids.map(|id| table.seen(now(), id).is_some());
    assert_eq!(have(&before), [true, false, true]);
    assert_eq!((before.begun, before.refused), (2, 1));
    before.tallies.total[0].packets = 9;
    let mut table = table(&forwarder);
    for id in ids {
        table.follow(now(), &mut forwarder, &mut [&mut stack], id);
    }
    table.go_on_from(&before);
    assert_eq!(have(&table), [true; 3]);
    assert_eq!((table.begun, table.refused), (3, 1), "none has begun twice");
    assert_eq!(table.tallies.total[0].packets, 9);
}

/// Writes to the memory as another program may that has it: at places of flows where numbers, pairs and hops are, or anywhere.
fn write_anything(table: &Table, random: &mut exos_testing::Random) {
    let records = table.maps.records.words();
    let stride = records.len() / 100;
    for _ in 0..random.below(60) {
        let word = &records[random.below(40) * stride + random.below(4)];
        // Another number or hop that there may be, and whether there is a flow.
        word.fetch_xor(random.next() & 0x0000_0003_0000_0003, Ordering::Relaxed);
        let words = match random.one_in(2) {
            true => records,
            false => table.maps.index.words(),
        };
        let word = &words[random.below(words.len())];
        word.fetch_xor(random.next() & random.next(), Ordering::Relaxed);
    }
}

/// Whatever another program that may has written to the memory, the forwarder goes on with its own table.
#[test]
fn memory_that_others_have_written() {
    if !allowed("memory_that_others_have_written") {
        return;
    }
    let mut random = exos_testing::Random(7);
    for _ in 0..300 {
        let (mut forwarder, mut stack) = (forwarder(), stack());
        let mut table = table(&forwarder);
        for round in 0..3u32 {
            for port in 2000..2020u32 {
                let client = format!("10.0.0.{}:{}", 1 + port % 3, port + round);
                let id = restore(&mut forwarder, &client, State::Established);
                table.follow(now(), &mut forwarder, &mut [&mut stack], id);
            }
            write_anything(&table, &mut random);
            assert!(table.sweep(now(), &mut forwarder));
            table.read_tallies(&mut forwarder);
            let late = now() + (ESTABLISHED_TIME + Duration::from_secs(30)) * (round + 1);
            forwarder.handle_timeout(late);
            assert!(forwarder.flows().is_empty());
            while let Some(id) = forwarder.poll_changed() {
                table.follow(late, &mut forwarder, &mut [&mut stack], id);
                write_anything(&table, &mut random);
                table.follow(late, &mut forwarder, &mut [&mut stack], id);
            }
        }
    }
}
