//! The results of a load: who made it, what was counted, and how long things took.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::distribution::Distribution;
use crate::driver::replay::Extent;
use crate::statistics::{Multiplexing, Second, Silence, Statistics, Tls};

/// What the JSON says it is. Its meaning does not change without another number.
pub(super) const SCHEMA: &str = "exos.load/1";

/// A load generator: one of its own, or one of several whose results were merged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// What was loaded, a URL.
    pub url: String,
    /// Where that was, `ADDRESS:PORT`.
    pub address: String,
    /// When the load began, in seconds since 1970.
    pub started_unix_secs: f64,
    /// The machine that it ran on.
    #[serde(default)]
    pub host: String,
    /// The command, header fields without their values.
    #[serde(default)]
    pub command: String,
    /// What its options said, by name; header fields without their values.
    pub parameters: Map<String, Value>,
    /// What became of the log that it replayed; `null` without one.
    #[serde(default)]
    pub log: Option<Extent>,
    /// Responses that it saw.
    pub responses: u64,
    /// The part of the time in which its loop had something to do; of several cores that of the busiest.
    pub busy_share: f64,
    /// Processor time, in the kernel and outside.
    pub processor_secs: f64,
    /// What each of its cores made of it.
    #[serde(default)]
    pub cores: Vec<OnCore>,
}

/// What one of a generator's loops made, which is on a core of its own where there are several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnCore {
    /// The core, counted from 0; `null` of a loop that runs anywhere.
    pub core: Option<usize>,
    /// The interface that it loads by; left out where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Responses that it saw.
    pub responses: u64,
    /// The part of the time in which it had something to do.
    pub busy_share: f64,
    /// Processor time, in the kernel and outside.
    pub processor_secs: f64,
}

/// Times by what they are of, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// To the end of the handshake.
    pub connect: Distribution,
    /// Of TLS, from when connections stood to when it was agreed upon.
    #[serde(default)]
    pub handshake: Distribution,
    /// To the first byte.
    pub first_byte: Distribution,
    /// To the last byte, from when requests were begun.
    pub service: Distribution,
    /// To the last byte, from when requests were meant to begin.
    pub total: Distribution,
    /// How late we were ourselves.
    pub slip: Distribution,
}

impl Times {
    /// With their names.
    pub fn list(&self) -> [(&'static str, &Distribution); 6] {
        [
            ("connect", &self.connect),
            ("handshake", &self.handshake),
            ("first_byte", &self.first_byte),
            ("service", &self.service),
            ("total", &self.total),
            ("slip", &self.slip),
        ]
    }

    /// Those of which there are any, with their names.
    pub fn measured(&self) -> impl Iterator<Item = (&'static str, &Distribution)> {
        let all = self.list().into_iter();
        all.filter(|(_, times)| !times.0.is_empty())
    }
}

/// The results of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// `"exos.load/1"`.
    pub(super) schema: String,
    /// Who made the load: one generator, or those that were merged.
    pub generators: Vec<Generator>,
    /// When it began, in seconds since 1970.
    pub started_unix_secs: f64,
    /// The time before the measured time.
    pub warm_up_secs: f64,
    /// The measured time.
    pub measured_secs: f64,
    /// Whole responses to requests that were meant to begin in it.
    pub responses: u64,
    /// Connections that came to stand, begun in it.
    pub connections: u64,
    /// Bytes of responses, heads and framing included.
    #[serde(default)]
    pub response_bytes: u64,
    /// Bytes of content.
    pub content_bytes: u64,
    /// Responses by status code; 0 for codes that are none.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without a whole response, by [kind](../load.md#what-the-times-mean); only kinds that happened.
    pub errors: BTreeMap<String, u64>,
    /// TLS's handshakes; `null` where none was begun.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// HTTP/2; `null` where another version is spoken.
    #[serde(default)]
    pub http2: Option<Multiplexing>,
    /// HTTP/3; `null` where another version is spoken.
    #[serde(default)]
    pub http3: Option<Multiplexing>,
    /// [How long things took](../load.md#what-the-times-mean).
    pub times_us: Times,
    /// The longest time in which the server was silent.
    #[serde(default)]
    pub longest_silence: Silence,
    /// Second by second since the begin, the warm-up too.
    pub seconds: Vec<Second>,
    /// All counters of link and stack, of several cores their sums; with `--sockets` those of QUIC's datagrams, or none.
    pub counters: BTreeMap<String, u64>,
}

impl Results {
    /// Of what a generator saw, and the counters of its link and stack.
    pub fn new(
        generator: Generator,
        statistics: &Statistics,
        counters: impl IntoIterator<Item = (String, u64)>,
    ) -> Self {
        let s = statistics;
        let distribution =
            |histogram: &hdrhistogram::Histogram<u64>| Distribution(histogram.clone());
        let errors = s.errors.list();
        Self {
            schema: SCHEMA.to_owned(),
            started_unix_secs: generator.started_unix_secs,
            warm_up_secs: (s.from - s.seconds.start()).as_secs_f64(),
            measured_secs: (s.until - s.from).as_secs_f64(),
            responses: s.responses,
            connections: s.connections,
            response_bytes: s.bytes,
            content_bytes: s.content,
            statuses: s.statuses().collect(),
            errors: errors
                .map(|(kind, count)| (<&str>::from(kind).to_owned(), count))
                .collect(),
            tls: Some(&s.handshakes.kinds)
                .filter(|kinds| **kinds != Tls::default())
                .cloned(),
            http2: s.http2.clone(),
            http3: s.http3.clone(),
            times_us: Times {
                connect: distribution(&s.connect),
                handshake: distribution(&s.handshakes.times),
                first_byte: distribution(&s.first),
                service: distribution(&s.service),
                total: distribution(&s.total),
                slip: distribution(&s.slip),
            },
            longest_silence: s.silence,
            seconds: s.seconds.done().to_vec(),
            counters: counters.into_iter().collect(),
            generators: vec![generator],
        }
    }

    /// A rate of what happened so often in the measured time.
    pub fn per_second(&self, count: u64) -> f64 {
        if self.measured_secs > 0.0 {
            count as f64 / self.measured_secs
        } else {
            0.0
        }
    }

    /// Requests without a whole response.
    pub fn errors_all(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Requests of which the measured time is told.
    pub fn requests(&self) -> u64 {
        self.responses + self.errors_all()
    }

    /// The busiest generator's share of the time in which it had something to do: that of the busiest of its cores.
    pub fn busy_share(&self) -> f64 {
        self.generators
            .iter()
            .map(|g| g.busy_share)
            .fold(0.0, f64::max)
    }

    /// A counter of link and stack, 0 where there is none of the name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Packets that were dropped because a checksum was wrong; `None` where our stack did not see them.
    pub fn bad_checksums(&self) -> Option<u64> {
        let names = [
            "drop_ipv4_checksum",
            "drop_tcp_checksum",
            "drop_udp_checksum",
        ];
        let counts = names.map(|name| self.counters.get(name));
        counts
            .iter()
            .any(Option::is_some)
            .then(|| counts.into_iter().flatten().sum())
    }

    /// Whole seconds of the measured time.
    pub fn measured_seconds(&self) -> &[Second] {
        let first = self.warm_up_secs.ceil() as usize;
        let end = (self.warm_up_secs + self.measured_secs).floor() as usize;
        let end = end.min(self.seconds.len());
        &self.seconds[first.min(end)..end]
    }
}
