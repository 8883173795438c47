//! Handshakes, and why they failed, by name.

use exos_tls::TlsError;

/// How often what has happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// Handshakes that came to a session of their own.
    pub(super) full: u64,
    /// Those that went on from an earlier session.
    pub(super) resumed: u64,
    /// Those with which early data came that was taken, and those with which some came that was not.
    pub(super) early_taken: u64,
    pub(super) early_refused: u64,
    /// Connections of which early data was taken, and that ended before their handshake was over.
    pub(super) early_left: u64,
    /// Those of all that are of TLS 1.2.
    pub(super) version_12: u64,
    /// Connections that ended before their handshake was over.
    pub(super) left: u64,
    /// Handshakes that waited for another turn, each once.
    pub(super) deferred: u64,
    /// Why others came to an end, in the order of [`TlsError::REASONS`].
    failed: [u64; TlsError::REASONS.len()],
}

/// Their names, in the order of [`TlsError::REASONS`].
const FAILED: [&str; TlsError::REASONS.len()] = [
    "tls_failed_configuration",
    "tls_failed_plain_http",
    "tls_failed_not_tls",
    "tls_failed_incompatible",
    "tls_failed_client_certificate",
    "tls_failed_alpn",
    "tls_failed_peer_alert",
    "tls_failed_no_certificate",
    "tls_failed_malformed",
    "tls_failed_bad_record",
    "tls_failed_unexpected_message",
    "tls_failed_over",
];

impl Counters {
    /// A session came to an end by this.
    pub(super) fn count_failure(&mut self, error: &TlsError) {
        let at = TlsError::REASONS
            .iter()
            .position(|reason| *reason == error.reason());
        self.failed[at.unwrap_or(0)] += 1;
    }

    /// All of them, by name.
    pub(super) fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let own = [
            ("tls_handshakes_full", self.full),
            ("tls_handshakes_resumed", self.resumed),
            ("tls_early_accepted", self.early_taken),
            ("tls_early_refused", self.early_refused),
            ("tls_early_left", self.early_left),
            ("tls_handshakes_version_1_2", self.version_12),
            ("tls_handshakes_deferred", self.deferred),
            ("tls_handshakes_left", self.left),
        ];
        own.into_iter().chain(FAILED.into_iter().zip(self.failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_name() {
        for (name, reason) in FAILED.iter().zip(TlsError::REASONS) {
            assert_eq!(name.strip_prefix("tls_failed_"), Some(reason));
        }
    }
}
