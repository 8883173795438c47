//! A snapshot as Prometheus text.
//!
//! Names: `exos_serve_NAME_total` for each counter, but one metric with the label `status` for the responses; with the
//! label `core` what tells cores apart, and `interface` beside it where there are several.

use exos_program::exposition::{Exposition, Kind, label_value, metric_name};

use super::snapshot::{Row, Snapshot};
use crate::acme::Shown;

const RESPONSES: &str = "http_responses_";

pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut text = Exposition::new();
    let cpu = snapshot.cpu.as_secs_f64();
    text.single("process_cpu_seconds_total", Kind::Counter, cpu);
    for (name, value) in [
        ("exos_serve_uptime_seconds", snapshot.uptime.as_secs_f64()),
        ("exos_serve_connections", snapshot.connections as f64),
        (
            "exos_serve_time_wait_connections",
            snapshot.time_wait as f64,
        ),
        ("exos_serve_documents", snapshot.documents as f64),
        ("exos_serve_content_bytes", snapshot.content_bytes as f64),
        ("exos_serve_cache_bytes", snapshot.cache.held as f64),
        (
            "exos_serve_cache_leaving_bytes",
            snapshot.cache.leaving as f64,
        ),
        ("exos_serve_cache_limit_bytes", snapshot.cache.limit as f64),
        ("exos_serve_cache_lent_bytes", snapshot.cache.lent as f64),
        (
            "exos_serve_waiting_requests",
            snapshot.waiting_requests as f64,
        ),
        ("exos_serve_proxy_tunnels_open", snapshot.tunnels as f64),
        (
            "exos_serve_proxy_upstreams_out",
            snapshot.upstreams_out as f64,
        ),
    ] {
        text.single(name, Kind::Gauge, value);
    }
    if let Some(at) = snapshot.certificate_expires {
        let name = "exos_serve_certificate_expiry_timestamp_seconds";
        text.single(name, Kind::Gauge, at as f64);
    }
    acme(&mut text, &snapshot.acme);
    let responses = "exos_serve_http_responses_total";
    text.begin(responses, Kind::Counter);
    for (name, value) in &snapshot.counters {
        if let Some(status) = name.strip_prefix(RESPONSES) {
            text.sample(responses, &format!("status=\"{status}\""), value);
        }
    }
    let others = snapshot.counters.iter();
    for (name, value) in others.filter(|(name, _)| !name.starts_with(RESPONSES)) {
        let name = format!("exos_serve_{}_total", metric_name(name));
        text.single(&name, Kind::Counter, value);
    }
    for column in 0..snapshot.cores.first().map_or(0, |row| row.columns().len()) {
        let name = |row: &Row| row.columns()[column].0;
        let is_gauge = name(&snapshot.cores[0]).ends_with("connections");
        let (kind, total) = if is_gauge {
            (Kind::Gauge, "")
        } else {
            (Kind::Counter, "_total")
        };
        let metric = format!("exos_serve_core_{}{total}", name(&snapshot.cores[0]));
        text.begin(&metric, kind);
        for row in &snapshot.cores {
            text.sample(&metric, &labels(row), row.columns()[column].1);
        }
    }
    text.into_text()
}

/// Certificates that come by themselves, each by its name.
fn acme(text: &mut Exposition, all: &[Shown]) {
    let mut each = |metric: &str, value: fn(&Shown) -> Option<i64>| {
        let name = format!("exos_serve_acme_{metric}");
        if all.iter().any(|it| value(it).is_some()) {
            text.begin(&name, Kind::Gauge);
        }
        for (shown, value) in all.iter().filter_map(|it| Some((it, value(it)?))) {
            let label = format!("name=\"{}\"", label_value(&shown.name));
            text.sample(&name, &label, value);
        }
    };
    each("certificate_expiry_timestamp_seconds", |it| it.expires);
    each("next_order_timestamp_seconds", |it| Some(it.next_order));
    each("failures", |it| Some(it.failures.into()));
}

fn labels(row: &Row) -> String {
    let core = format!("core=\"{}\"", row.core);
    match &row.interface {
        Some(interface) => format!("{core},interface=\"{}\"", label_value(interface)),
        None => core,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_that_come_by_themselves_have_names() {
        let shown = |name: &str, expires| Shown {
            name: name.to_owned(),
            expires,
            failures: 2,
            ..Shown::default()
        };
        let acme = vec![shown("a.test", Some(77)), shown("b.test", None)];
        let text = text(&Snapshot {
            acme,
            ..Snapshot::default()
        });
        let part = "exos_serve_acme_certificate_expiry_timestamp_seconds gauge\n\
             exos_serve_acme_certificate_expiry_timestamp_seconds{name=\"a.test\"} 77\n\
             # TYPE exos_serve_acme_next_order_timestamp_seconds gauge\n";
        assert!(text.contains(part), "{text}");
        assert!(
            text.contains("exos_serve_acme_failures{name=\"b.test\"} 2\n"),
            "{text}"
        );
    }

    #[test]
    fn each_metric_comes_once() {
        let counters = [
            ("http_responses_200", 7),
            ("http_responses_404", 1),
            ("link_rx", 9),
        ];
        let snapshot = Snapshot {
            connections: 3,
            counters: counters.map(|(n, c)| (n.to_owned(), c)).to_vec(),
            ..Snapshot::default()
        };
        let text = text(&snapshot);
        assert!(
            text.ends_with(
                "# TYPE exos_serve_http_responses_total counter\n\
                 exos_serve_http_responses_total{status=\"200\"} 7\n\
                 exos_serve_http_responses_total{status=\"404\"} 1\n\
                 # TYPE exos_serve_link_rx_total counter\nexos_serve_link_rx_total 9\n"
            ),
            "{text}"
        );
        assert!(text.contains("# TYPE exos_serve_connections gauge\nexos_serve_connections 3\n"));
        let on = |interface: &str| Row {
            core: 2,
            interface: Some(interface.to_owned()),
            ..Row::default()
        };
        let two = super::text(&Snapshot::default().with(vec![on("eth0"), on("eth1")]));
        assert!(
            two.contains("exos_serve_core_responses_total{core=\"2\",interface=\"eth1\"} 0\n"),
            "{two}"
        );
        let mut types: Vec<&str> = text.lines().filter(|l| l.starts_with('#')).collect();
        let count = types.len();
        types.sort_unstable();
        types.dedup();
        assert_eq!(types.len(), count);
    }
}
