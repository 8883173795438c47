//! Requests that are answered, and the ends of their connections.

use super::*;

/// A standing connection: requests one after the other, one of them twice, and its end.
#[test]
fn requests_of_a_standing_connection_are_answered() {
    for bench in Bench::both() {
        let at = bench.enter(REQUEST, RESPONSE, false);
        for stamped in [false, true] {
            let mut client = Client::opened(&bench, 4000 + u16::from(stamped), stamped);
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP), "it begins");
            for _ in 0..3 {
                let expected = Got {
                    seq: client.ack,
                    ack: client.seq + REQUEST.len() as u32,
                    flags: ACK | PSH,
                    data: RESPONSE.to_vec(),
                };
                for _ in 0..2 {
                    assert_eq!(
                        client.says(&bench, ACK | PSH, REQUEST).as_ref(),
                        Ok(&expected)
                    );
                }
                client.seq = expected.ack;
                client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
            }
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
            let end = client.says(&bench, ACK | FIN, &[]).unwrap();
            assert_eq!(
                (end.seq, end.ack, end.flags),
                (client.ack, client.seq + 1, ACK | FIN)
            );
            assert_eq!(client.says(&bench, ACK | FIN, &[]), Ok(end), "again");
            client.seq += 1;
            client.ack = client.ack.wrapping_add(1);
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        }
        assert_eq!(
            bench.get(at + entry::HITS),
            6,
            "as often as requests came, not segments"
        );
        assert_eq!(bench.get(layout::HANDED), 0);
    }
}

/// Its sum is made in two parts, and all of it is compared.
#[test]
fn requests_of_any_length_are_answered() {
    for bench in Bench::both() {
        let all: Vec<u8> = (0..=layout::REQUEST_MAX)
            .map(|n| (n * 7 + n / 256) as u8)
            .collect();
        let lengths = (1..20).chain(500..530).chain(1010..=layout::REQUEST_MAX);
        for (port, len) in (4000..).zip(lengths) {
            let request = &all[..len];
            bench.enter(request, RESPONSE, false);
            let client = Client::opened(&bench, port, port % 2 == 0);
            let mut other = request.to_vec();
            other[len - 1] ^= 1;
            let got = client.says(&bench, ACK | PSH, request);
            assert_eq!(got.unwrap().data, RESPONSE, "{len}");
            let client = Client::opened(&bench, port + 1000, true);
            assert_eq!(client.says(&bench, ACK | PSH, &other), Err(PASS), "{len}");
            bench.set(bench.slot(&client) + layout::slot::CLOSED, 0);
            let client = Client::opened(&bench, port + 1000, true);
            let damaged = client.frame(ACK | PSH, request);
            let at = damaged.len() - len;
            for at in [at, at + len / 2, at + len - 1] {
                let mut damaged = damaged.clone();
                damaged[at] ^= 0x10;
                assert_eq!(bench.run(&damaged), (PASS, damaged), "{len}");
            }
        }
        let client = Client::opened(&bench, 7000, true);
        assert_eq!(client.says(&bench, ACK | PSH, &all), Err(PASS));
    }
}

/// The first request comes a second time, late, while its cookie is still good.
#[test]
fn an_old_first_request_changes_nothing() {
    for bench in Bench::both() {
        let slots = || -> Vec<u64> {
            let words = layout::SLOTS / 8..layout::ENTRIES / 8;
            words.map(|word| bench.get(8 * word)).collect()
        };
        for (number, closes) in [(0, false), (1, true)] {
            bench.enter(REQUEST, RESPONSE, false);
            let mut client = Client::opened(&bench, 4000 + number, true);
            let old = client.frame(ACK | PSH, REQUEST);
            client.says(&bench, ACK | PSH, REQUEST).unwrap();
            client.seq += REQUEST.len() as u32;
            client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
            let check = |what| {
                let before = slots();
                for until in [u64::MAX, 0] {
                    bench.set(layout::UNTIL, until);
                    assert_eq!(bench.run(&old).0, DROP, "{what}");
                }
                bench.set(layout::UNTIL, u64::MAX);
                assert!(slots() == before, "{what}");
            };
            bench.enter(REQUEST, RESPONSE, closes);
            client.says(&bench, ACK | PSH, REQUEST).unwrap();
            check("the second is not acknowledged");
            client.seq += REQUEST.len() as u32;
            let response = RESPONSE.len() as u32 + u32::from(closes);
            client.ack = client.ack.wrapping_add(response);
            assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
            check("all is acknowledged");
            client.says(&bench, ACK | FIN, &[]).unwrap();
            check("the peer has finished");
        }
    }
}

