//! What the forwarder reports of itself: on SIGUSR1 and at its end.
//!
//! As text on standard error, with the counters that are not zero; or as one line of JSON on standard output, with all of
//! them. The schema is in docs/json.md.

use std::fmt::Write as _;
use std::net::SocketAddr;

use exos::Exos;
use exos_program::counters;
use serde_json::{Value, json};

use crate::flow::Class;
use crate::forwarder::Forwarder;
use crate::service::Server;

/// A report, for people or as a line of JSON.
pub fn report(exos: &Exos, forwarder: &Forwarder, as_json: bool) -> String {
    let own = forwarder.counters().list().into_iter();
    let own = own.map(|(name, count)| (name.to_owned(), count));
    let all: Vec<(String, u64)> = own.chain(exos.counters()).collect();
    if as_json {
        let report = json!({
            "schema": "exos.forward.statistics/1",
            "flows": flows(forwarder),
            "servers": forwarder.services().servers.iter().map(server).collect::<Vec<_>>(),
            "counters": counters::object(all),
        });
        return format!("{report}\n");
    }
    let mut text = String::from("exos forward:\n");
    for (name, count) in gauges(forwarder) {
        let _ = writeln!(text, "  {count} flows {name}");
    }
    for server in &forwarder.services().servers {
        let _ = writeln!(
            text,
            "  {} {}: {} flows, {} begun",
            server.transport.name(),
            SocketAddr::from(server.at),
            server.ports.taken(),
            server.begun
        );
    }
    text + &counters::lines(&all)
}

fn gauges(forwarder: &Forwarder) -> [(&'static str, u32); 4] {
    Class::ALL.map(|class| (class.name(), forwarder.flows().count(class)))
}

fn flows(forwarder: &Forwarder) -> Value {
    let classes = gauges(forwarder).into_iter();
    let mut all: serde_json::Map<String, Value> = classes
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect();
    all.insert("capacity".into(), forwarder.flows().capacity().into());
    all.into()
}

fn server(server: &Server) -> Value {
    json!({
        "protocol": server.transport.name(),
        "server": SocketAddr::from(server.at).to_string(),
        "flows": server.ports.taken(),
        "flows_begun": server.begun,
    })
}
