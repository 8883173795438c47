//! Generators over TLS and by HTTP/2: what one load showed, and what those of all generators did in a case.

use super::cell::Cell;
use super::loaded::Loaded;
use crate::experiment::asked::{Asked, Carrier, Kind};
use crate::report::{Ratio, case, known_median, median, outcomes, sum, usual};
use exos_host::{Error, Result};

case! {
    /// One server, way of asking and size.
    pub struct CarrierResults in "server/carrier/size" from (cell: Cell, of_others: u32) {
        /// `SERVER/tls/HANDSHAKE/SIZE` or `SERVER/http2/CARRIER/SIZE`.
        name: String = cell.to_string();
        /// Who was loaded: `exos`, `exos-xokd`, `exos-sockets`.
        server: String = cell.server.to_string();
        /// Of HTTP/1.1 over TLS: what was done for a request; `null` of HTTP/2.
        handshake: Option<Kind> = cell.asked.handshake();
        /// Of HTTP/2: what it was spoken on; `null` of HTTP/1.1.
        carrier: Option<Carrier> = cell.asked.carrier();
        /// The size of the document in bytes.
        size_bytes: u64 = cell.size.bytes();
        /// Connections that were kept busy.
        connections: u32 = cell.asked.connections(of_others);
        /// Requests under way on each.
        streams: u32 = cell.asked.streams(cell.size);
    } of {
        /// What each generator did.
        results: CarrierOutcome;
        /// Requests a second, of each of ours by each other generator.
        rate_ratios: Vec<Ratio> = Ratio::among(&results, |run| run.requests_per_sec);
        /// Requests for which a second of the generator's time suffices, of ours by those of each other.
        capacity_ratios: Vec<Ratio> = Ratio::among(&results, |run| 1e6 / run.generator_us_per_request);
    } columns {
        "x wrk" (rate_ratios by "wrk");
        "x ab" (rate_ratios by "ab");
        "x h2load" (rate_ratios by "h2load");
        "time x wrk" (capacity_ratios by "wrk");
        "time x ab" (capacity_ratios by "ab");
        "time x h2load" (capacity_ratios by "h2load");
    }
}

outcomes! {
    /// One generator over TLS or by HTTP/2: medians over the runs, errors and handshakes summed.
    pub struct CarrierOutcome of
    /// `exos`: `exos load`; `exos-sockets`: with `--sockets`; `wrk`, `ab`, `h2load`.
    generator: String, "generator";
    /// One measurement.
    pub struct CarrierRun {
        /// Whole answers in a second.
        requests_per_sec: f64 as median, "requests/s" 0;
        /// Time that the generator's side was busy for a request, in microseconds.
        generator_us_per_request: f64 as median, "gen us" 2;
        /// Part of the time that it had something to do, 0 to 1: what `exos load` says, of others how busy their core was in the
        /// middle half of the load.
        generator_busy: f64 as median;
        /// Time that the server had something to do for a request, in microseconds.
        server_us_per_request: f64 as median, "srv us" 2;
        /// Part of the time that the server had something to do, as it says itself.
        server_busy: f64 as median, "busy %" 0 |r| [r.generator_busy, r.server_busy].map(|part| 100.0 * part);
        /// Who had no time left: `generator`, `server` or `neither`; of several runs, in most.
        limited_by: &'static str as usual, "limited by";
        /// The median of the time of a request, as the generator says it: `exos load` counts from when it was meant to begin, so that a
        /// handshake is part of it, wrk from when it was sent; `null` of those that say none.
        latency_p50_us: Option<f64> as known_median, "p50 us" 0;
        /// The 99th percentile of that.
        latency_p99_us: Option<f64> as known_median, "p99 us" 0;
        /// The mean, which h2load and ab say; of wrk `null`.
        latency_mean_us: Option<f64> as known_median, "mean us" 0;
        /// Full handshakes that the server counted.
        handshakes_full: u64 as sum;
        /// Handshakes that it counted which resumed a session.
        handshakes_resumed: u64 as sum;
        /// Answers that were wrong or did not come, and connections that could not be made.
        errors: u64 as sum, "errors";
    }
}

impl CarrierRun {
    /// Of a load; an error where its handshakes were not what they were to be, which would be compared with others that were.
    pub(super) fn new(loaded: &Loaded, cell: Cell, connections: u32) -> Result<Self> {
        let seen = loaded.seen;
        let per_sec = seen.per_sec();
        let run = Self {
            requests_per_sec: per_sec,
            generator_us_per_request: 1e6 * loaded.generator_busy / per_sec,
            generator_busy: loaded.generator_busy,
            server_us_per_request: 1e6 * loaded.server_busy / per_sec,
            server_busy: loaded.server_busy,
            limited_by: loaded.limited_by(),
            latency_p50_us: seen.latency.p50_us,
            latency_p99_us: seen.latency.p99_us,
            latency_mean_us: seen.latency.mean_us,
            handshakes_full: loaded.counted("tls_handshakes_full"),
            handshakes_resumed: loaded.counted("tls_handshakes_resumed"),
            errors: seen.errors,
        };
        run.check(cell, connections)?;
        Ok(run)
    }

