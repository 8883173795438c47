//! A program that gives ports out by itself, as a client of the daemon: a daemon of the test's own hears what it asks for. Needs
//! root.

use crate::common;

use std::thread;
use std::time::Duration;

use common::*;
use exos::Exos;
use exos::via::{Protocol, SUCCESSOR_TIME_MAX};
use exos_xok::Claim;
use exos_xok::message::{Answer, GrantId, PortWish, Refusal, Request};

/// Has a program attach that claims nothing at the start; then the daemon's part and the program's.
fn with(lent: Lent, daemon: impl FnOnce(&Peer) + Send, program: impl FnOnce(&mut Exos)) {
    let (listener, wire) = (Listener::new(), Wire::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            let peer = listener.accept();
            let (_, _offer) = peer.lend(&lent, &wire);
            daemon(&peer);
        });
        let mut exos = Exos::attach(wanted(&listener, 0)).unwrap();
        program(&mut exos);
    });
}

/// Grants all ports of our address, which are asked for.
fn grant_all(peer: &Peer, grant: GrantId, protocol: Protocol) {
    peer.grant(grant, |request| {
        let asked = Request::Claim {
            protocol,
            local: Some(OURS.into()),
            port: PortWish::All,
            remote: None,
        };
        assert_eq!(*request, asked);
        Claim {
            interface: INTERFACE,
            protocol,
            local: OURS.into(),
            port: 0,
            remote: None,
        }
    });
}

/// One claim of each protocol, however often it is wanted.
#[test]
fn all_ports_of_an_address_are_claimed_once() {
    if skip_without_root("all_ports_of_an_address_are_claimed_once") {
        return;
    }
    let daemon = |peer: &Peer| {
        for (grant, wanted) in [(1, Protocol::Tcp), (2, Protocol::Udp), (3, Protocol::Any)] {
            grant_all(peer, grant, wanted);
        }
    };
    with(Lent::new(), daemon, |exos| {
        let via = exos.via().unwrap();
        use Protocol::{Any, Tcp, Udp};
        for protocol in [Tcp, Tcp, Udp, Tcp, Any, Udp, Any] {
            via.claim_whole(protocol, OURS.into()).unwrap();
        }
        assert_eq!(via.grants().len(), 3);
    });
}

/// A successor is announced once for each grant of a whole address, also for one that is made later; and again when it is to be
/// another time.
#[test]
fn a_successor_is_announced_once_for_each_grant() {
    if skip_without_root("a_successor_is_announced_once_for_each_grant") {
        return;
    }
    let announced = |peer: &Peer, grant, ms| {
        let (tag, request) = peer.request();
        assert_eq!(request, Request::AwaitSuccessor { grant, ms });
        peer.answer(tag, &Answer::Done, &[]);
    };
    let daemon = |peer: &Peer| {
        grant_all(peer, 1, Protocol::Tcp);
        // Of one port no successor is announced.
        peer.grant(2, |_| Claim {
            interface: INTERFACE,
            protocol: Protocol::Udp,
            local: OURS.into(),
            port: 53,
            remote: None,
        });
        announced(peer, 1, 10_000);
        grant_all(peer, 3, Protocol::Icmp);
        announced(peer, 3, 10_000);
        announced(peer, 1, 0);
        announced(peer, 3, 0);
        let (tag, request) = peer.request();
        assert!(matches!(request, Request::AwaitSuccessor { .. }));
        let refused = Answer::Refused {
            code: Refusal::BadRequest,
            text: "not so long".into(),
        };
        peer.answer(tag, &refused, &[]);
    };
    with(Lent::new(), daemon, |exos| {
        let via = exos.via().unwrap();
        via.claim_whole(Protocol::Tcp, OURS.into()).unwrap();
        let port = PortWish::Number(53);
        via.claim(Protocol::Udp, OURS.into(), port, None).unwrap();
        for _ in 0..2 {
            via.await_successor(SUCCESSOR_TIME_MAX).unwrap();
        }
        via.claim_whole(Protocol::Icmp, OURS.into()).unwrap();
        via.await_successor(SUCCESSOR_TIME_MAX).unwrap();
        via.await_successor(Duration::ZERO).unwrap();
        let refused = via.await_successor(Duration::MAX).unwrap_err();
        assert!(refused.to_string().contains("not so long"), "{refused}");
    });
}

/// The host's own connections have ports of the host's addresses: nobody is asked for all of these.
#[test]
fn addresses_of_the_host_are_not_taken_from_it() {
    if skip_without_root("addresses_of_the_host_are_not_taken_from_it") {
        return;
    }
    let mut lent = Lent::new();
    lent.info.addresses[0].ours_alone = false;
    with(
        lent,
        |_| {},
        |exos| {
            let via = exos.via().unwrap();
            let error = via.claim_whole(Protocol::Tcp, OURS.into()).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("is an address of the host"), "{error}");
            assert!(error.contains("addresses = "), "{error}");
        },
    );
}
