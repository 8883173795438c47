//! TLS's handshakes: how long they took, of which kind they were, and why those failed that did.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::histogram::histogram;

/// Why a handshake failed of a connection whose request had left with the hello, and failed by itself.
pub const EARLY_LEFT: &str = "early_left";

/// A handshake that is over.
#[derive(Clone, Debug)]
pub struct Handshake {
    /// From when the connection stood.
    pub took: Duration,
    /// An earlier session was resumed.
    pub is_resumed: bool,
    /// Whether the server took the early data, where some was sent.
    pub early: Option<bool>,
    /// The version, the cipher suite and the group of the key exchange that were agreed upon, as `TLSv1.3 TLS_AES_128_GCM_SHA256 X25519`.
    pub agreed: String,
}

/// TLS's handshakes on connections that were begun in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tls {
    /// With a certificate and a signature of the server's.
    pub handshakes_full: u64,
    /// With a ticket, or the name, of an earlier session.
    pub handshakes_resumed: u64,
    /// With a ticket, and a request in early data that the server has taken; not among those that are resumed.
    #[serde(default)]
    pub handshakes_early: u64,
    /// Those of the others with which early data was sent that the server has not taken: it was sent again.
    #[serde(default)]
    pub early_refused: u64,
    /// Those that failed, by reason; only reasons that happened.
    pub handshakes_failed: BTreeMap<String, u64>,
    /// Versions with cipher suites and groups of the key exchange that were agreed upon, and how often. Over QUIC, suite and group are known
    /// where one of each is offered; else it is `TLSv1.3 (QUIC)`.
    pub agreed: BTreeMap<String, u64>,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Handshakes {
    /// How long they took.
    pub times: Histogram<u64>,
    /// Of which kinds they were.
    pub kinds: Tls,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self {
            times: histogram(),
            kinds: Tls::default(),
        }
    }
}

impl Handshakes {
    pub(super) fn done(&mut self, handshake: &Handshake) {
        self.times
            .saturating_record(handshake.took.as_micros() as u64);
        let kinds = &mut self.kinds;
        match (handshake.early, handshake.is_resumed) {
            (Some(true), _) => kinds.handshakes_early += 1,
            (_, true) => kinds.handshakes_resumed += 1,
            (_, false) => kinds.handshakes_full += 1,
        }
        kinds.early_refused += u64::from(handshake.early == Some(false));
        match kinds.agreed.get_mut(&handshake.agreed) {
            Some(count) => *count += 1,
            None => {
                kinds.agreed.insert(handshake.agreed.clone(), 1);
            }
        }
    }

    pub(super) fn failed(&mut self, reason: &'static str) {
        let failed = &mut self.kinds.handshakes_failed;
        *failed.entry(reason.to_owned()).or_default() += 1;
    }
}
