//! Connections that somebody else has begun, and answered on, are taken on by the stack.

use super::*;
use exos_inet::tcp::BegunConnection;

/// What somebody else has begun, and we cannot have, ends for its peer at once.
#[test]
fn a_connection_that_cannot_be_taken_on_is_reset() {
    let mut wire = Wire::offloaded();
    wire.open_from(4000);
    let peer = SocketAddr::new(ADDRESSES[0].parse().unwrap(), 4001);
    let begun = BegunConnection {
        flow: Flow::new(SERVER.parse().unwrap(), peer),
        first: 1000,
        rcv_nxt: 1000,
        snd_nxt: 2000,
        closes: false,
        sent_at: wire.now,
        finished: false,
        window: 1000,
        mss_index: 3,
        stamps: None,
    };
    wire.server.take_on(wire.now, wire.listener, &begun, None);
    // We have it by now.
    wire.server.take_on(wire.now, wire.listener, &begun, None);
    assert!(Wire::frames(&mut wire.server, wire.now).is_empty());
    wire.server.tcp.close_listener(wire.listener);
    let other = SocketAddr::new(ADDRESSES[0].parse().unwrap(), 4002);
    let begun = BegunConnection {
        flow: Flow::new(SERVER.parse().unwrap(), other),
        ..begun
    };
    wire.server.take_on(wire.now, wire.listener, &begun, None);
    let frames = Wire::frames(&mut wire.server, wire.now);
    let to_other = |f: &&Vec<u8>| f[36..38] == 4002_u16.to_be_bytes();
    let reset = frames.iter().find(to_other).expect("a reset");
    assert_eq!(
        (&reset[38..42], reset[47]),
        (&2000_u32.to_be_bytes()[..], 4)
    );
    // It may have heard of all that was sent, or not.
    let begun = BegunConnection {
        closes: true,
        ..begun
    };
    let sent = exos_buf::Buffer::from(&b"first"[..]).into();
    wire.server
        .take_on(wire.now, wire.listener, &begun, Some(sent));
    let frames = Wire::frames(&mut wire.server, wire.now);
    let resets: Vec<u32> = frames.iter().map(|frame| word(frame, 38)).collect();
    assert_eq!(resets, [1995, 2000, 2001]);
}

/// What a connection began with brings its cookie, and may come again, late: it opens nothing.
#[test]
fn what_a_connection_began_with_opens_no_other() {
    let mut wire = Wire::offloaded();
    let (client, ack) = wire.open_unheard(4000);
    Wire::events(&mut wire.server);
    wire.bring(&ack);
    let server = wire.accepted();
    wire.talks((client, server));
    wire.answers(&ack);
    wire.talks_on((client, server));
    // As bytes of another stack, or somebody's who has begun it: they say where it began.
    let flow = *wire.server.tcp.connection(server).unwrap().flow();
    wire.server.tcp.abort(server);
    let begun = BegunConnection {
        flow,
        rcv_nxt: word(&ack, 38).wrapping_add(10),
        snd_nxt: word(&ack, 42).wrapping_add(8),
        ..begun_by(&ack, wire.now)
    };
    Wire::frames(&mut wire.server, wire.now);
    Wire::events(&mut wire.server);
    wire.server.take_on(wire.now, wire.listener, &begun, None);
    let server = wire.accepted();
    wire.answers(&ack);
    wire.talks_on((client, server));
    // Once both have finished, too.
    wire.server.tcp.finish(server);
    wire.settle();
    wire.client.tcp.finish(client);
    wire.settle();
    assert_eq!(wire.server.tcp.time_wait_connections(), 1);
    Wire::events(&mut wire.server);
    wire.answers(&ack);
    assert_eq!(Wire::events(&mut wire.server), []);
    assert_eq!(wire.server.tcp.time_wait_connections(), 1);
    // Nor where others believe it once more, with a request behind it or without: nothing is made, and nobody is reset.
    for rcv_nxt in [begun.first, begun.rcv_nxt] {
        let late = BegunConnection { rcv_nxt, ..begun };
        let made = wire.server.take_on(wire.now, wire.listener, &late, None);
        assert_eq!(made, None);
        assert!(Wire::frames(&mut wire.server, wire.now).is_empty());
        assert_eq!(Wire::events(&mut wire.server), []);
        assert_eq!(wire.server.tcp.time_wait_connections(), 1);
    }
    // But one that others have begun meanwhile takes the place.
    let newer = begun.stamps.map(|(bits, value)| (bits, value + 1000));
    let begun = BegunConnection {
        stamps: newer,
        ..begun
    };
    wire.server.take_on(wire.now, wire.listener, &begun, None);
    wire.accepted();
    assert_eq!(wire.server.tcp.time_wait_connections(), 0);
}

/// What somebody else sent and the peer has not acknowledged is sent again until it is, as if it had left here.
#[test]
fn what_others_sent_is_sent_again() {
    let mut wire = Wire::offloaded();
    let (client, ack) = wire.open_unheard(4000);
    Wire::events(&mut wire.server);
    let begun = BegunConnection {
        snd_nxt: word(&ack, 42).wrapping_add(5),
        ..begun_by(&ack, wire.now)
    };
    let sent: exos_buf::Slice = exos_buf::Buffer::from(&b"first"[..]).into();
    let made = wire
        .server
        .take_on(wire.now, wire.listener, &begun, Some(sent));
    let server = wire.accepted();
    assert_eq!(made, Some(server));
    let unacknowledged = |wire: &Wire| {
        let connection = wire.server.tcp.connection(server);
        connection.unwrap().unacknowledged()
    };
    // It has left: nothing of it leaves now.
    assert!(wire.answers(&ack).is_empty());
    assert_eq!(unacknowledged(&wire), 5);
    wire.server
        .tcp
        .send(server, exos_buf::Buffer::from(&b" second"[..]).into());
    wire.settle();
    assert_eq!(unacknowledged(&wire), 12, "the client lacks the first part");
    assert_eq!(wire.client.tcp.readable(client), b"");
    wire.now += Duration::from_secs(2);
    wire.settle();
    assert_eq!(wire.client.tcp.readable(client), b"first second");
    assert_eq!(unacknowledged(&wire), 0);
}

