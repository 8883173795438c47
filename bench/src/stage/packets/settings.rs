//! What a client of packets is told.

use crate::stage::request::{Connection, Size};
use exos_wire::Mac;
use serde::{Deserialize, Serialize};
use std::net::SocketAddrV4;
use std::path::PathBuf;

/// A visit of the client to a web server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Visit {
    /// Link address that frames go to.
    pub(super) mac: [u8; 6],
    /// How long to measure.
    pub seconds: f64,
    /// The server.
    pub(super) to: SocketAddrV4,
    /// The document to ask for.
    pub(super) size: Size,
    /// A connection for each request, or many requests on each.
    pub(super) kind: Connection,
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
    pub fn of((to, mac): (SocketAddrV4, Mac), kind: Connection, size: Size, seconds: f64) -> Self {
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

/// Where the server is, and when the client begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BesideSettings {
    /// The namespace whose wire it is on.
    pub netns: String,
    /// Where it listens.
    pub at: SocketAddrV4,
    /// The client begins when this file is there.
    pub go: PathBuf,
}
