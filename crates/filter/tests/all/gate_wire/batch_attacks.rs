//! The holder of a batch program's descriptor, its queue and its memory sends what the slot may send, and does nothing else
//! with them.

use super::batch::{ipv4, sender};
use super::*;
use exos_filter::transmit::{DESCRIPTORS, END, QUEUE_LEN, QUEUE_WORDS, REFUSED, TAKEN};
use gate::sender::{CHUNK_SIZE, Sender, beginning, namespace};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// `enum bpf_cmd`.
const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROG_ATTACH: i32 = 8;
const PROG_TEST_RUN: i32 = 10;
const PROG_GET_FD_BY_ID: i32 = 13;
const MAP_GET_FD_BY_ID: i32 = 14;
const RAW_TRACEPOINT_OPEN: i32 = 17;
const LINK_CREATE: i32 = 28;

/// One bpf(2) call; its result, or the error's number.
fn bpf(command: i32, attr: &[u32]) -> Result<i32, i32> {
    // SAFETY: the kernel reads and writes as many bytes as it is told; addresses in there are the caller's.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_ptr(), size_of_val(attr)) };
    if result < 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap());
    }
    Ok(result as i32)
}

fn address<T: ?Sized>(value: *const T) -> [u32; 2] {
    let address = value.cast::<u8>() as u64;
    [address as u32, (address >> 32) as u32]
}

/// Words of `struct __sk_buff`.
type Context = [u32; 48];
const MARK: usize = 2;
const PRIORITY: usize = 8;
const INGRESS: usize = 9;
const IFINDEX: usize = 10;
const CONTROL_BLOCK: usize = 12;
const TIME: usize = 38;
const WIRE_LEN: usize = 40;
const SEGMENTS: usize = 41;
const SEGMENT_SIZE: usize = 44;
const HARDWARE_TIME: usize = 46;

/// `BPF_F_TEST_SKB_CHECKSUM_COMPLETE`.
const CHECKSUM_COMPLETE: u32 = 1 << 2;

/// Runs a program with all that a caller can choose; what is in the context afterwards.
fn run(program: RawFd, frame: &[u8], context: &Context, flags: u32) -> Result<Context, i32> {
    let mut after = *context;
    let size = size_of_val(context) as u32;
    let [frame_low, frame_high] = address(frame);
    let [in_low, in_high] = address(context);
    let [out_low, out_high] = address(&raw mut after);
    let mut attr = [0; 20];
    attr[0] = program as u32;
    attr[2] = frame.len() as u32;
    (attr[4], attr[5]) = (frame_low, frame_high);
    attr[8] = 1;
    (attr[10], attr[11]) = (size, size);
    (attr[12], attr[13], attr[14], attr[15]) = (in_low, in_high, out_low, out_high);
    attr[16] = flags;
    bpf(PROG_TEST_RUN, &attr).map(|_| after)
}

/// What slot 1 may send, and what not.
pub(super) fn allowed() -> Vec<u8> {
    sent(OURS, PEER, UDP)
}

pub(super) fn foreign() -> Vec<u8> {
    sent("192.0.2.7:443", PEER, UDP)
}

/// All of IPv4 that came to the peer before what slot 2 sends now.
pub(super) fn arrived(wire: &Wire) -> Vec<Vec<u8>> {
    std::thread::sleep(Duration::from_millis(100));
    let last = foreign();
    wire.slots[2].send(&last);
    let mut frames = Vec::new();
    loop {
        let frame = wire.peer.receive(|frame| frame[12..14] == [8, 0]).unwrap();
        if frame == last {
            return frames;
        }
        frames.push(frame);
    }
}

/// Every place of the queue is this frame, and there is no end of it.
fn flood(sender: &Sender, frame: &[u8]) {
    sender.put(&vec![frame; QUEUE_LEN as usize]);
    sender.set_word(END, sender.word(TAKEN).wrapping_sub(1));
}

/// For so long as a test bears, and on until it has come to what is to be seen.
pub(super) fn for_a_while(mut work: impl FnMut() -> bool) {
    let start = Instant::now();
    while !work() || start.elapsed() < Duration::from_millis(300) {
        assert!(start.elapsed() < PATIENCE, "it is never seen");
    }
}

