//! What a client sends before it has acknowledged a response.

use super::*;

/// An answered request whose response is on its way: the client behind its request, and the response.
fn asked(bench: &Bench, port: u16, stamped: bool) -> (Client, Got) {
    let mut client = Client::opened(bench, port, stamped);
    let response = client.says(bench, ACK | PSH, REQUEST).unwrap();
    client.seq += REQUEST.len() as u32;
    (client, response)
}

impl Bench {
    /// The connection was handed up with its response, behind which and a request nothing was taken.
    fn has_handed_up_with(&self, number: u64, client: &Client) {
        assert_eq!(self.get(layout::HANDED), number + 1);
        let response = client.ack.wrapping_add(RESPONSE.len() as u32);
        assert_eq!(self.handed_numbers(number), (client.seq, response));
        let first = ENTRIES.first_way(layout::hash(KEY, REQUEST));
        let place = first + ENTRIES.entry_len();
        assert_eq!(self.handed(number, handed::SENT), place << 32 | VERSION);
    }
}

/// What comes behind the request goes up with the response, which is the server's to send again; whether that closes or not.
#[test]
fn more_data_goes_up_with_the_response() {
    for bench in Bench::both() {
        let two = [REQUEST, REQUEST].concat();
        let behind = REQUEST.len() as u32;
        let cases: [(&str, u8, u32, &[u8]); 6] = [
            ("a request", ACK | PSH, 0, REQUEST),
            ("a part of one", ACK | PSH, 0, b"GET"),
            ("a long one", ACK | PSH, 0, UNREAD),
            ("out of order", ACK | PSH, 5, REQUEST),
            ("with a FIN", ACK | FIN, 0, REQUEST),
            (
                "behind the first again",
                ACK | PSH,
                behind.wrapping_neg(),
                &two,
            ),
        ];
        let mut number = 0;
        for closes in [false, true] {
            bench.enter(REQUEST, RESPONSE, closes);
            for (what, flags, ahead, data) in cases {
                let (client, _) = asked(&bench, 4000 + number as u16, number % 2 == 0);
                let mut says = client.clone();
                says.seq = says.seq.wrapping_add(ahead);
                assert_eq!(says.says(&bench, flags, data), Err(PASS), "{what}");
                bench.has_handed_up_with(number, &client);
                assert_eq!(client.says(&bench, ACK, REQUEST), Err(PASS), "{what}");
                number += 1;
            }
        }
    }
}

/// A response that does not arrive is the server's to send in the end.
#[test]
fn a_request_that_comes_often_goes_up_with_the_response() {
    for bench in Bench::both() {
        for (number, closes) in [(0, false), (1, true)] {
            bench.enter(REQUEST, RESPONSE, closes);
            let (client, response) = asked(&bench, 4000 + number as u16, true);
            let mut first = client.clone();
            first.seq -= REQUEST.len() as u32;
            for _ in 0..3 {
                let again = first.says(&bench, ACK | PSH, REQUEST);
                assert_eq!(again.as_ref(), Ok(&response));
            }
            assert_eq!(first.says(&bench, ACK | PSH, REQUEST), Err(PASS));
            bench.has_handed_up_with(number, &client);
        }
    }
}

/// A lost response that was replaced is the server's to send as it was; one whose request is answered no more can still be sent here.
#[test]
fn where_the_response_was_replaced_the_connection_goes_up_with_it() {
    for bench in Bench::both() {
        for (number, flags) in [(0, ACK | PSH), (1, ACK | PSH | FIN)] {
            let at = bench.enter(REQUEST, RESPONSE, false);
            let (client, response) = asked(&bench, 4000 + number as u16, true);
            let mut first = client.clone();
            first.seq -= REQUEST.len() as u32;
            bench.set(at + entry::TAG, 0);
            let again = first.says(&bench, ACK | PSH, REQUEST);
            assert_eq!(again, Ok(response));
            bench.replace(at, RESPONSE);
            assert_eq!(first.says(&bench, flags, REQUEST), Err(PASS));
            bench.has_handed_up_with(number, &client);
        }
    }
}

/// What is left of a response that is acknowledged in part is the server's to send; what no part says is dropped.
#[test]
fn a_response_acknowledged_in_part_goes_up() {
    for bench in Bench::both() {
        let len = RESPONSE.len() as u32;
        let mut number = 0;
        for closes in [false, true] {
            let at = bench.enter(REQUEST, RESPONSE, closes);
            for (part, data) in [(1, &b""[..]), (len - 1, b""), (9, b"GET"), (9, UNREAD)] {
                let (client, _) = asked(&bench, 4000 + number as u16, true);
                let mut says = client.clone();
                for beyond in [1_u32.wrapping_neg(), len + 2] {
                    says.ack = client.ack.wrapping_add(beyond);
                    assert_eq!(says.says(&bench, ACK, b""), Err(DROP), "no part");
                }
                bench.replace(at, b"another");
                says.ack = client.ack.wrapping_add(part);
                assert_eq!(says.says(&bench, ACK, data), Err(PASS));
                bench.has_handed_up_with(number, &client);
                bench.enter(REQUEST, RESPONSE, closes);
                number += 1;
            }
        }
    }
}

