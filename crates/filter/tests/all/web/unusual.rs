//! Packets with IP options or extension headers, and fragments, of connections that stand and of others.

use exos_wire::Sum;

use super::*;

/// What is between the headers of IP and TCP.
#[derive(Clone, Copy, Debug)]
enum Unusual {
    /// IPv4 options, or a header of this number before TCP: 8 bytes.
    Options(u8),
    /// The first of several fragments, or the second.
    Fragment { is_first: bool },
}

use Unusual::*;

impl Unusual {
    /// Hop-by-hop options, routing, destination options, a fragment header without more fragments; of IPv4 there is no difference.
    const WHOLE: [Self; 4] = [Options(0), Options(43), Options(60), Options(44)];

    /// A client's frame, so.
    fn of(self, client: &Client, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut frame = client.frame(flags, data);
        if client.ipv6 {
            let (kind, header) = match self {
                Options(43) => (43, [6, 0, 99, 0, 0, 0, 0, 0]),
                Options(44) => (44, [6, 0, 0, 0, 0, 0, 0, 1]),
                Options(kind) => (kind, [6, 0, 1, 4, 0, 0, 0, 0]),
                Fragment { is_first } => (44, [6, 0, 0, if is_first { 1 } else { 8 }, 0, 0, 0, 1]),
            };
            frame[20] = kind;
            frame.splice(54..54, header);
            set_half(&mut frame, 18, 8);
            return frame;
        }
        match self {
            Options(_) => {
                frame.splice(34..34, [1; 8]);
                frame[14] += 2;
                set_half(&mut frame, 16, 8);
            }
            Fragment { is_first: true } => frame[20] = 0x20,
            Fragment { is_first: false } => frame[20..22].copy_from_slice(&[0, 1]),
        }
        let end = 14 + 4 * usize::from(frame[14] & 15);
        frame[24..26].fill(0);
        let sum = Sum::of(&frame[14..end]).finish();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    }
}

/// Makes what stands in two bytes greater.
fn set_half(frame: &mut [u8], at: usize, by: u16) {
    let half = u16::from_be_bytes([frame[at], frame[at + 1]]) + by;
    frame[at..at + 2].copy_from_slice(&half.to_be_bytes());
}

fn runs(bench: &Bench, frame: &[u8]) -> u32 {
    let (verdict, out) = bench.run(frame);
    assert!(verdict != PASS || out == frame, "it goes up as it came");
    verdict
}

/// A client's end of a connection on which a response is out.
fn asked(bench: &Bench, port: u16) -> Client {
    let mut client = Client::opened(bench, port, true);
    client.says(bench, ACK | PSH, REQUEST).unwrap();
    client.seq += REQUEST.len() as u32;
    client
}

/// The connection goes up before it, with the response unless it was known to be acknowledged.
#[test]
fn they_go_up_with_their_connections() {
    for bench in Bench::both() {
        let response = RESPONSE.len() as u32;
        let (mut number, mut port) = (0, 4000);
        for (closes, kind) in [false, true]
            .into_iter()
            .flat_map(|closes| Unusual::WHOLE.map(|kind| (closes, kind)))
        {
            bench.enter(REQUEST, RESPONSE, closes);
            // Nothing asked; asked, nothing acknowledged; acknowledged by this, or before.
            for (at, flags) in (0..4).flat_map(|at| [ACK | PSH, ACK | FIN].map(|flags| (at, flags)))
            {
                port += 1;
                let mut client = if at == 0 {
                    let client = Client::opened(&bench, port, true);
                    assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
                    client
                } else {
                    asked(&bench, port)
                };
                let una = client.ack;
                if at > 1 {
                    client.ack = una.wrapping_add(response + u32::from(closes));
                }
                if at == 3 {
                    assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
                }
                let what = format!("{kind:?} {closes} {at} {flags}");
                let handed = bench.get(layout::HANDED);
                let frame = kind.of(&client, flags, REQUEST);
                assert_eq!(runs(&bench, &frame), PASS, "{what}");
                if closes && at == 3 {
                    assert_eq!(bench.get(layout::HANDED), handed, "{what}");
                    continue;
                }
                assert_eq!(bench.get(layout::HANDED), handed + 1, "{what}");
                let nxt = una.wrapping_add(if at == 0 { 0 } else { response });
                assert_eq!(bench.handed_numbers(number), (client.seq, nxt), "{what}");
                let sent = bench.handed(number, handed::SENT);
                assert_eq!(sent != 0, [1, 2].contains(&at), "{what}");
                number += 1;
            }
        }
    }
}

/// What names no connection that stands, or acknowledges what that has not sent, goes up alone; so do fragments, which the stack joins.
#[test]
fn others_go_up_alone() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let client = asked(&bench, 4000);
        let stranger = Client::opened(&bench, 4001, true);
        let slot = bench.slot(&client);
        let words = || -> Vec<u64> { (0..16).map(|n| bench.get(slot + 8 * n)).collect() };
        let before = words();
        for kind in Unusual::WHOLE {
            for beyond in [u32::MAX, RESPONSE.len() as u32 + 1, 1 << 31] {
                let ack = client.ack.wrapping_add(beyond);
                let forged = Client { ack, ..client };
                assert_eq!(runs(&bench, &kind.of(&forged, ACK, REQUEST)), PASS);
            }
            for flags in [2, 2 | ACK, RST, PSH] {
                assert_eq!(runs(&bench, &kind.of(&client, flags, &[])), PASS);
            }
            assert_eq!(runs(&bench, &kind.of(&stranger, ACK, REQUEST)), PASS);
            // As long as they are, the headers are not all there.
            let whole = kind.of(&client, ACK, &[]);
            for len in 14..whole.len() - 12 {
                assert_eq!(runs(&bench, &whole[..len]), PASS, "{len}");
            }
            for (at, byte) in [(client.tcp() + 8, 0), (client.tcp() + 11, 1)] {
                let mut other = whole.clone();
                other[at] ^= byte | 0x10;
                assert_eq!(runs(&bench, &other), PASS, "another port");
            }
        }
        for is_first in [true, false] {
            let fragment = Fragment { is_first }.of(&client, ACK, REQUEST);
            assert_eq!(runs(&bench, &fragment), PASS);
        }
        assert_eq!(bench.get(layout::HANDED), 0);
        assert_eq!(words(), before);
    }
}

/// Behind the peer's FIN the server knows more than a packet says: it is told of the connection by its look at the slots.
#[test]
fn behind_a_fin_they_are_dropped() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let mut client = asked(&bench, 4000);
        assert!(client.says(&bench, ACK | FIN, &[]).is_ok());
        client.seq += 1;
        assert_eq!(runs(&bench, &Options(60).of(&client, ACK, &[])), DROP);
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32 + 1);
        assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        assert_eq!(
            runs(&bench, &Options(60).of(&client, ACK, &[])),
            PASS,
            "all is over"
        );
        assert_eq!(bench.get(layout::HANDED), 0);
    }
}
