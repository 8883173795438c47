//! What the forwarder reports of itself: on SIGUSR1 and at its end.
//!
//! As text on standard error, with the counters that are not zero; or as one line of JSON on standard output, with all of
//! them. The schema is in docs/json.md.

use std::fmt::Write as _;
use std::net::SocketAddr;

use exos::{Exos, clock};
use exos_inet::Instant;
use exos_program::counters;
use serde_json::{Value, json};

use crate::flow::Class;
use crate::forwarder::Forwarder;
use crate::kernel::Kernel;
use crate::service::{Listener, Member, Server, Services, Standing};
use crate::traffic::Traffic;

/// What is reported of.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    pub exos: &'a Exos,
    pub forwarder: &'a Forwarder,
    pub kernel: Option<&'a Kernel>,
    /// When the program began.
    pub started: Instant,
}

/// A report, for people or as a line of JSON.
pub fn report(parts: Parts<'_>, as_json: bool) -> String {
    if as_json {
        return format!("{}\n", json(parts));
    }
    let Parts {
        forwarder, kernel, ..
    } = parts;
    let mut text = String::from("exos forward:\n");
    for (name, count) in gauges(forwarder) {
        let _ = writeln!(text, "  {count} flows {name}");
    }
    if let Some(kernel) = kernel {
        let _ = writeln!(text, "  {} flows in the kernel", kernel.flows());
    }
    for (_, listener) in forwarder.services().open_listeners() {
        let Listener { flows, begun, .. } = listener;
        let (name, at) = (listener.transport.name(), SocketAddr::from(listener.at));
        let _ = writeln!(text, "  {name}:{at}: {flows} flows, {begun} begun");
    }
    for (_, server) in forwarder.services().present() {
        let (name, at) = (server.transport.name(), SocketAddr::from(server.at));
        let (flows, begun) = (server.flows, server.begun);
        let _ = writeln!(text, "  to {name}:{at}: {flows} flows, {begun} begun");
    }
    text + &counters::lines(&all(parts))
}

/// The same as a value of JSON.
pub fn json(parts: Parts<'_>) -> Value {
    let Parts {
        forwarder, kernel, ..
    } = parts;
    let now = clock::now();
    json!({
        "schema": "exos.forward.statistics/1",
        "pid": std::process::id(),
        "uptime_ms": (now - parts.started).as_millis() as u64,
        "time_ns": now.micros() * 1000,
        "flows": flows(forwarder, kernel),
        "listeners": listeners(forwarder.services()),
        "servers": servers(forwarder.services()),
        "counters": counters::object(all(parts)),
    })
}

/// All counters: those of the forwarder, here and in the kernel, then those of link and stack.
fn all(parts: Parts<'_>) -> Vec<(String, u64)> {
    let own = parts.forwarder.counters().list().into_iter();
    let own = own.chain(parts.kernel.map(Kernel::counters).unwrap_or_default());
    let own = own.map(|(name, count)| (name.to_owned(), count));
    own.chain(parts.exos.counters()).collect()
}

fn gauges(forwarder: &Forwarder) -> [(&'static str, u32); Class::ALL.len()] {
    Class::ALL.map(|class| (class.name(), forwarder.flows().count(class)))
}

fn flows(forwarder: &Forwarder, kernel: Option<&Kernel>) -> Value {
    let classes = gauges(forwarder).into_iter();
    let mut all: serde_json::Map<String, Value> = classes
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect();
    all.insert("capacity".into(), forwarder.flows().capacity().into());
    if let Some(kernel) = kernel {
        all.insert("in_kernel".into(), kernel.flows().into());
    }
    all.into()
}

/// The listeners, each with what it says of its servers.
fn listeners(services: &Services) -> Vec<Value> {
    let member = |member: &Member| {
        let server = &services.servers[usize::from(member.server)];
        json!({
            "server": SocketAddr::from(server.at).to_string(),
            "weight": member.weight,
            "draining": member.is_draining,
            "well": member.is_well,
        })
    };
    let listener = |(_, listener): (u16, &Listener)| {
        let own = json!({
            "protocol": listener.transport.name(),
            "listener": SocketAddr::from(listener.at).to_string(),
            "reach": listener.reach.name(),
            "leaving": listener.standing == Standing::Leaving,
            "flows": listener.flows,
            "flows_begun": listener.begun,
            "flows_refused": listener.refused,
            "servers": listener.members().iter().map(member).collect::<Vec<_>>(),
        });
        with_traffic(own, &listener.traffic)
    };
    services.open_listeners().map(listener).collect()
}

/// The servers, of whichever listeners.
fn servers(services: &Services) -> Vec<Value> {
    let server = |(_, server): (u16, &Server)| {
        let own = json!({
            "protocol": server.transport.name(),
            "server": SocketAddr::from(server.at).to_string(),
            "reach": server.reach.name(),
            "leaving": server.standing == Standing::Leaving,
            "flows": server.flows,
            "flows_open": server.open,
            "flows_begun": server.begun,
            "flows_refused": server.refused,
            "flows_unanswered": server.unanswered,
            "flows_failed": server.health.flows_failed,
            "well": server.health.is_well(),
            "resting": server.health.is_resting(),
            "rests": server.health.rests,
            "checks_passed": server.health.passed,
            "checks_failed": server.health.failed,
            "last_failure": server.health.failure.map(|failure| failure.to_string()),
        });
        with_traffic(own, &server.traffic)
    };
    services.present().map(server).collect()
}

fn with_traffic(mut object: Value, traffic: &Traffic) -> Value {
    for (name, count) in traffic.list() {
        object[name] = count.into();
    }
    object
}
