//! What becomes of connections that the kernel's part has: what it hands up, what falls quiet, and all of them at the end.

use crate::requests::sent::FORGOTTEN;
use std::net::IpAddr;

use exos_inet::tcp::State;

use super::super::fate::QUIET;
use super::*;
use crate::requests::room::{Admission, Room};

/// By the state and what is not acknowledged with our FIN: whether the stack has a connection when it is due, and with its response.
#[test]
fn what_is_to_become_of_connections() {
    let bench = Bench::new();
    bench.enter(&[7; LEN as usize]);
    let (none, reset) = (Fate::TakenOn(None), Fate::Reset);
    let with = Fate::TakenOn(Some(SentResponse {
        response: bench.response(),
        una: UNA,
    }));
    for (state, out, wanted) in [
        (slot::FREE, 0, Fate::GoesOn),
        (slot::FREE, LEN, Fate::GoesOn),
        (slot::DONE, 0, Fate::GoesOn),
        (slot::DONE, LEN + 1, Fate::GoesOn),
        (slot::OPEN, 0, none),
        (slot::OPEN, LEN, with),
        (slot::FINISHED, 0, reset),
        (slot::FINISHED, LEN + 1, with),
        (slot::LAST_ACK, 1, none),
        (slot::LAST_ACK, LEN + 1, with),
    ] {
        let what = format!("state {state}, {out} out");
        let due = |fate: FateOf, quiet: Duration| {
            let at = bench.put(3, state, (UNA, UNA.wrapping_add(out)), quiet);
            fate(&bench.memory, now(), at)
        };
        let ms = Duration::from_millis;
        let bound = ms(if out == 0 { 5000 } else { 1000 });
        let (at_bound, at_the_end) = match wanted {
            Fate::Reset => (Fate::GoesOn, Fate::GoesOn),
            wanted => (wanted, wanted),
        };
        assert_eq!(due(fate, bound - ms(1)), Fate::GoesOn, "{what}");
        assert_eq!(due(fate, bound), at_bound, "{what}");
        assert_eq!(due(fate, FORGOTTEN), wanted, "{what}");
        assert_eq!(due(last_fate, ms(0)), at_the_end, "{what}");
    }
}

/// However often a response was replaced, and by what, its connection has it with the stack as it was sent.
#[test]
fn what_was_replaced_is_sent_again_as_it_was() {
    for times in 0..4 {
        let mut bench = Bench::new();
        let first = [1; LEN as usize];
        bench.enter(&first);
        bench.put(
            3,
            slot::OPEN,
            (UNA, UNA.wrapping_add(LEN)),
            Duration::from_secs(1),
        );
        for n in 0..times {
            bench.enter(&vec![2 + n; usize::from(5 + n)]);
        }
        assert!(!bench.look(false));
        let id = bench.stack.tcp.connections_where(|_| true)[0];
        assert_eq!(bench.connections.poll_sent().unwrap().connection, id);
        let soon = now() + Duration::from_millis(1);
        bench.stack.handle_timeout(soon);
        let mut sent = Vec::new();
        while let Some(frame) = bench.stack.poll_transmit_within(soon, 1) {
            sent.push(frame.body.parts().concat());
        }
        assert!(sent.contains(&first.to_vec()), "{times}: {sent:?}");
    }
}

/// The stack has what was sent, our FIN and the peer's as they were.
#[test]
fn connections_go_on_where_they_stood() {
    use State::*;
    for (state, out, stands, closes) in [
        (slot::OPEN, 0, Established, false),
        (slot::OPEN, LEN, Established, false),
        (slot::FINISHED, LEN + 1, FinWait1, true),
        (slot::LAST_ACK, 1, LastAck, true),
        (slot::LAST_ACK, LEN + 1, LastAck, true),
    ] {
        let mut bench = Bench::new();
        bench.enter(&[7; LEN as usize]);
        let nxt = UNA.wrapping_add(out);
        bench.put(3, state, (UNA, nxt), Duration::from_secs(1));
        assert!(!bench.look(true));
        let id = bench.stack.tcp.connections_where(|_| true)[0];
        let connection = bench.stack.tcp.connection(id).unwrap();
        assert_eq!(connection.state(), stands);
        assert_eq!(
            connection.unacknowledged(),
            (out - u32::from(closes)) as usize
        );
        let sent = bench.connections.poll_sent();
        assert_eq!(sent.is_some(), out > 1);
        if let Some(sent) = sent {
            assert_eq!((sent.connection, sent.len), (id, LEN as usize));
            assert_eq!(sent.closes, closes);
        }
        // Of what was sent a second ago all is due: it leaves again, with our FIN.
        let soon = now() + Duration::from_millis(1);
        bench.stack.handle_timeout(soon);
        let mut left = Vec::new();
        while let Some(frame) = bench.stack.poll_transmit_within(soon, 1) {
            let data: usize = frame.body.parts().iter().map(|part| part.len()).sum();
            left.push((frame.head[47] & 1 == 1, data as u32));
        }
        let expected = (closes, out - u32::from(closes));
        assert_eq!(left.contains(&expected), out > 0, "{state} {out}: {left:?}");
    }
}

