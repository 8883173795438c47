//! Live frames through the daemon's checks: what leaves, what does not, and whom it ends with.
//! As root; skipped, and said so, otherwise.

use crate::bypass::{BATCH, bypass_of, counted, receiver};
use crate::lab;
use crate::leftovers::{by_interface, folder, map};

use std::net::UdpSocket;

use exos_filter::guard::{ANSWER, FUNCTION, GuardLayout, QUESTION, guard};
use exos_host::bpf::{KernelTypes, Prog, Question, XdpMode, refusal_to_attach};
use exos_host::kernel;
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_link::{CheckedParts, Link, TransmitChoice, TxMeta};
use exos_xok::Protocol;
use exos_xok::message::{Mode, PortWish};
use lab::*;

/// A daemon that lends them whether or not the kernel asks a guard; None, and said so, where the kernel says too little.
fn lab_of(test: &str, live_frames: &str) -> Option<Lab> {
    let version = kernel::version().expect("it has one");
    if (version.major, version.minor) < (6, 3) {
        eprintln!("SKIPPED {test}: needs Linux 6.3");
        return None;
    }
    let mut lab = Lab::new(test)?;
    lab.start(&["--live-frames", live_frames]);
    Some(lab)
}

/// What the daemon lends the program of a slot to send by.
fn lent(program: &Program) -> CheckedParts {
    bypass_of(program).0
}

/// Has a link send by live frames and by nothing else, as far as they are taken.
fn send_live(link: &mut Link, parts: CheckedParts) {
    match link {
        Link::Xdp(link) => link.send_checked(parts, TransmitChoice::LiveFrames),
        _ => unreachable!("the daemon lends no others"),
    }
    .expect("it fits together");
}

/// Has the wire's end in a namespace take redirected frames, as it does with a program of XDP.
pub fn pass_all(there: &NetNs) -> exos_host::bpf::Link {
    // r0 = XDP_PASS; exit
    let pass = Prog::load(&[0x0000_0002_0000_00b7, 0x95], "pass", false).expect("as root");
    let attach = || {
        let wire = Netlink::new().unwrap().link_by_name("wire").unwrap().index;
        exos_host::bpf::Link::attach_xdp(wire, &pass, XdpMode::Native).unwrap()
    };
    there.run(attach).expect("it can be entered")
}

/// Likewise, and the daemon knows of it.
fn takes_redirected(lab: &Lab) -> exos_host::bpf::Link {
    let link = pass_all(&NetNs::open(&lab.side('b')).expect("it is there"));
    let is_known = || {
        map(lab, "wire")
            .lookup(&[0; 4])
            .is_ok_and(|found| found.is_some())
    };
    assert!(within(is_known));
    link
}

/// Sends a batch of datagrams from this port, numbered from 0 on.
fn send(lab: &Lab, link: &mut Link, from: u16) {
    for n in 0..BATCH {
        let payload = [&n.to_be_bytes()[..], &[n as u8; 60][..usize::from(n % 60)]].concat();
        let frame = lab.datagram(from, crate::bypass::THERE, &payload);
        assert!(link.transmit(&frame, &[], TxMeta::default()));
    }
    link.flush().expect("the slot is ours");
}

/// All of them arrive, in order.
fn expect(there: &UdpSocket, from: u16) {
    let mut buffer = [0; 2000];
    for n in 0..BATCH {
        let (len, sender) = there.recv_from(&mut buffer).expect("it arrives");
        assert_eq!(buffer[..2], n.to_be_bytes(), "in order");
        assert_eq!((len, sender.port()), (2 + usize::from(n % 60), from));
    }
}

