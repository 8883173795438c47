//! What servers do over HTTP/2 and HTTP/3 that is no response: streams reset, connections that they leave, requests asked again.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::multiplexed::Code;

/// HTTP/2 or HTTP/3 in a load: how often each happened, by the name of its code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Multiplexing {
    /// Requests that were to be under way on a connection at most.
    pub streams_per_connection: u32,
    /// The fewest streams at once that the server allowed on a connection, where those are fewer than were to be; `null` where it
    /// allowed all. What finds none waits for it, and that is in its time.
    #[serde(default)]
    pub streams_allowed: Option<u32>,
    /// Streams that were reset under way (RST_STREAM, RESET_STREAM).
    pub resets: BTreeMap<String, u64>,
    /// Connections on which the server takes no more requests, by the code of its first GOAWAY there; over HTTP/3, whose GOAWAY has none,
    /// `no_error`, or the code with which it has closed the connection.
    pub goaways: BTreeMap<String, u64>,
    /// Requests about which a server that went away had done nothing, and which were asked again.
    pub asked_again: u64,
    /// Connections that we left, because the server broke the protocol, by how it did.
    pub faults: BTreeMap<String, u64>,
}

impl Multiplexing {
    pub(super) fn reset(&mut self, code: Code) {
        count(&mut self.resets, code);
    }

    pub(super) fn went_away(&mut self, code: Code) {
        count(&mut self.goaways, code);
    }

    pub(super) fn allowed(&mut self, streams: u32) {
        if streams < self.streams_allowed.unwrap_or(self.streams_per_connection) {
            self.streams_allowed = Some(streams);
        }
    }

    pub(super) fn fault(&mut self, fault: &'static str) {
        *self.faults.entry(fault.to_owned()).or_default() += 1;
    }
}

/// Codes without a name are one: there are four thousand millions of them.
fn count(counts: &mut BTreeMap<String, u64>, code: Code) {
    let name = code
        .name
        .map_or("unknown".to_owned(), str::to_ascii_lowercase);
    *counts.entry(name).or_default() += 1;
}
