//! The program that a slot's holder sends by is made beside the loop: nobody waits for it who has not asked for it.
//! As root; skipped, and said so, otherwise.

use crate::bypass::{bypass_of, lends_batches, reports};
use crate::lab::*;

use exos_xok::limits::MESSAGE_BYTES_MAX;
use exos_xok::message::{Answer, FromDaemon, Mode, Request};
use rustix::net::{RecvFlags, recv};

/// Whether an answer is there. Notices before it are read.
fn is_answered(program: &Program) -> bool {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    while let Ok((len, _)) = recv(&program.0, &mut *buffer, flags) {
        match FromDaemon::decode(&buffer[..len]).expect("sound") {
            FromDaemon::Answer(..) => return true,
            FromDaemon::Notice(_) => _ = program.notice(),
        }
    }
    false
}

#[test]
fn others_are_answered_while_a_program_is_verified() {
    let test = "beside-others";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    lab.start(&[]);
    let other = Program::connect(&lab);
    // On a busy machine we may ask too late.
    let is_before = |_| {
        let program = Program::connect(&lab);
        let _attached = program.attached_by(Mode::Shared);
        program.tell(&Request::Bypass);
        let (answer, _) = other.ask(&Request::Status);
        assert!(matches!(answer, Answer::Report { .. }), "{answer:?}");
        let is_before = !is_answered(&program);
        let (answer, fds) = program.answer();
        assert!(matches!(answer, Answer::Bypass { .. }), "{answer:?}");
        assert!(fds.len() >= 5);
        is_before
    };
    assert!((0..12).any(is_before));
}

/// Programs that end while theirs are verified leave nothing that the next one with their number would meet.
#[test]
fn who_ends_meanwhile_leaves_nothing() {
    let test = "beside-gone";
    let Some(mut lab) = Lab::new(test).filter(|_| lends_batches(test)) else {
        return;
    };
    lab.start(&[]);
    for _ in 0..3 {
        let program = Program::connect(&lab);
        let _attached = program.attached_by(Mode::Shared);
        program.tell(&Request::Bypass);
    }
    let next = Program::connect(&lab);
    let attached = next.attached_by(Mode::Shared);
    assert!(reports(&lab, 1), "those that have ended count no more");
    drop(bypass_of(&next));
    drop((next, attached));
    assert!(reports(&lab, 0), "nothing is left");
}