/// Also from another network namespace than the daemon's, and on when the daemon is gone and when another has come.
#[test]
fn live_frames_leave_in_order_and_nothing_else_does() {
    let test = "live-frames";
    let Some(mut lab) = lab_of(test, "trusted") else {
        return;
    };
    let program = Program::connect(&lab);
    let mut attached = program.attached_by(Mode::Shared);
    let (_, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Ephemeral));
    let link = &mut attached.link;
    send_live(link, lent(&program));
    let there = receiver(&lab);
    let _takes = takes_redirected(&lab);
    for _ in 0..20 {
        send(&lab, link, claim.port);
        // Another's port: none of them leaves.
        send(&lab, link, claim.port ^ 1);
        expect(&there, claim.port);
    }
    let all = 20 * u64::from(BATCH);
    let sent = counted(link, "tx_live_frames");
    assert_eq!(sent, 2 * all, "but for what the exact grants do not cover");
    assert_eq!(counted(link, "tx_checked_returned"), all);
    assert_eq!(counted(link, "tx_live_failed"), 0);

    lab.kill();
    send(&lab, link, claim.port);
    expect(&there, claim.port);
    lab.start(&["--live-frames", "trusted"]);
    send(&lab, link, claim.port);
    expect(&there, claim.port);
    assert_eq!(counted(link, "tx_live_frames"), sent + 2 * u64::from(BATCH));

    // One that lends none ends those of its predecessor's: they leave by the other ways.
    lab.kill();
    lab.start(&["--live-frames", "never"]);
    send(&lab, link, claim.port);
    expect(&there, claim.port);
    assert_eq!(counted(link, "tx_live_frames"), sent + 2 * u64::from(BATCH));
}

/// Who gave the slot back has program, secret and memory still, and sends nothing by them, nor does who holds the next slot.
#[test]
fn live_frames_end_with_the_slot() {
    let test = "live-frames-end";
    let Some(lab) = lab_of(test, "trusted") else {
        return;
    };
    let program = Program::connect(&lab);
    let attached = program.attached_by(Mode::Shared);
    let parts = lent(&program);
    let live = parts.live.as_ref().expect("it is lent");
    let old = Prog::over(live.program.try_clone().unwrap()).unwrap();
    let bytes = [&live.metadata[..], &[0; 60]].concat();
    let metadata = live.metadata.len();
    let slot = attached.slot;
    drop((attached, program));
    let is_gone = || !by_interface(&lab).contains(&slot);
    assert!(within(is_gone));
    let second = Program::connect(&lab);
    let again = second.attached_by(Mode::Shared);
    assert_eq!(again.slot, slot);
    let next = lent(&second);
    let next_metadata = &next.live.as_ref().expect("it is lent").metadata;
    assert_ne!(bytes[..metadata], next_metadata[..]);
    let taken = |parts: &CheckedParts| {
        use exos_filter::transmit::{END, QUEUE_WORDS, TAKEN};
        let size = 8 * QUEUE_WORDS;
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: a new mapping of an array of words, which nobody refers to otherwise.
        unsafe {
            let at = rustix::mm::mmap(
                std::ptr::null_mut(),
                size,
                access,
                rustix::mm::MapFlags::SHARED,
                &parts.queue,
                0,
            );
            let words = at.expect("it can be mapped").cast::<u64>();
            words.add(END).write_volatile(100);
            old.run_live(&bytes, metadata, 30, 30).expect("it runs");
            let taken = words.add(TAKEN).read_volatile();
            words.add(END).write_volatile(taken);
            rustix::mm::munmap(words.cast(), size).expect("it is mapped");
            taken
        }
    };
    assert_eq!((taken(&parts), taken(&next)), (0, 0));
}

/// Whether this kernel asks a guard of ours.
fn can_be_asked() -> bool {
    let types = KernelTypes::load().expect("type information");
    let member = |structure: &str, name: &str| Some(types.member(structure, name)?.offset_bits);
    let layout = GuardLayout::from_layout(member).zip(types.function(FUNCTION));
    let asked = layout.and_then(|(layout, function)| {
        Question::ask(&guard(&layout).words(), "exos_guard_test", function).ok()
    });
    asked.is_some_and(|_asked| refusal_to_attach(QUESTION) == Some(ANSWER))
}

/// Guarded, they are lent where the kernel asks the guard; else the daemon says why they are not, and lends the rest.
#[test]
fn guarded_live_frames_are_lent_or_said_not_to_be() {
    let test = "live-frames-guarded";
    let Some(mut lab) = lab_of(test, "guarded") else {
        return;
    };
    let program = Program::connect(&lab);
    let _attached = program.attached_by(Mode::Shared);
    let is_lent = lent(&program).live.is_some();
    let folder = folder(&lab);
    let has_guard = || {
        let mut names = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        names.any(|name| name.file_name().to_string_lossy().starts_with("guard"))
    };
    assert_eq!(is_lent, has_guard(), "not without a guard");
    assert_eq!(is_lent, can_be_asked(), "where the kernel asks it");
    drop((program, _attached));
    lab.stop();
    assert!(!has_guard(), "nobody has the program any more");
}
