//! What is said of a load: a table for people, JSON (docs/json.md) for programs.

use std::fmt::Write as _;
use std::time::Duration;

use exos::clock;
use exos_inet::Instant;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::statistics::Statistics;

/// What the load cost us.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    began: Instant,
    processor_before: Duration,
    /// Time in turns of the loop that moved packets.
    pub busy: Duration,
    /// Time in all.
    pub time: Duration,
    /// Processor time, in the kernel and outside.
    pub processor: Duration,
}

impl Effort {
    /// From now on.
    pub fn start(now: Instant) -> Self {
        Self {
            began: now,
            processor_before: clock::process_time(),
            busy: Duration::ZERO,
            time: Duration::ZERO,
            processor: Duration::ZERO,
        }
    }

    /// Until now.
    pub fn stop(&mut self, now: Instant) {
        self.time = now - self.began;
        self.processor = clock::process_time() - self.processor_before;
    }

    fn busy_share(&self) -> f64 {
        share(self.busy, self.time)
    }
}

fn share(part: Duration, all: Duration) -> f64 {
    if all.is_zero() {
        0.0
    } else {
        part.as_secs_f64() / all.as_secs_f64()
    }
}

/// Points of a distribution that are reported, and their names.
const POINTS: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("max", 1.0),
];

/// The results of a load.
pub struct Report<'a> {
    statistics: &'a Statistics,
    effort: Effort,
    counters: &'a [(String, u64)],
}

impl<'a> Report<'a> {
    /// Of what was seen, what it cost, and the counters of link and stack.
    pub fn new(statistics: &'a Statistics, effort: Effort, counters: &'a [(String, u64)]) -> Self {
        Self {
            statistics,
            effort,
            counters,
        }
    }

    fn measured(&self) -> Duration {
        self.statistics.until - self.statistics.from
    }

    fn per_second(&self, count: u64) -> f64 {
        let secs = self.measured().as_secs_f64();
        if secs > 0.0 { count as f64 / secs } else { 0.0 }
    }

    fn times(&self) -> [(&'static str, &Histogram<u64>); 5] {
        let s = self.statistics;
        [
            ("connect", &s.connect),
            ("first_byte", &s.first),
            ("service", &s.service),
            ("total", &s.total),
            ("slip", &s.slip),
        ]
    }

    /// `None` where nobody counts it: the kernel's sockets have no counters of ours.
    fn counter(&self, name: &str) -> Option<u64> {
        let found = self.counters.iter().find(|(known, _)| known == name);
        found.map(|(_, count)| *count)
    }

    /// A table.
    pub fn text(&self) -> String {
        let s = self.statistics;
        let mut text = String::new();
        let requests = self.per_second(s.responses);
        let _ = writeln!(
            text,
            "{:.0} requests/s, {:.2} MB/s of content, {:.0} connections/s, measured for {:.2} s",
            requests,
            self.per_second(s.content) / 1e6,
            self.per_second(s.connections),
            self.measured().as_secs_f64(),
        );
        let _ = write!(text, "{} responses", s.responses);
        for (status, count) in s.statuses() {
            let _ = write!(text, ", {count} of {status}");
        }
        let _ = write!(text, "\n{} errors", s.errors.all());
        for (kind, count) in s.errors.list() {
            let _ = write!(text, ", {count} {}", kind.name().replace('_', " "));
        }
        text.push_str("\n\n           ");
        POINTS.iter().for_each(|(name, _)| {
            let _ = write!(text, "{name:>10}");
        });
        text.push('\n');
        for (name, histogram) in self.times() {
            if !histogram.is_empty() {
                text.push_str(&row(&name.replace('_', " "), histogram));
            }
        }
        let _ = writeln!(
            text,
            "\nwe were busy for {:.0} % of the time",
            100.0 * self.effort.busy_share(),
        );
        text
    }

    /// An object.
    pub fn json(&self) -> String {
        let s = self.statistics;
        let times = self
            .times()
            .map(|(name, histogram)| (name.to_owned(), distribution(histogram)));
        let errors = s
            .errors
            .list()
            .map(|(kind, count)| (kind.name().to_owned(), json!(count)));
        let statuses = s
            .statuses()
            .map(|(status, count)| (status.to_string(), json!(count)));
        let object = json!({
            "measured_secs": self.measured().as_secs_f64(),
            "responses": s.responses,
            "requests_per_second": self.per_second(s.responses),
            "connections": s.connections,
            "connections_per_second": self.per_second(s.connections),
            "content_bytes": s.content,
            "statuses": Value::Object(statuses.collect()),
            "errors": Value::Object(errors.collect()),
            "times_us": Value::Object(times.into_iter().collect()),
            "busy_share": self.effort.busy_share(),
            "processor_secs": self.effort.processor.as_secs_f64(),
            "retransmissions": self.counter("tcp_segments_retransmitted"),
            "counters": Value::Object(self.counters.iter().map(|(k, v)| (k.clone(), json!(v))).collect()),
        });
        format!("{object}\n")
    }
}

fn distribution(histogram: &Histogram<u64>) -> Value {
    let points = POINTS.map(|(name, quantile)| {
        (
            name.to_owned(),
            json!(histogram.value_at_quantile(quantile)),
        )
    });
    let mut object: serde_json::Map<String, Value> = points.into_iter().collect();
    object.insert("count".to_owned(), json!(histogram.len()));
    object.insert("mean".to_owned(), json!(histogram.mean()));
    Value::Object(object)
}

fn row(name: &str, histogram: &Histogram<u64>) -> String {
    let mut text = format!("{name:<11}");
    for (_, quantile) in POINTS {
        let _ = write!(
            text,
            "{:>10}",
            micros(histogram.value_at_quantile(quantile))
        );
    }
    text.push('\n');
    text
}

/// A time as a person reads it.
fn micros(micros: u64) -> String {
    let it = micros as f64;
    match micros {
        0..1000 => format!("{micros} us"),
        1000..1_000_000 => format!("{:.2} ms", it / 1e3),
        _ => format!("{:.2} s", it / 1e6),
    }
}
