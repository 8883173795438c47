//! Opening and closing an AF_XDP link: who else has the interface, which mode, and
//! that nothing is left. As root; each test makes its own namespaces and leaves
//! none.

use crate::common;

use common::*;
use exos_host::bpf;
use exos_link::{Link, Mode, ModeChoice, RxChecksum, XdpConfig, XdpLink};
use std::os::fd::AsRawFd as _;

/// A link reopened right after it was closed works at once.
#[test]
fn reopens_right_after_close() {
    if skip_without_root("reopens_right_after_close") {
        return;
    }
    let wire = Wire::new(1500);
    let socket = wire.their_socket();
    for round in 0..5u8 {
        let mut link = open_xdp();
        socket.send_to(&[round], (OURS, OUR_PORT)).unwrap();
        receive_until(&mut link, |frame, _| {
            udp_payload(frame, OUR_PORT) == Some(&[round])
        });
    }
    wait_for("the program to go", || wire.xdp_program().is_none());
}

/// The second to open an interface is told who has it; the first goes on.
#[test]
fn a_second_link_is_told_who_holds_the_interface() {
    if skip_without_root("a_second_link_is_told_who_holds_the_interface") {
        return;
    }
    let wire = Wire::new(1500);
    let mut first = open_xdp();
    let error = XdpLink::open(&config()).unwrap_err().to_string();
    let id = wire.xdp_program().unwrap();
    for expected in [
        OUR_INTERFACE,
        "exos_dispatch",
        &format!("program id {id}"),
        "end the process",
    ] {
        assert!(
            error.contains(expected),
            "{error:?} does not say {expected:?}"
        );
    }
    wire.their_socket()
        .send_to(b"still here", (OURS, OUR_PORT))
        .unwrap();
    receive_until(&mut first, |frame, _| {
        udp_payload(frame, OUR_PORT) == Some(b"still here")
    });
}

/// Another's XDP program is named, and stays.
#[test]
fn anothers_program_is_named() {
    if skip_without_root("anothers_program_is_named") {
        return;
    }
    const PASS: [u64; 2] = [0x0000_0002_0000_00b7, 0x0000_0000_0000_0095];
    let wire = Wire::new(1500);
    let index = wire
        .our_ns
        .netlink()
        .unwrap()
        .link_by_name(OUR_INTERFACE)
        .unwrap()
        .index;
    let program = bpf::Prog::load(&PASS, "somebody_else", false).unwrap();
    let held = bpf::Link::attach_xdp(index, &program, Mode::Native).unwrap();
    let id = wire.xdp_program().unwrap();
    let error = XdpLink::open(&config()).unwrap_err().to_string();
    assert!(
        error.contains("somebody_else") && error.contains(&format!("program id {id}")),
        "{error}"
    );
    assert_eq!(wire.xdp_program(), Some(id));
    drop(held);
    drop(open_xdp());
}

/// Dropped, nothing is left on the interface.
#[test]
fn nothing_is_left_after_drop() {
    if skip_without_root("nothing_is_left_after_drop") {
        return;
    }
    let wire = Wire::new(1500);
    let link = open_xdp();
    assert!(wire.xdp_program().is_some());
    drop(link);
    // Not at once: another test's child may have a copy of our descriptors
    // between its fork and its exec.
    wait_for("the program to go", || wire.xdp_program().is_none());
}

/// Nor after a process was killed that had it open.
#[test]
fn nothing_is_left_after_sigkill() {
    if skip_without_root("nothing_is_left_after_sigkill") {
        return;
    }
    let wire = Wire::new(1500);
    // The child is started from this thread, hence in its namespace.
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "xdp_open::hold_the_link", "--ignored"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the child to open the link", || {
        wire.xdp_program().is_some()
    });
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    wait_for("the program to go", || wire.xdp_program().is_none());
    drop(open_xdp());
}

