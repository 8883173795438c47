//! The ways past a slot's interface: sending many frames at once through the daemon's program, and receiving into memory. What
//! leaves and arrives, what does not, and that it ends with the slot.
//! As root; skipped, and said so, otherwise.

use crate::lab;

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use exos_filter::arrivals::{BY_INTERFACE, PLACES, PUT, VALUE_LEN, VALUES};
use exos_filter::transmit::{BEGINNING_LEN, DESCRIPTORS, END, QUEUE_WORDS, TAKEN, descriptor};
use exos_host::bpf::Prog;
use exos_host::kernel;
use exos_link::{CheckedParts, Link, LiveParts, TransmitChoice, TxMeta};
use exos_xok::Protocol;
use exos_xok::message::{Answer, Mode, PortWish, Refusal, Request};
use lab::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// What leaves at one flush.
pub const BATCH: u16 = 40;

/// Where the datagrams go.
pub const THERE: u16 = 9999;

/// Whether this kernel tells a program in which namespace it runs; says so otherwise.
pub fn lends_batches(test: &str) -> bool {
    let version = kernel::version().expect("it has one");
    let lends = (version.major, version.minor) >= (6, 2);
    if !lends {
        eprintln!("SKIPPED {test}: needs Linux 6.2");
    }
    lends
}

/// The daemon's program for a slot.
fn batch_of(program: &Program) -> CheckedParts {
    bypass_of(program).0
}

/// The daemon's program for a slot, and the memory that its frames arrive in.
pub fn bypass_of(program: &Program) -> (CheckedParts, OwnedFd) {
    let (answer, fds) = program.ask(&Request::Bypass);
    let Answer::Bypass {
        places,
        interface,
        live: metadata,
    } = answer
    else {
        panic!("{answer:?}")
    };
    let mut fds = fds.into_iter();
    let mut next = || fds.next().expect("one more");
    let [program, frames, queue, again] = [(); 4].map(|()| next());
    let live = (!metadata.is_empty()).then(|| LiveParts {
        program: next(),
        metadata,
        dropped: next(),
    });
    let arrivals = next();
    let parts = CheckedParts {
        program,
        frames,
        queue,
        again,
        places,
        interface,
        live,
    };
    (parts, arrivals)
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
pub fn receiver(lab: &Lab) -> UdpSocket {
    let socket = lab.over_there(|| UdpSocket::bind(("10.78.0.2", THERE)).expect("free"));
    socket.set_read_timeout(Some(PATIENCE)).expect("some time");
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

pub fn counted(link: &Link, name: &str) -> u64 {
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
    assert_eq!(counted(&attached.link, "tx_checked_frames"), 2 * all);
    assert_eq!(counted(&attached.link, "tx_checked_failed"), 0);
    // What the exact grants do not cover is for the ring to decide, which sends nothing of it.
    assert_eq!(counted(&attached.link, "tx_checked_returned"), all);
    let passed = || counter(&lab, attached.slot, "tx_packets") == all;
    assert!(within(passed));
    let refused = || counter(&lab, attached.slot, "tx_bad_source") == all;
    assert!(within(refused));

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
        let (answer, fds) = program.ask(&Request::Bypass);
        assert_eq!(refusal(&answer).0, code, "{answer:?}");
        assert!(fds.is_empty());
    };
    refuse(Refusal::BadRequest);
    let _shared = program.attached_by(Mode::Shared);
    let _parts = batch_of(&program);
    refuse(Refusal::Held);
    let program = Program::connect(&lab);
    let _direct = program.attached_by(Mode::Direct(None));
    let (answer, _) = program.ask(&Request::Bypass);
    assert_eq!(refusal(&answer).0, Refusal::Unsupported);
}

/// A slot with a port, and what its program could keep of it: the daemon's program with a datagram from there in its queue.
fn kept_by(lab: &Lab, program: &Program) -> (Attached, u16, Kept) {
    let attached = program.attached_by(Mode::Shared);
    let (_, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Ephemeral));
    let frame = lab.datagram(claim.port, THERE, b"from whom?");
    (attached, claim.port, Kept::of(batch_of(program), &frame))
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
    let (attached, port, kept) = kept_by(&lab, &first);
    let here = || lab.on_the_host(|| kept.run());
    here();
    let mut buffer = [0; 100];
    let got = there.recv(&mut buffer).expect("the slot is its own");
    assert_eq!(&buffer[..got], b"from whom?");

    drop((first, attached.link));
    assert!(reports(&lab, 1), "what is kept counts");
    here();

    // The number is given to another program, which claims the same port.
    let second = Program::connect(&lab);
    let again = second.attached_by(Mode::Shared);
    assert_eq!(again.slot, attached.slot);
    let request = second.claim(Protocol::Udp, PortWish::Number(port));
    assert!(matches!(request, Answer::Granted { .. }), "{request:?}");
    (0..10).for_each(|_| here());
    let short = Some(Duration::from_millis(300));
    there.set_read_timeout(short).expect("some time");
    assert!(there.recv(&mut buffer).is_err(), "nothing leaves");
    drop((second, again));
    drop(kept);
    assert!(reports(&lab, 0), "nobody has it any more");
}