/// Ends the threads of a scope, also where its own part fails.
pub(super) struct AtLast<'a>(pub(super) &'a AtomicBool);

impl Drop for AtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A slot that was given to somebody else, at another interface, or that nobody has.
#[test]
fn a_holder_of_old_sends_nothing() {
    in_namespace("a_holder_of_old_sends_nothing", || {
        let wire = wire();
        let sender = sender(&wire);
        sender.send(&[allowed()]);
        wire.peer.expect(&allowed());
        let first = wire.model.slots[1];
        let others = Slot {
            ifindex: wire.model.slots[2].ifindex,
            ..first
        };
        let emptied = Slot {
            kind: SlotKind::None,
            ..first
        };
        for (slot, count) in [(others, 100), (Slot::default(), 10), (emptied, 5)] {
            let (key, value) = (1_u32.to_ne_bytes(), slot.to_bytes());
            wire.tables.0.slots.update(&key, &value).unwrap();
            sender.send(&vec![allowed(); count]);
        }
        assert_eq!(arrived(&wire), Vec::<Vec<u8>>::new());
        // What the interfaces say by themselves is counted for the slot, too.
        assert!(wire.tables.counters(1)[Counter::NoRing as usize] >= 5);
        let expected = [(0, Counter::NoRing, 110), (1, Counter::TxPackets, 1)];
        expect_counted(&wire.tables, &expected);
    });
}

/// Descriptors that are no frames are refused, whatever stands around them; so is what is not the slot's.
#[test]
fn descriptors_that_lie_are_refused() {
    in_namespace("descriptors_that_lie_are_refused", || {
        let wire = wire();
        let sender = sender(&wire);
        let word = |chunk: u32, offset: u32, len: u32| {
            u64::from(len) << 48 | u64::from(offset) << 32 | u64::from(chunk)
        };
        let lies = [
            0,
            u64::MAX,
            word(0, 0, 13),
            word(0, 0, CHUNK_SIZE),
            word(0, 0, 0x8000 | 60),
            word(0, 257, 60),
            word(0, 0xffff, 60),
            word(QUEUE_LEN, 0, 60),
            word(u32::MAX, 0, 60),
        ];
        sender.put(&vec![allowed(); lies.len() + 1]);
        for (n, lie) in lies.into_iter().enumerate() {
            sender.set_word(sender.place(n as u64), lie);
        }
        sender.run(&ipv4());
        assert_eq!(sender.words().refused, lies.len() as u64);
        sender.send(&[foreign(), allowed(), foreign()]);
        assert_eq!(arrived(&wire), [allowed(), allowed()]);
        expect_counted(&wire.tables, &[(1, Counter::TxBadSource, 2)]);
    });
}

