//! A program that gives ports out by itself, as a client of the daemon: a daemon of the test's own hears what it asks for. Needs
//! root.

mod common;

use std::os::fd::AsFd as _;
use std::thread;

use common::*;
use exos::via::Protocol;
use exos::{Attachment, Exos, LinkName};
use exos_xok::Claim;
use exos_xok::message::{Mode, PortWish, Request};

/// Has a program attach that claims nothing at the start; then the daemon's part and the program's.
fn with(lent: Lent, daemon: impl FnOnce(&Peer) + Send, program: impl FnOnce(&mut Exos)) {
    let (listener, wire) = (Listener::new(), Wire::new());
    let link = LinkName::Daemon {
        interface: Some(NAME.to_owned()),
        socket: listener.path.clone(),
        mode: Mode::Auto,
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let peer = listener.accept();
            peer.welcome(&lent);
            let (tag, _) = peer.request();
            let offer = wire.offer();
            let packet = offer.packet.as_ref().unwrap();
            let fds = [offer.socket.as_fd(), offer.memory.as_fd(), packet.as_fd()];
            peer.answer(tag, &attached(&offer), &fds);
            daemon(&peer);
        });
        let mut exos = Exos::attach(&Attachment::new(link, 0)).unwrap();
        program(&mut exos);
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
            peer.grant(grant, |request| {
                let asked = Request::Claim {
                    protocol: wanted,
                    local: Some(OURS.into()),
                    port: PortWish::All,
                    remote: None,
                };
                assert_eq!(*request, asked);
                Claim {
                    interface: INTERFACE,
                    protocol: wanted,
                    local: OURS.into(),
                    port: 0,
                    remote: None,
                }
            });
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
