//! Connections on which nothing is said: they begin as others do, so that somebody knows of them and ends them.

use exos_filter::handler::web::layout::peer;

use super::*;

/// The state of a client's slot.
fn state(bench: &Bench, client: &Client) -> i32 {
    bench.get(bench.slot(client) + slot::STATE) as i32
}

/// It has a slot, room and its peer's count, once; and its request needs no cookie.
#[test]
fn an_acknowledgement_with_a_cookie_begins_a_connection() {
    for bench in [false, true]
        .into_iter()
        .filter_map(|ipv6| Bench::limited(ipv6, 2, 1))
    {
        bench.enter(REQUEST, RESPONSE, false);
        for (number, stamped) in [(0, false), (1, true)] {
            let client = Client::opened(&bench, 4000 + number, stamped);
            let (room, of_peer) = (
                bench.get(layout::ROOM),
                layout::peer_of(KEY, client.ends().0).0,
            );
            for _ in 0..2 {
                assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
                assert_eq!(state(&bench, &client), slot::OPEN);
                assert_eq!(bench.get(layout::ROOM), room - 1);
                assert_eq!(bench.get(of_peer) & peer::MOST, u64::from(number) + 1);
            }
            // No cookie would begin one now.
            bench.set(bench.slot(&client) + slot::CLOSED, u64::MAX);
            let got = client.says(&bench, ACK | PSH, REQUEST);
            assert_eq!(got.unwrap().data, RESPONSE);
            assert_eq!(bench.get(layout::ROOM), room - 1);
        }
        let beyond = Client::opened(&bench, 4002, true);
        assert_eq!(beyond.says(&bench, ACK, &[]), Err(PASS), "its peer has two");
        assert_eq!(bench.get(layout::HANDED), 0);
    }
}

/// Its client ends it, probes it, or says what the kernel does not know.
#[test]
fn it_ends_and_goes_up_as_others_do() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let room = bench.get(layout::ROOM);
        let begun = |port: u16| {
            let client = Client::opened(&bench, port, true);
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
            client
        };
        let mut client = begun(4000);
        let end = client.says(&bench, ACK | FIN, &[]).unwrap();
        let expected = (client.ack, client.seq + 1, ACK | FIN);
        assert_eq!((end.seq, end.ack, end.flags), expected);
        client.seq += 1;
        client.ack = client.ack.wrapping_add(1);
        assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        assert_eq!(state(&bench, &client), slot::DONE);
        let client = begun(4001);
        assert_eq!(client.says(&bench, RST, &[]), Err(DROP));
        assert_eq!(state(&bench, &client), slot::FREE);
        assert_eq!(bench.get(layout::ROOM), room);
        let cases: [(u8, u32, &[u8]); 4] = [
            (ACK, u32::MAX, &[]),
            (ACK | PSH, 0, b"POST /"),
            (ACK, 0, UNREAD),
            (ACK | FIN, 0, REQUEST),
        ];
        for (number, (flags, ahead, data)) in (0..).zip(cases) {
            let client = begun(4002 + number);
            let mut says = client.clone();
            says.seq = says.seq.wrapping_add(ahead);
            assert_eq!(says.says(&bench, flags, data), Err(PASS));
            assert_eq!(bench.get(layout::HANDED), u64::from(number) + 1);
            let number = number.into();
            assert_eq!(bench.handed_numbers(number), (client.seq, client.ack));
            assert_eq!(bench.handed(number, handed::SENT), 0);
        }
        assert_eq!(bench.get(layout::REPORTED), 0, "nothing was answered");
    }
}

/// Where none may begin, the server makes it of the cookie.
#[test]
fn where_none_may_begin_it_is_the_servers() {
    for bench in Bench::both() {
        let [full, closed, late] =
            [4000, 4001, 4002].map(|port| Client::opened(&bench, port, true));
        bench.set(layout::ROOM, 0);
        assert_eq!(full.says(&bench, ACK, &[]), Err(PASS));
        bench.set(layout::ROOM, 9);
        bench.set(bench.slot(&closed) + slot::CLOSED, u64::MAX);
        assert_eq!(closed.says(&bench, ACK, &[]), Err(PASS));
        bench.set(layout::UNTIL, 0);
        assert_eq!(late.says(&bench, ACK, &[]), Err(PASS));
        let forged = Client {
            ack: late.ack ^ 1,
            ..late
        };
        assert_eq!(forged.says(&bench, ACK, &[]), Err(PASS));
        assert_eq!(bench.get(layout::ROOM), 9);
        assert_eq!(bench.get(layout::HANDED), 0);
    }
}

/// What a connection began with comes late, or what another between the same ends did: both may have good cookies.
#[test]
fn a_late_acknowledgement_ends_nothing() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let old = Client::opened(&bench, 4000, true);
        let client = Client::opened_at(&bench, 4000, true, 500_000);
        let closed = bench.slot(&client) + slot::CLOSED;
        assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        // The slot may have been closed meanwhile, and the server pause.
        for (closed_until, until) in [(0, u64::MAX), (u64::MAX, u64::MAX), (0, 0)] {
            bench.set(closed, closed_until);
            bench.set(layout::UNTIL, until);
            for late in [&client, &old] {
                assert_eq!(late.says(&bench, ACK, &[]), Err(DROP));
            }
            bench.set(layout::UNTIL, u64::MAX);
            let first = bench.get(bench.slot(&client) + slot::ENTRY) >> 32;
            assert_eq!(first as u32, client.seq, "it stands");
            assert!(client.says(&bench, ACK | PSH, REQUEST).is_ok());
        }
    }
}

/// Its client holds it by nothing that says nothing: only what it asks and acknowledges counts for when it was heard last.
#[test]
fn an_acknowledgement_of_nothing_new_does_not_hold_it() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let mut client = Client::opened(&bench, 4000, true);
        assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        let time = bench.slot(&client) + slot::TIME;
        let is_heard = |heard: bool, client: &Client, data: &[u8]| {
            bench.set(time, 1);
            let got = client.says(&bench, ACK, data);
            assert_eq!(got.is_ok(), !data.is_empty());
            assert_eq!(bench.get(time) != 1, heard, "{data:?}");
        };
        for _ in 0..3 {
            is_heard(false, &client, &[]);
        }
        is_heard(true, &client, REQUEST);
        is_heard(true, &client, REQUEST);
        client.seq += REQUEST.len() as u32;
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        is_heard(true, &client, &[]);
        for window in 1..4 {
            client.window = window;
            is_heard(false, &client, &[]);
            let kept = bench.get(bench.slot(&client) + slot::KEPT) >> 32;
            assert_eq!(kept, u64::from(window), "what it says is known");
        }
    }
}
