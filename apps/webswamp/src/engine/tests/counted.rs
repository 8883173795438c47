//! Bodies that are counted where they arrive.

use super::*;

const TEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
const ENDLESS: &str = "HTTP/1.1 200 OK\r\n\r\n";

fn skipping(world: &World) -> u32 {
    world.wire.skipping[0]
}

fn content(world: &World) -> u64 {
    world.engine.statistics.content
}

/// The rest of a body is counted, from its head on or from where it was cut; the next response is taken in again.
#[test]
fn a_body_of_known_length() {
    let mut world = World::closed(behaviour(1, 100));
    world.turn().connect(0).data(0, TEN);
    assert_eq!(skipping(&world), 10);
    world.data(0, "01234567").data(0, "89");
    assert_eq!((world.responses(), content(&world)), (1, 10));
    world.data(0, &format!("{TEN}012"));
    assert_eq!((skipping(&world), world.responses()), (7, 1));
    // What nobody asked for is noticed behind it, too.
    world.data(0, "3456789x");
    assert_eq!((world.responses(), content(&world)), (2, 20));
    assert_eq!(world.errors(), [(ErrorKind::Malformed, 1)]);
}

/// Two responses in one piece: the second is not counted with the first.
#[test]
fn what_follows_a_body_is_looked_at() {
    let mut world = World::closed(Behaviour {
        pipeline: 2,
        ..behaviour(1, 100)
    });
    world.turn().connect(0).data(0, TEN);
    world.data(0, &format!("0123456789{OK}"));
    assert_eq!((world.responses(), content(&world)), (2, 15));
    assert_eq!(world.errors(), []);
}

/// Its length is that of all that came; more than is counted at once, too.
#[test]
fn a_body_until_the_end() {
    let mut world = World::closed(behaviour(1, 1));
    world.turn().connect(0).data(0, ENDLESS);
    assert_eq!(skipping(&world), u32::MAX);
    world.data(0, "hel").data_and(0, "lo", DATA.with(END));
    assert_eq!((world.responses(), content(&world)), (1, 5));

    world.connect(1).data(1, ENDLESS);
    world.wire.skipping[1] = 0;
    world.event(1, DATA);
    world.data(1, "x");
    assert_eq!(world.wire.skipping[1], u32::MAX);
    world.event(1, END);
    let all = 5 + u64::from(u32::MAX) + 1;
    assert_eq!((world.responses(), content(&world)), (2, all));
}

#[test]
fn a_body_that_does_not_end() {
    let mut world = World::closed(behaviour(1, 1));
    world
        .turn()
        .connect(0)
        .data(0, TEN)
        .data_and(0, "0123", DATA.with(END));
    assert_eq!(world.errors(), [(ErrorKind::Closed, 1)]);
    // The next one begins again.
    world.connect(1).data_and(1, OK, DATA.with(END));
    assert_eq!((world.responses(), content(&world)), (1, 5));
}

/// Somebody needs to look at the bytes, or wants them copied.
#[test]
fn bodies_that_are_looked_at() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let copies = Behaviour {
        count_only: false,
        ..behaviour(1, 100)
    };
    let mut hashes = behaviour(1, 100);
    hashes.expect.sha256 = Some("0".repeat(64).parse().unwrap());
    for (behaviour, head) in [(copies, TEN), (hashes, TEN), (behaviour(1, 100), chunked)] {
        let mut world = World::closed(behaviour);
        world.turn().connect(0).data(0, head);
        assert_eq!(skipping(&world), 0);
    }
}
