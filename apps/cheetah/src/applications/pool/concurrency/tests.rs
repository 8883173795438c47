//! Applications that are modelled: processes that share a core, or wait for something else, and clients that ask again at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

/// How long a request takes an application that has this many.
#[derive(Clone, Copy)]
enum Work {
    /// Processes share one core: a page takes this long, in microseconds, with few, and with many the more the more there are.
    Core(u64),
    /// Each waits this long for something else, and takes no processor time.
    Waits(u64),
    /// Of ten requests one waits this long, the others take the core.
    Mixed { core: u64, waits: u64 },
}

/// A server's loop before such an application, in virtual time.
struct World {
    concurrency: Concurrency,
    now_us: u64,
    work: Work,
    clients: usize,
    /// Requests that the application has: until when those that wait do, and how much of the core the others still want.
    waiting: BinaryHeap<Reverse<u64>>,
    computing: Vec<u64>,
    asked: u64,
    answers: u64,
}

impl World {
    fn new(work: Work, clients: usize) -> World {
        World {
            concurrency: Concurrency::new(),
            now_us: 1_000_000,
            work,
            clients,
            waiting: BinaryHeap::new(),
            computing: Vec::new(),
            asked: 0,
            answers: 0,
        }
    }

    fn now(&self) -> Instant {
        Instant::START + Duration::from_micros(self.now_us)
    }

    fn busy(&self) -> usize {
        self.waiting.len() + self.computing.len()
    }

    /// A page's time on the core, as php-fpm's: twice as long with 64 processes as with few.
    fn core_us(&self, page_us: u64) -> u64 {
        let many = (self.busy() as u64).saturating_sub(24);
        page_us + page_us * many.min(40) / 40
    }

    fn ask(&mut self) {
        self.asked += 1;
        let waits = match self.work {
            Work::Core(_) => None,
            // No two of them as long, so that they do not come all at once.
            Work::Waits(time) => Some(time - time / 8 + self.asked * 7919 % (time / 4)),
            Work::Mixed { waits, .. } => self.asked.is_multiple_of(10).then_some(waits),
        };
        match (waits, self.work) {
            (Some(time), _) => self.waiting.push(Reverse(self.now_us + time)),
            (None, Work::Core(page) | Work::Mixed { core: page, .. } | Work::Waits(page)) => {
                self.computing.push(page);
            }
        }
    }

    /// Goes on for this long; the answers in it.
    fn run(&mut self, time_us: u64) -> u64 {
        let (until, answers) = (self.now_us + time_us, self.answers);
        while self.now_us < until {
            let (some_wait, now) = (self.clients > self.busy(), self.now());
            self.concurrency.turn(some_wait, now, now);
            while self.busy() < self.clients.min(self.concurrency.limit()) {
                self.ask();
            }
            let first = self.computing.first().map(|page| self.core_us(*page));
            let computed = first.map(|time| self.now_us + time);
            let waited = self.waiting.peek().map(|Reverse(until)| *until);
            let some_wait = self.clients > self.busy();
            let timeout = self.concurrency.poll_timeout(some_wait);
            let timeout_us = timeout.map(|at| (at - Instant::START).as_micros() as u64);
            let next = [computed, waited].into_iter().flatten().min().unwrap();
            if let Some(timeout) = timeout_us.filter(|timeout| *timeout < next) {
                // What the core does meanwhile is not lost.
                let done = timeout.max(self.now_us + 1) - self.now_us;
                if let Some(page) = self.computing.first_mut() {
                    *page = page.saturating_sub(done).max(1);
                }
                self.now_us += done;
                continue;
            }
            let busy = self.busy();
            if computed == Some(next) {
                self.computing.remove(0);
            } else {
                self.waiting.pop();
                let done = next - self.now_us;
                if let Some(page) = self.computing.first_mut() {
                    *page = page.saturating_sub(done).max(1);
                }
            }
            self.now_us = next;
            self.answers += 1;
            self.concurrency.answered(busy, self.now());
        }
        self.answers - answers
    }
}

#[test]
fn processes_that_share_a_core_have_few_requests() {
    let mut world = World::new(Work::Core(40), 64);
    // The first trials follow one another.
    world.run(2_000_000);
    let mut limits = Vec::new();
    for _ in 0..1000 {
        world.run(1000);
        limits.push(world.concurrency.limit());
    }
    let least = limits
        .iter()
        .filter(|limit| **limit == APPLICATION_AT_ONCE_MIN)
        .count();
    assert!(least > 900, "{least}");
    // With 64 at once a page takes twice as long.
    assert!(world.run(1_000_000) > 23_500);
}

