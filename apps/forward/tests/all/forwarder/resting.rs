//! Servers that rest because of how their flows begin: who rests, who does not, and who is woken.

use exos_forward::health::passive;
use exos_forward::health::{Failure, Outcome};
use exos_forward::service::Balance;
use exos_inet::Instant;

use super::forged::{TWO, service};
use super::*;

/// A server rests after five failures.
fn resting_forwarder() -> Forwarder {
    let mut forwarder = service(Transport::Tcp, 80, &TWO);
    let rule = passive::Rule {
        failures: 5,
        window: secs(10),
        rest: secs(10),
    };
    forwarder.services_mut().set_passive(Some(rule));
    forwarder
}

/// Clients of the first server, found as anybody can.
fn clients_of_first(count: usize) -> Vec<SocketAddr> {
    let mut probe = resting_forwarder();
    let is_its = |client: &SocketAddr| {
        let syn = give(&mut probe, START, tcp(*client, at(VIP), SYN, 0)).unwrap();
        ends_of(&syn).1 == at(TWO[0])
    };
    (5000..).map(client).filter(is_its).take(count).collect()
}

/// SYNs that the server discards, sent twice, while it answers everybody else; and one that the network has doubled.
#[test]
fn who_answers_others_does_not_rest() {
    let mut forwarder = resting_forwarder();
    let forged = clients_of_first(20);
    let is_resting = |f: &Forwarder| f.services().servers.iter().any(|s| s.health.is_resting());
    for client in &forged {
        give(&mut forwarder, START, tcp(*client, at(VIP), SYN, 0)).unwrap();
    }
    for n in 0..100 {
        open_any(
            &mut forwarder,
            START + Duration::from_millis(20 * n),
            client(n as u32),
        );
    }
    for client in &forged {
        give(
            &mut forwarder,
            START + secs(2),
            tcp(*client, at(VIP), SYN, 0),
        )
        .unwrap();
    }
    assert!(!is_resting(&forwarder));
    let mut forwarder = resting_forwarder();
    for client in &forged {
        let edge = START + Duration::from_millis(999);
        for millis in [0, 2] {
            let syn = tcp(*client, at(VIP), SYN, 0);
            give(&mut forwarder, edge + Duration::from_millis(millis), syn).unwrap();
        }
    }
    assert!(!is_resting(&forwarder), "copies");
    // One client that asks and asks counts once.
    for second in 3..20 {
        let syn = tcp(forged[0], at(VIP), SYN, 0);
        give(&mut forwarder, START + secs(second), syn).unwrap();
    }
    assert!(!is_resting(&forwarder), "one client");
    for client in &forged[1..] {
        let _ = give(
            &mut forwarder,
            START + secs(20),
            tcp(*client, at(VIP), SYN, 0),
        );
    }
    assert!(is_resting(&forwarder), "nobody is answered");
}

/// A handshake with whichever server.
fn open_any(forwarder: &mut Forwarder, now: Instant, client: SocketAddr) {
    let syn = give(forwarder, now, tcp(client, at(VIP), SYN, 0)).unwrap();
    let (ours, server) = ends_of(&syn);
    give(forwarder, now, tcp(server, ours, SYN | ACK, 101)).unwrap();
    give(forwarder, now, tcp(client, at(VIP), ACK, ISN + 1)).unwrap();
}

/// A server rests, and then the other one fails its checks, is drained, has no weight any more or is taken away: who rested is
/// asked again, since nobody else is there.
#[test]
fn the_last_one_does_not_rest() {
    let failed = Outcome {
        server: 1,
        result: Err(Failure::Refused),
        is_well: Some(false),
    };
    let other = at(TWO[1]);
    let ways: [&dyn Fn(&mut Services); 4] = [
        &|services| services.checked(&failed),
        &|services| services.set_draining(0, other, true).unwrap(),
        &|services| services.set_weight(0, other, 0).unwrap(),
        &|services| {
            services.remove_server(0, other).unwrap();
        },
    ];
    for balance in [Balance::Maglev, Balance::Least] {
        for (n, way) in ways.iter().enumerate() {
            let mut forwarder = resting_forwarder();
            for client in clients_of_first(5) {
                for second in [0, 3] {
                    let syn = tcp(client, at(VIP), SYN, 0);
                    let _ = give(&mut forwarder, START + secs(second), syn);
                }
            }
            let rests = |f: &Forwarder| f.services().servers[0].health.is_resting();
            forwarder.services_mut().set_balance(balance);
            let now = START + secs(4);
            settle_at(&mut forwarder, now);
            assert!(rests(&forwarder), "there is another");
            way(forwarder.services_mut());
            settle_at(&mut forwarder, now);
            assert!(!rests(&forwarder), "{balance:?}, way {n}");
            let syn = give(&mut forwarder, now, tcp(client(3), at(VIP), SYN, 0)).unwrap();
            assert_eq!(ends_of(&syn).1, at(TWO[0]), "{balance:?}, way {n}");
        }
    }
}

/// All that follows from a change.
fn settle_at(forwarder: &mut Forwarder, now: Instant) {
    while forwarder.poll_timeout() == Some(Instant::START) {
        forwarder.handle_timeout(now);
    }
}
