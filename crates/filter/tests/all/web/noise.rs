//! Requests that have no entry as they came are found without noise ([`exos_filter::handler::web::lines`]), and never another's answer.

use std::collections::HashMap;

use exos_filter::handler::web::lines::{Reduced, reduce};
use exos_testing::Random;

use super::*;

/// What the server has answered, without noise.
const KNOWN: [&str; 6] = [
    "GET /small HTTP/1.1\r\nHost: here\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: here\r\nAccept-Encoding: gzip\r\n\r\n",
    "HEAD /small HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n",
    "GET /s HTTP/1.0\r\n\r\n",
    "GET /s HTTP/1.1\r\nHost: here\r\nIf-None-Match: \"1\"\r\nRange: bytes=1-2\r\n\r\n",
    // Some of the lines below are of these.
    "GET /s HTTP/1.0\r\nif\r\n\r\n",
];

/// Lines that clients send, and some that they do not.
const LINES: [&str; 24] = [
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0",
    "user-agent: curl/8.17.0",
    "Referer: http://here/other?with=a&query",
    "REFERER:",
    "Accept: */*",
    "Accept-Language: de,en-US;q=0.7,en;q=0.3",
    "Cookie: a=1; session=0123456789abcdef0123456789abcdef",
    "Upgrade-Insecure-Requests: 1",
    "Sec-Fetch-Dest: document",
    "sec-ch-ua: \"Chromium\";v=\"142\", \"Not_A Brand\";v=\"99\"",
    "X-B3-TraceId: 80f198ee56343ba864fe8b2a57d3eff7",
    "DNT:1",
    "X: \u{e4}\u{f6} beyond ASCII",
    "a:",
    "If",
    "if",
    "no colon",
    ": no name",
    "X_Y: an underscore",
    "X Y: a space",
    "X-\u{e4}: beyond ASCII",
    "X: a\ttab",
    " folded: line",
    "Content-Length: 1",
];

/// A known request with some lines more, sometimes damaged.
fn request(random: &mut Random) -> Vec<u8> {
    let known = random.pick(&KNOWN);
    let mut lines: Vec<&[u8]> = known.trim_end().split("\r\n").map(str::as_bytes).collect();
    let among = if random.chance(80) { 14 } else { LINES.len() };
    let more = if random.one_in(50) { 40 } else { 12 };
    for _ in 0..random.below(more) {
        let at = 1 + random.below(lines.len());
        lines.insert(at, LINES[random.below(among)].as_bytes());
    }
    let mut request = [&lines.join(&b"\r\n"[..])[..], b"\r\n\r\n"].concat();
    if random.one_in(4) {
        random.mutate(&mut request);
    }
    if random.one_in(4) {
        let at = random.below(request.len() + 1);
        request.insert(at, random.pick(b"\r\n\t :\x1a\x11\x7f\x80-A"));
    }
    request.truncate(1400);
    request
}

impl Bench {
    /// The lines for the log of a slot, or of a report.
    fn logged(&self, at: u64) -> Vec<u8> {
        let len = self.get(at) as usize;
        assert!(len <= layout::LOGGED_MAX);
        let words = (0..layout::LOGGED_LEN / 8).map(|word| self.get(at + 8 + 8 * word));
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        bytes[..len].to_vec()
    }
}

/// The program does what [`reduce`] says, whatever comes.
#[test]
fn noise_is_left_out_as_the_server_leaves_it_out() {
    let mut random = Random(23);
    for bench in Bench::both() {
        let mut answers = HashMap::new();
        for (number, known) in KNOWN.iter().enumerate() {
            let response = format!("HTTP/1.1 200 OK\r\n\r\n{number}").into_bytes();
            bench.enter(known.as_bytes(), &response, false);
            answers.insert(known.as_bytes().to_vec(), response);
        }
        let mut answered = 0;
        for number in 0..2000 {
            let asked = request(&mut random);
            let reduced = match answers.contains_key(&asked) {
                true => Some(Reduced {
                    request: asked.clone(),
                    logged: Vec::new(),
                }),
                false => reduce(&asked),
            };
            let expected = reduced.as_ref().and_then(|r| answers.get(&r.request));
            let client = Client::opened(&bench, 4000 + number, number % 2 == 0);
            let got = client.says(&bench, ACK | PSH, &asked);
            let text = asked.escape_ascii();
            let data = got.ok().map(|got| got.data);
            assert_eq!(data.as_ref(), expected, "{text}");
            if expected.is_some() {
                answered += 1;
                let at = ENTRIES.logged_of_slot(bench.slot(&client) - layout::SLOTS);
                assert_eq!(bench.logged(at), reduced.unwrap().logged, "{text}");
            }
            // Another client's may be the same.
            for field in [slot::STATE, slot::CLOSED] {
                bench.set(bench.slot(&client) + field, 0);
            }
        }
        assert!((500..1700).contains(&answered), "{answered}");
    }
}

/// Of a segment without a handshake it is not looked for.
#[test]
fn noise_is_left_out_for_connections_alone() {
    let asked = b"GET /small HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n";
    for bench in Bench::both() {
        bench.enter(KNOWN[0].as_bytes(), RESPONSE, false);
        let is_reduced = || {
            let scratch = bench.maps[0].lookup(&[0; 4]).unwrap().unwrap();
            let cpus = exos_host::bpf::possible_cpus().unwrap();
            let mut each = scratch.chunks(scratch.len() / cpus);
            each.any(|scratch| scratch.starts_with(b"GET"))
        };
        let client = Client::opened(&bench, 4000, true);
        let mut forged = client.clone();
        forged.ack = forged.ack.wrapping_add(1);
        assert_eq!(forged.says(&bench, ACK | PSH, asked), Err(PASS));
        assert!(!is_reduced(), "without its cookie");
        assert!(client.says(&bench, ACK | PSH, asked).is_ok());
        assert!(is_reduced());
    }
}

/// What the log wants of a request comes with the report of its answer.
#[test]
fn lines_for_the_log_are_reported() {
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let mut client = Client::opened(&bench, 4000, true);
        let long = format!("User-Agent: {}\r\n", "a".repeat(layout::LOGGED_MAX - 14));
        let agents = ["", "User-Agent: one\r\n", "", &long, "Referer: two\r\n"];
        for (number, agent) in agents.into_iter().enumerate() {
            let noise = if number == 0 { "" } else { "Accept: */*\r\n" };
            let head = "GET /small HTTP/1.1\r\nHost: here\r\n";
            let asked = format!("{head}{agent}{noise}\r\n");
            let got = client.says(&bench, ACK | PSH, asked.as_bytes()).unwrap();
            assert_eq!(got.data, RESPONSE);
            client.seq += asked.len() as u32;
            client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        }
        assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        for (number, agent) in agents.into_iter().enumerate() {
            let at = ENTRIES.logged_of_report(number as u64);
            assert_eq!(bench.logged(at), agent.as_bytes());
        }
        let asked = format!("GET /small HTTP/1.1\r\nHost: here\r\n{long}Referer:\r\n\r\n");
        let got = client.says(&bench, ACK | PSH, asked.as_bytes());
        assert_eq!(got, Err(PASS), "too long");
    }
}