/// Whether that many programs, or what they left, are in the report within a time.
pub fn reports(lab: &Lab, wanted: usize) -> bool {
    within(|| {
        let (answer, fds) = Program::connect(lab).ask(&Request::Status);
        assert!(matches!(answer, Answer::Report { .. }), "{answer:?}");
        let mut text = String::new();
        let file = fds.into_iter().next().expect("the report");
        std::io::Read::read_to_string(&mut std::fs::File::from(file), &mut text).expect("text");
        text.matches("\"memory_bytes\"").count() == wanted
    })
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
    let (attached, _, kept) = kept_by(&lab, &program);
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

/// Datagrams from side b to this port, numbered from `first` on.
fn send_from_there(lab: &Lab, port: u16, first: u16, count: u16) {
    lab.over_there(|| {
        let socket = UdpSocket::bind(("10.78.0.2", 0)).expect("free");
        for n in first..first + count {
            socket
                .send_to(&n.to_be_bytes(), (OURS, port))
                .expect("a route");
        }
    });
}

/// Side b learns our hardware address. What it sends while it asks for that, it may send in another order.
fn know_us_there(lab: &Lab) {
    let knows = || {
        let table = std::fs::read_to_string("/proc/thread-self/net/arp").expect("it is there");
        let mut entries = table.lines().map(|line| line.split_ascii_whitespace());
        entries.any(|mut entry| entry.next() == Some(OURS) && entry.nth(1) == Some("0x2"))
    };
    let known = within(|| {
        lab.over_there(|| {
            let socket = UdpSocket::bind(("10.78.0.2", 0)).expect("free");
            // To nobody.
            socket.send_to(&[], (OURS, 1)).expect("a route");
            knows()
        })
    });
    assert!(known, "it has an entry for us");
}

/// Takes `count` frames, and looks whether they are these in order. Frames with lower numbers were sent before, and are passed over.
#[track_caller]
fn take(link: &mut Link, first: u16, count: u16) {
    let mut numbers = Vec::new();
    let all = within(|| {
        while link.receive(|frame, _| numbers.push(u16::from_be_bytes([frame[42], frame[43]]))) > 0
        {
        }
        numbers.retain(|number| *number >= first);
        numbers.len() >= usize::from(count)
    });
    assert!(all, "{} came of {count}", numbers.len());
    let wanted: Vec<u16> = (first..first + count).collect();
    assert_eq!(numbers, wanted, "in order");
}

/// Nothing has come, for some turns.
fn look_in_vain(link: &mut Link) {
    for _ in 0..10 {
        assert_eq!(link.receive(|_, _| ()), 0);
    }
}

#[test]
fn frames_arrive_in_memory_while_a_program_is_awake() {
    let test = "arrivals";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    lab.start(&[]);
    let program = Program::connect(&lab);
    let mut attached = program.attached_by(Mode::Shared);
    let (_, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Ephemeral));
    let link = &mut attached.link;
    let (_, arrivals) = bypass_of(&program);
    let Link::Xdp(xdp) = link else {
        unreachable!("the daemon lends no others")
    };
    xdp.receive_past_interface(&arrivals).expect("an array");
    know_us_there(&lab);
    // Nobody has looked yet.
    send_from_there(&lab, claim.port, 0, 5);
    let passed = || counter(&lab, attached.slot, "rx_packets") == 5;
    assert!(within(passed));
    take(link, 0, 5);
    assert_eq!(counted(link, "rx_arrivals"), 0);
    for round in 1..=20 {
        send_from_there(&lab, claim.port, 0, 100);
        take(link, 0, 100);
        // More than there are places for: the others come by the interface, behind them.
        look_in_vain(link);
        send_from_there(&lab, claim.port, 0, 600);
        take(link, 0, 600);
        assert_eq!(
            counted(link, "rx_arrivals"),
            round * (100 + u64::from(PLACES))
        );
        // Asleep: what comes wakes.
        look_in_vain(link);
        assert!(link.prepare_wait());
        send_from_there(&lab, claim.port, 0, 1);
        assert!(is_readable(link));
        assert!(!link.prepare_wait(), "one is there");
        take(link, 0, 1);
        assert_eq!(
            counted(link, "rx_arrivals"),
            round * (100 + u64::from(PLACES))
        );
    }
    // Somebody who has looked does not sleep over what is there.
    look_in_vain(link);
    send_from_there(&lab, claim.port, 0, 1);
    let there = || !link.prepare_wait();
    assert!(within(there));
    take(link, 0, 1);
    // The daemon is gone: frames go on to arrive.
    let before = counted(link, "rx_arrivals");
    lab.kill();
    send_from_there(&lab, claim.port, 0, 100);
    take(link, 0, 100);
    assert_eq!(counted(link, "rx_arrivals"), before + 100);
}