#[test]
fn a_response_that_closes_has_its_fin() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, true);
        let mut client = Client::opened(&bench, 4000, true);
        for _ in 0..2 {
            let got = client.says(&bench, ACK | PSH, REQUEST).unwrap();
            assert_eq!((got.seq, got.flags), (client.ack, ACK | PSH | FIN));
            assert_eq!(got.data, RESPONSE);
        }
        client.seq += REQUEST.len() as u32;
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32 + 1);
        assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        for _ in 0..2 {
            let got = client.says(&bench, ACK | FIN, &[]).unwrap();
            assert_eq!(
                (got.seq, got.ack, got.flags),
                (client.ack, client.seq + 1, ACK)
            );
        }
        // The same ends again, for another connection.
        let again = Client::opened_at(&bench, 4000, true, 1_000_000);
        assert!(again.says(&bench, ACK | PSH, REQUEST).is_ok());
    }
}

/// The next request is answered with what replaced the response of the one before.
#[test]
fn a_response_of_another_length_replaces_one() {
    for bench in Bench::both() {
        let at = bench.enter(REQUEST, RESPONSE, false);
        let longer = [RESPONSE, b"er\n"].concat();
        let mut client = Client::opened(&bench, 4000, true);
        client.says(&bench, ACK | PSH, REQUEST).unwrap();
        bench.replace(at, &longer);
        client.seq += REQUEST.len() as u32;
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        let second = client.says(&bench, ACK | PSH, REQUEST).unwrap();
        assert_eq!(second.data, longer);
        let again = client.says(&bench, ACK | PSH, REQUEST);
        assert_eq!(again, Ok(second), "it is up to date");
        let hits = bench.get(at + entry::HITS);
        assert_eq!(hits, 2);
    }
}

/// Windows's clients have no timestamps, but SACK and a window scale, by which a response fits or does not.
#[test]
fn windows_without_timestamps_has_a_scale() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let plain = Client::opened(&bench, 3999, false);
        // Of what is answered to the request.
        let window_for = |client: &Client| {
            let (_, answer) = bench.run(&client.frame(ACK | PSH, REQUEST));
            assert_eq!(client.reads(&answer).data, RESPONSE);
            let at = client.tcp() + 14;
            u16::from_be_bytes([answer[at], answer[at + 1]])
        };
        let unscaled = window_for(&plain);
        for (port, mss, is_scaled) in [(4000, 1460, true), (4002, 1440, true), (4004, 1439, false)]
        {
            let (mut client, options) = Client::opened_by_windows(&bench, port, mss);
            let scale = match options[4..] {
                [1, 1, 4, 2, 1, 3, 3, scale] => Some(scale),
                _ => None,
            };
            assert_eq!(scale.is_some(), is_scaled, "{options:?}");
            client.window = 1;
            let got = client.says(&bench, ACK | PSH, REQUEST);
            assert_eq!(got.is_ok(), is_scaled, "256 bytes, or 1");
            let (mut client, _) = Client::opened_by_windows(&bench, port + 1, mss);
            client.window = 1000;
            assert_eq!(window_for(&client), unscaled >> scale.unwrap_or(0));
        }
    }
}

/// What the verifier follows of it is far below its limit of a million instructions.
#[test]
fn the_verifier_follows_few_instructions() {
    for bench in Bench::both() {
        let verified = bench.prog.info().unwrap().verified_insns;
        eprintln!("{verified} instructions verified");
        assert!(verified < 200_000, "{verified}");
    }
}

/// Of two requests that a client makes up, neither keeps the other from its answer: what a bit changes of the hash, another key changes
/// otherwise, so no later bits change it back for all.
#[test]
fn no_request_is_in_the_way_of_another() {
    let head = "GET /small HTTP/1.1\r\nHost: here.is\r\nAccept-Encoding: ";
    let request = |value: &[u8]| [head.as_bytes(), value, b"\r\n\r\n"].concat();
    // Their upper bits differ, which a multiplication alone spreads no further.
    let both = [&b"gzip, deflate, br"[..], b"gz\xe9p, dafl\xe1te, br"].map(request);
    let responses = [RESPONSE, b"HTTP/1.1 406 Not Acceptable\r\n\r\n"];
    for bench in Bench::both() {
        for (request, response) in both.iter().zip(responses) {
            bench.enter(request, response, false);
        }
        for (port, (request, response)) in (4000..).zip(both.iter().zip(responses)) {
            let client = Client::opened(&bench, port, true);
            let got = client.says(&bench, ACK | PSH, request);
            assert_eq!(got.map(|got| got.data).as_deref(), Ok(response));
        }
    }
    let mut random = exos_testing::Random(5);
    let keys: Vec<u64> = (0..1000).map(|_| random.next()).collect();
    for bit in 0..64 {
        let changes = keys.iter().map(|&key| {
            let hash = |word: u64| layout::hash(key, &word.to_ne_bytes());
            hash(0) ^ hash(1 << bit)
        });
        let different: std::collections::HashSet<u64> = changes.collect();
        assert!(different.len() > 990, "bit {bit}: {}", different.len());
    }
}
