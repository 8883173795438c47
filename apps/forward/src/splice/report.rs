//! What it reports of itself: on SIGUSR1 and at its end, as text or as a line of JSON (docs/json.md).

use std::fmt::Write as _;

use exos_program::counters;
use serde_json::{Value, json};

use super::choice::Server;
use super::splicer::Splicer;

/// A report, for people or as a line of JSON.
pub(super) fn report(splicer: &Splicer, as_json: bool) -> String {
    let list = splicer.counters.list().into_iter();
    let mut all: Vec<(String, u64)> = list.map(|(name, n)| (name.to_owned(), n)).collect();
    all.push(("pipes_made".into(), splicer.pool.made));
    if as_json {
        let report = json!({
            "schema": "exos.forward.splice/1",
            "connections": { "open": splicer.open(), "capacity": splicer.open_max() },
            "servers": each(splicer).map(server).collect::<Vec<_>>(),
            "counters": counters::object(all),
        });
        return format!("{report}\n");
    }
    let mut text = format!("exos forward:\n  {} connections open\n", splicer.open());
    for (listener, server) in each(splicer) {
        let Server {
            at,
            begun,
            open,
            failed,
        } = server;
        let _ = writeln!(
            text,
            "  {listener} to {at}: {open} open, {begun} begun, {failed} failed"
        );
    }
    text + &counters::lines(&all)
}

fn each(splicer: &Splicer) -> impl Iterator<Item = (String, &Server)> {
    let services = splicer.services.iter();
    services.flat_map(|service| {
        let servers = service.servers.iter();
        servers.map(|server| (service.at.to_string(), server))
    })
}

fn server((listener, server): (String, &Server)) -> Value {
    json!({
        "listener": listener,
        "server": server.at.to_string(),
        "connections": server.open,
        "connections_begun": server.begun,
        "connections_failed": server.failed,
    })
}
