//! Connections that are secured before anything is asked on them.

use super::*;
use crate::statistics::{EARLY_LEFT, Handshake};

impl World {
    fn secured(slots: u32) -> Self {
        let mut world = Self::closed(behaviour(slots, 2));
        world.wire.is_secured = true;
        world
    }

    fn handshake(&mut self, id: usize, became: Result<bool, &'static str>) -> &mut Self {
        let done = |is_resumed| Handshake {
            took: Duration::from_millis(3),
            is_resumed,
            early: None,
            agreed: "TLSv1.3".to_owned(),
        };
        let became = became.map(done);
        let became = became.as_ref().map_err(|reason| *reason);
        let token = self.wire.tokens[id];
        self.engine
            .handle_handshake(self.now, token, became, &mut self.wire);
        self.turn()
    }
}

/// Nothing is asked before the handshake is over; it is a time of its own, and part of the request's.
#[test]
fn nothing_is_asked_before() {
    let mut world = World::secured(1);
    world.turn();
    world.pass(2).connect(0);
    assert_eq!(world.did(), [(0, Open)]);
    world.pass(3).handshake(0, Ok(false));
    assert_eq!(world.did(), [(0, BETWEEN)]);
    world.pass(5).data(0, OK).data_and(0, OK, DATA.with(END));
    world.connect(1).handshake(1, Ok(true));
    let seen = &world.engine.statistics;
    assert_eq!((seen.responses, seen.connections), (2, 2));
    let kinds = &seen.handshakes.kinds;
    assert_eq!((kinds.handshakes_full, kinds.handshakes_resumed), (1, 1));
    assert_eq!(seen.handshakes.times.len(), 2);
    assert_eq!(kinds.agreed["TLSv1.3"], 2);
    assert_eq!((seen.connect.max(), seen.total.max() / 10), (2000, 1000));
}

/// Something that happens.
type Event = fn(&mut World);

/// A request that has left with the hello fails by itself, and its handshake beside it.
#[test]
fn handshakes_of_early_requests_that_fail_are_counted() {
    let ways: [(ErrorKind, Event); 2] = [
        (ErrorKind::Timeout, |w| {
            w.pass(10_000);
        }),
        (ErrorKind::Reset, |w| {
            w.event_for(0, EventSet::CLOSED, Reason::Reset);
        }),
    ];
    for (kind, fail) in ways {
        let mut world = World::secured(1);
        world.turn().connect(0);
        let token = world.wire.tokens[0];
        world.engine.handle_early(world.now, token, &mut world.wire);
        fail(&mut world);
        assert_eq!(world.errors(), [(kind, 1)]);
        let failed = &world.engine.statistics.handshakes.kinds.handshakes_failed;
        assert_eq!(failed.clone(), [(EARLY_LEFT.to_owned(), 1)].into());
    }
}

/// So it is on a connection that requests share: counted once, however the connection ends, and not where the handshake succeeds.
#[test]
fn handshakes_of_shared_connections_that_fail_are_counted() {
    let ways: [(u64, Event); 4] = [
        (1, |w| {
            w.pass(10_000);
        }),
        (1, |w| {
            w.event_for(0, EventSet::CLOSED, Reason::Reset);
        }),
        (1, |w| {
            w.event(0, END);
        }),
        (0, |w| {
            w.handshake(0, Ok(true)).pass(10_000);
        }),
    ];
    for (count, end) in ways {
        let mut world = World::shared(shared::http2(1, 2, u32::MAX), Shape::Closed);
        world.wire.is_secured = true;
        world.turn().connect(0);
        let token = world.wire.tokens[0];
        world.engine.handle_early(world.now, token, &mut world.wire);
        world.turn();
        end(&mut world);
        let failed = &world.engine.statistics.handshakes.kinds.handshakes_failed;
        assert_eq!(failed.values().sum::<u64>(), count);
        assert_eq!(failed.get(EARLY_LEFT).copied().unwrap_or(0), count);
    }
}

#[test]
fn handshakes_fail_in_many_ways() {
    let ways: [(&str, Event); 4] = [
        ("certificate_expired", |w| {
            w.handshake(0, Err("certificate_expired"));
        }),
        ("timeout", |w| {
            w.pass(10_000);
        }),
        ("closed", |w| {
            w.event(0, EventSet::CLOSED);
        }),
        ("reset", |w| {
            w.event_for(0, EventSet::CLOSED, Reason::Reset);
        }),
    ];
    for (reason, fail) in ways {
        let mut world = World::secured(1);
        world.turn().connect(0);
        fail(&mut world);
        assert_eq!(world.errors(), [(ErrorKind::Handshake, 1)], "{reason}");
        let failed = &world.engine.statistics.handshakes.kinds.handshakes_failed;
        assert_eq!(failed.clone(), [(reason.to_owned(), 1)].into(), "{reason}");
        // Word of it that comes late concerns nobody, and the client goes on.
        world.handshake(0, Ok(false)).handshake(0, Err("late"));
        world.pass(100).connect(1).handshake(1, Ok(false));
        world.data(1, OK);
        assert_eq!(
            (world.responses(), world.errors().len()),
            (1, 1),
            "{reason}"
        );
    }
}

/// A connection that nobody has in hand any more when the load ends is given up with what is asked on it.
#[test]
fn a_load_ends_within_a_handshake() {
    let mut world = World::secured(2);
    world.turn().connect(0).connect(1).handshake(1, Ok(false));
    assert!(world.engine.abort(world.now, 10, &mut world.wire));
    assert_eq!(world.errors(), [(ErrorKind::Unfinished, 2)]);
    assert!(
        world
            .engine
            .statistics
            .handshakes
            .kinds
            .handshakes_failed
            .is_empty()
    );
}
