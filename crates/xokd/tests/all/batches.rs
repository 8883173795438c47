//! Sending many frames at once through the daemon's program: what leaves, what does not, and that it ends with the slot.
//! As root; skipped, and said so, otherwise.

use crate::lab;

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::Duration;

use exos_filter::transmit::{BEGINNING_LEN, DESCRIPTORS, END, QUEUE_WORDS, TAKEN, descriptor};
use exos_host::bpf::Prog;
use exos_host::kernel;
use exos_link::{CheckedParts, Link, TransmitChoice, TxMeta};
use exos_xok::Protocol;
use exos_xok::message::{Answer, Mode, PortWish, Refusal, Request};
use lab::*;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// What leaves at one flush.
const BATCH: u16 = 40;

/// Where the datagrams go.
const THERE: u16 = 9999;

/// Whether this kernel tells a program in which namespace it runs; says so otherwise.
fn lends_batches(test: &str) -> bool {
    let version = kernel::version().expect("it has one");
    let lends = (version.major, version.minor) >= (6, 2);
    if !lends {
        eprintln!("SKIPPED {test}: needs Linux 6.2");
    }
    lends
}

/// The daemon's program for a slot.
fn batch_of(program: &Program) -> CheckedParts {
    let (answer, fds) = program.ask(&Request::Batch);
    let Answer::Batch { places, interface } = answer else {
        panic!("{answer:?}")
    };
    let [program, frames, queue, again] = <[OwnedFd; 4]>::try_from(fds).expect("four");
    CheckedParts {
        program,
        frames,
        queue,
        again,
        places,
        interface,
    }
}

/// Has a link send by the program and by nothing else.
fn send_checked(link: &mut Link, parts: CheckedParts) {
    match link {
        Link::Xdp(link) => link.send_checked(parts, TransmitChoice::Batches),
        _ => unreachable!("the daemon lends no others"),
    }
    .expect("it fits together");
}

/// A socket on side b that the datagrams go to.
fn receiver(lab: &Lab) -> UdpSocket {
    let socket = lab.over_there(|| UdpSocket::bind(("10.78.0.2", THERE)).expect("free"));
    let patience = Some(Duration::from_secs(20));
    socket.set_read_timeout(patience).expect("some time");
    socket
}

fn counter(lab: &Lab, slot: u32, name: &str) -> u64 {
    let program = Program::connect(lab);
    let words = program.tables();
    let tables = exos_xok::tables::Tables::new(words.words()).expect("sound");
    let place = exos_filter::gate::Counter::ALL
        .iter()
        .position(|(_, n)| *n == name);
    let row = tables.slot(slot);
    row.map_or(0, |row| row.counters[place.expect("a counter")])
}

/// Queues a batch of datagrams from this port, numbered from `first` on, and sends them.
fn send(lab: &Lab, link: &mut Link, from: u16, first: u16) {
    for n in first..first + BATCH {
        let payload = [&n.to_be_bytes()[..], &[n as u8; 60][..usize::from(n % 60)]].concat();
        let frame = lab.datagram(from, THERE, &payload);
        assert!(link.transmit(&frame, &[], TxMeta::default()));
    }
    // Where the daemon is: elsewhere its program gives all of them back.
    let Link::Xdp(link) = link else {
        unreachable!("the daemon lends no others")
    };
    lab.on_the_host(|| link.flush()).expect("the slot is ours");
}

fn sent(link: &Link, name: &str) -> u64 {
    let all = link.counters();
    all.iter().find(|(n, _)| *n == name).expect("a counter").1
}

