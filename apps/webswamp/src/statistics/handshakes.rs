//! TLS's handshakes: how long they took, of which kind they were, and why those failed that did.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

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
    /// The version and the cipher suite that were agreed upon, as `TLSv1.3 TLS_AES_128_GCM_SHA256`.
    pub agreed: String,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Handshakes {
    /// How long they took.
    pub times: Histogram<u64>,
    /// With a certificate and a signature.
    pub full: u64,
    /// With a ticket or a session's name of an earlier one.
    pub resumed: u64,
    /// With a ticket, and early data that the server took; not among those that are resumed.
    pub early: u64,
    /// Those of the others whose early data it did not take.
    pub early_refused: u64,
    /// Those that failed, by reason.
    pub failed: BTreeMap<&'static str, u64>,
    /// What was agreed upon.
    pub agreed: BTreeMap<String, u64>,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self {
            times: histogram(),
            full: 0,
            resumed: 0,
            early: 0,
            early_refused: 0,
            failed: BTreeMap::new(),
            agreed: BTreeMap::new(),
        }
    }
}

impl Handshakes {
    pub(super) fn done(&mut self, handshake: &Handshake) {
        self.times
            .saturating_record(handshake.took.as_micros() as u64);
        match (handshake.early, handshake.is_resumed) {
            (Some(true), _) => self.early += 1,
            (_, true) => self.resumed += 1,
            (_, false) => self.full += 1,
        }
        self.early_refused += u64::from(handshake.early == Some(false));
        match self.agreed.get_mut(&handshake.agreed) {
            Some(count) => *count += 1,
            None => {
                self.agreed.insert(handshake.agreed.clone(), 1);
            }
        }
    }

    pub(super) fn failed(&mut self, reason: &'static str) {
        *self.failed.entry(reason).or_default() += 1;
    }
}
