//! Listeners and servers as reports have them: what there is of each, in rows that are written as JSON without anything between.
//! A status of thousands of servers is asked for while packets wait.

use std::net::SocketAddr;

use serde::{Serialize, Serializer};

use crate::service::{Listener, Member, Server, Services, Standing};
use crate::traffic::Traffic;

/// All listeners and servers of a forwarder.
#[derive(Serialize)]
pub struct Status<'a> {
    listeners: Rows<Listeners<'a>>,
    servers: Rows<Servers<'a>>,
}

impl<'a> Status<'a> {
    /// What is known of these now.
    pub fn of(services: &'a Services) -> Self {
        Self {
            listeners: Rows(Listeners(services)),
            servers: Rows(Servers(services)),
        }
    }
}

/// An array, of which each element is made when it is written.
struct Rows<T>(T);

struct Listeners<'a>(&'a Services);

struct Servers<'a>(&'a Services);

impl Serialize for Rows<Listeners<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let services = self.0.0;
        let row = |(_, listener)| ListenerRow::of(services, listener);
        serializer.collect_seq(services.open_listeners().map(row))
    }
}

impl Serialize for Rows<Servers<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let present = self.0.0.present();
        serializer.collect_seq(present.map(|(_, server)| ServerRow::of(self.0.0, server)))
    }
}

/// A listener, with what it says of its servers.
#[derive(Serialize)]
struct ListenerRow<'a> {
    protocol: &'static str,
    listener: SocketAddr,
    reach: &'static str,
    leaving: bool,
    flows: u32,
    flows_begun: u64,
    flows_refused: u64,
    servers: Vec<MemberRow<'a>>,
    #[serde(flatten)]
    traffic: Traffic,
}

/// What a listener says of a server.
#[derive(Serialize)]
struct MemberRow<'a> {
    server: SocketAddr,
    name: Option<&'a str>,
    weight: u16,
    draining: bool,
    well: bool,
}

/// A server, of whichever listeners.
#[derive(Serialize)]
struct ServerRow<'a> {
    protocol: &'static str,
    server: SocketAddr,
    name: Option<&'a str>,
    reach: &'static str,
    leaving: bool,
    flows: u32,
    flows_open: u32,
    flows_begun: u64,
    flows_refused: u64,
    flows_unanswered: u64,
    flows_failed: u64,
    well: bool,
    resting: bool,
    rests: u64,
    checks_passed: u64,
    checks_failed: u64,
    last_failure: Option<String>,
    #[serde(flatten)]
    traffic: Traffic,
}

impl<'a> ListenerRow<'a> {
    fn of(services: &'a Services, listener: &Listener) -> Self {
        let at = |member: &Member| services.servers[usize::from(member.server)].at;
        let member = |member: &Member| MemberRow {
            server: at(member).into(),
            name: services.name_of(at(member).address),
            weight: member.weight,
            draining: member.is_draining,
            well: member.is_well,
        };
        Self {
            protocol: listener.transport.name(),
            listener: listener.at.into(),
            reach: listener.reach.name(),
            leaving: listener.standing == Standing::Leaving,
            flows: listener.flows,
            flows_begun: listener.begun,
            flows_refused: listener.refused,
            servers: listener.members().iter().map(member).collect(),
            traffic: listener.traffic,
        }
    }
}

impl<'a> ServerRow<'a> {
    fn of(services: &'a Services, server: &Server) -> Self {
        let health = &server.health;
        Self {
            protocol: server.transport.name(),
            server: server.at.into(),
            name: services.name_of(server.at.address),
            reach: server.reach.name(),
            leaving: server.standing == Standing::Leaving,
            flows: server.flows,
            flows_open: server.open,
            flows_begun: server.begun,
            flows_refused: server.refused,
            flows_unanswered: server.unanswered,
            flows_failed: health.flows_failed,
            well: health.is_well(),
            resting: health.is_resting(),
            rests: health.rests,
            checks_passed: health.passed,
            checks_failed: health.failed,
            last_failure: health.failure.as_ref().map(ToString::to_string),
            traffic: server.traffic,
        }
    }
}
