//! What the fuzz target of the memory that `exos run` shares with programs checks.
//!
//! The file is included by the fuzz target and by `crates/preload/tests/corpus.rs`, which replays the corpus with a
//! stable compiler; it depends on nothing but `exos_preload`.

use std::os::unix::fs::FileExt as _;
use std::ptr::from_ref;
use std::sync::atomic::Ordering;

use exos_preload::memory::{
    DATAGRAM_HEAD, DATAGRAM_MAX, DESCRIPTORS, DatagramHead, LivenessOptions, PROCESSES, Process,
    RING, SOCKETS, Shared, Socket, Untouched, WATCHERS, Watcher,
};
use exos_preload::ring::Ring;

/// Sockets, processes and watchers that a script writes to: the first ones, and the last.
const FEW: u32 = 4;

/// A program writes what the script says wherever it can; whatever is read of that is within bounds, of every number that a program may
/// say, and what is renewed is as new.
pub fn memory(script: &[u8]) {
    let shared = Shared::create().expect("memory");
    let mut number = 0;
    for step in script.chunks_exact(8).take(64) {
        number = u32::from_le_bytes([step[4], step[5], step[6], step[7]]);
        write(&shared, step, number);
    }
    let said = Untouched::of(u64::from(number) << 4 | u64::from(number & 0xf));
    assert!(said.is_none_or(|said| said.part == number));
    for which in 0..FEW {
        socket(&shared, one_of(which, SOCKETS));
        process(&shared, one_of(which, PROCESSES));
        let watcher = one_of(which, WATCHERS);
        shared.watcher(watcher).is_to_be_told();
        shared
            .watcher(watcher)
            .news
            .drain(|told| assert!((told as usize) < SOCKETS));
    }
    assert!(
        shared
            .watchers(number)
            .all(|watcher| (watcher as usize) < WATCHERS)
    );
    assert!((number as usize) < WATCHERS || !shared.has_watcher(number, 0));
    shared
        .work()
        .drain(|done| assert!((done as usize) < SOCKETS));
    assert!(shared.work().is_empty());
}

fn one_of(which: u32, count: usize) -> u32 {
    match which % FEW {
        3 => count as u32 - 1,
        which => which,
    }
}

/// One step: what is written to, which of these, at which of its words, and the word.
fn write(shared: &Shared, step: &[u8], word: u32) {
    let (which, at) = (
        step[1].into(),
        usize::from(u16::from_le_bytes([step[2], step[3]])),
    );
    let number = one_of(which, SOCKETS);
    match step[0] % 6 {
        0 => write_to(shared, shared.socket(number), size_of::<Socket>(), at, word),
        1 => {
            let process = shared.process(one_of(which, PROCESSES));
            write_to(shared, process, size_of::<Process>(), at, word);
        }
        2 => {
            let watcher = shared.watcher(one_of(which, WATCHERS));
            write_to(shared, watcher, size_of::<Watcher>(), at, word);
        }
        3 => write_to(shared, shared.work(), size_of_val(shared.work()), at, word),
        _ => {
            let ring = match which & 4 {
                0 => shared.inward(number),
                _ => shared.outward(number),
            };
            let head = DatagramHead {
                len: word,
                ..DatagramHead::default()
            };
            match step[0] % 2 {
                0 => ring.push(&word.to_ne_bytes().repeat(at)),
                _ => ring.push(&[&head.to_bytes()[..], &vec![step[1]; at]].concat()),
            };
        }
    }
}

fn write_to<T>(shared: &Shared, part: &T, size: usize, at: usize, word: u32) {
    // The memory begins with the page that this stands in.
    let begin = from_ref(shared.engine()).addr() & !0xfff;
    let offset = from_ref(part).addr() - begin + at * 4 % size;
    let file = shared.file().expect("ours");
    let written = file.write_all_at(&word.to_ne_bytes(), offset as u64);
    written.expect("it is as long");
}

fn socket(shared: &Shared, number: u32) {
    let socket = shared.socket(number);
    let liveness = &socket.liveness;
    let seconds = 1..=LivenessOptions::SECONDS_MAX;
    assert!(seconds.contains(&liveness.idle_seconds()));
    assert!(seconds.contains(&liveness.interval_seconds()) && liveness.count() > 0);
    assert!(socket.local.get().len <= 28 && socket.peer.get().len <= 28);
    assert!(
        shared
            .watchers(number)
            .all(|watcher| (watcher as usize) < WATCHERS)
    );
    for ring in [shared.inward(number), shared.outward(number)] {
        datagrams(ring);
        assert!(ring.take(usize::MAX).len() <= RING);
    }
    let taken = shared.socket(1);
    taken.take_options_of(socket);
    assert_eq!(taken.headers(true).class(), socket.headers(true).class());
    // Who is locked out of a socket waits for an instant, of which there are too many here.
    socket.reads.store(0, Ordering::Relaxed);
    socket.writes.store(0, Ordering::Relaxed);
    shared.renew(number);
    assert!(!socket.is(u32::MAX) && !socket.has(u32::MAX) && !socket.is_closed());
    written(shared.inward(number));
    written(shared.outward(number));
}

/// Whatever is in a ring, and wherever its positions are, what is taken out of it are datagrams.
fn datagrams(ring: Ring<'_>) {
    for _ in 0..=RING / DATAGRAM_HEAD {
        let Some((head, payload)) = ring.take_datagram() else {
            break;
        };
        assert!(payload.len() == head.len as usize && payload.len() <= DATAGRAM_MAX);
        assert!(head.peer.len <= 28 && head.local.len <= 28 && ring.len() <= RING);
    }
}

/// A ring that is as new has what is written to it, and that whole.
fn written(ring: Ring<'_>) {
    assert!(ring.is_empty() && ring.free() == RING);
    let payload = [1; 1000];
    let head = DatagramHead {
        len: 1000,
        ..DatagramHead::default()
    };
    assert!(ring.push_datagram(&head, &payload));
    assert_eq!(ring.take_datagram(), Some((head, payload.to_vec())));
    assert_eq!(ring.push(&vec![2; RING + 1]), RING);
    assert!(!ring.push_datagram(&head, &payload));
}

fn process(shared: &Shared, part: u32) {
    for (fd, number) in shared.descriptors(part) {
        assert!((fd as usize) < DESCRIPTORS && shared.assigned(part, fd) == Some(number));
        // Any number is a socket's.
        shared.socket(number).is_closed();
    }
    for fd in [
        -1,
        0,
        1,
        DESCRIPTORS as i32 - 1,
        DESCRIPTORS as i32,
        i32::MAX,
    ] {
        let has_place = usize::try_from(fd).is_ok_and(|fd| fd < DESCRIPTORS);
        let is_known = shared.assigned(part, fd).is_some();
        assert!(has_place || !is_known && !shared.is_nothing(part, fd));
        let left = shared.unassign(part, fd);
        assert_eq!(left.is_some(), is_known);
    }
    shared.shown_limits(part, [0, u64::MAX]);
    shared.leave_process(part);
    assert_eq!(shared.descriptors(part).count(), 0);
    assert!(!shared.has_raised_limits(part));
}