/// What the caller may say of the buffer beside its bytes is set back, refused, or says nothing.
#[test]
fn the_context_changes_nothing() {
    in_namespace("the_context_changes_nothing", || {
        let mut wire = wire();
        let plenty = Bucket {
            tokens: 1 << 30,
            last: 1 << 62,
            ..Bucket::new(1, 1 << 30)
        };
        wire.model.slots[1].tx.ceiling = plenty;
        wire.tables.fill(&wire.model);
        let sender = sender(&wire);
        let other = wire.model.slots[2].ifindex;
        let harmless: [&[(usize, u32)]; 9] = [
            &[],
            &[(MARK, 7)],
            &[(PRIORITY, u32::MAX)],
            &[(TIME, 1), (TIME + 1, 1)],
            &[(CONTROL_BLOCK, 1), (CONTROL_BLOCK + 4, u32::MAX)],
            &[(WIRE_LEN, 65_000)],
            &[(IFINDEX, other)],
            &[(IFINDEX, wire.device)],
            &[(INGRESS, sender.ifindex)],
        ];
        let mut frames = 0;
        for words in harmless {
            let mut context = [0; 48];
            words.iter().for_each(|(at, word)| context[*at] = *word);
            sender.put(&[allowed(), allowed()]);
            let after = run(sender.program.raw_fd(), &ipv4(), &context, 0).unwrap();
            let reset = [MARK, PRIORITY, TIME, TIME + 1].map(|at| after[at]);
            assert_eq!(reset, [0; 4], "{words:?}");
            frames += 2;
        }
        assert_eq!(arrived(&wire), vec![allowed(); frames]);
        expect_counted(&wire.tables, &[(1, Counter::TxPackets, frames as u64)]);
        let charged = plenty.tokens - wire.tables.slot(1).tx.ceiling.tokens;
        assert_eq!(charged, (frames * allowed().len()) as i64);

        let refused: [&[(usize, u32)]; 5] = [
            &[(SEGMENT_SIZE, 1448)],
            &[(SEGMENT_SIZE, 1), (SEGMENTS, 60)],
            &[(SEGMENTS, 2)],
            &[(HARDWARE_TIME + 1, 1)],
            &[(INGRESS, other)],
        ];
        for words in refused {
            let mut context = [0; 48];
            words.iter().for_each(|(at, word)| context[*at] = *word);
            let before = sender.word(REFUSED);
            sender.put(&[allowed(), allowed()]);
            run(sender.program.raw_fd(), &ipv4(), &context, 0).unwrap();
            assert_eq!(sender.word(REFUSED), before + 2, "{words:?}");
        }
        sender.put(&[allowed(), allowed()]);
        let before = sender.word(REFUSED);
        match run(
            sender.program.raw_fd(),
            &ipv4(),
            &[0; 48],
            CHECKSUM_COMPLETE,
        ) {
            Ok(_) => assert_eq!(sender.word(REFUSED), before + 2),
            // Not known to older kernels.
            Err(error) => assert_eq!(error, libc::EINVAL),
        }
        assert_eq!(arrived(&wire), Vec::<Vec<u8>>::new());
        expect_counted(&wire.tables, &[(1, Counter::TxPackets, frames as u64)]);
    });
}

/// Whatever the buffer begins as: the frame leaves as it is in memory, or not at all.
#[test]
fn the_beginning_changes_nothing() {
    in_namespace("the_beginning_changes_nothing", || {
        let wire = wire();
        let sender = sender(&wire);
        let tagged = {
            let mut frame = allowed();
            frame.splice(12..12, [0x81, 0, 0, 5]);
            frame
        };
        let types = [
            [8, 0],
            [0x86, 0xdd],
            [8, 6],
            [0x81, 0],
            [0x88, 0xa8],
            [0, 60],
        ];
        let mut expected = 0;
        for ethertype in types {
            for len in [14, 15, 33, 34, 54, 60, 1514, 3000, 4000, 9000] {
                let mut beginning = beginning(&ethertype);
                beginning.resize(len, 0xff);
                sender.put(&[&allowed(), &tagged]);
                let ran = sender.program.run_batch(&beginning, 0, 1).is_ok();
                assert!(
                    ran || !(54..=3000).contains(&len),
                    "{len} of {ethertype:x?}"
                );
                expected += usize::from(ran && ethertype == [8, 0]);
                sender.set_word(END, sender.word(TAKEN));
            }
        }
        assert!(expected >= 5);
        assert_eq!(arrived(&wire), vec![allowed(); expected]);
        let tx = wire.tables.counters(1);
        assert_eq!(tx[Counter::TxPackets as usize], expected as u64);
    });
}

/// A frame that is changed while it is sent leaves as what was checked.
#[test]
fn frames_that_change_meanwhile_leave_as_checked() {
    in_namespace("frames_that_change_meanwhile_leave_as_checked", || {
        let wire = wire();
        let sender = sender(&wire);
        flood(&sender, &allowed());
        for place in 0..u64::from(QUEUE_LEN) {
            sender.set_word(sender.place(place), sender.word(sender.place(0)));
        }
        let (mut got, is_over) = (0, AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    sender.write(0, &foreign());
                    sender.write(0, &allowed());
                }
            });
            let _ends = AtLast(&is_over);
            for_a_while(|| {
                sender.program.run_batch(&ipv4(), 0, 2).unwrap();
                while let Some(frame) = wire.peer.next() {
                    if frame[12..14] == [8, 0] {
                        assert_eq!(frame[26..36], allowed()[26..36], "source and port");
                        got += 1;
                    }
                }
                got > 100 && wire.tables.counters(1)[Counter::TxBadSource as usize] > 0
            });
        });
    });
}

