//! Handlers that come and go, and what becomes of messages meanwhile.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use exos_xok::Protocol;
use exos_xok::message::PortWish;

use super::{Asker, COUNTERS, Holder, PORT, lab_of};
use crate::lab::*;

#[test]
fn a_handler_goes_with_its_program() {
    let Some((lab, _takes)) = lab_of("handler-goes") else {
        return;
    };
    let holder = Holder::new(&lab, PORT);
    holder.download(PORT, COUNTERS, 1024).expect("it is sound");
    let asker = Asker::new(&lab);
    assert_eq!(asker.ask(7, 1), 0);
    let slot = holder.slot;
    drop(holder);
    // The next one has its port and, when that is free again, its place.
    let mut next = Holder::new(&lab, PORT);
    for _ in 0..20 {
        if next.slot == slot {
            break;
        }
        drop(next);
        next = Holder::new(&lab, PORT);
    }
    assert_eq!(next.slot, slot, "the lowest number is given again");
    assert!(
        next.receives(&lab, "twelve bytes"),
        "nothing handles any more"
    );
    next.must_count("handler_answered", 0);
}

/// Counts a message by the number that it begins with.
const NOTED: &str = "handler noted {
    words seen[4096];
    need 4;
    place = &seen[be32(0)];
    add(place, 1);
    done;
}";

/// Each asker sends numbers from zero on, slowly, until that is over; how many, it tells as it goes.
fn send_numbers(askers: &[Asker], sent: &AtomicUsize, is_over: &AtomicBool) {
    for number in (0..4096_u32).take_while(|_| !is_over.load(Ordering::Relaxed)) {
        for asker in askers {
            asker.0.send(&number.to_be_bytes()).expect("a neighbour");
        }
        sent.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Datagrams are numbered, and come while handlers come and go: the handler has each, or the program. Those of another port its own
/// handler has all the time.
#[test]
fn no_message_is_lost_while_handlers_come_and_go() {
    let Some((lab, _takes)) = lab_of("handler-changes") else {
        return;
    };
    let mut holder = Holder::new(&lab, PORT);
    let beside = PORT + 1;
    port_of(
        &holder
            .program
            .claim(Protocol::Udp, PortWish::Number(beside)),
    );
    let all_the_time = holder.download(beside, NOTED, 4096).expect("it is sound");
    let askers = [PORT, beside].map(|port| Asker::of(&lab, port));
    let (mut by_program, mut memories) = (vec![0_u64; 4096], Vec::new());
    let mut hear = |holder: &mut Holder| {
        holder.link.receive(|frame, _| {
            let number = frame.get(42..46).and_then(|n| n.try_into().ok());
            let number = number.map(u32::from_be_bytes);
            if let Some(seen) = number.and_then(|n| by_program.get_mut(n as usize)) {
                *seen += 1;
            }
        });
        by_program.clone()
    };
    let (sent, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send_numbers(&askers, &sent, &is_over));
        for _ in 0..4 {
            memories.push(holder.download(PORT, NOTED, 4096).expect("it is sound"));
            hear(&mut holder);
            let before = sent.load(Ordering::Relaxed);
            let some_came = || sent.load(Ordering::Relaxed) > before + 30;
            assert!(within(Duration::from_secs(60), some_came), "some are sent");
            holder.remove(Some(PORT));
            hear(&mut holder);
        }
        is_over.store(true, Ordering::Relaxed);
        sender.join().expect("it only sends");
    });
    let sent = sent.into_inner();
    let mut counts = Vec::new();
    let all = within(Duration::from_secs(10), || {
        let by_program = hear(&mut holder);
        let handled = |n: usize| {
            memories
                .iter()
                .map(move |m| m.words()[n].load(Ordering::Relaxed))
        };
        let counted = (0..sent).map(|n| by_program[n] + handled(n).sum::<u64>());
        counts = counted.collect();
        counts.iter().all(|count| *count >= 1)
    });
    assert!(all && counts.iter().all(|count| *count == 1), "{counts:?}");
    assert!(sent > 100, "some came meanwhile: {sent}");
    let beside = all_the_time.words()[..sent].iter();
    let beside: Vec<_> = beside.map(|n| n.load(Ordering::Relaxed)).collect();
    assert!(beside.iter().all(|count| *count == 1), "{beside:?}");
}
