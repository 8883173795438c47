//! The daemon's report as Prometheus text (the exposition format, version 0.0.4).
//!
//! Names: `exos_NAME_total` for each counter of a slot, with the labels interface, slot, program and uid. Slot 0 is what
//! belongs to no program: its program is `host`. The daemon writes the names of counters, programs choose their own:
//! both are made harmless here, because the daemon that answers need not be of this version.

use std::collections::BTreeMap;

use exos_program::exposition::{Exposition, Kind, label_value, metric_name};
use exos_program::status::Status;

/// What is served while there is no daemon.
pub const DOWN: &str = "# TYPE exos_up gauge\nexos_up 0\n";

/// A slot: its labels, and its counters by name.
struct Row<'a> {
    labels: String,
    counters: &'a BTreeMap<String, u64>,
    grants: usize,
}

/// The text for a report.
pub fn text(status: &Status) -> String {
    let mut text = Exposition::new();
    let rows = rows(status);
    let slots = status.interfaces.iter().map(|i| i.slots.len());
    text.single("exos_up", Kind::Gauge, 1);
    if let Some(ms) = status.uptime_ms {
        text.single("exos_uptime_seconds", Kind::Gauge, ms as f64 / 1000.0);
    }
    if let Some(connections) = status.connections {
        text.single("exos_connections", Kind::Gauge, connections);
    }
    text.single("exos_slots", Kind::Gauge, slots.sum::<usize>());
    reasons(&mut text, status);
    text.begin("exos_grants", Kind::Gauge);
    for Row { labels, grants, .. } in &rows {
        text.sample("exos_grants", labels, grants);
    }
    for (name, values) in series(&rows) {
        let metric = format!("exos_{name}_total");
        text.begin(&metric, Kind::Counter);
        for (Row { labels, .. }, value) in rows.iter().zip(values) {
            text.sample(&metric, labels, value);
        }
    }
    text.into_text()
}

/// Counters of the daemon's own: what their names begin with, the first that fits, and the metric that has the rest of the
/// name as its reason. A connection is refused, cut by the daemon, or ends by itself.
const FAMILIES: [(&str, &str); 5] = [
    ("refused_", "exos_requests_refused_total"),
    ("connections_refused_", "exos_connections_refused_total"),
    ("connections_cut_", "exos_connections_cut_total"),
    ("connections_", "exos_connections_ended_total"),
    ("", "exos_other_total"),
];

fn family(name: &str) -> Option<(&str, &'static str)> {
    let mut all = FAMILIES.iter();
    all.find_map(|(prefix, family)| Some((name.strip_prefix(prefix)?, *family)))
}

fn reasons(text: &mut Exposition, status: &Status) {
    for (_, wanted) in FAMILIES {
        let all = status.counters.iter();
        let all = all.filter_map(|(name, value)| Some((family(name)?, value)));
        let of_family: Vec<_> = all.filter(|((_, family), _)| *family == wanted).collect();
        if !of_family.is_empty() {
            text.begin(wanted, Kind::Counter);
        }
        for ((reason, _), value) in of_family {
            let labels = format!("reason=\"{}\"", label_value(reason));
            text.sample(wanted, &labels, value);
        }
    }
}

fn rows(status: &Status) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for interface in &status.interfaces {
        let name = label_value(&interface.name);
        let mut add = |slot: u16, program: &str, uid: Option<u32>, counters, grants| {
            let program = label_value(program);
            let uid = uid.map_or_else(String::new, |uid| uid.to_string());
            rows.push(Row {
                labels: format!(
                    "interface=\"{name}\",slot=\"{slot}\",program=\"{program}\",uid=\"{uid}\""
                ),
                counters,
                grants,
            });
        };
        add(0, "host", Some(0), &interface.host, 0);
        for slot in &interface.slots {
            let grants = slot.grants.len();
            add(slot.slot, &slot.program, slot.uid, &slot.counters, grants);
        }
    }
    rows
}

/// The counters by the names of their metrics, with a value for each row: 0 where it has none. Names that become one are
/// one series: Prometheus takes none twice.
fn series(rows: &[Row<'_>]) -> BTreeMap<String, Vec<u64>> {
    let mut series: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        for (name, value) in row.counters {
            let values = series.entry(metric_name(name));
            let values = values.or_insert_with(|| vec![0; rows.len()]);
            values[at] = values[at].saturating_add(*value);
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"uptime_ms": 1500, "connections": 3,
        "counters": {"connections_cut_slow": 2, "refused_limit": 5, "connections_hung_up": 6,
            "connections_refused_too_many": 8},
        "interfaces": [{"name": "eth0", "host": {"rx_packets": 9}, "slots": [
            {"slot": 4, "program": "a\"} 1\nb\\", "uid": 1000, "grants": [{"id": 1}, {"id": 2}],
             "counters": {"rx_packets": 7, "odd name\n": 1, "odd_name_": 2}}]}]}"#;

    #[test]
    fn a_report_as_prometheus_reads_it() {
        let status = Status::parse(REPORT).expect("a report");
        let host = r#"{interface="eth0",slot="0",program="host",uid="0"}"#;
        let program = r#"{interface="eth0",slot="4",program="a\"} 1\nb\\",uid="1000"}"#;
        let wanted = format!(
            r#"# TYPE exos_up gauge
exos_up 1
# TYPE exos_uptime_seconds gauge
exos_uptime_seconds 1.5
# TYPE exos_connections gauge
exos_connections 3
# TYPE exos_slots gauge
exos_slots 1
# TYPE exos_requests_refused_total counter
exos_requests_refused_total{{reason="limit"}} 5
# TYPE exos_connections_refused_total counter
exos_connections_refused_total{{reason="too_many"}} 8
# TYPE exos_connections_cut_total counter
exos_connections_cut_total{{reason="slow"}} 2
# TYPE exos_connections_ended_total counter
exos_connections_ended_total{{reason="hung_up"}} 6
# TYPE exos_grants gauge
exos_grants{host} 0
exos_grants{program} 2
# TYPE exos_odd_name__total counter
exos_odd_name__total{host} 0
exos_odd_name__total{program} 3
# TYPE exos_rx_packets_total counter
exos_rx_packets_total{host} 9
exos_rx_packets_total{program} 7
"#
        );
        assert_eq!(text(&status), wanted);
    }

    /// As many names as a report may have, that all become one: the text is made while others wait for theirs.
    #[test]
    fn many_odd_names_are_one_series() {
        let mut status = Status::parse(REPORT).expect("a report");
        let odd = |n: usize| {
            (
                format!("{:b}", n | 1 << 16)
                    .replace('1', "-")
                    .replace('0', "+"),
                1,
            )
        };
        status.interfaces[0].host = (0..1 << 16).map(odd).collect();
        let text = text(&status);
        let name = format!("exos_{}_total", "_".repeat(17));
        let line =
            format!("{name}{{interface=\"eth0\",slot=\"0\",program=\"host\",uid=\"0\"}} 65536\n");
        assert!(text.contains(&line), "{}", text.len());
        assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1);
    }

    #[test]
    fn what_a_daemon_does_not_say_is_left_out() {
        let text = text(&Status::default());
        assert!(text.contains("exos_up 1\n"), "{text}");
        assert!(!text.contains("exos_connections "), "{text}");
        assert!(!text.contains("uptime"), "{text}");
    }
}
