//! What it reports of itself: on SIGUSR1 and at its end, as text or as a line of JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use exos_program::counters;
use schemars::JsonSchema;
use serde::Serialize;

use super::choice::Server;
use super::splicer::Splicer;
use crate::program::statistics;

/// A report, for people or as a line of JSON.
pub(super) fn report(splicer: &Splicer, as_json: bool) -> String {
    let list = splicer.counters.list().into_iter();
    let mut all: Vec<(String, u64)> = list.map(|(name, n)| (name.to_owned(), n)).collect();
    all.push(("pipes_made".into(), splicer.pool.made));
    if as_json {
        return statistics::line(&Report {
            schema: "exos.forward.splice/1",
            connections: Connections {
                open: splicer.open(),
                capacity: splicer.open_max(),
            },
            servers: each(splicer).map(ServerReport::of).collect(),
            counters: all.into_iter().collect(),
        });
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

/// What `exos forward --splice` reports.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    /// `"exos.forward.splice/1"`.
    schema: &'static str,
    /// How many connections there are.
    connections: Connections,
    /// The servers of each listener.
    servers: Vec<ServerReport>,
    /// Every counter by name; bytes are those of connections that have ended.
    counters: BTreeMap<String, u64>,
}

/// How many connections there are.
#[derive(Serialize, JsonSchema)]
struct Connections {
    /// How many are open.
    open: u32,
    /// How many may be.
    capacity: u32,
}

/// A server of a listener.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Server")]
struct ServerReport {
    /// The listener's address and port.
    listener: String,
    /// The server's.
    server: String,
    /// Connections that are open.
    connections: u64,
    /// Connections that have begun so far.
    connections_begun: u64,
    /// Connections that the server did not take.
    connections_failed: u64,
}

impl ServerReport {
    fn of((listener, server): (String, &Server)) -> Self {
        Self {
            listener,
            server: server.at.to_string(),
            connections: server.open,
            connections_begun: server.begun,
            connections_failed: server.failed,
        }
    }
}
