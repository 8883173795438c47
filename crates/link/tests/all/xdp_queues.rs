//! Interfaces with several queues, of which some are in use. As root; each test makes its own namespaces and leaves none.

use crate::common;

use std::os::fd::{AsRawFd as _, BorrowedFd};

use common::*;
use exos_host::ethtool::Channels;
use exos_link::{Link, TxMeta, XdpConfig, XdpLink};

/// Sends a datagram with its number from each of this many sockets: of other ports, hence of other hashes.
fn send_numbers(wire: &Wire, count: u8) -> Vec<std::net::UdpSocket> {
    let sockets: Vec<_> = (0..count).map(|_| wire.their_socket()).collect();
    for (n, socket) in (0..count).zip(&sockets) {
        socket.send_to(&[n], (OURS, OUR_PORT)).unwrap();
    }
    sockets
}

/// Has `va` use this many of its queues.
fn use_queues(wire: &Wire, count: u32) {
    let channels = Channels {
        rx: count,
        tx: count,
        ..Channels::default()
    };
    let ethtool = wire.our_ns.ethtool().unwrap();
    ethtool.set_channels(OUR_INTERFACE, channels).unwrap();
}

/// A link sees what comes by any queue that is in use, and is woken by each.
#[test]
fn a_link_has_all_queues() {
    if skip_without_root("a_link_has_all_queues") {
        return;
    }
    const SOCKETS: u8 = 64;
    let wire = Wire::with_queues(1500, 4);
    use_queues(&wire, 3);
    let link = XdpLink::open(&config()).unwrap();
    assert_eq!(link.queues(), [0, 1, 2]);
    let mut link = Link::from(link);
    while !link.prepare_wait() {
        link.receive(|_, _| ());
    }
    let _sockets = send_numbers(&wire, SOCKETS);
    let mut ready = 0;
    wait_for("each queue to wake", || {
        let fds = link.fds();
        let mut fds: Vec<_> = fds.iter().map(|(fd, _)| readable(fd)).collect();
        // SAFETY: as many entries as are said, which live through the call.
        ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) };
        ready == 3
    });
    let mut seen = Vec::new();
    wait_for("all of them", || {
        link.receive(|frame, _| seen.extend(udp_payload(frame, OUR_PORT).map(|b| b[0])));
        seen.len() >= usize::from(SOCKETS)
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..SOCKETS).collect::<Vec<_>>());
    let counters = link.counters();
    let received = counters.iter().find(|(name, _)| *name == "rx_frames");
    assert!(received.unwrap().1 >= u64::from(SOCKETS), "{counters:?}");
}

fn readable(fd: &BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Queues that exist and are not in use bring nothing, so nobody gets them.
#[test]
fn queues_that_are_not_in_use_are_refused() {
    if skip_without_root("queues_that_are_not_in_use_are_refused") {
        return;
    }
    let wire = Wire::with_queues(1500, 4);
    use_queues(&wire, 2);
    let at = |queue| XdpConfig {
        queue: Some(queue),
        ..config()
    };
    let error = XdpLink::open(&at(2)).unwrap_err().to_string();
    assert!(error.contains("va uses no queue 2"), "{error}");
    assert_eq!(XdpLink::open(&at(1)).unwrap().queues(), [1]);
    let refused = |cores| XdpLink::open_for_cores(&config(), cores).unwrap_err();
    let error = refused(3).to_string();
    for words in ["3 cores", "ethtool -L va rx 3 tx 3", "run on 2 core"] {
        assert!(error.contains(words), "{error}");
    }
    let error = refused(5).to_string();
    assert!(error.contains("numrxqueues 5") && error.contains("run on 2 core"));
    assert_eq!(wire.xdp_program(), None);
}

/// Several queues with one program: each datagram comes by one of them, and the program stays as long as any is open.
#[test]
fn cores_share_all_queues() {
    if skip_without_root("cores_share_all_queues") {
        return;
    }
    const SOCKETS: u8 = 64;
    let wire = Wire::with_queues(1500, 3);
    let links = XdpLink::open_for_cores(&config(), 2).unwrap();
    assert_eq!(
        links.iter().map(XdpLink::queues).collect::<Vec<_>>(),
        [&[0, 2][..], &[1]]
    );
    let mut links: Vec<Link> = links.into_iter().map(Link::from).collect();
    let sockets = send_numbers(&wire, SOCKETS);
    let mut seen = vec![Vec::new(); 2];
    wait_for("all of them", || {
        for (link, seen) in links.iter_mut().zip(&mut seen) {
            link.receive(|frame, _| seen.extend(udp_payload(frame, OUR_PORT).map(|b| b[0])));
        }
        seen.iter().map(Vec::len).sum::<usize>() >= usize::from(SOCKETS)
    });
    assert!(seen.iter().all(|by_one| by_one.len() > 8), "{seen:?}");
    let mut all = seen.concat();
    all.sort_unstable();
    assert_eq!(all, (0..SOCKETS).collect::<Vec<_>>());
    // Each sends, and one goes on without the other.
    for mut link in links {
        let port = sockets[0].local_addr().unwrap().port();
        assert!(link.transmit(&wire.frame_to(port, b"here"), &[], TxMeta::default()));
        link.flush().unwrap();
        let mut buffer = [0; 10];
        assert_eq!(sockets[0].recv(&mut buffer).unwrap(), 4);
        assert!(wire.xdp_program().is_some());
    }
    wait_for("the program to go", || wire.xdp_program().is_none());
}