/// The child of `nothing_is_left_after_sigkill`.
#[test]
#[ignore = "is run and killed by another test"]
fn hold_the_link() {
    let _link = open_xdp();
    // Until it is killed, or anyone who would do that has gone.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Generic mode when it is asked for, and it works.
#[test]
fn generic_mode_works_and_is_said() {
    if skip_without_root("generic_mode_works_and_is_said") {
        return;
    }
    let wire = Wire::new(1500);
    let link = XdpLink::open(&XdpConfig {
        mode: ModeChoice::Generic,
        ..config()
    })
    .unwrap();
    assert_eq!(link.mode(), Mode::Generic);
    assert!(!link.is_zero_copy());
    wire.their_socket()
        .send_to(b"generic", (OURS, OUR_PORT))
        .unwrap();
    receive_until(&mut link.into(), |frame, _| {
        udp_payload(frame, OUR_PORT) == Some(b"generic")
    });
}

/// What a kernel at the other end, or a device, has not cut: a datagram of eight, sent as one packet (`UDP_SEGMENT`).
#[test]
fn generic_mode_takes_frames_longer_than_the_mtu() {
    if skip_without_root("generic_mode_takes_frames_longer_than_the_mtu") {
        return;
    }
    if is_before(6, 6) {
        return say_skipped("generic_mode_takes_frames_longer_than_the_mtu", "Linux 6.6");
    }
    let wire = Wire::new(1500);
    let link = XdpLink::open(&XdpConfig {
        mode: ModeChoice::Generic,
        ..config()
    })
    .unwrap();
    let payload: Vec<u8> = (0..8000_u32).map(|at| (at / 100) as u8).collect();
    let socket = wire.their_socket();
    let size: i32 = 1000;
    // SAFETY: a pointer to a value of the length given.
    let set = unsafe {
        let value = (&raw const size).cast();
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            value,
            4,
        )
    };
    assert_eq!(set, 0);
    socket.send_to(&payload, (OURS, OUR_PORT)).unwrap();
    let mut link: Link = link.into();
    receive_until(&mut link, |frame, _| frame.ends_with(&payload));
    assert_eq!(counter(&link, "rx_multi_chunk"), 1);
    assert_eq!(counter(&link, "kernel_rx_dropped"), 0);
}

/// The loopback interface has no native XDP: generic mode is taken, and why is
/// said.
#[test]
fn falls_back_to_generic_mode_and_says_why() {
    if skip_without_root("falls_back_to_generic_mode_and_says_why") {
        return;
    }
    let wire = Wire::new(1500);
    let netlink = wire.our_ns.netlink().unwrap();
    let lo = netlink.link_by_name("lo").unwrap();
    netlink.set_up(lo.index, true).unwrap();
    netlink.set_mtu(lo.index, 1500).unwrap();
    let link = XdpLink::open(&XdpConfig::new("lo", our_rules())).unwrap();
    assert_eq!(link.mode(), Mode::Generic);
    let refusal = link.native_refusal().unwrap().to_string();
    assert!(refusal.contains("native"), "{refusal}");
    let native = XdpConfig {
        mode: ModeChoice::Native,
        ..config()
    };
    assert!(
        XdpLink::open(&XdpConfig {
            interface: "lo".into(),
            ..native.clone()
        })
        .is_err()
    );
    assert_eq!(
        XdpLink::open(&native)
            .unwrap()
            .native_refusal()
            .map(ToString::to_string),
        None
    );

    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .send_to(b"to myself", ("127.0.0.1", OUR_PORT))
        .unwrap();
    receive_until(&mut link.into(), |frame, meta| {
        assert_eq!(meta.checksum, RxChecksum::MaybePartial);
        udp_payload(frame, OUR_PORT) == Some(b"to myself")
    });
}

/// What is in the way is said, with the remedy.
#[test]
fn mistakes_are_explained() {
    if skip_without_root("mistakes_are_explained") {
        return;
    }
    let wire = Wire::new(1500);
    let cases: [(XdpConfig, &[&str]); 2] = [
        (
            XdpConfig::new("nosuchlink", our_rules()),
            &["nosuchlink", OUR_INTERFACE],
        ),
        (
            XdpConfig {
                queue: Some(7),
                ..config()
            },
            &["uses no queue 7", "below 1"],
        ),
    ];
    for (config, words) in cases {
        let error = XdpLink::open(&config).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    let netlink = wire.our_ns.netlink().unwrap();
    let index = netlink.link_by_name(OUR_INTERFACE).unwrap().index;
    netlink.set_mtu(index, 65_535).unwrap();
    let error = XdpLink::open(&config()).unwrap_err().to_string();
    assert!(
        error.contains("65535") && error.contains("ip link set va mtu 3498"),
        "{error}"
    );
    netlink.set_up(index, false).unwrap();
    let error = XdpLink::open(&config()).unwrap_err().to_string();
    assert!(error.contains("ip link set va up"), "{error}");
    assert_eq!(wire.xdp_program(), None);
}