/// The memory is the slot's: when that has gone nothing comes there, not even when its number is another's, and it counts until
/// it is let go.
#[test]
fn memory_kept_after_the_slot_gets_nothing() {
    let test = "arrivals-kept";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    lab.start(&[]);
    let first = Program::connect(&lab);
    let attached = first.attached_by(Mode::Shared);
    let (_, claim) = port_of(&first.claim(Protocol::Udp, PortWish::Ephemeral));
    let kept = Memory::of(&bypass_of(&first).1);
    kept.word(BY_INTERFACE).store(0, SeqCst);
    know_us_there(&lab);
    send_from_there(&lab, claim.port, 0, 3);
    assert!(within(|| kept.word(PUT).load(SeqCst) == 3));
    drop((first, attached.link));
    assert!(reports(&lab, 1), "what is kept counts");
    let second = Program::connect(&lab);
    let mut again = second.attached_by(Mode::Shared);
    assert_eq!(again.slot, attached.slot);
    let request = second.claim(Protocol::Udp, PortWish::Number(claim.port));
    assert!(matches!(request, Answer::Granted { .. }), "{request:?}");
    send_from_there(&lab, claim.port, 0, 3);
    take(&mut again.link, 0, 3);
    assert_eq!(kept.word(PUT).load(SeqCst), 3, "nothing came here");
    drop((second, again, kept));
    assert!(reports(&lab, 0), "nobody has it any more");
}

/// Descriptors that a program is lent beside its link.
fn lent(program: &Program) -> usize {
    let (answer, fds) = program.ask(&Request::Bypass);
    assert!(matches!(answer, Answer::Bypass { .. }), "{answer:?}");
    fds.len()
}

