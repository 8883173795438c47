use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::*;
use crate::limits::APPLICATION_AT_ONCE_MIN;

const ALL: usize = APPLICATION_AT_ONCE_MIN;

fn place() -> Place {
    Place::parse("/run/app.sock").expect("a path")
}

/// A loop whose requests wait where there is no permit.
struct Loop {
    permits: LoopPermits,
    woken: Receiver<()>,
    busy: usize,
    waiting: usize,
}

fn loops(count: usize) -> Vec<Loop> {
    let (all, ways) = (AllPermits::default(), (0..count).map(|_| channel()));
    let (wakes, woken): (Vec<_>, Vec<_>) = ways.unzip();
    let of = |(number, woken)| {
        let wakes = wakes.clone();
        let all = all.clone().of_loop(number, move |number| {
            // One that is gone hears nothing.
            let _ = wakes[number].send(());
        });
        Loop {
            permits: all.of(&place()),
            woken,
            busy: 0,
            waiting: 0,
        }
    };
    woken.into_iter().enumerate().map(of).collect()
}

impl Loop {
    /// Requests that wait take what there is.
    fn take(&mut self) {
        let mut lacks = false;
        while self.waiting > 0 && !lacks {
            lacks = !self.permits.allow(self.busy);
            self.busy += usize::from(!lacks);
            self.waiting -= usize::from(!lacks);
        }
        self.permits.settle(self.busy, lacks, Instant::START);
    }

    fn ask(&mut self, requests: usize) {
        self.waiting += requests;
        self.take();
    }

    fn end_one(&mut self) {
        self.busy -= 1;
        self.permits.answered(Instant::START);
        self.take();
    }

    fn is_woken(&self) -> bool {
        let mut is_woken = false;
        while self.woken.try_recv().is_ok() {
            is_woken = true;
        }
        is_woken
    }
}

#[test]
fn what_ends_in_one_loop_makes_room_in_another() {
    let mut all = loops(2);
    all[0].ask(10);
    all[1].ask(10);
    assert_eq!((all[0].busy, all[1].busy), (10, ALL - 10));
    assert!(!all[0].is_woken() && !all[1].is_woken());
    all[0].end_one();
    assert!(all[1].is_woken());
    all[1].take();
    assert_eq!((all[0].busy, all[1].busy), (9, ALL - 9));
}

#[test]
fn each_loop_that_lacks_permits_has_its_part() {
    let mut all = loops(2);
    all[0].ask(1000);
    all[1].ask(1000);
    assert_eq!((all[0].busy, all[1].busy), (ALL, 0));
    for _ in 0..ALL {
        all[0].end_one();
        if all[1].is_woken() {
            all[1].take();
        }
    }
    assert_eq!((all[0].busy, all[1].busy), (ALL / 2, ALL / 2));
    // From there on none wakes the other.
    for number in [0, 1, 0, 0, 1] {
        all[number].end_one();
        assert!(!all[1 - number].is_woken());
    }
    // One that has no more to ask leaves all to the other.
    all[1].waiting = 0;
    for _ in 0..ALL / 2 {
        all[1].end_one();
        assert!(all[0].is_woken());
        all[0].take();
    }
    assert_eq!((all[0].busy, all[1].busy), (ALL, 0));
}

#[test]
fn of_more_loops_than_permits_each_has_its_turn() {
    let mut all = loops(ALL + 4);
    all.iter_mut().for_each(|it| it.ask(1000));
    let mut had: Vec<bool> = all.iter().map(|it| it.busy > 0).collect();
    for round in 0..4 * ALL {
        let ends = (0..all.len()).cycle().skip(round);
        let ends = ends.take(all.len()).find(|at| all[*at].busy > 0);
        all[ends.expect("some have a permit")].end_one();
        for (it, had) in all.iter_mut().zip(&mut had) {
            if it.is_woken() {
                it.take();
            }
            *had |= it.busy > 0;
        }
        assert_eq!(all.iter().map(|it| it.busy).sum::<usize>(), ALL);
    }
    assert!(had.iter().all(|had| *had), "{had:?}");
}

#[test]
fn a_loop_that_needs_no_permit_any_more_lets_the_next_have_it() {
    let mut all = loops(3);
    all.iter_mut().for_each(|it| it.ask(ALL));
    let mut last = all.pop().expect("it is the third");
    all[0].end_one();
    assert!(all[1].is_woken() && !last.is_woken());
    // Its clients have gone.
    all[1].waiting = 0;
    all[1].take();
    assert!(last.is_woken());
    last.take();
    assert_eq!(last.busy, 1);
    // So does one that ends with all that it holds.
    drop(all);
    assert!(last.is_woken());
    last.take();
    assert_eq!(last.busy, ALL);
}

#[test]
fn a_longer_limit_is_for_those_who_wait() {
    let mut all = loops(2);
    all[0].ask(ALL);
    all[1].ask(2);
    let at = |ms| Instant::START + exos_inet::Duration::from_millis(ms);
    assert!(all[0].permits.poll_timeout().is_none());
    assert!(all[1].permits.poll_timeout().is_some());
    assert!(!all[0].is_woken());
    // The loop that would read answers does not run, and is woken.
    for ms in 1..20 {
        all[1].permits.turn(at(ms));
        assert!(all[0].is_woken());
        assert!(all[1].permits.poll_timeout() > Some(at(ms)));
    }
    all[1].take();
    assert_eq!(all[1].busy, 0);
    // What had come it has heard when its turn is over.
    all[0].permits.turn(at(20));
    all[1].permits.turn(at(21));
    all[1].take();
    assert!(all[1].busy == 0 && all[0].is_woken());
    all[0].permits.turn(at(22));
    all[1].permits.turn(at(23));
    all[1].take();
    assert_eq!(all[1].busy, 2);
    all[0].ask(ALL);
    assert_eq!(all[0].busy, 2 * ALL - 2);
}

/// Of loops that only run when they are woken each has its requests answered, and none is left with a permit.
#[test]
fn nobody_sleeps_beside_a_free_permit() {
    let all = loops(4);
    let permits = all[0].permits.permits.clone();
    std::thread::scope(|scope| {
        for (number, mut it) in all.into_iter().enumerate() {
            scope.spawn(move || {
                for round in 0..2000 {
                    it.ask((number + round) % 13);
                    while it.busy + it.waiting > 0 {
                        if it.busy == 0 {
                            let woken = it.woken.recv_timeout(Duration::from_secs(60));
                            woken.expect("a permit is free at last");
                            it.take();
                        }
                        (0..it.busy).for_each(|_| it.end_one());
                    }
                }
            });
        }
    });
    let permits = lock(&permits);
    assert!(permits.taken == 0 && permits.lacking.is_empty());
}
