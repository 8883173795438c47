//! What is the server's: connections that go up, and those that never begin here.

use super::*;

/// Behind our FIN nobody reads: the stack, which has no such connection, resets it. All that was sent is acknowledged with the data.
#[test]
fn data_behind_the_end_goes_up_alone() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, true);
        let two = [REQUEST, REQUEST].concat();
        let (short, fin) = (REQUEST.len() as u32, RESPONSE.len() as u32 + 1);
        for (number, stamped) in [(0, false), (1, true)] {
            let mut client = Client::opened(&bench, 4000 + number, stamped);
            client.says(&bench, ACK | PSH, REQUEST).unwrap();
            client.seq += short;
            client.ack = client.ack.wrapping_add(fin);
            for data in [REQUEST, UNREAD, b"x"] {
                for flags in [ACK, ACK | FIN] {
                    assert_eq!(client.says(&bench, flags, data), Err(PASS));
                    let una = bench.get(bench.slot(&client) + slot::UNA) as u32;
                    assert_eq!(una, client.ack);
                    assert_eq!(bench.get(layout::REPORTED), u64::from(number) + 1);
                }
            }
            client.seq -= short;
            assert_eq!(client.says(&bench, ACK, REQUEST), Err(DROP), "old");
            assert_eq!(client.says(&bench, ACK, b"x"), Err(DROP), "old");
            assert_eq!(client.says(&bench, ACK, &two), Err(PASS), "old and new");
            client.seq += short;
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
            // Its peer was reset.
            assert_eq!(client.says(&bench, ACK | FIN, &[]), Err(DROP));
        }
        assert_eq!(bench.get(layout::HANDED), 0);
    }
}

/// Where too much comes to be read, the stack judges what it acknowledges: it has the connection, the response and our FIN.
#[test]
fn much_data_behind_the_end_goes_up_with_its_connection() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, true);
        let mut client = Client::opened(&bench, 4000, true);
        client.says(&bench, ACK | PSH, REQUEST).unwrap();
        client.seq += REQUEST.len() as u32;
        let una = client.ack;
        client.ack = una.wrapping_add(RESPONSE.len() as u32 + 1);
        assert_eq!(client.says(&bench, ACK, UNREAD), Err(PASS));
        assert_eq!(bench.get(layout::HANDED), 1);
        let end = client.ack.wrapping_sub(1);
        assert_eq!(bench.handed_numbers(0), (client.seq, end));
        assert_ne!(bench.handed(0, handed::SENT), 0);
        let numbers = bench.handed(0, handed::UNA);
        assert_eq!(numbers, u64::from(client.ack) << 32 | u64::from(una));
        assert_eq!(bench.get(layout::REPORTED), 0, "the server tells of it");
    }
}

/// What is not known goes up with the connection, once.
#[test]
fn the_unusual_goes_up_with_its_connection() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        // Whether what it acknowledges is believed: where it is not, the response goes up, too, unless that was known before.
        let cases: [(&str, u8, u32, &[u8], bool); 6] = [
            (
                "another request",
                ACK | PSH,
                0,
                b"GET /other HTTP/1.1\r\n\r\n",
                true,
            ),
            ("a long one", ACK | PSH, 0, UNREAD, false),
            ("one out of order", ACK | PSH, 5, REQUEST, false),
            ("a probe", ACK, u32::MAX, &[], false),
            ("urgent data", ACK | 0x20, 0, REQUEST, false),
            ("a request with a FIN", ACK | FIN, 0, REQUEST, true),
        ];
        let both = [false, true].into_iter();
        let cases = both.flat_map(|is_known| cases.map(|case| (is_known, case)));
        for (number, (is_known, (what, flags, ahead, data, is_believed))) in (0..).zip(cases) {
            let mut client = Client::opened(&bench, 5000 + number, true);
            client.says(&bench, ACK | PSH, REQUEST).unwrap();
            client.seq += REQUEST.len() as u32;
            client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
            let (rcv, nxt) = (client.seq, client.ack);
            if is_known {
                assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
            }
            client.seq = client.seq.wrapping_add(ahead);
            assert_eq!(client.says(&bench, flags, data), Err(PASS), "{what}");
            assert_eq!(bench.get(layout::HANDED), u64::from(number) + 1, "{what}");
            let numbers = bench.handed_numbers(number.into());
            assert_eq!(numbers, (rcv, nxt), "{what}");
            let sent = bench.handed(number.into(), handed::SENT);
            assert_eq!(sent == 0, is_known || is_believed, "{what}");
            // From now on it is the server's.
            client.seq = rcv;
            assert_eq!(client.says(&bench, ACK | PSH, REQUEST), Err(PASS), "{what}");
        }
    }
}