/// All but our FIN is acknowledged: the server sends that again.
#[test]
fn a_response_acknowledged_but_for_our_fin_goes_up() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, true);
        let (client, _) = asked(&bench, 4000, true);
        let mut says = client.clone();
        says.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        assert_eq!(says.says(&bench, ACK, b""), Err(PASS));
        bench.has_handed_up_with(0, &client);
        let end = bench.handed(0, handed::UNA) >> 32;
        assert_eq!(end as u32, says.ack.wrapping_add(1), "it has left");
    }
}

/// A FIN is answered at once, by ours where the response did not bring it.
#[test]
fn a_fin_is_answered_before_the_response_is_acknowledged() {
    for bench in Bench::both() {
        for (number, closes) in [(0, false), (1, true), (2, false), (3, true)] {
            bench.enter(REQUEST, RESPONSE, closes);
            let (mut client, response) = asked(&bench, 4000 + number, number < 2);
            let end = client.says(&bench, ACK | FIN, &[]).unwrap();
            let behind = client.ack.wrapping_add(RESPONSE.len() as u32);
            let (seq, flags) = match closes {
                true => (behind.wrapping_add(1), ACK),
                false => (behind, ACK | FIN),
            };
            let expected = (seq, client.seq + 1, flags, &[][..]);
            assert_eq!((end.seq, end.ack, end.flags, &end.data[..]), expected);
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP), "an old one");
            // The response was lost.
            let again = Got {
                ack: client.seq + 1,
                flags: ACK | PSH | FIN,
                ..response
            };
            assert_eq!(client.says(&bench, ACK | FIN, &[]).as_ref(), Ok(&again));
            client.seq -= REQUEST.len() as u32;
            for flags in [ACK | PSH, ACK | PSH | FIN] {
                assert_eq!(client.says(&bench, flags, REQUEST).as_ref(), Ok(&again));
            }
            client.seq += REQUEST.len() as u32 + 1;
            client.ack = behind.wrapping_add(1);
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
            let (state, una) = (slot::STATE, slot::UNA);
            assert_eq!(bench.get(bench.slot(&client) + state), slot::DONE as u64);
            assert_eq!(bench.get(bench.slot(&client) + una) as u32, client.ack);
        }
        assert_eq!(bench.get(layout::HANDED), 0);
    }
}

/// The response is acknowledged, and our FIN behind it is lost.
#[test]
fn our_fin_is_sent_again_behind_the_response() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let (mut client, _) = asked(&bench, 4000, true);
        let end = client.says(&bench, ACK | FIN, &[]).unwrap();
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        client.seq += 1;
        assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        assert_eq!(bench.get(layout::REPORTED), 1);
        client.seq -= 1;
        for _ in 0..2 {
            assert_eq!(client.says(&bench, ACK | FIN, &[]).as_ref(), Ok(&end));
        }
    }
}

/// The request comes again, with the FIN that the client has sent meanwhile.
#[test]
fn a_fin_comes_with_the_request_again() {
    for bench in Bench::both() {
        for (number, closes) in [(0, false), (1, true)] {
            bench.enter(REQUEST, RESPONSE, closes);
            let (mut client, response) = asked(&bench, 4000 + number, true);
            client.seq -= REQUEST.len() as u32;
            let again = Got {
                ack: response.ack + 1,
                flags: ACK | PSH | FIN,
                ..response
            };
            let got = client.says(&bench, ACK | PSH | FIN, REQUEST);
            assert_eq!(got, Ok(again));
        }
    }
}

/// A client whose FIN was taken in, and who never hears of the response: both come to the server.
#[test]
fn behind_a_fin_the_connection_goes_up_without_it() {
    for bench in Bench::both() {
        for (number, closes) in [(0, false), (1, true)] {
            bench.enter(REQUEST, RESPONSE, closes);
            let (client, _) = asked(&bench, 4000 + number as u16, true);
            for _ in 0..4 {
                assert!(client.says(&bench, ACK | FIN, &[]).is_ok());
            }
            assert_eq!(client.says(&bench, ACK | FIN, &[]), Err(PASS));
            bench.has_handed_up_with(number, &client);
        }
    }
}
