//! Handlers that come and go, and what becomes of messages meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use exos_link::Link;
use exos_xok::Protocol;
use exos_xok::message::PortWish;

use super::{Asker, COUNTERS, Holder, PORT, download, lab_of, remove};
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
    let mut next = None;
    let is_given = within(|| {
        next = None;
        next.insert(Holder::new(&lab, PORT)).slot == slot
    });
    assert!(is_given, "the lowest number is given again");
    let mut next = next.expect("just so");
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

/// Numbers that there are: they come again and again.
const NUMBERS: usize = 4096;

/// Each asker sends numbers from zero on, slowly, until that is over; how many, it tells as it goes.
fn send_numbers(askers: &[Asker], sent: &AtomicUsize, is_over: &AtomicBool) {
    let numbers = (0..NUMBERS as u32).cycle();
    for number in numbers.take_while(|_| !is_over.load(Ordering::Relaxed)) {
        for asker in askers {
            asker.0.send(&number.to_be_bytes()).expect("a neighbour");
        }
        sent.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Counts the numbers that come to the program, until that is over.
fn hear_numbers(mut link: Link, heard: &[AtomicU64], is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        link.receive(|frame, _| {
            let number = frame.get(42..46).and_then(|n| n.try_into().ok());
            let number = number.map(u32::from_be_bytes);
            if let Some(heard) = number.and_then(|n| heard.get(n as usize)) {
                heard.fetch_add(1, Ordering::Relaxed);
            }
        });
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How often each number is to be there when this many have been sent.
fn expected(sent: usize) -> Vec<u64> {
    let times = |number| (sent / NUMBERS + usize::from(number < sent % NUMBERS)) as u64;
    (0..NUMBERS).map(times).collect()
}

/// What has been counted in all of these.
fn counted<'a>(all: impl Iterator<Item = &'a [AtomicU64]>) -> Vec<u64> {
    let mut counts = vec![0; NUMBERS];
    for words in all {
        for (count, word) in counts.iter_mut().zip(words) {
            *count += word.load(Ordering::Relaxed);
        }
    }
    counts
}

/// Ends the threads of a scope whose own part fails.
struct AtLast<'a>([&'a AtomicBool; 2]);

impl Drop for AtLast<'_> {
    fn drop(&mut self) {
        for end in self.0 {
            end.store(true, Ordering::Relaxed);
        }
    }
}

/// Datagrams are numbered, and come while handlers come and go: the handler has each, or the program. Those of another port its own
/// handler has all the time.
#[test]
fn no_message_is_lost_while_handlers_come_and_go() {
    let Some((lab, _takes)) = lab_of("handler-changes") else {
        return;
    };
    let holder = Holder::with_room(&lab, PORT);
    let (program, Link::Xdp(link)) = (holder.program, holder.link) else {
        unreachable!("the daemon lends no others")
    };
    let beside = PORT + 1;
    port_of(&program.claim(Protocol::Udp, PortWish::Number(beside)));
    let noted = |port| download(&program, port, NOTED, NUMBERS).expect("it is sound");
    let all_the_time = noted(beside);
    let askers = [PORT, beside].map(|port| Asker::of(&lab, port));
    let heard: Vec<AtomicU64> = (0..NUMBERS).map(|_| AtomicU64::new(0)).collect();
    let mut memories = Vec::new();
    let (sent, is_sent) = (AtomicUsize::new(0), AtomicBool::new(false));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = AtLast([&is_sent, &is_over]);
        let (numbers, is_heard) = (&heard[..], &is_over);
        scope.spawn(move || hear_numbers(link.into(), numbers, is_heard));
        let sender = scope.spawn(|| send_numbers(&askers, &sent, &is_sent));
        for _ in 0..4 {
            memories.push(noted(PORT));
            let before = sent.load(Ordering::Relaxed);
            let some_came = || sent.load(Ordering::Relaxed) > before + 30;
            assert!(within(some_came), "some are sent");
            remove(&program, Some(PORT));
        }
        is_sent.store(true, Ordering::Relaxed);
        sender.join().expect("it only sends");
        let expected = expected(sent.load(Ordering::Relaxed));
        let everywhere = || counted(memories.iter().map(|m| m.words()).chain([&heard[..]]));
        let are_there = || {
            everywhere()
                .iter()
                .zip(&expected)
                .all(|(has, should)| has >= should)
        };
        let all = within(are_there);
        assert!(all && everywhere() == expected, "{:?}", everywhere());
        let beside = counted([all_the_time.words()].into_iter());
        assert_eq!(beside, expected, "beside them");
    });
    assert!(sent.into_inner() > 100, "some came meanwhile");
}
