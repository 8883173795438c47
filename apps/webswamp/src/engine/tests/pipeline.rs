//! Requests that are sent behind others.

use super::*;

fn pipelined(pipeline: u32, requests_per_connection: u32) -> World {
    World::closed(Behaviour {
        pipeline,
        ..behaviour(1, requests_per_connection)
    })
}

/// As many as may be are under way, and each response makes room for another, however many come at once.
#[test]
fn requests_behind_others() {
    let mut world = pipelined(3, 100);
    world.turn();
    assert_eq!(world.did(), [(0, Open)]);
    world.connect(0);
    assert_eq!(world.did(), [(0, BETWEEN); 3]);
    assert_eq!(world.engine.requests_under_way(), 3);
    world.pass(10).data(0, OK);
    assert_eq!((world.responses(), world.did()), (1, vec![(0, BETWEEN)]));
    world.pass(10).data(0, &OK.repeat(3)[..OK.len() * 2 + 9]);
    assert_eq!((world.responses(), world.did().len()), (3, 2));
    world.data(0, &OK[9..]);
    assert_eq!((world.responses(), world.did().len()), (4, 1));
    assert_eq!(world.engine.requests_under_way(), 3);
    // Those that were sent at once took longer, one after the other.
    let service = &world.engine.statistics.service;
    let around = |micros: u64| service.count_between(micros - 100, micros + 100);
    assert_eq!((around(10_000), around(20_000)), (2, 2));
    assert_eq!(world.errors(), []);
}

/// No more are sent on a connection than it may have, and none behind the last in all.
#[test]
fn the_last_has_none_behind_it() {
    let mut world = pipelined(8, 3);
    world.turn().connect(0);
    assert_eq!(
        world.did(),
        [(0, Open), (0, BETWEEN), (0, BETWEEN), (0, LAST)]
    );
    world.data_and(0, &OK.repeat(3), DATA.with(END));
    assert_eq!((world.responses(), world.errors()), (3, vec![]));
    assert_eq!(world.did(), [(0, Leave), (1, Open)]);

    let mut world = World::closed(Behaviour {
        pipeline: 8,
        requests: 3,
        ..behaviour(1, 100)
    });
    world.turn().connect(0);
    assert_eq!(
        world.did(),
        [(0, Open), (0, BETWEEN), (0, BETWEEN), (0, BETWEEN)]
    );
    world.data(0, &OK.repeat(3));
    assert!(world.engine.is_over());
    assert_eq!((world.responses(), world.errors()), (3, vec![]));
}

/// What is behind a request that fails is lost with its connection, and the client goes on.
#[test]
fn what_is_behind_is_lost() {
    const CLOSED: EventSet = EventSet::CLOSED;
    let closing = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    type Scene = fn(&mut World, &str) -> u64;
    let table: [(&[(ErrorKind, u64)], Scene); 6] = [
        // It says that it closes, with the second of five.
        (&[(ErrorKind::Closed, 3)], |w, closing| {
            w.data(0, &format!("{OK}{closing}")).event(0, END);
            2
        }),
        // It closes without saying so.
        (&[(ErrorKind::Closed, 4)], |w, _| {
            w.event(0, END);
            0
        }),
        (&[(ErrorKind::Closed, 2)], |w, _| {
            w.data_and(0, &OK.repeat(2), END.with(DATA));
            2
        }),
        (&[(ErrorKind::Reset, 1), (ErrorKind::Closed, 3)], |w, _| {
            w.event_for(0, CLOSED, Reason::Reset);
            0
        }),
        (
            &[(ErrorKind::Closed, 3), (ErrorKind::Timeout, 1)],
            |w, _| {
                w.pass(10_000);
                0
            },
        ),
        (
            &[(ErrorKind::Closed, 3), (ErrorKind::Malformed, 1)],
            |w, _| {
                w.data(0, &format!("{OK}SSH-2.0\r\n"));
                1
            },
        ),
    ];
    for (errors, scene) in table {
        let mut world = pipelined(4, 100);
        world.turn().connect(0);
        let responses = scene(&mut world, closing);
        assert_eq!(
            (world.responses(), &world.errors()[..]),
            (responses, errors)
        );
        world.pass(10).connect(1);
        assert_eq!(world.engine.requests_under_way(), 4);
        world.data(1, OK);
        assert_eq!(world.responses(), responses + 1);
    }
    let mut world = pipelined(4, 100);
    world.turn().connect(0).data(0, OK).pass(1);
    assert!(world.engine.abort(world.now, usize::MAX, &mut world.wire));
    assert_eq!(world.errors(), [(ErrorKind::Unfinished, 4)]);
    assert_eq!(world.engine.requests_under_way(), 0);
}

/// The deadline of a request behind others runs from when it is the first.
#[test]
fn deadlines_of_what_is_behind() {
    let mut world = pipelined(2, 100);
    world.turn().connect(0).pass(9_000).data(0, OK);
    world.pass(9_999);
    assert_eq!(world.errors(), []);
    world.pass(1);
    assert_eq!(
        world.errors(),
        [(ErrorKind::Closed, 1), (ErrorKind::Timeout, 1)]
    );
}
