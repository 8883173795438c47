//! One of two servers dies while clients come: it refuses, or says nothing any more. Each client is served all the same.

use super::*;
use exos_forward::health::passive;

/// How a server dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    /// Its program: the host answers with resets.
    Program,
    /// The whole host.
    Host,
}

/// Clients come one after the other while the first server is there, and as many when it is not any more.
fn clients_come(reach: Reach, seed: u64, lost: u64, death: Death, rests: bool) -> Network {
    const CLIENTS: usize = 30;
    let mut network = Network::by(reach, seed, lost);
    if rests {
        let (window, rest) = (Duration::from_secs(10), Duration::from_secs(10));
        let rule = passive::Rule {
            failures: 3,
            window,
            rest,
        };
        network.forwarder.services_mut().set_passive(Some(rule));
    }
    for dead in [false, true] {
        if dead && death == Death::Host {
            network.cut_off = Some(SERVERS[0]);
        } else if dead {
            let listener = network.listeners[0];
            network.stacks[SERVERS[0]].tcp.close_listener(listener);
        }
        let mut visits = Vec::new();
        let limit = network.now + Duration::from_secs(600);
        while visits.len() < CLIENTS || visits.iter().any(|v: &Visit| v.ended.is_none()) {
            if visits.len() < CLIENTS {
                let next = visit(&mut network, visits.len(), 1000);
                visits.push(next);
            }
            for _ in 0..100 {
                network.step();
                serve(&mut network);
                hear(&mut network, &mut visits);
            }
            assert!(network.now < limit, "seed {seed}: not all have ended");
        }
        for visit in &visits {
            assert_eq!(
                visit.ended,
                Some(Reason::Done),
                "seed {seed}, {reach:?}, {death:?}"
            );
            assert!(
                visit.heard == visit.question,
                "seed {seed}: other bytes came back"
            );
        }
    }
    network
}

#[test]
fn a_server_that_dies_costs_no_client() {
    for reach in [Reach::Nat, Reach::Transparent] {
        for (death, rests) in [
            (Death::Program, false),
            (Death::Program, true),
            (Death::Host, true),
        ] {
            let network = clients_come(reach, 21, 0, death, rests);
            let counters = network.forwarder.counters();
            assert!(counters.flows_moved > 0, "{reach:?}, {death:?}");
            assert_eq!(counters.refusals_withheld > 0, death == Death::Program);
            assert_eq!(network.stacks[CLIENT].counters().tcp_resets_sent, 0);
        }
    }
}

/// Nor where two of a hundred frames are lost each way, and some are doubled.
#[test]
fn nor_does_it_over_bad_wires() {
    for seed in 0..6 {
        for death in [Death::Program, Death::Host] {
            clients_come(Reach::Nat, seed, 20, death, seed % 2 == 0);
        }
    }
}
