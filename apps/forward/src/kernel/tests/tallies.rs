//! What the kernel has forwarded, told once and to whom it belongs.

use super::*;

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
        let of_server = services.servers[place].traffic;
        assert_eq!(services.listeners[place].traffic, of_server);
        [
            of_server.packets_to_servers,
            of_server.bytes_to_servers,
            of_server.packets_to_clients,
            of_server.bytes_to_clients,
        ]
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
