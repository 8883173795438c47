//! More clients than may open their connections at once, or be given up at once.

use super::shared::http2;
use super::*;
use crate::limits::OPENING_MAX;

const MANY: u32 = 2 * OPENING_MAX + 10;

fn opened(world: &World) -> usize {
    world.wire.tokens.len()
}

/// Each that has its connection, or will have none, lets the next one begin; the others wait for neither.
#[test]
fn clients_begin_one_after_the_other() {
    let mut world = World::closed(behaviour(MANY, 1));
    world.turn().turn();
    let first = OPENING_MAX as usize;
    assert_eq!(opened(&world), first);
    world.connect(0);
    world.event_for(1, EventSet::CLOSED, Reason::Refused);
    // Two newcomers.
    assert_eq!(opened(&world), first + 2);
    // Who opens another connection is no newcomer, and takes no newcomer's place.
    world.data_and(0, OK, DATA.with(END));
    assert_eq!(opened(&world), first + 3);
    let again = first + 2;
    world.connect(again);
    assert_eq!(opened(&world), first + 3);
    let clients = MANY as usize;
    for id in (2..=clients).filter(|&id| id != again) {
        world.connect(id);
    }
    // The refused client's second attempt waits for its time.
    assert_eq!(opened(&world), clients + 1);
    assert_eq!(world.engine.connections(), clients - 1);
}

/// Of clients that share a connection, one opens it: it is connections that are opened some at a time, and every client begins.
#[test]
fn clients_that_share_connections_all_begin() {
    let most = OPENING_MAX as usize;
    for (connections, streams) in [(3, OPENING_MAX + 100), (OPENING_MAX + 10, 2)] {
        let mut world = World::shared(http2(connections, streams, u32::MAX), Shape::Closed);
        world.turn().turn();
        let connections = connections as usize;
        assert_eq!(opened(&world), connections.min(most));
        for id in 0..connections {
            world.connect(id);
            assert_eq!(opened(&world), connections.min(most + id + 1));
        }
        let clients = connections as u32 * streams;
        assert_eq!(world.engine.requests_under_way(), clients);
        assert_eq!(world.errors(), []);
    }
}

/// A load that is to begin later begins then.
#[test]
fn clients_wait_for_the_start() {
    let mut world = World::closed(behaviour(3, 1));
    let start = world.now;
    world.now = Instant::from_millis(995);
    world.turn();
    assert_eq!(
        (opened(&world), world.engine.poll_timeout()),
        (0, Some(start))
    );
    world.pass(5);
    assert_eq!(opened(&world), 3);
}

/// The caller sends between two goes.
#[test]
fn connections_are_given_up_some_at_a_time() {
    let mut world = World::closed(behaviour(10, 100));
    world.turn();
    for id in 0..5 {
        world.connect(id);
        world.data(id, OK);
    }
    let mut left = Vec::new();
    while !world.engine.abort(world.now, 4, &mut world.wire) {
        left.push(world.engine.connections());
    }
    assert_eq!(left, [6, 2]);
    let aborted = world.did().into_iter().filter(|(_, did)| *did == Abort);
    assert_eq!(aborted.count(), 10);
    assert!(world.engine.is_over());
}