/// What the peer of a connection has not acknowledged is due when it would be if it had left here: at once, where that is long ago.
#[test]
fn what_others_sent_long_ago_is_due_at_once() {
    for (age, is_due) in [(0, false), (990, false), (1000, true), (5000, true)] {
        let mut wire = Wire::offloaded();
        let (_, ack) = wire.open_unheard(4000);
        let begun = BegunConnection {
            snd_nxt: word(&ack, 42).wrapping_add(5),
            ..begun_by(&ack, wire.now)
        };
        wire.now += Duration::from_millis(age);
        let sent = exos_buf::Buffer::from(&b"first"[..]).into();
        wire.server
            .take_on(wire.now, wire.listener, &begun, Some(sent));
        // The clock of timers ticks in milliseconds.
        let soon = wire.now + Duration::from_millis(1);
        let frames = Wire::frames(&mut wire.server, soon);
        let is_first = |frame: &Vec<u8>| frame.ends_with(b"first");
        assert_eq!(frames.iter().any(is_first), is_due, "after {age} ms");
    }
}

/// Our FIN has left: its acknowledgement is taken, and it is sent again until that comes.
#[test]
fn a_fin_that_others_sent_is_ours() {
    for finished in [false, true] {
        for is_heard in [false, true] {
            let mut wire = Wire::offloaded();
            let (client, mut ack) = wire.open_unheard(4000);
            Wire::events(&mut wire.server);
            if finished {
                wire.client.tcp.finish(client);
                Wire::frames(&mut wire.client, wire.now);
            }
            let begun = BegunConnection {
                snd_nxt: word(&ack, 42).wrapping_add(5),
                closes: true,
                finished,
                ..begun_by(&ack, wire.now)
            };
            let sent = exos_buf::Buffer::from(&b"first"[..]).into();
            let made = wire
                .server
                .take_on(wire.now, wire.listener, &begun, Some(sent));
            // What a program does that sees the peer's end changes nothing.
            wire.server.tcp.finish(made.unwrap());
            assert!(
                Wire::frames(&mut wire.server, wire.now)
                    .iter()
                    .all(|frame| { frame[47] & 1 == 0 && !frame.ends_with(b"first") })
            );
            if is_heard {
                let all = begun.snd_nxt.wrapping_add(1);
                ack[38..42].copy_from_slice(
                    &begun
                        .rcv_nxt
                        .wrapping_add(u32::from(finished))
                        .to_be_bytes(),
                );
                ack[42..46].copy_from_slice(&all.to_be_bytes());
                wire.server
                    .handle_frame(wire.now, &ack, RxChecksum::Verified);
                assert_eq!(wire.server.counters().drop_tcp_bad_ack, 0);
                let left = wire.server.tcp.connection(made.unwrap());
                assert_eq!(left.map_or(0, |c| c.unacknowledged()), 0);
                assert_eq!(left.is_none_or(|c| c.state() == State::Closed), finished);
                continue;
            }
            wire.now += Duration::from_secs(2);
            wire.settle();
            assert_eq!(wire.client.tcp.readable(client), b"first");
            wire.client.tcp.finish(client);
            wire.settle();
            let waiting = wire.client.tcp.time_wait_connections();
            assert_eq!(
                (waiting, wire.server.tcp.time_wait_connections()),
                (finished.into(), (!finished).into())
            );
        }
    }
}

/// The connection whose client has sent this and nothing else, from port 4000; on which nothing was sent.
fn begun_by(ack: &[u8], sent_at: Instant) -> BegunConnection {
    let peer = SocketAddr::new(ADDRESSES[0].parse().unwrap(), 4000);
    BegunConnection {
        flow: Flow::new(SERVER.parse().unwrap(), peer),
        first: word(ack, 38),
        rcv_nxt: word(ack, 38),
        snd_nxt: word(ack, 42),
        closes: false,
        sent_at,
        finished: false,
        window: 1000,
        mss_index: 3,
        stamps: Some((0, word(ack, 58))),
    }
}

/// The peer has finished before: the program hears of that, and its own end is acknowledged.
#[test]
fn a_peer_that_has_finished_is_taken_on() {
    let mut wire = Wire::offloaded();
    let (client, ack) = wire.open_unheard(4000);
    Wire::events(&mut wire.server);
    wire.client.tcp.finish(client);
    let fin = Wire::frames(&mut wire.client, wire.now).remove(0);
    let begun = BegunConnection {
        finished: true,
        ..begun_by(&ack, wire.now)
    };
    let made = wire.server.take_on(wire.now, wire.listener, &begun, None);
    let events = Wire::events(&mut wire.server);
    let both = |set: EventSet| set.contains(EventSet::ACCEPTED) && set.contains(EventSet::FINISHED);
    assert!(
        events.iter().any(|e| Some(e.0) == made && both(e.1)),
        "{events:?}"
    );
    wire.server.tcp.finish(made.unwrap());
    wire.settle();
    assert_eq!(wire.client.tcp.time_wait_connections(), 1, "{fin:?}");
    let is_done = |e: &(ConnectionId, EventSet, Reason)| {
        e.1.contains(EventSet::CLOSED) && e.2 == Reason::Done
    };
    assert!(Wire::events(&mut wire.server).iter().any(is_done));
}
