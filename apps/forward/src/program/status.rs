//! Listeners and servers as reports have them: what there is of each, in rows that are written as JSON without anything between.
//! A status of thousands of servers is asked for while packets wait.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::packets::traffic::Traffic;
use crate::service::{Listener, Member, Server, Services, Standing};

/// All listeners and servers of a forwarder.
#[derive(Serialize, JsonSchema)]
pub struct Status<'a> {
    /// The listeners.
    #[serde(serialize_with = "listeners")]
    #[schemars(with = "Vec<ListenerRow<'a>>")]
    listeners: &'a Services,
    /// The servers, of whichever listeners.
    #[serde(serialize_with = "servers")]
    #[schemars(with = "Vec<ServerRow<'a>>")]
    servers: &'a Services,
}

impl<'a> Status<'a> {
    /// What is known of these now.
    pub fn of(services: &'a Services) -> Self {
        Self {
            listeners: services,
            servers: services,
        }
    }
}

/// Each row is made when it is written.
fn listeners<S: Serializer>(services: &Services, serializer: S) -> Result<S::Ok, S::Error> {
    let row = |(_, listener)| ListenerRow::of(services, listener);
    serializer.collect_seq(services.open_listeners().map(row))
}

fn servers<S: Serializer>(services: &Services, serializer: S) -> Result<S::Ok, S::Error> {
    let row = |(_, server)| ServerRow::of(services, server);
    serializer.collect_seq(services.present().map(row))
}

/// A listener, with what it says of its servers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Listener")]
struct ListenerRow<'a> {
    /// `"tcp"` or `"udp"`.
    protocol: &'static str,
    /// Address and port.
    listener: SocketAddr,
    /// How its packets reach servers.
    reach: &'static str,
    /// It was removed and has flows yet.
    leaving: bool,
    /// Flows that it has.
    flows: u32,
    /// Flows that have begun with it so far.
    flows_begun: u64,
    /// First packets for which there was no server, no port or no room.
    flows_refused: u64,
    /// The servers that it chooses from.
    servers: Vec<MemberRow<'a>>,
    #[serde(flatten)]
    traffic: Traffic,
}

/// What a listener says of a server.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Member")]
struct MemberRow<'a> {
    /// Address and port.
    server: SocketAddr,
    /// The name that stands for it; `null` of one that is written by its address.
    name: Option<&'a str>,
    /// How many flows it gets beside others.
    weight: u16,
    /// It gets no new flows.
    draining: bool,
    /// It is to have new flows, by its checks.
    well: bool,
}

/// A server, of whichever listeners.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Server")]
struct ServerRow<'a> {
    /// `"tcp"` or `"udp"`.
    protocol: &'static str,
    /// Address and port.
    server: SocketAddr,
    /// The name that stands for it; `null` of one that is written by its address.
    name: Option<&'a str>,
    /// How packets reach it.
    reach: &'static str,
    /// It was removed and has flows yet.
    leaving: bool,
    /// Flows that it has.
    flows: u32,
    /// Those of them that are not over.
    flows_open: u32,
    /// Flows that have begun with it so far.
    flows_begun: u64,
    /// Flows whose SYN it answered with a reset.
    flows_refused: u64,
    /// Flows that were forgotten without a word from it.
    flows_unanswered: u64,
    /// Flows that were refused, or whose SYN came again before it was answered.
    flows_failed: u64,
    /// It is to have new flows.
    well: bool,
    /// It has none because flows failed.
    resting: bool,
    /// How often it has rested.
    rests: u64,
    /// Checks that it passed.
    checks_passed: u64,
    /// Checks that it failed.
    checks_failed: u64,
    /// Why the last one failed; `null` while none has.
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
            reach: listener.reach.into(),
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
            reach: server.reach.into(),
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
