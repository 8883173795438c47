//! What is known of the server at one moment, and how fast things go.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use exos_inet::Instant;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::acme::{Account, Shown};
use crate::limits::RATE_TIME;
use crate::site::store::cache::Figures;

/// What is known of the server at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Since the start.
    pub uptime: Duration,
    /// Processor time of the process since its start.
    pub cpu: Duration,
    /// What the link is, in words.
    pub link: String,
    /// When the first certificate ends, in seconds since 1970.
    pub certificate_expires: Option<i64>,
    /// Certificates that come by themselves.
    pub acme: Vec<Shown>,
    /// The account by which they come.
    pub acme_account: Option<Account>,
    /// Open connections.
    pub connections: usize,
    /// Connections in TIME-WAIT.
    pub time_wait: usize,
    /// Documents in memory.
    pub documents: usize,
    /// Bytes of their contents.
    pub content_bytes: u64,
    /// What the cache holds, and may.
    pub cache: Figures,
    /// Requests that wait for a document.
    pub waiting_requests: usize,
    /// Connections to upstreams that have changed to another protocol, and stand.
    pub tunnels: usize,
    /// Upstreams that fail their checks, as the core sees it that sees most of them so.
    pub upstreams_out: usize,
    /// Responses since the start.
    pub responses: u64,
    /// Bytes of them.
    pub response_bytes: u64,
    /// All counters by name, of all cores together.
    pub counters: Vec<(String, u64)>,
    /// Each core by itself, where there are several.
    pub cores: Vec<Row>,
    /// Set by [`StatusPages::update`](super::StatusPages::update).
    pub rates: Rates,
}

/// The numbers of one core.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The processor that it runs on.
    pub core: usize,
    /// The interface that it serves, where there are several.
    pub interface: Option<String>,
    /// As of the [`Snapshot`].
    pub connections: usize,
    /// As of the [`Snapshot`].
    pub waiting_requests: usize,
    /// As of the [`Snapshot`].
    pub time_wait: usize,
    /// As of the [`Snapshot`].
    pub tunnels: usize,
    /// As of the [`Snapshot`].
    pub upstreams_out: usize,
    /// As of the [`Snapshot`].
    pub responses: u64,
    /// As of the [`Snapshot`].
    pub response_bytes: u64,
    /// All counters by name.
    pub counters: Vec<(String, u64)>,
}

impl Row {
    /// The core and its interface, for people.
    pub fn place(&self) -> String {
        match &self.interface {
            Some(interface) => format!("{}, {interface}", self.core),
            None => self.core.to_string(),
        }
    }

    /// A counter by its name.
    pub fn counter(&self, name: &str) -> u64 {
        let found = self.counters.iter().find(|(counter, _)| counter == name);
        found.map_or(0, |(_, count)| *count)
    }

    /// What tells the cores apart, by name.
    pub fn columns(&self) -> [(&'static str, u64); 9] {
        [
            ("connections", self.connections as u64),
            ("time_wait_connections", self.time_wait as u64),
            ("responses", self.responses),
            ("response_bytes", self.response_bytes),
            ("turns", self.counter("turns")),
            ("turns_busy", self.counter("turns_busy")),
            ("frames_handed_on", self.counter("cores_frames_handed_on")),
            ("frames_received", self.counter("frames_received")),
            ("frames_sent", self.counter("frames_sent")),
        ]
    }
}

/// How fast things went lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Over how many seconds; 0 when that is not known yet.
    pub over_secs: f64,
    /// Responses a second.
    pub responses: f64,
    /// Their bytes a second.
    pub bytes: f64,
    /// Share of a core that the process used.
    pub cores: f64,
}

impl Snapshot {
    /// With the numbers of these cores, together and each.
    #[must_use]
    pub fn with(mut self, cores: Vec<Row>) -> Self {
        for row in &cores {
            self.connections += row.connections;
            self.waiting_requests += row.waiting_requests;
            self.time_wait += row.time_wait;
            self.tunnels += row.tunnels;
            self.upstreams_out = self.upstreams_out.max(row.upstreams_out);
            self.responses += row.responses;
            self.response_bytes += row.response_bytes;
            add(&mut self.counters, &row.counters);
        }
        if cores.len() > 1 {
            self.cores = cores;
        }
        self
    }

    /// As JSON, in the form of [`Statistics`].
    pub fn json(&self) -> Value {
        let statistics = Statistics {
            schema: "exos.serve.statistics/1",
            uptime_seconds: self.uptime.as_secs_f64(),
            cpu_seconds: self.cpu.as_secs_f64(),
            certificate_expires_unix_seconds: self.certificate_expires,
            acme: self.acme.iter().map(AcmeCertificate::of).collect(),
            acme_account: self.acme_account.as_ref().map(AcmeAccount::of),
            connections: self.connections,
            time_wait_connections: self.time_wait,
            documents: self.documents,
            content_bytes: self.content_bytes,
            cache_bytes: self.cache.held,
            cache_limit_bytes: self.cache.limit,
            cache_leaving_bytes: self.cache.leaving,
            cache_lent_bytes: self.cache.lent,
            waiting_requests: self.waiting_requests,
            proxy_tunnels_open: self.tunnels,
            proxy_upstreams_out: self.upstreams_out,
            counters: self.counters.iter().cloned().collect(),
            cores: self.cores.iter().map(OnCore::of).collect(),
        };
        serde_json::to_value(statistics).expect("numbers under names")
    }
}

