//! Who was the limit: the server, the wire or we. Stated rules over what was counted, looked at in this order:
//!
//! | limit | when |
//! |---|---|
//! | generator | its loop, or the busiest of its loops, was busy for nine tenths of the time |
//! | server | it stood still: for 0.2 s and ten times as long as half of the requests took, nothing came of any response, though ten requests or more were there |
//! | generator | it lost packets that had come; it began requests late; it had no port or memory for connections |
//! | wire | the link had no room in a tenth of the busy turns, or for a thousandth of the packets; a hundredth of the segments was sent again, or came in another order than they were sent in |
//! | unknown | nothing was answered |
//! | server | in a closed loop, clients waited for it more than they thought; in an open loop, a hundredth of the requests found no answer, or requests waited for connections |
//! | nobody | what was asked for was done |
//!
//! A generator that was the limit says nothing of the server, so it comes first; but for what comes of a server that stood
//! still. What else was found is told beside it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::numbers::micros;
use super::results::{Generator, Results};

/// From here on a loop has no time left: bursts of a millisecond fill what remains.
const BUSY: f64 = 0.9;
/// Packets lost on our side, of those that came: more than the odd burst at the begin.
const LOST: f64 = 0.001;
/// Lateness of a hundredth of the requests, in microseconds: more than waking up takes.
const LATE_US: u64 = 1000;
/// How long nothing comes of a server that stands still: longer than a lost segment is awaited before it is sent again at
/// first, or as often as requests take;
const SILENT_SECS: f64 = 0.2;
const SILENT_TIMES: f64 = 10.0;
/// and by so many requests at once, which losses do not hold up together.
const SILENT_REQUESTS: u64 = 10;
/// Turns in which a full link held sending up, of the busy ones.
const BLOCKED: f64 = 0.1;
/// Packets that a full link refused.
const REFUSED: f64 = 0.001;
/// Segments sent again.
const SENT_AGAIN: f64 = 0.01;
/// Segments that came before others that were sent earlier: each that is lost leaves some.
const OUT_OF_ORDER: f64 = 0.01;
/// Requests of an open loop without an answer.
const UNANSWERED: f64 = 0.01;
/// Total by service time at the 99th percentile, from where waiting for a connection is what takes the time.
const WAITED: u64 = 2;

/// Who was the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Limit {
    /// What is loaded.
    Server,
    /// What lies between.
    Wire,
    /// We.
    Generator,
    /// All that was asked for was done.
    Nobody,
    /// Nothing tells.
    Unknown,
}

/// Who, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verdict {
    /// Who.
    pub limited_by: Limit,
    /// Why, a phrase each.
    pub reasons: Vec<String>,
    /// What else was found by these rules, behind the one that comes first.
    pub also: Vec<Finding>,
}

/// A limit beside the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Who.
    pub limited_by: Limit,
    /// Why, a phrase each.
    pub reasons: Vec<String>,
}

impl Verdict {
    /// Of these results.
    pub fn of(results: &Results) -> Self {
        let certain = [
            (Limit::Generator, Vec::from_iter(of_busy_loop(results))),
            (Limit::Server, of_silence(results)),
            (Limit::Generator, of_generator(results)),
            (Limit::Wire, of_wire(results)),
        ];
        let mut found = certain
            .into_iter()
            .filter(|(_, reasons)| !reasons.is_empty())
            .map(|(limited_by, reasons)| Finding {
                limited_by,
                reasons,
            });
        let first = found.next().unwrap_or_else(|| of_rest(results));
        Self {
            limited_by: first.limited_by,
            reasons: first.reasons,
            also: found.collect(),
        }
    }

    /// A line.
    pub fn text(&self) -> String {
        let who = match self.limited_by {
            Limit::Server => "limited by the server",
            Limit::Wire => "limited by the wire",
            Limit::Generator => "limited by the generator, not by the server",
            Limit::Nobody => "limited by nobody",
            Limit::Unknown => "who was the limit is not known",
        };
        let also = self.also.iter().flat_map(|finding| &finding.reasons);
        let also: String = also.map(|why| format!("; besides, {why}")).collect();
        format!("{who}: {}{also}", self.reasons.join("; "))
    }
}