/// The memory is left out, and nothing else, where the user may not have so much, and where frames may be too long for it.
#[test]
fn memory_is_lent_where_it_may_be_had_and_fits() {
    let test = "arrivals-without";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    let allow = |most: &str| format!("[[allow]]\nuser = \"0\"\nmemory_max = \"{most}\"\n");
    lab.start_by(&allow("2MiB"));
    let program = Program::connect(&lab);
    let attached = program.attached_by(Mode::Shared);
    assert_eq!(lent(&program), 4, "1 MiB for the link, and 0.5 to send by");
    drop((program, attached));
    assert!(reports(&lab, 0));
    lab.reload(&allow("3MiB"));
    let all = || {
        let program = Program::connect(&lab);
        let _attached = program.attached_by(Mode::Shared);
        lent(&program) == 5
    };
    assert!(within(all));
    drop(lab);

    let test = "arrivals-long";
    let mut lab = Lab::new(test).expect("as before");
    for side in ['a', 'b'] {
        let set = ["-n", &lab.side(side), "link", "set", "wire", "mtu", "3000"];
        let set = std::process::Command::new("ip").args(set).status();
        assert!(set.expect("iproute2").success());
    }
    lab.start(&[]);
    let program = Program::connect(&lab);
    let _attached = program.attached_by(Mode::Shared);
    assert_eq!(lent(&program), 4);
}

/// Whatever its holder writes there, nobody else is harmed, and what fits nowhere comes by the interface.
#[test]
fn nonsense_in_the_memory_harms_its_holder_alone() {
    let test = "arrivals-nonsense";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    lab.start(&[]);
    let (program, other) = (Program::connect(&lab), Program::connect(&lab));
    let mut attached = program.attached_by(Mode::Shared);
    let mut beside = other.attached_by(Mode::Shared);
    let (_, claim) = port_of(&program.claim(Protocol::Udp, PortWish::Ephemeral));
    let (_, others) = port_of(&other.claim(Protocol::Udp, PortWish::Ephemeral));
    let memory = Memory::of(&bypass_of(&program).1);
    let mut random = exos_testing::Random(3);
    let words = || {
        (0..VALUES as usize * VALUE_LEN)
            .step_by(8)
            .map(|at| memory.word(at))
    };
    know_us_there(&lab);
    for round in 0..60 {
        for word in words() {
            let nonsense = random.next();
            word.store(if random.one_in(2) { nonsense } else { 0 }, SeqCst);
        }
        memory
            .word(BY_INTERFACE)
            .store(u64::from(round % 3 == 0), SeqCst);
        send_from_there(&lab, claim.port, 0, 20);
        send_from_there(&lab, others.port, 0, 20);
        take(&mut beside.link, 0, 20);
        while attached.link.receive(|_, _| ()) > 0 {}
    }
    words().for_each(|word| word.store(0, SeqCst));
    memory.word(BY_INTERFACE).store(1, SeqCst);
    send_from_there(&lab, claim.port, 1000, 20);
    take(&mut attached.link, 1000, 20);
}

/// Whether what wakes a link's holder is there within a time.
fn is_readable(link: &mut Link) -> bool {
    let fds = link.fds();
    let one = |(fd, _): &(_, bool)| PollFd::from_borrowed_fd(*fd, PollFlags::IN);
    let mut fds: Vec<PollFd<'_>> = fds.iter().map(one).collect();
    let patience = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&patience)).expect("open") > 0
}

/// The memory that frames arrive in, as words.
struct Memory {
    words: *mut std::ffi::c_void,
}

impl Memory {
    fn of(memory: &OwnedFd) -> Self {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let len = VALUES as usize * VALUE_LEN;
        // SAFETY: a new mapping, which goes with this value.
        let words = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                access,
                MapFlags::SHARED,
                memory,
                0,
            )
        };
        Self {
            words: words.expect("an array"),
        }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset < VALUES as usize * VALUE_LEN);
        // SAFETY: within the mapping, aligned, and accessed as an atomic word by everybody.
        unsafe { &*self.words.byte_add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { munmap(self.words, VALUES as usize * VALUE_LEN).expect("it was mapped") };
    }
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
