//! Segments that are damaged, and resets.

use super::client::is_noticed;
use super::*;

/// A damaged segment says nothing that is kept: the slot stays as it is, or goes up as it was.
#[test]
fn damage_does_not_change_a_connection() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let mut client = Client::opened(&bench, 4000, true);
        client.says(&bench, ACK | PSH, REQUEST).unwrap();
        client.seq += REQUEST.len() as u32;
        let una = client.ack;
        let (ends, at) = (client.ends().0, bench.slot(&client));
        let words = || -> Vec<u64> { (0..16).map(|n| bench.get(at + 8 * n)).collect() };
        let [state, closed, begun] =
            [slot::STATE, slot::CLOSED, slot::BEGUN].map(|at| at as usize / 8);
        let kept = slot::ENDS as usize / 8;
        assert_eq!(words()[kept..kept + 4], ends);
        for now in [slot::OPEN, slot::FINISHED, slot::LAST_ACK, slot::DONE] {
            bench.enter(REQUEST, RESPONSE, now == slot::FINISHED);
            // With our FIN behind the response, and the peer's behind the request.
            let fins = u32::from(now != slot::OPEN);
            let nxt = una.wrapping_add(RESPONSE.len() as u32 + fins);
            let rcv = client.seq + u32::from(now >= slot::LAST_ACK);
            let mut before = words();
            before[state] = now as u64;
            before[slot::RCV as usize / 8] = u64::from(nxt) << 32 | u64::from(rcv);
            let out_from = if now == slot::DONE { nxt } else { una };
            let last = client.seq - REQUEST.len() as u32;
            before[slot::UNA as usize / 8] = u64::from(last) << 32 | u64::from(out_from);
            for (number, good) in frames(&client, una, nxt).iter().enumerate() {
                let bits = 14 * 8..good.len() * 8;
                let bits = bits.filter(|bit| is_noticed(bench.ipv6, bit / 8, bit % 8));
                for bit in bits.filter(|bit| bit / 8 < client.tcp() + 32 || bit % 101 == 0) {
                    let what = format!("state {now}, frame {number}, bit {bit}");
                    for (n, word) in (0..).zip(&before) {
                        bench.set(at + 8 * n, *word);
                    }
                    bench.set(layout::TAKEN, bench.get(layout::HANDED));
                    let mut bad = good.clone();
                    bad[bit / 8] ^= 1 << (bit % 8);
                    assert_ne!(bench.run(&bad).0, TX, "{what}");
                    let mut after = words();
                    // The stack looks at the segment's checksum.
                    if bench.get(layout::HANDED) != bench.get(layout::TAKEN) {
                        assert_ne!(now, slot::DONE, "{what}");
                        // Whatever the damage acknowledges, the response goes along.
                        let number = bench.get(layout::TAKEN) % layout::RING_COUNT;
                        let at = layout::RING + number * layout::HANDED_LEN;
                        assert_ne!(bench.get(at + handed::SENT), 0, "{what}");
                        assert_eq!(after[state], 0, "{what}");
                        after[state] = before[state];
                        after[closed] = before[closed];
                        assert_eq!(after[begun], 0, "{what}");
                        after[begun] = before[begun];
                    }
                    assert_eq!(after, before, "{what}");
                }
            }
        }
    }
}

/// What may come on a connection: behind its response, and before that is acknowledged.
fn frames(client: &Client, una: u32, nxt: u32) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for ack in [nxt, una, una.wrapping_add(8)] {
        let client = Client {
            ack,
            ..client.clone()
        };
        let first = Client {
            seq: client.seq - REQUEST.len() as u32,
            ..client.clone()
        };
        all.extend([
            client.frame(ACK | PSH, REQUEST),
            client.frame(ACK | PSH, UNREAD),
            client.frame(RST, &[]),
            client.frame(RST | ACK, &[]),
            client.frame(ACK | 0x20, b"urgent"),
            client.frame(ACK | FIN, &[]),
            first.frame(ACK | PSH, REQUEST),
            first.frame(ACK | FIN, REQUEST),
        ]);
    }
    all
}

/// A reset of a connection that the kernel does not have is the server's, whatever else it brings.
#[test]
fn a_reset_begins_nothing() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let client = Client::opened(&bench, 4000, true);
        for flags in [RST, RST | ACK, RST | ACK | PSH] {
            assert_eq!(client.says(&bench, flags, REQUEST), Err(PASS));
            assert_eq!(client.says(&bench, flags, &[]), Err(PASS));
        }
        assert!(client.says(&bench, ACK | PSH, REQUEST).is_ok());
    }
}

/// Damage is never answered; a reset ends it.
#[test]
fn damage_is_not_answered_and_a_reset_ends() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let mut client = Client::opened(&bench, 4000, true);
        let good = client.frame(ACK | PSH, REQUEST);
        for at in 14..good.len() {
            for bit in (0..8).filter(|bit| is_noticed(bench.ipv6, at, *bit)) {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert_ne!(bench.run(&bad).0, TX, "byte {at}, bit {bit}");
            }
        }
        bench.set(layout::HANDED, 0);
        for number in 0..layout::SLOT_COUNT {
            bench.set(layout::SLOTS + number * layout::SLOT_LEN + slot::CLOSED, 0);
        }
        client.says(&bench, ACK | PSH, REQUEST).unwrap();
        client.seq += REQUEST.len() as u32;
        assert_eq!(client.says(&bench, RST | ACK, &[]), Err(DROP));
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        assert_eq!(
            client.says(&bench, ACK | PSH, REQUEST),
            Err(PASS),
            "of no connection"
        );
    }
}
