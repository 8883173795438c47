//! What servers have to be set to, by how they are reached.

use super::*;

/// What servers are set to.
pub fn set_up_server(config: &mut Config, reach: Reach) {
    for ipv6 in [false, true] {
        let whole = if ipv6 { 128 } else { 32 };
        match reach {
            Reach::Nat => {}
            Reach::Transparent => config.routes.push(RouteTo {
                network: address(CLIENT, ipv6),
                prefix: whole,
                gateway: Some(address(FORWARDER, ipv6)),
            }),
            Reach::Direct | Reach::Tunnel => {
                config.addresses.push((address(FORWARDER, ipv6), whole));
            }
        }
    }
}

/// What is in another packet comes out of it, as a tunnel's end has it.
pub fn unwrap(frame: &mut Vec<u8>) {
    let around = match (frame[12], frame[14 + 9], frame[14 + 6]) {
        (8, 4, _) => 20,
        (0x86, _, 41) => 40,
        _ => return,
    };
    frame.drain(14..14 + around);
}

/// Servers that have the listener's address too must not say so to neighbours: here nobody says anything, and each is told.
pub fn set_neighbors(now: Instant, stack: &mut Stack, reach: Reach) {
    let places = (0..4).filter(|_| !reach.hears_servers());
    for (place, ipv6) in places.flat_map(|place| [(place, false), (place, true)]) {
        stack.set_neighbor(now, address(place, ipv6), mac(place));
    }
}