/// Many threads that run it without end: each frame is checked, counted once, and within the share.
#[test]
fn many_threads_get_no_more_than_one() {
    const THREADS: u64 = 6;
    in_namespace("many_threads_get_no_more_than_one", || {
        let mut wire = wire();
        let sender = sender(&wire);
        flood(&sender, &allowed());
        let sent = |tables: &gate::Tables| tables.counters(1)[Counter::TxPackets as usize];
        let run_until = |tables: &gate::Tables, at_least| {
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        for_a_while(|| {
                            sender.program.run_batch(&ipv4(), 0, 20).unwrap();
                            sent(tables) >= at_least
                        });
                    });
                }
            });
        };
        run_until(&wire.tables, 10_000);
        let len = allowed().len() as u64;
        let counters = wire.tables.counters(1);
        let packets = counters[Counter::TxPackets as usize];
        assert_eq!(counters[Counter::TxBytes as usize], packets * len);
        while let Some(frame) = wire.peer.next() {
            assert!(frame[12..14] != [8, 0] || frame == allowed());
        }
        wire.model.slots[1].tx.ceiling = Bucket {
            tokens: (50 * len) as i64,
            last: 1 << 62,
            ..Bucket::new(1, 1 << 30)
        };
        wire.tables.fill(&wire.model);
        run_until(&wire.tables, packets + 50);
        let more = sent(&wire.tables) - packets;
        assert!((50..=50 + THREADS).contains(&more), "{more}");
    });
}

/// The program sends by the interfaces of the namespace that it is run in: by none but those of the gate's own.
#[test]
fn in_another_namespace_nothing_is_sent() {
    let test = "in_another_namespace_nothing_is_sent";
    if namespace().is_none() {
        return common::skipped(&format!("{test}: no type information"));
    }
    in_namespace(test, || {
        let wire = wire();
        let sender = sender(&wire);
        let elsewhere = NetNs::anonymous().unwrap();
        sender.put(&vec![allowed(); 100]);
        let run = || sender.run(&ipv4());
        elsewhere.run(run).unwrap();
        assert_eq!(sender.words().returned, 100);
        sender.send(&[allowed()]);
        assert_eq!(arrived(&wire), [allowed()]);
        expect_counted(&wire.tables, &[(1, Counter::TxPackets, 1)]);
    });
}

const NOBODY: u32 = 65_534;

/// A copy that a program started from here has too.
fn inherited(fd: RawFd) -> OwnedFd {
    // SAFETY: numbers only; the new descriptor is ours alone.
    unsafe { OwnedFd::from_raw_fd(libc::fcntl(fd, libc::F_DUPFD, 100)) }
}

/// A program of nobody runs it, and can do nothing else with its descriptors.
#[test]
fn who_has_no_privilege_runs_it_and_no_more() {
    in_namespace("who_has_no_privilege_runs_it_and_no_more", || {
        let wire = wire();
        let sender = sender(&wire);
        sender.put(&[allowed(), foreign(), allowed()]);
        let fds = [
            sender.program.raw_fd(),
            sender.queue.raw_fd(),
            sender.frames.raw_fd(),
        ];
        let fds = fds.map(inherited);
        let numbers = fds.each_ref().map(|fd| fd.as_raw_fd().to_string());
        let output = Command::new("/proc/self/exe")
            .args(["gate_wire::batch_attacks::program_of_nobody", "--exact"])
            .args(["--ignored", "--nocapture"])
            .env("EXOS_TEST_FDS", numbers.join(","))
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let passed = output.status.success() && said.contains("1 passed");
        assert!(passed, "{said}");
        assert_eq!(sender.word(TAKEN), sender.word(END));
        assert_eq!(arrived(&wire), [allowed(), allowed()]);
        expect_counted(&wire.tables, &[(1, Counter::TxBadSource, 1)]);
    });
}