    fn check(&self, cell: Cell, connections: u32) -> Result<()> {
        let (full, resumed) = (self.handshakes_full, self.handshakes_resumed);
        // The first ones of a load have nothing to resume.
        let beyond = full.saturating_sub(connections.into());
        let is_right = match cell.asked {
            Asked::Tls(Kind::Resumed) => resumed > 0 && beyond * 10 <= full + resumed,
            Asked::Tls(Kind::Full) => full > 0 && resumed * 10 <= full + resumed,
            Asked::Tls(Kind::Persistent) | Asked::Http2(Carrier::Tls) => full > 0,
            Asked::Plain(_) | Asked::Http2(Carrier::Plain) | Asked::Http3 => true,
        };
        if is_right {
            return Ok(());
        }
        let what = format!("{cell}: {full} handshakes were full, and {resumed} resumed a session");
        Err(Error::new(what).mend("leave this generator out of --generators"))
    }
}

pub(super) const NOTE: &str = "TLS 1.3 with AES-128-GCM, X25519 and ECDSA P-256; by HTTP/2 a hundred requests are under way on each connection, of which there is \
    one for 16 of --connections. us: time of generator and of server for a request; busy: part of the time that they had something to do; x: requests/s by \
    those of wrk, ab and h2load; time x: their time for a request by ours, which tells where the server was the limit. Medians of the runs' ratios";

#[cfg(test)]
pub(super) mod tests {
    use super::super::output::{Latency, Reported};
    use super::*;
    use crate::report::{Case as _, Contender as _};
    use crate::stage::request::Size;
    use crate::stage::web::Server;
    use serde_json::json;

    fn cell(asked: Asked) -> Cell {
        Cell {
            server: Server::Exos,
            asked,
            size: Size::of_bytes(100),
        }
    }

    fn loaded(rate: f64, busy: f64, [full, resumed]: [u64; 2]) -> Loaded {
        let latency = Latency {
            p50_us: Some(90.0),
            ..Latency::default()
        };
        let seen = Reported {
            requests: rate as u64,
            seconds: 1.0,
            errors: 1,
            busy: None,
            latency,
        };
        let counters = json!({ "tls_handshakes_full": full, "tls_handshakes_resumed": resumed });
        Loaded::of_tests(seen, [busy, 0.6], json!({ "counters": counters }))
    }

    pub(in crate::experiment::load) fn case() -> CarrierResults {
        let cell = cell(Asked::Tls(Kind::Persistent));
        let run = |rate, busy| {
            CarrierRun::new(&loaded(rate, busy, [500, 1]), cell, 64).expect("handshakes")
        };
        let exos = vec![run(60_000.0, 0.5)];
        let wrk = vec![run(20_000.0, 1.0)];
        let results = vec![
            CarrierOutcome::of("exos".into(), exos),
            CarrierOutcome::of("wrk".into(), wrk),
        ];
        CarrierResults::new(cell, 64, results)
    }

    #[test]
    fn rates_and_times_are_compared() {
        let case = case();
        let row = |result: &CarrierOutcome| -> Vec<String> {
            let more = CarrierResults::MORE.iter();
            more.map(|column| column.shown(&case, result)).collect()
        };
        assert_eq!(row(&case.results[0]), ["3.00", "-", "-", "6.00", "-", "-"]);
        assert_eq!(row(&case.results[1]), ["-"; 6]);
        assert_eq!(case.results[0].latency_p50_us, Some(90.0));
        assert_eq!(case.results[1].limited_by, "generator");
        assert_eq!(
            (case.name.as_str(), case.streams),
            ("exos/tls/persistent/100", 1)
        );
    }

    #[test]
    fn handshakes_are_what_they_were_to_be() {
        for (asked, handshakes, is_right) in [
            (Asked::Tls(Kind::Full), [100, 0], true),
            (Asked::Tls(Kind::Full), [100, 900], false),
            (Asked::Tls(Kind::Resumed), [64, 900], true),
            (Asked::Tls(Kind::Resumed), [900, 100], false),
            (Asked::Tls(Kind::Persistent), [0, 0], false),
            (Asked::Http2(Carrier::Tls), [4, 0], true),
            (Asked::Http2(Carrier::Plain), [0, 0], true),
        ] {
            let run = CarrierRun::new(&loaded(1000.0, 0.5, handshakes), cell(asked), 64);
            assert_eq!(run.is_ok(), is_right, "{asked}, {handshakes:?}: {run:?}");
        }
    }

    #[test]
    fn streams_share_fewer_connections() {
        let cell = cell(Asked::Http2(Carrier::Plain));
        let case = CarrierResults::new(cell, 64, Vec::new());
        assert_eq!((case.connections, case.streams), (4, 100));
        assert_eq!(case.name, "exos/http2/plain/100");
    }
}