#[test]
fn what_may_be_sent_leaves_in_order_and_nothing_else_does() {
    let test = "batches";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let mut attached = program.attached_by(Mode::Shared);
    let (_, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Ephemeral));
    send_checked(&mut attached.link, batch_of(&program));
    let there = receiver(&lab);
    let mut buffer = [0; 2000];
    for batch in 0..20 {
        send(&lab, &mut attached.link, claim.port, batch * BATCH);
        // Another's port: none of them leaves.
        send(&lab, &mut attached.link, claim.port ^ 1, 0);
        for n in batch * BATCH..(batch + 1) * BATCH {
            let (len, from) = there.recv_from(&mut buffer).expect("it arrives");
            assert_eq!(buffer[..2], n.to_be_bytes(), "in order");
            assert_eq!((len, from.port()), (2 + usize::from(n % 60), claim.port));
        }
    }
    let all = u64::from(20 * BATCH);
    assert_eq!(sent(&attached.link, "tx_checked_frames"), 2 * all);
    assert_eq!(sent(&attached.link, "tx_checked_failed"), 0);
    // What the exact grants do not cover is for the ring to decide, which sends nothing of it.
    assert_eq!(sent(&attached.link, "tx_checked_returned"), all);
    let counted = || counter(&lab, attached.slot, "tx_packets") == all;
    assert!(within(Duration::from_secs(5), counted));
    let refused = || counter(&lab, attached.slot, "tx_bad_source") == all;
    assert!(within(Duration::from_secs(5), refused));

    // The daemon is gone: packets go on, and so does the check.
    lab.kill();
    send(&lab, &mut attached.link, claim.port, 0);
    for n in 0..BATCH {
        there.recv_from(&mut buffer).expect("it arrives");
        assert_eq!(buffer[..2], n.to_be_bytes());
    }
}

#[test]
fn a_slot_has_one_and_a_queue_of_the_interface_none() {
    let test = "batches-none";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let refuse = |code| {
        let (answer, fds) = program.ask(&Request::Batch);
        assert_eq!(refusal(&answer).0, code, "{answer:?}");
        assert!(fds.is_empty());
    };
    refuse(Refusal::BadRequest);
    let _shared = program.attached_by(Mode::Shared);
    let _parts = batch_of(&program);
    refuse(Refusal::Held);
    let program = Program::connect(&lab);
    let _direct = program.attached_by(Mode::Direct(None));
    let (answer, _) = program.ask(&Request::Batch);
    assert_eq!(refusal(&answer).0, Refusal::Unsupported);
}

/// What a program keeps after its slot has gone sends nothing, not even when the slot is another's, and counts until it is let go.
#[test]
fn a_program_kept_after_the_slot_sends_nothing() {
    let test = "batches-kept";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    lab.start(&[]);
    let there = receiver(&lab);
    let first = Program::connect(&lab);
    let attached = first.attached_by(Mode::Shared);
    let (_, claim) = port_of(&first.claim(Protocol::Udp, PortWish::Ephemeral));
    let frame = lab.datagram(claim.port, THERE, b"from whom?");
    let kept = Kept::of(batch_of(&first), &frame);
    let here = || lab.on_the_host(|| kept.run());
    here();
    let mut buffer = [0; 100];
    let got = there.recv(&mut buffer).expect("the slot is its own");
    assert_eq!(&buffer[..got], b"from whom?");

    drop((first, attached.link));
    let held = |wanted: usize| {
        within(Duration::from_secs(10), || {
            let (answer, fds) = Program::connect(&lab).ask(&Request::Status);
            assert!(matches!(answer, Answer::Report { .. }), "{answer:?}");
            let mut text = String::new();
            let file = fds.into_iter().next().expect("the report");
            std::io::Read::read_to_string(&mut std::fs::File::from(file), &mut text).expect("text");
            text.matches("\"memory_bytes\"").count() == wanted
        })
    };
    assert!(held(1), "what is kept counts");
    here();

    // The number is given to another program, which claims the same port.
    let second = Program::connect(&lab);
    let again = second.attached_by(Mode::Shared);
    assert_eq!(again.slot, attached.slot);
    let request = second.claim(Protocol::Udp, PortWish::Number(claim.port));
    assert!(matches!(request, Answer::Granted { .. }), "{request:?}");
    (0..10).for_each(|_| here());
    let short = Some(Duration::from_millis(300));
    there.set_read_timeout(short).expect("some time");
    assert!(there.recv(&mut buffer).is_err(), "nothing leaves");
    drop((second, again));
    drop(kept);
    assert!(held(0), "nobody has it any more");
}

