//! What changed from one status to the next, per second.
//!
//! A rate is `None` when there is nothing to compare with: no earlier status, a server that was not there, or a forwarder that
//! has started again.

use super::status::{Figures, Server, Status};
use crate::reason::Reason;

/// What went through per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Flows begun.
    pub begun: f64,
    /// Flows refused.
    pub refused: f64,
    /// Packets to servers.
    pub packets_in: f64,
    /// Bits to servers.
    pub bits_in: f64,
    /// Packets to clients.
    pub packets_out: f64,
    /// Bits to clients.
    pub bits_out: f64,
}

/// A server, or a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `tcp:ADDRESS:PORT`.
    pub name: String,
    /// How it stands, and the weights that it has.
    pub standing: String,
    /// So far.
    pub figures: Figures,
    /// Per second.
    pub rates: Option<Rates>,
    /// All about it, if it is a server.
    pub server: Option<Server>,
}

/// The time between two statuses of one forwarder, in seconds.
fn seconds_between(before: &Status, now: &Status) -> Option<f64> {
    let ns = now.time_ns?.checked_sub(before.time_ns?)?;
    (ns > 0 && before.pid == now.pid).then(|| ns as f64 / 1e9)
}

/// How much a number grew in a second.
fn per_second(before: u64, now: u64, seconds: f64) -> Option<f64> {
    Some(now.checked_sub(before)? as f64 / seconds)
}

fn rates(before: &Figures, now: &Figures, seconds: f64) -> Option<Rates> {
    let rate = |of: fn(&Figures) -> u64| per_second(of(before), of(now), seconds);
    Some(Rates {
        begun: rate(|f| f.flows_begun)?,
        refused: rate(|f| f.flows_refused)?,
        packets_in: rate(|f| f.packets_to_servers)?,
        bits_in: rate(|f| f.bytes_to_servers)? * 8.0,
        packets_out: rate(|f| f.packets_to_clients)?,
        bits_out: rate(|f| f.bytes_to_clients)? * 8.0,
    })
}

/// The listeners, in their order.
#[must_use]
pub fn listeners(before: Option<&Status>, now: &Status) -> Vec<Row> {
    let seconds = before.and_then(|before| seconds_between(before, now));
    let mut rows = Vec::new();
    for listener in &now.listeners {
        let same = |other: &&super::status::Listener| {
            (&other.protocol, &other.listener) == (&listener.protocol, &listener.listener)
        };
        let earlier = before.and_then(|before| before.listeners.iter().find(same));
        let earlier = earlier.map(|earlier| &earlier.figures).zip(seconds);
        rows.push(Row {
            name: format!("{}:{}", listener.protocol, listener.listener),
            standing: if listener.leaving { "leaving" } else { "" }.to_owned(),
            figures: listener.figures,
            rates: earlier.and_then(|(earlier, s)| rates(earlier, &listener.figures, s)),
            server: None,
        });
    }
    rows
}

/// The servers.
#[must_use]
pub fn servers(before: Option<&Status>, now: &Status) -> Vec<Row> {
    let seconds = before.and_then(|before| seconds_between(before, now));
    let mut rows = Vec::new();
    for server in &now.servers {
        let same = |other: &&Server| {
            (&other.protocol, &other.server) == (&server.protocol, &server.server)
        };
        let earlier = before.and_then(|before| before.servers.iter().find(same));
        let earlier = earlier.map(|earlier| &earlier.figures).zip(seconds);
        rows.push(Row {
            name: format!("{}:{}", server.protocol, server.server),
            standing: standing(now, server),
            figures: server.figures,
            rates: earlier.and_then(|(earlier, s)| rates(earlier, &server.figures, s)),
            server: Some(server.clone()),
        });
    }
    rows
}

/// How a server stands, and its weights: one where all listeners give it the same.
fn standing(status: &Status, server: &Server) -> String {
    let listeners = status.listeners.iter();
    let listeners = listeners.filter(|listener| listener.protocol == server.protocol);
    let members = listeners.flat_map(|listener| &listener.servers);
    let members: Vec<_> = members.filter(|m| m.server == server.server).collect();
    let drained = members.iter().filter(|member| member.draining).count();
    let how = match (server.leaving, server.well, drained) {
        (true, ..) => return "leaving".to_owned(),
        (_, Some(false), _) if server.resting => "resting",
        (_, Some(false), _) => "not well",
        (_, _, 0) => "well",
        (_, _, n) if n == members.len() => "draining",
        _ => "draining partly",
    };
    let mut weights: Vec<u16> = members.iter().map(|member| member.weight).collect();
    weights.sort_unstable();
    weights.dedup();
    let weights: Vec<String> = weights.iter().map(u16::to_string).collect();
    format!("{how}, {}", weights.join("/"))
}

/// What was not sent on: all that was dropped or refused, and what belonged to no flow.
#[must_use]
pub fn reasons(before: Option<&Status>, now: &Status) -> Vec<Reason> {
    let seconds = before.and_then(|before| seconds_between(before, now));
    let is_one = |name: &str| {
        ["drop_", "refused_"].iter().any(|p| name.starts_with(p)) || name == "unknown_flow"
    };
    let counters = now.counters.iter();
    let counters = counters.filter(|(name, total)| is_one(name) && **total > 0);
    let reason = |(name, total): (&String, &u64)| {
        let earlier = before.map(|before| before.counters.get(name).copied().unwrap_or(0));
        let earlier = earlier.zip(seconds);
        Reason {
            name: name.clone(),
            total: *total,
            rate: earlier.and_then(|(earlier, seconds)| per_second(earlier, *total, seconds)),
        }
    };
    counters.map(reason).collect()
}
