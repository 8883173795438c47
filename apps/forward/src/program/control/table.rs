//! Answers of the control socket for people.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;

/// What a person is shown of an answer.
pub fn text(answer: &Value) -> String {
    match (answer.get("status"), answer["reloaded"].as_str()) {
        (Some(status), _) => status_text(status),
        (None, Some(said)) => format!("{said}\n"),
        (None, None) => {
            let listeners = list(&answer["listeners"]);
            let names: Vec<&str> = listeners.filter_map(Value::as_str).collect();
            format!("done for {}\n", names.join(" "))
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// Listeners, their servers, and servers that are leaving.
pub fn status_text(status: &Value) -> String {
    let servers = list(&status["servers"]).map(|s| ((word(&s["protocol"]), word(&s["server"])), s));
    let servers: HashMap<_, _> = servers.collect();
    let mut text = String::new();
    if status["affinity"] == "client" {
        text += "each client keeps its server (affinity client)\n";
    }
    for listener in list(&status["listeners"]) {
        let protocol = word(&listener["protocol"]);
        let _ = writeln!(
            text,
            "{protocol}:{}{}: {}",
            word(&listener["listener"]),
            leaving(listener),
            figures(listener)
        );
        for member in list(&listener["servers"]) {
            let at = word(&member["server"]);
            let server = servers.get(&(protocol, at));
            let weight = match (member["draining"].as_bool(), member["well"].as_bool()) {
                (Some(true), _) => "draining".to_owned(),
                (_, Some(false)) => "not well".to_owned(),
                _ => format!("weight {}", member["weight"]),
            };
            let figures = server.map_or_else(String::new, |server| figures(server));
            let name = called(member);
            let _ = writeln!(text, "  {at}{name}, {weight}: {figures}");
        }
    }
    for server in list(&status["servers"]).filter(|s| s["leaving"] == true) {
        let (protocol, at) = (word(&server["protocol"]), word(&server["server"]));
        let name = called(server);
        let _ = writeln!(text, "leaving {protocol}:{at}{name}: {}", figures(server));
    }
    for (name, why) in status["unresolved"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "{name} is not followed wholly: {}", word(why));
    }
    text
}

/// The name by which a server is known.
fn called(server: &Value) -> String {
    let name = server["name"].as_str();
    name.map_or_else(String::new, |name| format!(" ({name})"))
}

fn leaving(listener: &Value) -> &'static str {
    match listener["leaving"].as_bool() {
        Some(true) => " (leaving)",
        _ => "",
    }
}

fn figures(of: &Value) -> String {
    format!(
        "{} flows, {} begun, {} refused, {} packets in, {} out",
        of["flows"],
        of["flows_begun"],
        of["flows_refused"],
        of["packets_to_servers"],
        of["packets_to_clients"]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_for_people() {
        let figures = json!({ "flows": 2, "flows_begun": 9, "flows_refused": 1, "packets_to_servers": 30, "packets_to_clients": 20 });
        let with = |more: Value| {
            let mut all = figures.clone();
            let fields = more.as_object().unwrap().clone();
            all.as_object_mut().unwrap().extend(fields);
            all
        };
        let servers = json!([
            { "server": "10.0.0.8:80", "name": "web", "weight": 3, "draining": false },
            { "server": "10.0.0.9:80", "weight": 1, "draining": true, "well": true },
        ]);
        let status = json!({
            "unresolved": { "web": "no name server answered for web" },
            "listeners": [with(json!({ "protocol": "tcp", "listener": "10.0.0.7:80", "leaving": false, "servers": servers }))],
            "servers": [
                with(json!({ "protocol": "tcp", "server": "10.0.0.8:80", "leaving": false })),
                with(json!({ "protocol": "tcp", "server": "10.0.0.9:80", "leaving": false })),
                with(json!({ "protocol": "udp", "server": "10.0.0.9:53", "leaving": true })),
            ],
        });
        let figures = "2 flows, 9 begun, 1 refused, 30 packets in, 20 out\n";
        let wanted = format!(
            "tcp:10.0.0.7:80: {figures}  10.0.0.8:80 (web), weight 3: {figures}  10.0.0.9:80, draining: {figures}leaving udp:10.0.0.9:53: {figures}\
             web is not followed wholly: no name server answered for web\n"
        );
        assert_eq!(text(&json!({ "status": status })), wanted);
        let done = json!({ "listeners": ["tcp:10.0.0.7:80", "udp:10.0.0.7:53"] });
        assert_eq!(text(&done), "done for tcp:10.0.0.7:80 udp:10.0.0.7:53\n");
    }
}