/// Neither is what is kept good for anything when the gate has gone, whose tables it still has.
#[test]
fn a_program_kept_after_the_gate_sends_nothing() {
    let test = "batches-gone";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    lab.start(&[]);
    let there = receiver(&lab);
    let program = Program::connect(&lab);
    let attached = program.attached_by(Mode::Shared);
    let (_, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Ephemeral));
    let frame = lab.datagram(claim.port, THERE, b"from whom?");
    let kept = Kept::of(batch_of(&program), &frame);
    lab.kill();
    lab.on_the_host(|| kept.run());
    let mut buffer = [0; 100];
    there
        .recv(&mut buffer)
        .expect("the gate goes on without the daemon");
    assert!(lab.clean().status.success());
    lab.on_the_host(|| (0..10).for_each(|_| kept.run()));
    let short = Some(Duration::from_millis(300));
    there.set_read_timeout(short).expect("some time");
    assert!(there.recv(&mut buffer).is_err(), "nothing leaves");
    drop((program, attached));
}

/// Each change of the array of programs would have the kernel patch its text.
#[test]
fn the_array_of_programs_cannot_be_changed() {
    use std::os::fd::AsRawFd as _;
    let test = "batches-frozen";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let _attached = program.attached_by(Mode::Shared);
    let parts = batch_of(&program);
    let about = format!("/proc/self/fdinfo/{}", parts.again.as_raw_fd());
    let about = std::fs::read_to_string(about).expect("it is open");
    let frozen = about.lines().find(|line| line.starts_with("frozen:"));
    assert_eq!(frozen, Some("frozen:\t1"), "{about}");
}

/// A program with one frame in its queue, run by hand.
struct Kept {
    program: Prog,
    memory: *mut std::ffi::c_void,
    words: *mut u64,
    _parts: [OwnedFd; 3],
}

/// Bytes mapped of the frames.
const PAGE: usize = 4096;

impl Kept {
    fn of(parts: CheckedParts, frame: &[u8]) -> Self {
        let map = |fd: &OwnedFd, len: usize| {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, which goes with this value.
            unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, fd, 0) }
        };
        let memory = map(&parts.frames, PAGE).expect("a page of it");
        // SAFETY: the frame is shorter than a page, which nobody else has mapped here.
        unsafe { std::ptr::copy_nonoverlapping(frame.as_ptr(), memory.cast(), frame.len()) };
        let words: *mut u64 = map(&parts.queue, 8 * QUEUE_WORDS)
            .expect("the queue")
            .cast();
        let word = descriptor(2048, 0, 0, frame.len() as u32).expect("sound");
        for at in DESCRIPTORS..QUEUE_WORDS {
            // SAFETY: within the mapping.
            unsafe { words.add(at).write_volatile(word) };
        }
        Self {
            program: Prog::over(parts.program).expect("a program"),
            memory,
            words,
            _parts: [parts.frames, parts.queue, parts.again],
        }
    }

    /// Has it send one frame, if it does.
    fn run(&self) {
        // SAFETY: within the mapping.
        unsafe {
            let taken = self.words.add(TAKEN).read_volatile();
            self.words.add(END).write_volatile(taken + 1);
        }
        let mut beginning = [0; BEGINNING_LEN];
        beginning[12..14].copy_from_slice(&[8, 0]);
        self.program.run_batch(&beginning, 0, 1).expect("it runs");
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: the mappings are ours, and nothing refers to them any more.
        unsafe {
            munmap(self.memory, PAGE).expect("it was mapped");
            munmap(self.words.cast(), 8 * QUEUE_WORDS).expect("it was mapped");
        }
    }
}

// SAFETY: the words are accessed by one thread at a time.
unsafe impl Sync for Kept {}