#[test]
fn processes_that_wait_have_all_requests() {
    for time_us in [500, 1_000, 3_000, 10_000, 100_000, 1_000_000] {
        for clients in [17, 31, 50, 63, 256] {
            let mut world = World::new(Work::Waits(time_us), clients);
            world.run(300_000 + 100 * time_us);
            let answers = world.run(4_000_000);
            let all = clients as u64 * 4_000_000 / time_us;
            assert!(
                10 * answers >= 9 * all,
                "{clients} of {time_us}: {answers} of {all}"
            );
        }
    }
}

#[test]
fn a_burst_to_a_slow_application_is_under_way_soon() {
    let mut world = World::new(Work::Waits(100_000), 64);
    world.run(10_000);
    // All, but for one that was answered last.
    assert!(world.busy() >= 63, "{:?}", world.concurrency);
}

#[test]
fn the_few_that_wait_do_not_hold_up_the_others() {
    let mut world = World::new(
        Work::Mixed {
            core: 40,
            waits: 20_000,
        },
        256,
    );
    world.run(500_000);
    // 25,000 pages a second were the core's most with few requests at once, and 12,500 with many; the tenth that waits takes none of it, and with
    // 256 clients allows 128,000.
    assert!(world.run(1_000_000) > 11_000);
}

#[test]
fn the_limit_follows_what_changes() {
    let mut world = World::new(Work::Waits(50_000), 64);
    world.run(1_000_000);
    assert!(world.busy() >= 63);
    world.work = Work::Core(40);
    world.run(1_000_000);
    assert!(world.run(1_000_000) > 23_500);
    world.work = Work::Waits(50_000);
    world.run(1_000_000);
    assert!(world.run(1_000_000) > 1_150);
}

#[test]
fn the_limit_falls_where_it_is_not_used() {
    let mut world = World::new(Work::Waits(50_000), 512);
    world.run(2_000_000);
    assert!(world.concurrency.limit() >= 512);
    world.clients = 20;
    world.run(60_000_000);
    // Or twice that, in a trial.
    assert!(
        world.concurrency.limit() <= 40,
        "{}",
        world.concurrency.limit()
    );
}

#[test]
fn one_look_that_came_late_is_no_stall() {
    let mut concurrency = Concurrency::new();
    let turn = |concurrency: &mut Concurrency, now| concurrency.turn(true, now, now);
    let at = |us| Instant::START + Duration::from_micros(us);
    turn(&mut concurrency, at(10));
    concurrency.answered(16, at(20));
    // The loop did not run for 5 ms, and hears then what was answered.
    turn(&mut concurrency, at(5_000));
    concurrency.answered(16, at(5_000));
    turn(&mut concurrency, at(5_500));
    assert_eq!(concurrency.limit(), APPLICATION_AT_ONCE_MIN);
    // Nothing is heard in two looks.
    let again = concurrency.poll_timeout(true).unwrap();
    assert_eq!(again, at(6_000));
    turn(&mut concurrency, again);
    let again = concurrency.poll_timeout(true).unwrap();
    turn(&mut concurrency, again);
    assert_eq!(concurrency.limit(), 2 * APPLICATION_AT_ONCE_MIN);
    assert_eq!(concurrency.poll_timeout(false), None);
    // However long that goes on.
    for at_us in (10_000..200_000).step_by(500) {
        turn(&mut concurrency, at(at_us));
    }
    assert_eq!(concurrency.limit(), APPLICATION_CONNECTIONS_MAX as usize);
}

#[test]
fn time_does_not_go_back_where_turns_overlap() {
    let mut concurrency = Concurrency::new();
    let at = |us| Instant::START + Duration::from_micros(us);
    concurrency.answered(1, at(5_000));
    for _ in 0..2 * WINDOW_ANSWERS * APPLICATION_AT_ONCE_MIN {
        concurrency.answered(1, at(100));
    }
    concurrency.turn(true, at(5_500), at(5_500));
    concurrency.turn(true, at(200), at(200));
    assert_eq!(concurrency.poll_timeout(true), Some(at(6_000)));
}
