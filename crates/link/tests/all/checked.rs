//! A daemon's program that takes no frames: they leave by the ring, and it is asked again later.

use crate::common;
use crate::live_frames::{BATCH, receive_batch, send_batch};

use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use common::*;
use exos_filter::ebpf::{Assembler, Condition, Emit, Reg, Size};
use exos_filter::transmit::{DESCRIPTORS, END, QUEUE_LEN, QUEUE_WORDS, TAKEN};
use exos_host::bpf::{Map, MappedArray, Prog};
use exos_link::{CheckedParts, Link, TransmitChoice};

/// The word that says whether the program takes frames: the last descriptor's, which so few do not reach.
const WORKS: usize = DESCRIPTORS + QUEUE_LEN as usize - 1;

/// For how long it is not asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// A program that takes all frames and sends none, or takes none.
fn program(queue: &MappedArray) -> Prog {
    let mut asm = Assembler::new();
    let (key, done) = (-4, asm.label());
    asm.store_imm(Size::Word, Reg::R10, key, 0);
    asm.look_up(queue.raw_fd(), key, done);
    asm.load(Size::Double, Reg::R1, Reg::R0, 8 * WORKS as i16);
    asm.jump_if(Reg::R1, Condition::Equal, 0, done);
    asm.load(Size::Double, Reg::R1, Reg::R0, 8 * END as i16);
    asm.store(Size::Double, Reg::R0, 8 * TAKEN as i16, Reg::R1);
    asm.bind(done);
    asm.set(Reg::R0, 0);
    asm.exit();
    let code = asm.finish().expect("it is short");
    let words: Vec<u64> = code.into_iter().map(|insn| insn.to_word()).collect();
    Prog::load_action(&words, "takes").expect("it does no harm")
}

fn lent(queue: &MappedArray) -> CheckedParts {
    let frames = Map::mappable_array("frames", 2048, 64).expect("memory");
    let again = Map::prog_array(1).expect("memory");
    let owned = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().expect("a descriptor");
    CheckedParts {
        live: None,
        program: owned(program(queue).as_fd()),
        frames: owned(frames.as_fd()),
        queue: owned(queue.map().as_fd()),
        again: owned(again.as_fd()),
        places: 64,
        interface: 0,
    }
}

#[test]
fn a_program_that_fails_is_asked_again_later() {
    if skip_without_root("a_program_that_fails_is_asked_again_later") {
        return;
    }
    let wire = Wire::new(1500);
    let socket = wire.their_socket();
    let port = socket.local_addr().unwrap().port();
    let queue = MappedArray::new("queue", 8 * QUEUE_WORDS, 1).expect("memory");
    let mut link = open_xdp();
    let Link::Xdp(xdp) = &mut link else {
        unreachable!("it was opened so")
    };
    xdp.send_checked(lent(&queue), TransmitChoice::Batches)
        .expect("it fits together");

    let failed = Instant::now();
    for batch in 0..5 {
        send_batch(&mut link, &wire, port, batch * BATCH);
        receive_batch(&socket, batch * BATCH);
    }
    let calls = counter(&link, "tx_checked_calls");
    assert!(calls == 1 || failed.elapsed() > PAUSE, "{calls} calls");
    assert_eq!(counter(&link, "tx_checked_failed"), calls);
    assert_eq!(counter(&link, "tx_checked_frames"), 0);

    queue.words()[WORKS].store(1, Relaxed);
    std::thread::sleep(PAUSE + Duration::from_millis(100));
    for batch in 1..=3 {
        send_batch(&mut link, &wire, port, 0);
        let frames = counter(&link, "tx_checked_frames");
        assert_eq!(frames, u64::from(batch * BATCH));
    }
    assert_eq!(counter(&link, "tx_checked_failed"), calls);
}