/// What begins with anything else is the server's, and so is all that follows on it.
#[test]
fn connections_that_begin_otherwise_are_the_servers() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let client = Client::opened(&bench, 4000, true);
        assert_eq!(
            client.says(&bench, ACK | PSH, b"POST / HTTP/1.1\r\n"),
            Err(PASS)
        );
        assert_eq!(
            client.says(&bench, ACK | PSH, REQUEST),
            Err(PASS),
            "its slot is closed"
        );
        let (verdict, _) = bench.run(&client.frame(2, &[]));
        assert_eq!(verdict, PASS, "nor does it get a cookie while it is");
        let forged = Client {
            ack: client.ack ^ 1,
            port: 4001,
            ..client.clone()
        };
        assert_eq!(
            forged.says(&bench, ACK | PSH, REQUEST),
            Err(PASS),
            "no cookie"
        );
        let client = Client::opened(&bench, 4002, true);
        bench.set(layout::UNTIL, 0);
        assert_eq!(
            client.says(&bench, ACK | PSH, REQUEST),
            Err(PASS),
            "no word of the server"
        );
        assert_eq!(bench.get(layout::HANDED), 0);
    }
}

/// A response is one segment: what is longer than the peer takes goes up, of the first request or a later one.
#[test]
fn responses_that_do_not_fit_a_segment_are_the_servers() {
    // Of a cookie's; what else a SYN says counts as the next lower one.
    let cases = [(1300, 1220), (1220, 1220), (536, 536), (100, 48)];
    for bench in Bench::both() {
        for (port, (stamped, (says, mss))) in [false, true]
            .into_iter()
            .flat_map(|stamped| cases.map(|case| (stamped, case)))
            .enumerate()
        {
            let handed = bench.get(layout::HANDED);
            let most = mss - if stamped { 12 } else { 0 };
            let fits = vec![b'x'; most];
            bench.enter(REQUEST, &fits, false);
            let open = |port| Client::opened_with((port, 1000), &bench, stamped, says);
            let mut client = open(4000 + 2 * port as u16);
            let got = client.says(&bench, ACK | PSH, REQUEST);
            assert_eq!(got.unwrap().data.len(), most, "of {says}");
            client.seq += REQUEST.len() as u32;
            client.ack = client.ack.wrapping_add(most as u32);
            bench.enter(REQUEST, &[&fits[..], b"x"].concat(), false);
            for client in [client, open(4001 + 2 * port as u16)] {
                let got = client.says(&bench, ACK | PSH, REQUEST);
                assert_eq!(got, Err(PASS), "of {says}");
            }
            assert_eq!(bench.get(layout::HANDED), handed + 2);
        }
    }
}

