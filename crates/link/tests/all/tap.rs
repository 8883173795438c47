//! The TAP link with the real kernel on the other side, in namespaces of its
//! own: as root, or without privilege inside a user namespace. Nothing is left:
//! the namespaces have no names and go with the descriptors in them.

use crate::common;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use common::*;
use exos_host::netlink::Netlink;
use exos_link::{Link, RxChecksum, RxMeta, TapConfig, TapLink, TxChecksum, TxMeta};
use exos_wire::Mac;
use exos_wire::ethernet::EthernetView;

const DEVICE: &str = "tap0";
const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// Runs a test where it may make network namespaces: here as root, else in a
/// child in a user namespace.
fn privileged(test: &str, body: fn()) {
    // SAFETY: no arguments, cannot fail.
    let uid = unsafe { libc::geteuid() };
    if uid == 0 {
        return body();
    }
    // SAFETY: the child uses only this thread, see `run_as_root_of_its_own`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = run_as_root_of_its_own(uid, body);
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => {}
        (true, 77) => say_skipped(test, "root or user namespaces"),
        _ => panic!("{test} failed in its namespace, status {status}"),
    }
}

/// The exit status: 0 done, 1 failed, 77 not possible here.
fn run_as_root_of_its_own(uid: u32, body: fn()) -> i32 {
    // SAFETY: a call without pointers.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } != 0 {
        return 77;
    }
    if std::fs::write("/proc/self/uid_map", format!("0 {uid} 1")).is_err() {
        return 77;
    }
    if std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/net/tun")
        .is_err()
    {
        return 77;
    }
    i32::from(std::panic::catch_unwind(body).is_err())
}

/// Does something in a new network namespace.
fn in_new_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: a call without pointers; it concerns this thread only.
            let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "a network namespace of its own");
            work()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Opens the link and gives the kernel's end an address; returns its MAC too.
fn open(ours: Ipv4Addr, theirs: Ipv4Addr, our_mac: Mac, neighbour: Mac) -> (TapLink, Mac) {
    let config = TapConfig {
        mac: Some(our_mac),
        ..TapConfig::named(DEVICE)
    };
    let link = TapLink::open(&config).unwrap();
    let netlink = Netlink::new().unwrap();
    let info = netlink.link_by_name(DEVICE).unwrap();
    assert!(info.up);
    assert_eq!(
        (link.end().name(), link.end().interface(), link.end().mtu()),
        (DEVICE, info.index, 1500)
    );
    netlink
        .add_address(info.index, IpAddr::V4(theirs), 24)
        .unwrap();
    netlink
        .set_neighbour(info.index, IpAddr::V4(ours), neighbour.0)
        .unwrap();
    (link, Mac(info.mac.unwrap()))
}

