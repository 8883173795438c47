//! A client of packets: visits a web server from the wire itself, with a TCP of its own that is as small as the
//! protocol allows, so that the server and the link are what limits and not the client.
//!
//! | file | what is in it |
//! |---|---|
//! | `connection` | one client's TCP: the states it goes through, without I/O |
//! | `early` | segments that came before their turn |
//! | `response` | what the server must answer, and the comparison with what it does |
//! | `tuples` | which local address and port a connection has |
//! | `steering` | which queue of the wire it uses |
//! | `frames` | segments from and to the wire, and ARP for our addresses |
//! | `schedule` | when requests are meant to begin, at a given rate |
//! | `visitors` | which connection asks next: one request after the other, or at that rate; slow readers |
//! | `visit` | the loop, and what was seen |
//! | `beside` | the server in the same loop, where both ends of something are wanted |
//! | `exchange` | the same frames without any protocol: the limit of the link |
//!
//! What it says cannot flatter a server: a request counts when its answer came whole, in order, with right checksums,
//! and byte for byte what was asked for; everything else is counted as what it is. How long the client itself had
//! something to do is measured, so that one sees who was waiting for whom.
//!
//! What it leaves out: selective acknowledgement, window scaling, and congestion control (its requests are one segment
//! each).

mod beside;
mod connection;
mod early;
mod exchange;
mod frames;
mod response;
mod schedule;
mod steering;
mod tuples;
mod visit;
mod visitors;

pub(crate) use beside::BesideSettings;
pub(crate) use exchange::{Answer, Ask, Exchange, Round};
pub use visit::Visited;

use super::web::{Connection as Kind, Size};
use exos_wire::Mac;
use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;

/// A visit of the client to a web server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Visit {
    /// Link address that frames go to.
    mac: [u8; 6],
    /// How long to measure.
    pub seconds: f64,
    /// The server.
    to: SocketAddrV4,
    /// The document to ask for.
    size: Size,
    /// A connection for each request, or many requests on each.
    kind: Kind,
    /// Connections at a time.
    pub connections: u32,
    /// Requests a second; without it each connection asks again when it has its answer.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Queues of the wire, over which connections are spread.
    pub queues: u32,
    /// Milliseconds in which it sleeps between sending all that it has and taking in all that has come.
    #[serde(default)]
    pub pause_ms: Option<u64>,
    /// Be the server too, in the same loop.
    #[serde(default)]
    pub beside: Option<BesideSettings>,
    /// Readers beside them that take one segment a second of a long document.
    #[serde(default)]
    pub slow: u32,
    /// That document.
    #[serde(default)]
    pub slow_size: u64,
}

impl Visit {
    /// With one connection that asks as fast as it is answered.
    pub fn of((to, mac): (SocketAddrV4, Mac), kind: Kind, size: Size, seconds: f64) -> Self {
        Self {
            mac: mac.0,
            seconds,
            to,
            size,
            kind,
            connections: 1,
            rate: None,
            queues: 1,
            pause_ms: None,
            beside: None,
            slow: 0,
            slow_size: 0,
        }
    }
}