/// What the server reports: with `--json` on one line for each SIGUSR1 and at the end, and on its status page.
#[derive(Serialize, JsonSchema)]
pub struct Statistics {
    /// `"exos.serve.statistics/1"`.
    schema: &'static str,
    /// Since the start.
    uptime_seconds: f64,
    /// Processor time since the start, of all processors.
    cpu_seconds: f64,
    /// When the first certificate ends, in seconds since 1970; of a server without HTTPS, or with no certificate from a file,
    /// it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_expires_unix_seconds: Option<i64>,
    /// Automatic certificates (ACME); left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    acme: Vec<AcmeCertificate>,
    /// The account by which they come; left out where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    acme_account: Option<AcmeAccount>,
    /// TCP connections that are open.
    connections: usize,
    /// Connections in TIME-WAIT.
    time_wait_connections: usize,
    /// Documents in memory.
    documents: usize,
    /// Bytes of their contents.
    content_bytes: u64,
    /// What documents take of memory with header fields and sums.
    cache_bytes: u64,
    /// What they may take.
    cache_limit_bytes: u64,
    /// Documents that have gone from the cache and that responses under way still need.
    cache_leaving_bytes: u64,
    /// What documents keep of the file cache that processes share.
    cache_lent_bytes: u64,
    /// Requests that wait for a document to be read.
    waiting_requests: usize,
    /// Connections to upstreams that have changed to another protocol, as WebSocket, and stand.
    proxy_tunnels_open: usize,
    /// Upstreams that fail their checks, as the core sees it that sees most of them so.
    proxy_upstreams_out: usize,
    /// Every counter by name, all of them growing only, since the start; of all cores together. `link_` are the link's
    /// (`link_kernel_` the kernel's for its socket, `link_xdp_` the verdicts of the filter program), `cores_` those of a
    /// program on several cores, `acme_` those of automatic certificates, `http_` the web server's, `cache_` of its documents, `stream_` of its reading of long files,
    /// `sockets_` those of `--sockets`; the others are the stack's. `drop_` counts packets that were dropped, each kind by its
    /// own name. What each means stands beside its declaration in the code.
    counters: BTreeMap<String, u64>,
    /// With several cores or interfaces, each by itself; left out with one. Those of other cores may be a moment older than the sums.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cores: Vec<OnCore>,
}

/// A loop of the server: a core, or its part of one of several interfaces. Beside its number it has its own `connections`, `time_wait_connections`, `responses`,
/// `response_bytes`, `turns`, `turns_busy` (turns of its loop, and those that moved frames), `frames_handed_on` (that came
/// to it and were another's), `frames_received` and `frames_sent`.
#[derive(Serialize, JsonSchema)]
struct OnCore {
    /// Its number.
    core: usize,
    /// The interface that it serves; left out where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    #[serde(flatten)]
    columns: BTreeMap<&'static str, u64>,
}

impl OnCore {
    fn of(row: &Row) -> Self {
        Self {
            core: row.core,
            interface: row.interface.clone(),
            columns: row.columns().into_iter().collect(),
        }
    }
}

/// A certificate that comes by itself.
#[derive(Serialize, JsonSchema)]
struct AcmeCertificate {
    /// The host.
    name: String,
    /// When it ends, in seconds since 1970; left out where none has come yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_unix_seconds: Option<i64>,
    /// When the next is ordered, in seconds since 1970; 0 for at once.
    next_order_unix_seconds: i64,
    /// Orders in a row that have failed.
    failures: u32,
    /// Why the last has failed; left out where it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// When the authority advises to renew it (RFC 9773): from then on, in seconds since 1970; left out where it has not said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    advised_from_unix_seconds: Option<i64>,
    /// And until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    advised_until_unix_seconds: Option<i64>,
    /// Where the authority says why; left out where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice_explanation: Option<String>,
}

/// The account with an authority of automatic certificates.
#[derive(Serialize, JsonSchema)]
struct AcmeAccount {
    /// The URL of the authority's directory.
    directory: String,
    /// Mail addresses that it was told; left out where there is no account yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    contact: Option<Vec<String>>,
    /// When its terms of service were agreed to, in seconds since 1970; left out where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    terms_agreed_unix_seconds: Option<i64>,
}

impl AcmeAccount {
    fn of(account: &Account) -> Self {
        let contact = account.contact.as_ref();
        Self {
            directory: account.directory.clone(),
            contact: contact.map(|it| it.mail.clone()),
            terms_agreed_unix_seconds: contact.and_then(|it| it.agreed_at),
        }
    }
}