/// Where neither we nor the wire show.
fn of_rest(results: &Results) -> Finding {
    let (limited_by, why) = if results.responses == 0 {
        (Limit::Unknown, "nothing was answered".to_owned())
    } else {
        let is_open = results
            .generators
            .iter()
            .all(|g| g.parameters.get("loop") == Some(&"open".into()));
        if is_open {
            in_open_loop(results)
        } else {
            in_closed_loop(results)
        }
    };
    Finding {
        limited_by,
        reasons: vec![why],
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn part(of: u64, all: u64) -> f64 {
    of as f64 / all.max(1) as f64
}

/// Of all that shows in a generator only this cannot come of a server that stood still.
fn of_busy_loop(r: &Results) -> Option<String> {
    let busy = r.busy_share();
    let is_one = r.generators.iter().all(|g| g.cores.len() < 2);
    let who = if is_one {
        "our loop"
    } else {
        "the busiest of our loops"
    };
    (busy >= BUSY).then(|| format!("{who} was busy for {} of the time", percent(busy)))
}

fn of_generator(r: &Results) -> Vec<String> {
    let mut why = Vec::new();
    let lost = r.counter("link_kernel_rx_dropped") + r.counter("link_kernel_rx_ring_full");
    let lost = part(lost, lost + r.counter("link_rx_frames"));
    if lost > LOST {
        why.push(format!(
            "we lost {} of the packets that came, our receive ring being full",
            percent(lost)
        ));
    }
    let lost = part(r.counter("cores_frames_lost"), r.counter("link_rx_frames"));
    if lost > LOST {
        why.push(format!(
            "we lost {} of the packets that came, on the way from one core to another",
            percent(lost)
        ));
    }
    let late = r.times_us.slip.at(0.99).unwrap_or(0);
    if late > LATE_US {
        why.push(format!(
            "we began 1 of 100 requests {} late or more",
            micros(late)
        ));
    }
    let none = r.errors.get("no_connection").copied().unwrap_or(0);
    if none > 0 {
        why.push(format!(
            "{none} requests found no port or memory of ours for a connection"
        ));
    }
    why
}

/// A server that stood still, which is looked for before what may come of it: segments are sent again meanwhile, connections
/// pile up, and all is answered at once afterwards.
fn of_silence(r: &Results) -> Vec<String> {
    let silence = r.longest_silence;
    let usual = r.times_us.service.at(0.5).unwrap_or(0) as f64 / 1e6;
    let is_long = silence.secs >= SILENT_SECS.max(SILENT_TIMES * usual);
    if r.responses == 0 || !is_long || silence.requests < SILENT_REQUESTS {
        return Vec::new();
    }
    vec![format!(
        "it stood still, or the way to it did: for {} nothing came of any response, while {} requests waited",
        micros((silence.secs * 1e6) as u64),
        silence.requests
    )]
}

fn of_wire(r: &Results) -> Vec<String> {
    let mut why = Vec::new();
    let blocked = part(r.counter("turns_blocked"), r.counter("turns_busy"));
    if blocked > BLOCKED {
        why.push(format!(
            "the link had no room in {} of the turns",
            percent(blocked)
        ));
    }
    let refused: u64 = [
        "link_tx_no_room",
        "link_tx_super_packet_no_room",
        "link_tx_super_packet_refused",
    ]
    .map(|name| r.counter(name))
    .iter()
    .sum();
    let refused = part(refused, refused + r.counter("link_tx_frames"));
    if refused > REFUSED {
        why.push(format!(
            "the link refused {} of the packets",
            percent(refused)
        ));
    }
    let again = part(
        r.counter("tcp_segments_retransmitted"),
        r.counter("tcp_segments_sent"),
    );
    if again > SENT_AGAIN {
        why.push(format!("{} of the segments were lost on the way, or dropped where they arrived, and sent again", percent(again)));
    }
    let astray = part(
        r.counter("tcp_out_of_order"),
        r.counter("tcp_segments_received"),
    );
    if astray > OUT_OF_ORDER {
        why.push(format!(
            "{} of the segments came before others that were sent earlier, and were lost or overtaken",
            percent(astray)
        ));
    }
    why
}

/// Requests begin whatever becomes of those before: a server that keeps up answers them all.
fn in_open_loop(r: &Results) -> (Limit, String) {
    let unanswered = part(r.errors_all(), r.requests());
    if unanswered > UNANSWERED {
        let why = format!(
            "{} of {} requests found no answer",
            percent(unanswered),
            r.requests()
        );
        return (Limit::Server, why);
    }
    let [total, service] =
        [&r.times_us.total, &r.times_us.service].map(|times| times.at(0.99).unwrap_or(0));
    if total > WAITED * service {
        let why = format!(
            "1 of 100 requests took {}, of which {} were more than the server's: no connection was free (or give more --connections; over HTTP/2, --streams)",
            micros(total),
            micros(total - service)
        );
        return (Limit::Server, why);
    }
    let answered = percent(1.0 - unanswered);
    (
        Limit::Nobody,
        format!(
            "{answered} of what was to begin was answered, {:.0} requests/s",
            r.per_second(r.responses)
        ),
    )
}

/// Clients wait for the server, or think.
fn in_closed_loop(r: &Results) -> (Limit, String) {
    let thinking = r
        .generators
        .iter()
        .filter_map(|g| g.parameters.get("think_secs")?.as_f64());
    let thinking = thinking.fold(0.0, f64::max);
    let waiting = r.times_us.total.0.mean() / 1e6;
    let share = waiting / (waiting + thinking).max(f64::MIN_POSITIVE);
    if thinking > 0.0 && share < 0.5 {
        let why = format!("clients thought for {} of their time", percent(1.0 - share));
        return (Limit::Nobody, why);
    }
    // Over HTTP/2 each stream of a connection is a client.
    let number = |g: &Generator, name| g.parameters.get(name).and_then(Value::as_u64);
    let clients = r.generators.iter().fold(0, |sum: u64, g| {
        let streams = number(g, "streams").unwrap_or(1);
        let its = number(g, "connections")
            .unwrap_or(0)
            .saturating_mul(streams);
        sum.saturating_add(its)
    });
    let busy = percent(r.busy_share());
    (
        Limit::Server,
        format!("{clients} clients waited for it, and we were busy for only {busy} of the time"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;
    use crate::statistics::{Silence, histogram};

    fn closed() -> Results {
        let mut results = results(1e9, 500);
        let parameters = &mut results.generators[0].parameters;
        parameters.insert("loop".to_owned(), "closed".into());
        parameters.insert("connections".to_owned(), 64.into());
        results
    }

    fn open() -> Results {
        let mut results = closed();
        results.generators[0]
            .parameters
            .insert("loop".to_owned(), "open".into());
        results
    }

    fn counting(counters: &[(&str, u64)]) -> Results {
        let mut results = closed();
        results.counters.extend(
            counters
                .iter()
                .map(|&(name, count)| (name.to_owned(), count)),
        );
        results
    }

    fn is(results: &Results, limit: Limit, part: &str) {
        let verdict = Verdict::of(results);
        assert_eq!(verdict.limited_by, limit, "{verdict:?}");
        assert!(verdict.text().contains(part), "{verdict:?}");
    }

    #[test]
    fn the_server_when_clients_wait_for_it() {
        is(&closed(), Limit::Server, "64 clients waited");
        let mut it = closed();
        let parameters = &mut it.generators[0].parameters;
        parameters.insert("streams".to_owned(), 100.into());
        is(&it, Limit::Server, "6400 clients waited");
        it.generators[0]
            .parameters
            .insert("connections".to_owned(), u64::MAX.into());
        it.generators.push(it.generators[0].clone());
        is(&it, Limit::Server, "18446744073709551615 clients waited");
    }

    #[test]
    fn the_server_when_an_open_loop_is_not_answered() {
        let mut it = open();
        it.errors.insert("not_begun".to_owned(), 100);
        is(&it, Limit::Server, "10.1 % of 1001 requests");
    }

    #[test]
    fn the_server_when_requests_wait_for_connections() {
        let mut it = open();
        let mut late = histogram();
        late.record_n(40_000, 900).unwrap();
        it.times_us.total.0 = late;
        is(&it, Limit::Server, "no connection was free");
    }

    #[test]
    fn nobody_when_all_is_answered() {
        is(&open(), Limit::Nobody, "99.9 % of what was to begin");
    }

    #[test]
    fn nobody_when_clients_think() {
        let mut it = closed();
        it.generators[0]
            .parameters
            .insert("think_secs".to_owned(), 0.1.into());
        is(&it, Limit::Nobody, "thought for 99.5 %");
        it.generators[0]
            .parameters
            .insert("think_secs".to_owned(), 0.0001.into());
        is(&it, Limit::Server, "waited");
    }

    #[test]
    fn the_generator_when_it_has_no_time_left() {
        let mut it = closed();
        it.generators[0].busy_share = 0.95;
        is(&it, Limit::Generator, "busy for 95.0 %");
        it.generators[0].busy_share = 0.89;
        is(&it, Limit::Server, "");
    }

    /// One of several is enough.
    #[test]
    fn the_generator_when_one_of_them_is() {
        let mut busy = closed();
        busy.generators[0].busy_share = 1.0;
        let all = super::super::merge(vec![closed(), busy, closed()]).unwrap();
        is(&all, Limit::Generator, "busy for 100.0 %");
    }

    #[test]
    fn the_generator_when_it_loses_packets() {
        let lost = |count| {
            counting(&[
                ("link_rx_frames", 99_000),
                ("link_kernel_rx_ring_full", count),
            ])
        };
        is(&lost(1000), Limit::Generator, "lost 1.0 %");
        is(&lost(90), Limit::Server, "");
        let strayed = [("link_rx_frames", 100_000), ("cores_frames_lost", 1000)];
        is(&counting(&strayed), Limit::Generator, "lost 1.0 %");
        let dropped = [("link_rx_frames", 1000), ("link_kernel_rx_dropped", 1000)];
        is(&counting(&dropped), Limit::Generator, "lost 50.0 %");
    }

    #[test]
    fn the_generator_when_it_is_late() {
        let mut it = open();
        it.times_us.slip.0.record_n(20, 98).unwrap();
        it.times_us.slip.0.record_n(5000, 2).unwrap();
        is(&it, Limit::Generator, "5.00 ms late");
        it.times_us.slip.0.record_n(20, 500).unwrap();
        is(&it, Limit::Nobody, "");
    }

    /// A server that stands still for a second has much to say afterwards, and what is sent to it meanwhile is sent again:
    /// neither is what was wrong.
    #[test]
    fn the_server_when_it_stands_still() {
        let mut it = open();
        it.times_us.slip.0.record_n(20, 900).unwrap();
        it.times_us.slip.0.record_n(12_000, 100).unwrap();
        for times in [&mut it.times_us.total, &mut it.times_us.service] {
            times.0.record_n(900_000, 100).unwrap();
        }
        let again = [
            ("tcp_segments_sent", 1000),
            ("tcp_segments_retransmitted", 50),
        ];
        it.counters
            .extend(again.map(|(name, count)| (name.to_owned(), count)));
        is(&it, Limit::Generator, "ms late or more");
        it.longest_silence = Silence {
            secs: 1.5,
            requests: 4500,
        };
        is(
            &it,
            Limit::Server,
            "for 1.50 s nothing came of any response, while 4500 requests waited; besides, we began",
        );
        // All at once afterwards, which finds our ring too short.
        it.counters.insert("link_rx_frames".to_owned(), 9000);
        it.counters
            .insert("link_kernel_rx_ring_full".to_owned(), 1000);
        is(&it, Limit::Server, "waited; besides, we lost 10.0 %");
        it.generators[0].busy_share = 0.95;
        is(
            &it,
            Limit::Generator,
            "of the time; besides, it stood still",
        );
        it.generators[0].busy_share = 0.25;
        it.counters.remove("link_kernel_rx_ring_full");
        // Who waits a second for each response, or for one that was lost, sees no stall.
        it.longest_silence.requests = 9;
        is(&it, Limit::Generator, "");
        it.longest_silence = Silence {
            secs: 0.19,
            requests: 4500,
        };
        is(&it, Limit::Generator, "");
        it.longest_silence.secs = 2.0;
        it.times_us.service.0.record_n(400_000, 5000).unwrap();
        is(&it, Limit::Generator, "");
    }

    #[test]
    fn the_generator_when_it_has_no_ports() {
        let mut it = closed();
        it.errors.insert("no_connection".to_owned(), 3);
        is(&it, Limit::Generator, "3 requests found no port");
    }

    #[test]
    fn the_wire_when_it_is_full_or_loses() {
        let turns = [("turns_busy", 1000), ("turns_blocked", 101)];
        is(&counting(&turns), Limit::Wire, "no room in 10.1 %");
        let refused = [("link_tx_frames", 990), ("link_tx_no_room", 10)];
        is(&counting(&refused), Limit::Wire, "refused 1.0 %");
        let lossy = [
            ("tcp_segments_sent", 1000),
            ("tcp_segments_retransmitted", 11),
        ];
        is(&counting(&lossy), Limit::Wire, "1.1 % of the segments");
        let gaps = [("tcp_segments_received", 1000), ("tcp_out_of_order", 11)];
        is(
            &counting(&gaps),
            Limit::Wire,
            "1.1 % of the segments came before",
        );
        let well = [
            ("tcp_segments_received", 1000),
            ("tcp_out_of_order", 9),
            ("turns_busy", 1000),
            ("turns_blocked", 99),
            ("tcp_segments_retransmitted", 9),
        ];
        is(&counting(&well), Limit::Server, "");
    }

    /// A generator that is late hides no wire that loses.
    #[test]
    fn what_else_was_found() {
        let mut it = counting(&[("tcp_segments_received", 100), ("tcp_out_of_order", 50)]);
        it.generators[0].busy_share = 1.0;
        is(&it, Limit::Generator, "; besides, 50.0 % of the segments");
        let also = Verdict::of(&it).also;
        assert_eq!((also.len(), also[0].limited_by), (1, Limit::Wire));
        assert!(Verdict::of(&closed()).also.is_empty());
    }

    #[test]
    fn nothing_tells_when_nothing_is_answered() {
        let mut it = closed();
        it.responses = 0;
        is(&it, Limit::Unknown, "nothing was answered");
    }
}