/// What is handed up says whether our FIN has left.
#[test]
fn what_is_handed_up_brings_our_fin() {
    for (closes, stands) in [(false, State::Established), (true, State::FinWait1)] {
        let mut bench = Bench::new();
        bench.enter(&[7; LEN as usize]);
        let from = bench.put(3, slot::FREE, (0, 0), Duration::from_secs(0));
        bench.hand_up(from, closes);
        assert!(!bench.look(true));
        let sent = bench.connections.poll_sent().expect("a response");
        assert_eq!(sent.closes, closes);
        let connection = bench.stack.tcp.connection(sent.connection).unwrap();
        assert_eq!(connection.state(), stands);
        assert_eq!(connection.unacknowledged(), LEN as usize);
    }
}

/// What the stack takes on brings its room along, and what is reset gives it back.
#[test]
fn room_goes_with_connections() {
    let mut bench = Bench::new();
    for number in 0..5 {
        let out = if number < 2 { LEN } else { 0 };
        bench.put(number, slot::OPEN, (7, 7 + out), Duration::from_secs(0));
    }
    // Each has another peer.
    let peers = PeerRoom::new(bench.memory.clone(), 0x1234_5678_9abc_def1, 1);
    bench.connections.peers = Some(peers.clone());
    let remotes: Vec<_> = (1..6).map(|n| IpAddr::from([10, 1, 0, n])).collect();
    for remote in &remotes {
        assert_eq!(peers.admit(*remote, 0), Admission::Counted);
    }
    let may_have_more = || {
        let admissions = remotes.iter().map(|remote| peers.admit(*remote, 0));
        let admitted = admissions.zip(&remotes).filter(|(it, remote)| {
            let is_admitted = *it == Admission::Counted;
            if is_admitted {
                peers.leave(**remote, false);
            }
            is_admitted
        });
        admitted.count()
    };
    assert_eq!(may_have_more(), 0);
    bench.memory.set(layout::ROOM, 1);
    let room = Room::new(bench.memory.clone(), 0, Some(peers.clone()));
    bench.stack.tcp.share_room(Arc::new(room));
    assert!(!bench.look(true));
    assert_eq!(bench.stack.tcp.connections(), 3);
    assert_eq!(bench.resets().len(), 2);
    bench.stack.tcp.give_room_back();
    assert_eq!(bench.memory.get(layout::ROOM), 3);
    assert_eq!(may_have_more(), 2);
    for id in bench.stack.tcp.connections_where(|_| true) {
        bench.stack.tcp.abort(id);
    }
    bench.stack.tcp.give_room_back();
    assert_eq!(bench.memory.get(layout::ROOM), 6);
    assert_eq!(may_have_more(), 5);
}

/// Each core sees to the connections whose segments come by its queues, at the end also to those of a core of its interface that is not
/// there any more.
#[test]
fn connections_of_other_cores_are_theirs() {
    let mut bench = Bench::new();
    for core in 0..4 {
        let at = bench.put(core, slot::OPEN, (7, 7), QUIET);
        let window = 1000 | (core as u32) << slot::CORE_SHIFT;
        bench
            .memory
            .set_halves(at + slot::KEPT, 3 << 8 | 0xff, window);
    }
    let stand = |bench: &Bench| [0, 1, 2, 3].map(|number| bench.state(number) == slot::OPEN);
    assert!(!bench.look(false));
    assert_eq!(stand(&bench), [false, true, true, true]);
    bench.connections.take_over(vec![2, 3]);
    assert!(!bench.look(true));
    assert_eq!(stand(&bench), [false, true, false, true]);
    assert_eq!(bench.stack.tcp.connections(), 2);
}

/// However many there are, the stack has all that it can at the end of the server.
#[test]
fn all_that_stand_are_the_stacks_in_the_end() {
    let mut bench = Bench::new();
    let most = layout::SLOT_COUNT;
    for number in 0..most {
        bench.put(number, slot::OPEN, (7, 7), Duration::from_secs(0));
    }
    assert!(!bench.look(true), "nobody is reset");
    assert_eq!(bench.stack.tcp.connections() as u64, most);
    assert!((0..most).all(|number| bench.state(number) == slot::FREE));
}

/// Of those that it cannot have no more are reset at once than there is room for, and each is.
#[test]
fn all_others_are_reset_in_the_end() {
    let mut bench = Bench::new();
    let most = layout::SLOT_COUNT;
    for number in 0..most {
        bench.put(number, slot::OPEN, (7, 7 + LEN), Duration::from_secs(0));
    }
    let mut peers = HashSet::new();
    let mut looks = 0;
    loop {
        let has_more = bench.look(true);
        peers.extend(bench.resets());
        looks += 1;
        if !has_more {
            break;
        }
    }
    assert_eq!(looks, most / RESETS_AT_ONCE as u64 + 1);
    assert_eq!(peers.len() as u64, most);
}

/// A look goes on where the last one stopped, however many are due in low slots again.
#[test]
fn high_slots_are_seen_to() {
    let mut bench = Bench::new();
    let bound = RESETS_AT_ONCE as u64;
    let last = 2 * bound;
    let all = (0..bound).chain([last]);
    for number in all {
        bench.put(number, slot::OPEN, (7, 7 + LEN), FORGOTTEN);
    }
    assert!(bench.look(false));
    for number in 0..bound {
        assert_eq!(bench.state(number), slot::FREE);
        bench.put(number, slot::OPEN, (7, 7 + LEN), FORGOTTEN);
    }
    assert_eq!(bench.state(last), slot::OPEN);
    bench.resets();
    assert!(bench.look(false));
    assert_eq!(bench.state(last), slot::FREE);
}
