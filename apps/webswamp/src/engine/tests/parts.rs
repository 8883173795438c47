//! Parts of a load, as several cores make them: together they are the load that one core would make.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::*;
use crate::driver::replay::Replay;
use crate::driver::weighted::Weighted;

/// Requests as they were asked for, and when, in microseconds.
type RequestLog = Rc<RefCell<Vec<(u64, u32)>>>;

/// Notes what another driver says, at the time that a test has set.
struct Noted<D> {
    driver: D,
    now: Rc<RefCell<u64>>,
    asked: RequestLog,
}

impl<D: Driver> Driver for Noted<D> {
    fn requests(&self) -> &[Request] {
        self.driver.requests()
    }

    fn next(&mut self, client: u32) -> Option<Task> {
        let task = self.driver.next(client)?;
        self.asked
            .borrow_mut()
            .push((*self.now.borrow(), task.request));
        Some(task)
    }
}

/// Runs a part of a load, whose server answers at once, to its end: what was asked for and when, and what was seen.
fn run(
    whole: &Behaviour,
    part: Part,
    shape: impl Fn(Instant) -> Shape,
    driver: impl Driver + 'static,
) -> (Vec<(u64, u32)>, World) {
    let start = Instant::from_millis(1000);
    let (now, asked) = (Rc::new(RefCell::new(start.micros())), RequestLog::default());
    let driver = Box::new(Noted {
        driver,
        now: now.clone(),
        asked: asked.clone(),
    });
    let behaviour = whole.part(part);
    let mut world = World {
        engine: Engine::new(behaviour, shape(start), driver, start, start),
        wire: Wire::default(),
        now: start,
    };
    while !world.engine.is_over() {
        if let Some(next) = world.engine.poll_timeout() {
            world.now = world.now.max(next);
            *now.borrow_mut() = world.now.micros();
        }
        world.turn();
        answer(&mut world);
    }
    (asked.take(), world)
}

/// Until nothing is asked any more.
fn answer(world: &mut World) {
    loop {
        let did = world.did();
        if did.is_empty() {
            return;
        }
        for (id, did) in did {
            match did {
                Open => world.connect(id),
                Send { .. } => world.data(id, OK),
                _ => panic!("{did:?}"),
            };
        }
    }
}

fn requests(count: u32) -> Vec<Request> {
    let request = Request::new(&Content::get(&"http://h/".parse().unwrap()));
    vec![request; count as usize]
}

/// The n-th request of an open loop begins at the same moment and is the same, whichever core makes it, and there are as many.
#[test]
fn an_open_loop_of_parts() {
    let whole = Behaviour {
        requests: 500,
        ..behaviour(1000, u32::MAX)
    };
    let shape = |part: Part| {
        move |start| {
            let phase = |from, to| Phase {
                time: Duration::from_secs(3),
                from,
                to,
            };
            let phases = vec![phase(50.0, 50.0), phase(50.0, 200.0)];
            Shape::Open(Schedule::new(phases, Arrivals::Poisson, 3, start).part(part))
        }
    };
    let driver = |part: Part| {
        let weights = vec![3.0, 2.0, 1.0];
        Weighted::new(requests(3), weights, 7, Duration::ZERO).part(part)
    };
    let make = |part: Part| run(&whole, part, shape(part), driver(part));
    let (all, _) = make(Part::WHOLE);
    assert_eq!(all.len(), 500);
    for of in 2..5 {
        for part in Part::all(of) {
            let (its, world) = make(part);
            let places = 0..part.count(500);
            let wanted = places.map(|place| all[part.number(place) as usize]);
            assert!(its.iter().copied().eq(wanted), "{part:?}");
            assert_eq!(world.responses(), its.len() as u64);
        }
    }
}

/// Clients and lines of a log are divided: each line is asked for once, and each client has its connection.
#[test]
fn a_closed_loop_of_parts() {
    for (clients, of) in [(7, 2), (7, 3), (4, 4)] {
        let whole = behaviour(clients, u32::MAX);
        let (mut lines, mut connections, mut responses) = (Vec::new(), 0, 0);
        for part in Part::all(of) {
            let order: Arc<[u32]> = (0..100).collect();
            let driver = Replay::new(requests(100), order, part, Duration::ZERO);
            let (its, world) = run(&whole, part, |_| Shape::Closed, driver);
            lines.extend(its.into_iter().map(|(_, line)| line));
            connections += world.wire.tokens.len() as u32;
            responses += world.responses();
        }
        lines.sort_unstable();
        assert!(lines.into_iter().eq(0..100), "{clients} on {of}");
        assert_eq!((connections, responses), (clients, 100));
    }
}

/// What is divided of a behaviour is all of it.
#[test]
fn parts_of_a_behaviour() {
    for (slots, requests) in [(10, 10), (11, 3), (3, u64::MAX)] {
        let whole = Behaviour {
            requests,
            ..behaviour(slots, 1)
        };
        let parts: Vec<Behaviour> = Part::all(3).map(|part| whole.part(part)).collect();
        assert_eq!(parts.iter().map(|it| it.slots).sum::<u32>(), slots);
        assert_eq!(parts.iter().map(|it| it.requests).sum::<u64>(), requests);
        let opening: u32 = parts.iter().map(|it| it.opening).sum();
        assert_eq!(opening, OPENING_MAX);
    }
    // Who may open none opens one at a time.
    let few = Behaviour {
        opening: 2,
        ..behaviour(9, 1)
    };
    assert_eq!(few.part(Part::new(2, 3)).opening, 1);
}
