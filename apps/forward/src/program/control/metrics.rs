//! A status as Prometheus text (the exposition format, version 0.0.4): `exos forward ctl metrics`.
//!
//! Names: `exos_forward_NAME_total` for each counter, and of several links or cores `exos_forward_by_link_NAME_total` and `exos_forward_by_core_NAME_total` for each with a label; `exos_forward_listener_NAME` and `exos_forward_server_NAME` with labels for
//! whose it is, and `_total` where it only grows.

use std::collections::BTreeSet;

use exos_program::exposition::{Exposition, Kind, label_value, metric_name};
use serde_json::Value;

/// What goes up and down of a listener or a server.
const GAUGES: [&str; 5] = ["flows", "flows_open", "leaving", "resting", "well"];

/// The text for a status.
pub fn text(status: &Value) -> String {
    let mut text = Exposition::new();
    text.begin("exos_forward_flows", Kind::Gauge);
    for (class, count) in status["flows"].as_object().into_iter().flatten() {
        // Those in the kernel are of all classes.
        if !["capacity", "in_kernel"].contains(&class.as_str()) {
            let labels = format!("class=\"{}\"", label_value(class));
            text.sample("exos_forward_flows", &labels, count);
        }
    }
    let capacity = &status["flows"]["capacity"];
    text.single("exos_forward_flows_max", Kind::Gauge, capacity);
    if let Some(count) = status["flows"].get("in_kernel") {
        text.single("exos_forward_flows_in_kernel", Kind::Gauge, count);
    }
    each(&mut text, "link", &status["links"]);
    each(&mut text, "core", &status["cores"]);
    rows(&mut text, "listener", &status["listeners"]);
    rows(&mut text, "server", &status["servers"]);
    for (name, count) in status["counters"].as_object().into_iter().flatten() {
        let name = format!("exos_forward_{}_total", metric_name(name));
        text.single(&name, Kind::Counter, count);
    }
    text.into_text()
}

/// What each of several links, or cores, has counted.
fn each(text: &mut Exposition, what: &str, all: &Value) {
    let all = all.as_array().map_or(&[][..], Vec::as_slice);
    let counters = |of: &Value| of["counters"].as_object().cloned().unwrap_or_default();
    let names: BTreeSet<String> = all
        .iter()
        .flat_map(|of| counters(of).into_iter())
        .map(|(name, _)| name)
        .collect();
    for name in names {
        let metric = format!("exos_forward_by_{what}_{}_total", metric_name(&name));
        text.begin(&metric, Kind::Counter);
        for of in all {
            let label = match &of[what] {
                Value::String(name) => label_value(name),
                number => number.to_string(),
            };
            let count = of["counters"][&name].as_u64().unwrap_or(0);
            text.sample(&metric, &format!("{what}=\"{label}\""), count);
        }
    }
}

/// All that is a number of a listener or of a server; what is true is 1.
fn rows(text: &mut Exposition, what: &str, all: &Value) {
    let rows = all.as_array().map_or(&[][..], Vec::as_slice);
    let fields = rows.first().and_then(Value::as_object);
    let names = fields.into_iter().flatten().map(|(name, _)| name);
    for name in names.filter(|name| number(&rows[0][name.as_str()]).is_some()) {
        let (kind, end) = match GAUGES.contains(&name.as_str()) {
            true => (Kind::Gauge, ""),
            false => (Kind::Counter, "_total"),
        };
        let metric = format!("exos_forward_{what}_{}{end}", metric_name(name));
        text.begin(&metric, kind);
        for row in rows {
            let word = |field: &str| label_value(row[field].as_str().unwrap_or_default());
            let (protocol, end) = (word("protocol"), word(what));
            let mut labels = format!("protocol=\"{protocol}\",{what}=\"{end}\"");
            if let Some(name) = row["name"].as_str() {
                labels += &format!(",name=\"{}\"", label_value(name));
            }
            let value = number(&row[name.as_str()]).unwrap_or(0);
            text.sample(&metric, &labels, value);
        }
    }
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_bool().map(u64::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_as_prometheus_reads_it() {
        let status = json!({
            "flows": { "established": 3, "capacity": 10, "in_kernel": 2 },
            "listeners": [{ "protocol": "tcp", "listener": "10.0.0.7:80", "flows": 3, "flows_begun": 9, "servers": [] }],
            "servers": [
                { "protocol": "tcp", "server": "[fd00::8]:80", "flows_begun": 4, "well": true, "last_failure": null },
                { "protocol": "tcp", "server": "[fd00::9]:80", "name": "web", "flows_begun": 5, "well": false, "last_failure": "it" },
            ],
            "counters": { "drop_hops": 2 },
        });
        let wanted = r#"# TYPE exos_forward_flows gauge
exos_forward_flows{class="established"} 3
# TYPE exos_forward_flows_max gauge
exos_forward_flows_max 10
# TYPE exos_forward_flows_in_kernel gauge
exos_forward_flows_in_kernel 2
# TYPE exos_forward_listener_flows gauge
exos_forward_listener_flows{protocol="tcp",listener="10.0.0.7:80"} 3
# TYPE exos_forward_listener_flows_begun_total counter
exos_forward_listener_flows_begun_total{protocol="tcp",listener="10.0.0.7:80"} 9
# TYPE exos_forward_server_flows_begun_total counter
exos_forward_server_flows_begun_total{protocol="tcp",server="[fd00::8]:80"} 4
exos_forward_server_flows_begun_total{protocol="tcp",server="[fd00::9]:80",name="web"} 5
# TYPE exos_forward_server_well gauge
exos_forward_server_well{protocol="tcp",server="[fd00::8]:80"} 1
exos_forward_server_well{protocol="tcp",server="[fd00::9]:80",name="web"} 0
# TYPE exos_forward_drop_hops_total counter
exos_forward_drop_hops_total 2
"#;
        assert_eq!(text(&status), wanted);
    }
}