impl AcmeCertificate {
    fn of(shown: &Shown) -> Self {
        Self {
            name: shown.name.clone(),
            expires_unix_seconds: shown.expires,
            next_order_unix_seconds: shown.next_order,
            failures: shown.failures,
            error: shown.error.clone(),
            advised_from_unix_seconds: shown.advised.map(|(from, _)| from),
            advised_until_unix_seconds: shown.advised.map(|(_, until)| until),
            advice_explanation: shown.explanation.clone(),
        }
    }
}

/// Adds counters by name; they nearly always come in the same order.
fn add(sum: &mut Vec<(String, u64)>, counters: &[(String, u64)]) {
    for (at, (name, count)) in counters.iter().enumerate() {
        let at = match sum.get(at) {
            Some((there, _)) if there == name => Some(at),
            _ => sum.iter().position(|(there, _)| there == name),
        };
        match at {
            Some(at) => sum[at].1 += count,
            None => sum.push((name.clone(), *count)),
        }
    }
}

/// Totals at one moment.
#[derive(Clone, Copy, Debug)]
struct Totals {
    at: Instant,
    responses: u64,
    bytes: u64,
    cpu: Duration,
}

/// Totals of the last seconds, oldest first: those not older than [`RATE_TIME`], and one that is.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Totals>);

impl History {
    /// How fast things went up to this snapshot, which is remembered.
    pub(super) fn rates(&mut self, now: Instant, snapshot: &Snapshot) -> Rates {
        let newest = Totals {
            at: now,
            responses: snapshot.responses,
            bytes: snapshot.response_bytes,
            cpu: snapshot.cpu,
        };
        self.0.push_back(newest);
        while self
            .0
            .get(1)
            .is_some_and(|second| now - second.at >= RATE_TIME)
        {
            self.0.pop_front();
        }
        let oldest = self.0.front().copied().unwrap_or(newest);
        let secs = (now - oldest.at).as_secs_f64();
        if secs == 0.0 {
            return Rates::default();
        }
        Rates {
            over_secs: secs,
            responses: (newest.responses - oldest.responses) as f64 / secs,
            bytes: (newest.bytes - oldest.bytes) as f64 / secs,
            cores: newest.cpu.saturating_sub(oldest.cpu).as_secs_f64() / secs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_of_cores_are_added_by_name_and_shown_apart() {
        let row = |core, counters: &[(&str, u64)]| Row {
            core,
            connections: core + 1,
            responses: 10,
            counters: counters
                .iter()
                .map(|(n, c)| ((*n).to_owned(), *c))
                .collect(),
            ..Row::default()
        };
        let first = row(4, &[("turns", 7), ("b", 1)]);
        let second = row(6, &[("b", 2), ("turns", 70), ("c", 3)]);
        let one = Snapshot::default().with(vec![first.clone()]);
        assert_eq!(one.json().get("cores"), None, "one is all");
        let both = Snapshot::default().with(vec![first, second]);
        assert_eq!((both.connections, both.responses), (12, 20));
        let json = both.json();
        assert_eq!(json["counters"], json!({"turns": 77, "b": 3, "c": 3}));
        assert_eq!(json["cores"][1]["core"], 6);
        assert_eq!(json["cores"][1]["turns"], 70);
        assert_eq!(json["cores"][0]["connections"], 5);
    }

    #[test]
    fn loops_say_their_interface_where_there_are_several() {
        let counters = vec![("frames_sent".to_owned(), 7)];
        let row = |interface: &str| Row {
            core: 3,
            interface: Some(interface.to_owned()),
            counters: counters.clone(),
            ..Row::default()
        };
        let json = Snapshot::default()
            .with(vec![row("eth0"), row("eth1")])
            .json();
        assert_eq!(json["cores"][1]["interface"], "eth1");
        assert_eq!(json["cores"][1]["frames_sent"], 7);
        assert_eq!(row("eth1").place(), "3, eth1");
        let alone = Snapshot::default().with(vec![Row::default(); 2]).json();
        assert_eq!(alone["cores"][1].get("interface"), None);
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut history = History::default();
        let mut rates = Rates::default();
        for second in 0..100 {
            // 10 a second for 80 seconds, then 30.
            let responses = 10 * second + 20 * (second.max(80) - 80);
            let snapshot = Snapshot {
                responses,
                response_bytes: 1000 * responses,
                cpu: Duration::from_millis(500 * second),
                ..Snapshot::default()
            };
            rates = history.rates(Instant::from_millis(1000 * second), &snapshot);
            assert!(history.0.len() <= RATE_TIME.as_secs() as usize + 1);
            assert_eq!(rates.over_secs, second.min(RATE_TIME.as_secs()) as f64);
        }
        assert_eq!(
            (rates.responses, rates.bytes, rates.cores),
            (30.0, 30_000.0, 0.5)
        );
    }

    #[test]
    fn after_a_rest_the_rate_is_that_of_the_rest() {
        let mut history = History::default();
        let snapshot = |responses| Snapshot {
            responses,
            ..Snapshot::default()
        };
        assert_eq!(
            history
                .rates(Instant::from_millis(5), &snapshot(7))
                .over_secs,
            0.0
        );
        let rates = history.rates(Instant::from_millis(100_005), &snapshot(107));
        assert_eq!((rates.over_secs, rates.responses), (100.0, 1.0));
    }
}
