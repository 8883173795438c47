//! What became of answers is reported to the server ([`exos_filter::handler::web`]), case by case, by `BPF_PROG_TEST_RUN`.

use exos_filter::handler::forward::WayOut;
use exos_filter::handler::web::layout::report;

use super::*;

impl Bench {
    /// The report of this number: the response's note, and whether the response was taken.
    fn report(&self, number: u64) -> (u64, bool) {
        let at = ENTRIES.memory_len() + number % layout::REPORT_COUNT * layout::REPORT_LEN;
        assert_eq!(self.get(at + report::NUMBER), number + 1);
        let [.., upper, lower] = layout::ends(PEERS[0], PEERS[usize::from(self.ipv6)]);
        let peer = [report::PEER, report::PEER + 8].map(|word| self.get(at + word));
        assert_eq!(peer, [upper, lower]);
        let (begun, ended) = (self.get(at + report::BEGUN), self.get(at + report::ENDED));
        let now = now().micros() * 1000 + 999;
        assert!(
            0 < begun && begun <= ended && ended <= now,
            "{begun} {ended} {now}"
        );
        (
            self.get(at + report::NOTE),
            self.get(at + report::IS_TAKEN) == 1,
        )
    }

    /// Reports written, and those to come.
    fn reports(&self) -> (u64, u64) {
        let written = self.get(layout::REPORTED);
        (written, self.get(layout::TO_REPORT) - written)
    }
}

/// Flags and data behind the response; whether they acknowledge it; what is reported.
type Case = (&'static str, u8, &'static [u8], bool, Option<bool>);

/// Where the connection stays open.
const OPEN: [Case; 8] = [
    ("an acknowledgement", ACK, &[], true, Some(true)),
    ("the end", ACK | FIN, &[], true, Some(true)),
    ("the next request", ACK | PSH, REQUEST, true, Some(true)),
    ("an unknown one", ACK | PSH, b"GET /other", true, Some(true)),
    ("a long one", ACK | PSH, UNREAD, true, None),
    ("a reset", ACK | RST, &[], false, Some(false)),
    ("the end before it", ACK | FIN, &[], false, None),
    ("an old acknowledgement", ACK, &[], false, None),
];

/// Where the response is the last.
const CLOSING: [Case; 7] = [
    ("an acknowledgement", ACK, &[], true, Some(true)),
    ("the end", ACK | FIN, &[], true, Some(true)),
    (
        "data that nobody reads",
        ACK | PSH,
        REQUEST,
        true,
        Some(true),
    ),
    ("data that is not looked at", ACK | PSH, UNREAD, true, None),
    ("a reset", ACK | RST, &[], false, Some(false)),
    ("the end before it", ACK | FIN, &[], false, None),
    ("an old acknowledgement", ACK, &[], false, None),
];

/// Each answer is reported once, when it is known what became of the response, however that comes to be known.
#[test]
fn each_answer_is_reported_once() {
    let Some(bench) = Bench::new(true) else {
        return;
    };
    let mut port = 4000;
    for (closes, cases) in [(false, &OPEN[..]), (true, &CLOSING)] {
        let at = bench.enter(REQUEST, RESPONSE, closes);
        let note = 7 + u64::from(closes);
        for number in 0..2 {
            let copy = at + entry::COPIES + number * ENTRIES.copy_len();
            bench.set(copy + copy::CLOSES, u64::from(closes) | note << 32);
        }
        for &(what, flags, data, acknowledges, outcome) in cases {
            port += 1;
            let mut client = Client::opened(&bench, port, true);
            let (written, to_come) = bench.reports();
            client.says(&bench, ACK | PSH, REQUEST).unwrap();
            assert_eq!(bench.reports(), (written, to_come + 1), "{what}");
            client.says(&bench, ACK | PSH, REQUEST).unwrap();
            assert_eq!(bench.reports(), (written, to_come + 1), "{what}, again");
            client.seq += REQUEST.len() as u32;
            if acknowledges {
                let response = RESPONSE.len() as u32 + u32::from(closes);
                client.ack = client.ack.wrapping_add(response);
            }
            let answered = u64::from(
                client
                    .says(&bench, flags, data)
                    .is_ok_and(|got| !got.data.is_empty()),
            );
            let (now_written, now_to_come) = bench.reports();
            let Some(is_taken) = outcome else {
                assert_eq!((now_written, now_to_come), (written, to_come + 1), "{what}");
                continue;
            };
            assert_eq!(
                (now_written, now_to_come),
                (written + 1, to_come + answered),
                "{what}"
            );
            assert_eq!(bench.report(written), (note, is_taken), "{what}");
        }
    }
}

/// An answer that goes up before it was acknowledged is the server's to tell of.
#[test]
fn an_answer_that_goes_up_is_told_of_there() {
    let Some(bench) = Bench::new(false) else {
        return;
    };
    let at = bench.enter(REQUEST, RESPONSE, false);
    bench.set(at + entry::COPIES + copy::CLOSES, 9 << 32);
    let mut client = Client::opened(&bench, 4000, true);
    assert!(client.says(&bench, ACK | PSH, REQUEST).is_ok());
    let begun = bench.get(bench.slot(&client) + slot::BEGUN);
    assert_eq!(bench.reports(), (0, 1));
    client.seq += REQUEST.len() as u32;
    assert_eq!(client.says(&bench, ACK | PSH, b"GET"), Err(PASS));
    assert_eq!(bench.reports(), (0, 1), "the server has heard of it then");
    let asked_again = client.says(&bench, RST, &[]);
    assert_eq!((asked_again, bench.reports()), (Err(PASS), (0, 1)));
    assert_eq!(bench.handed(0, handed::FIRST) >> 32, 9);
    assert_eq!(bench.handed(0, handed::BEGUN), begun);
    assert!(begun > 0);
}

/// Nothing is answered that could not be reported: it goes up, and the connection with it.
#[test]
fn where_reports_have_no_room_requests_go_up() {
    for reports in [true, false] {
        if Bench::new(false).is_none() {
            return;
        }
        let bench = Bench::reporting(false, WayOut::Transmit, None, reports);
        bench.enter(REQUEST, RESPONSE, false);
        bench.set(layout::TO_REPORT, layout::REPORT_COUNT);
        bench.set(layout::REPORTED, layout::REPORT_COUNT);
        let mut client = Client::opened(&bench, 4000, true);
        if reports {
            assert_eq!(client.says(&bench, ACK | PSH, REQUEST), Err(PASS));
            assert_eq!(bench.get(layout::HANDED), 1);
            // The server has heard of some: the places are used again.
            bench.set(layout::HEARD, 1000);
            client = Client::opened(&bench, 4001, true);
        }
        client.says(&bench, ACK | PSH, REQUEST).unwrap();
        client.seq += REQUEST.len() as u32;
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        assert_eq!(client.says(&bench, ACK, &[]), Err(DROP));
        let written = layout::REPORT_COUNT + u64::from(reports);
        assert_eq!(bench.reports(), (written, 0));
        if reports {
            assert_eq!(bench.report(layout::REPORT_COUNT), (0, true));
        }
    }
}