#[test]
#[ignore = "run by another test of this file, in a process of its own"]
fn program_of_nobody() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"));
    assert!(status.contains(&format!("Uid:\t{NOBODY}\t{NOBODY}")));
    let fds = std::env::var("EXOS_TEST_FDS").unwrap();
    let fds: Vec<RawFd> = fds.split(',').map(|fd| fd.parse().unwrap()).collect();
    let [program, queue, frames] = fds[..] else {
        panic!("three descriptors");
    };
    // Both memories can be mapped.
    for (fd, len) in [
        (queue, 8 * QUEUE_WORDS),
        (frames, (CHUNK_SIZE * QUEUE_LEN) as usize),
    ] {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, which nobody uses.
        let mapped =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
    }
    attached_nowhere(program);
    in_no_map(program, queue);
    run(program, &ipv4(), &[0; 48], 0).unwrap();
}

/// Neither to interfaces, nor namespaces, control groups, sockets, or events.
fn attached_nowhere(program: RawFd) {
    let open = |path| std::fs::File::open(path).ok();
    let things = [open("/proc/self/ns/net"), open("/sys/fs/cgroup")];
    let things = things.iter().flatten().map(|file| file.as_raw_fd() as u32);
    let targets: Vec<u32> = (0..40).chain(things).collect();
    // More than there are (enum bpf_attach_type).
    for kind in 0..80 {
        for &target in &targets {
            for flags in [0, 1 << 1, 1 << 2] {
                let link = [program as u32, target, kind, flags, 0, 0, 0, 0];
                assert!(bpf(LINK_CREATE, &link).is_err(), "link {link:?}");
            }
            let attach = [target, program as u32, kind, 0, 0, 0, 0, 0];
            assert!(bpf(PROG_ATTACH, &attach).is_err(), "{attach:?}");
        }
    }
    let [low, high] = address(c"sys_enter".as_ptr());
    assert!(bpf(RAW_TRACEPOINT_OPEN, &[low, high, program as u32, 0]).is_err());
    let socket = UdpSocket::bind("[::]:0").unwrap();
    const SO_ATTACH_REUSEPORT_EBPF: i32 = 52;
    for option in [libc::SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_EBPF] {
        // SAFETY: a value of the length given.
        let set = unsafe {
            let value = (&raw const program).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, 4)
        };
        assert_eq!(set, -1);
    }
}

/// It is called by no other program, and leads to nothing that it uses.
fn in_no_map(program: RawFd, queue: RawFd) {
    const PROG_ARRAY: u32 = 3;
    const DEVMAP: u32 = 14;
    const XSKMAP: u32 = 17;
    for kind in [DEVMAP, XSKMAP] {
        assert!(bpf(MAP_CREATE, &[kind, 4, 4, 1, 0]).is_err());
    }
    // Where everybody may make maps it can stand in one of them: nobody may load a program to call it.
    match bpf(MAP_CREATE, &[PROG_ARRAY, 4, 4, 1, 0]) {
        Err(error) => assert_eq!(error, libc::EPERM),
        // SAFETY: just made.
        Ok(map) => drop(unsafe { OwnedFd::from_raw_fd(map) }),
    }
    // The memory is data: a descriptor written into it is a number.
    let (key, mut value) = (0_u32, vec![0_u64; QUEUE_WORDS]);
    value[DESCRIPTORS] = program as u64;
    let [key_low, key_high] = address(&key);
    let [value_low, value_high] = address(&value[..]);
    let update = |fd: RawFd| [fd as u32, 0, key_low, key_high, value_low, value_high, 0, 0];
    assert!(bpf(MAP_UPDATE, &update(program)).is_err());
    assert!(queue >= 0);
    for command in [MAP_GET_FD_BY_ID, PROG_GET_FD_BY_ID] {
        for id in 1..2000 {
            let got = bpf(command, &[id, 0, 0, 0]);
            assert!(matches!(got, Err(libc::EPERM | libc::ENOENT)), "{got:?}");
        }
    }
}