fn open_with_socket() -> (Link, Mac, UdpSocket) {
    let (link, mac, socket) = in_new_namespace(|| {
        let (link, mac) = open(OURS, THEIRS, OUR_MAC, OUR_MAC);
        let socket = UdpSocket::bind((THEIRS, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        (link, mac, socket)
    });
    (link.into(), mac, socket)
}

/// What the kernel sends we receive, its checksums unfinished, and said so.
#[test]
fn receives_what_the_kernel_sends() {
    privileged("receives_what_the_kernel_sends", || {
        let (mut link, _, socket) = open_with_socket();
        assert_eq!(link.mac(), OUR_MAC);
        for n in 0..300u32 {
            let payload = vec![n as u8; n as usize];
            socket.send_to(&payload, (OURS, OUR_PORT)).unwrap();
            receive_until(&mut link, |frame, meta| {
                let found = udp_payload(frame, OUR_PORT);
                if found.is_some() {
                    assert_eq!(
                        meta,
                        RxMeta {
                            checksum: RxChecksum::Partial,
                            ..RxMeta::default()
                        }
                    );
                }
                found == Some(&payload)
            });
        }
        assert_eq!(
            counter(&link, "rx_short") + counter(&link, "rx_unknown_gso"),
            0
        );
    });
}

/// What we send the kernel receives, from any number of pieces, with a checksum
/// of ours or one that it finishes.
#[test]
fn the_kernel_receives_what_we_send() {
    privileged("the_kernel_receives_what_we_send", || {
        let (mut link, mac, socket) = open_with_socket();
        let port = socket.local_addr().unwrap().port();
        let pair = Addresses {
            from: OUR_MAC,
            to: mac,
            src: OURS,
            dst: THEIRS,
        };
        let mut buffer = [0; 2000];
        for (len, pieces, complete) in [
            (1usize, 1, true),
            (1472, 1, true),
            (1472, 3, false),
            (999, 32, false),
            (1000, 100, true),
            (0, 1, false),
        ] {
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let frame = udp_frame(&pair, port, &payload, complete);
            let body: Vec<&[u8]> = frame[42..].chunks(len.div_ceil(pieces).max(1)).collect();
            let meta = if complete {
                TxMeta::default()
            } else {
                PARTIAL_UDP
            };
            assert!(link.room() > 0);
            assert!(link.transmit(&frame[..42], &body, meta));
            link.flush().unwrap();
            let got = socket.recv(&mut buffer).unwrap();
            assert!(
                buffer[..got] == payload[..],
                "{len} bytes in {pieces} pieces"
            );
        }
        assert_eq!(counter(&link, "tx_frames"), 6);
        assert_eq!(counter(&link, "tx_refused"), 0);
    });
}

/// A checksum that is wrong is not finished, and the kernel does not take it:
/// the test before would notice if nobody looked.
#[test]
fn the_kernel_looks_at_our_checksums() {
    privileged("the_kernel_looks_at_our_checksums", || {
        let (mut link, mac, socket) = open_with_socket();
        let port = socket.local_addr().unwrap().port();
        let pair = Addresses {
            from: OUR_MAC,
            to: mac,
            src: OURS,
            dst: THEIRS,
        };
        let unfinished = udp_frame(&pair, port, b"unfinished", false);
        let finished = udp_frame(&pair, port, b"finished", true);
        assert!(link.transmit(&unfinished, &[], TxMeta::default()));
        assert!(link.transmit(&finished, &[], TxMeta::default()));
        let mut buffer = [0; 100];
        let len = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"finished");
    });
}

fn send_and_take_back(mut stream: TcpStream) {
    const BYTES: usize = 20 << 20;
    stream.write_all(&pattern(BYTES)).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut echoed = Vec::new();
    stream.read_to_end(&mut echoed).unwrap();
    assert!(echoed == pattern(BYTES), "{} bytes came back", echoed.len());
}

/// Two kernels talk TCP through two TAP links, each in a namespace: what one
/// sends uncut and unfinished the other takes so. Every byte arrives.
#[test]
fn large_segments_pass_uncut_between_two_kernels() {
    privileged("large_segments_pass_uncut_between_two_kernels", || {
        let (macs, ips) = ([OUR_MAC, Mac([2, 0, 0, 0, 0, 2])], [OURS, THEIRS]);
        // Each kernel's neighbour is the other's interface, behind our two ends.
        let (server_link, server_mac, listener) = in_new_namespace(|| {
            let (link, mac) = open(ips[0], ips[1], macs[0], macs[0]);
            (link, mac, TcpListener::bind((ips[1], 80)).unwrap())
        });
        let (client_link, client) = std::sync::mpsc::sync_channel(1);
        let (finished, is_finished) = std::sync::mpsc::channel();
        let namespace = std::thread::spawn(move || {
            in_new_namespace(|| {
                let (link, mac) = open(ips[1], ips[0], macs[1], macs[1]);
                client_link.send((link, mac)).unwrap();
                send_and_take_back(TcpStream::connect((ips[1], 80)).unwrap());
                finished.send(()).unwrap();
            });
        });
        let server = std::thread::spawn(move || {
            let (mut stream, peer): (TcpStream, SocketAddr) = listener.accept().unwrap();
            assert_eq!(peer.ip(), IpAddr::V4(ips[0]));
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            stream.write_all(&received).unwrap();
        });
        let (client_link, client_mac) = client.recv().unwrap();
        let (mut client_link, mut server_link) = (Link::from(client_link), Link::from(server_link));
        let deadline = Instant::now() + PATIENCE;
        while is_finished.try_recv().is_err() {
            assert!(
                Instant::now() < deadline && !namespace.is_finished(),
                "the transfer hangs"
            );
            let mut moved = relay(&mut client_link, &mut server_link, macs[0], server_mac);
            moved += relay(&mut server_link, &mut client_link, macs[1], client_mac);
            if moved == 0 {
                wait_readable(&client_link, Duration::from_millis(1));
            }
        }
        for link in [&client_link, &server_link] {
            for name in ["rx_gso_frames", "tx_gso_frames"] {
                assert!(counter(link, name) > 100, "{:?}", link.counters());
            }
            assert_eq!(counter(link, "tx_refused"), 0);
        }
        namespace.join().unwrap();
        server.join().unwrap();
    });
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect()
}

/// Hands the IPv4 TCP frames of one link to another, as from `from` to `to`.
fn relay(source: &mut Link, sink: &mut Link, from: Mac, to: Mac) -> usize {
    source.receive(|frame, meta| {
        let is_ipv4 = EthernetView::parse(frame).is_ok_and(|f| f.ethertype() == 0x0800);
        if !is_ipv4 {
            return;
        }
        let mut head = frame[..54].to_vec();
        head[..6].copy_from_slice(&to.0);
        head[6..12].copy_from_slice(&from.0);
        let checksum = match meta.checksum {
            RxChecksum::Partial => TxChecksum::Partial {
                start: 34,
                offset: 16,
            },
            _ => TxChecksum::Complete,
        };
        let header_len = 34 + 4 * u16::from(frame[46] >> 4);
        let meta = TxMeta {
            checksum,
            segment_size: meta.gso_size,
            ipv6: false,
            datagrams: false,
            header_len,
        };
        assert!(sink.transmit(&head, &[&frame[54..]], meta), "room");
    })
}

/// A persistent device that existed is used, and stays.
#[test]
fn an_existing_device_is_opened_and_stays() {
    privileged("an_existing_device_is_opened_and_stays", || {
        in_new_namespace(|| {
            let link = TapLink::open(&TapConfig::named(DEVICE)).unwrap();
            persist(&link);
            let mac = link.end().mac();
            drop(link);
            let netlink = Netlink::new().unwrap();
            let index = netlink.link_by_name(DEVICE).unwrap().index;
            let again = TapLink::open(&TapConfig {
                mtu: Some(9000),
                ..TapConfig::named(DEVICE)
            })
            .unwrap();
            assert_eq!(
                (
                    again.end().interface(),
                    again.end().mac(),
                    again.end().mtu()
                ),
                (index, mac, 9000)
            );
            assert_eq!(netlink.link_by_name(DEVICE).unwrap().mtu, 9000);
        });
    });
}

fn persist(link: &TapLink) {
    use std::os::fd::AsRawFd as _;
    // SAFETY: the argument is a number.
    let result = unsafe { libc::ioctl(link.fd().as_raw_fd(), libc::TUNSETPERSIST, 1u64) };
    assert_eq!(result, 0);
}

/// A device that we made goes with the link.
#[test]
fn a_new_device_goes_with_the_link() {
    privileged("a_new_device_goes_with_the_link", || {
        in_new_namespace(|| {
            let link = TapLink::open(&TapConfig::named(DEVICE)).unwrap();
            let netlink = Netlink::new().unwrap();
            assert!(netlink.find_link(DEVICE).unwrap().is_some());
            drop(link);
            assert_eq!(netlink.find_link(DEVICE).unwrap(), None);
        });
    });
}

/// A device in use, one that is no TAP, and a name that cannot be: all said.
#[test]
fn mistakes_are_explained() {
    privileged("mistakes_are_explained", || {
        in_new_namespace(|| {
            let _held = TapLink::open(&TapConfig::named(DEVICE)).unwrap();
            for (name, words) in [
                (DEVICE, "another program has tap0 open"),
                ("lo", "use another name"),
                ("", "1 to 15"),
            ] {
                let error = TapLink::open(&TapConfig::named(name))
                    .unwrap_err()
                    .to_string();
                assert!(error.contains(words), "{error}");
            }
        });
    });
}

/// An interface that is down swallows frames by name; one that was deleted is
/// reported by `flush`.
#[test]
fn down_and_deleted_are_told_apart() {
    privileged("down_and_deleted_are_told_apart", || {
        in_new_namespace(|| {
            let (link, mac) = open(OURS, THEIRS, OUR_MAC, OUR_MAC);
            let mut link = Link::from(link);
            let netlink = Netlink::new().unwrap();
            let index = netlink.link_by_name(DEVICE).unwrap().index;
            let pair = Addresses {
                from: OUR_MAC,
                to: mac,
                src: OURS,
                dst: THEIRS,
            };
            let frame = udp_frame(&pair, 1, b"lost", true);
            netlink.set_up(index, false).unwrap();
            assert!(link.transmit(&frame, &[], TxMeta::default()));
            link.flush().unwrap();
            assert_eq!(counter(&link, "tx_interface_down"), 1);
            netlink.delete_link(index).unwrap();
            assert_eq!(
                link.receive(|_, _| panic!("a frame of an interface that is gone")),
                0
            );
            assert_eq!(link.flush().unwrap_err().raw_os_error(), Some(libc::ENODEV));
        });
    });
}