/// Of several cores the one that gets what begins otherwise has its connection, and need not ask the others; but where its slot is closed,
/// or what it says was not looked at.
#[test]
fn on_several_cores_they_are_handed_up_at_once() {
    for cores in [2, 3, 7] {
        let benches = [false, true].map(|ipv6| Bench::of_cores(ipv6, cores));
        for bench in benches.into_iter().flatten() {
            bench.enter(REQUEST, RESPONSE, false);
            let client = Client::opened(&bench, 4000, true);
            let (at, room) = (bench.slot(&client), bench.get(layout::ROOM));
            let says = |client: &Client, data| client.says(&bench, ACK | PSH, data);
            assert_eq!(says(&client, b"POST / HTTP/1.1\r\n"), Err(PASS));
            assert_eq!(bench.get(layout::HANDED), 1);
            assert_eq!(bench.handed_numbers(0), (client.seq, client.ack));
            assert_eq!(bench.handed(0, handed::SENT), 0);
            assert_eq!(bench.get(at + slot::STATE), slot::FREE as u64);
            assert_eq!(bench.get(layout::ROOM), room - 1, "it goes up, too");
            assert_eq!(says(&client, REQUEST), Err(PASS), "its slot is closed");
            let unread = Client::opened(&bench, 4001, true);
            assert_eq!(says(&unread, UNREAD), Err(PASS));
            let late = Client::opened(&bench, 4002, true);
            bench.set(layout::UNTIL, 0);
            assert_eq!(says(&late, b"POST / HTTP/1.1\r\n"), Err(PASS));
            assert_eq!(bench.get(layout::HANDED), 1);
            bench.set(layout::UNTIL, u64::MAX);
            let other = Client::opened(&bench, 4003, true);
            assert_eq!(says(&other, REQUEST).unwrap().data, RESPONSE);
        }
    }
}

/// Of several interfaces each has some of the cores: what comes by its first queue is the first one's of these.
#[test]
fn each_interface_hands_up_to_its_cores() {
    let benches = [false, true].map(Bench::of_interface);
    for bench in benches.into_iter().flatten() {
        bench.enter(REQUEST, RESPONSE, false);
        let mut client = Client::opened(&bench, 4000, true);
        assert_eq!(
            client.says(&bench, ACK | PSH, REQUEST).unwrap().data,
            RESPONSE
        );
        let window = bench.get(bench.slot(&client) + slot::KEPT) >> 32;
        assert_eq!(window >> slot::CORE_SHIFT, 1);
        client.seq += REQUEST.len() as u32;
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        assert_eq!(client.says(&bench, ACK | PSH, b"POST"), Err(PASS));
        let handed = [0, 1, 2].map(|core| bench.get(bench.handler.rings.at(core) + layout::HANDED));
        assert_eq!(handed, [0, 1, 0]);
    }
}

/// What the server said last may be out of date: requests of connections that stand are its own, too.
#[test]
fn without_word_of_the_server_a_standing_connection_goes_up() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let mut client = Client::opened(&bench, 4000, true);
        let first = client.says(&bench, ACK | PSH, REQUEST);
        bench.set(layout::UNTIL, 0);
        assert_eq!(
            client.says(&bench, ACK | PSH, REQUEST),
            first,
            "what was answered before is answered the same"
        );
        client.seq += REQUEST.len() as u32;
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        assert_eq!(client.says(&bench, ACK | PSH, REQUEST), Err(PASS));
        assert_eq!(bench.get(layout::HANDED), 1);
        assert_eq!(bench.handed_numbers(0), (client.seq, client.ack));
    }
}

/// A client that opens again, between the ends of a connection that its slot still has, while the slot is closed: what the server answered
/// to the SYN without a cookie would be heard by nobody.
#[test]
fn a_closed_slot_does_not_keep_a_client_from_opening_again() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, true);
        let client = Client::opened(&bench, 4000, true);
        client.says(&bench, ACK | PSH, REQUEST).unwrap();
        let at = bench.slot(&client);
        bench.set(at + slot::CLOSED, now().millis() + 60_000);
        let again = Client::opened_at(&bench, 4000, true, 5000);
        assert_eq!(again.says(&bench, ACK | PSH, REQUEST), Err(PASS));
        assert_eq!(bench.get(at + slot::STATE), slot::FREE as u64);
        let (verdict, _) = bench.run(&client.frame(2, &[]));
        assert_eq!(verdict, PASS, "now the slot has nothing of it");
    }
}
