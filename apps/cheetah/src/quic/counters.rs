//! Connections, datagrams, requests and faults of HTTP/3, by name.

use exos_http3::Fault;

/// How often what has happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// Handshakes that were begun, and those that came to a connection.
    pub(super) handshakes: u64,
    pub(super) connections: u64,
    /// Connections of which requests came as early data, and were taken; and handshakes with such that came to nothing.
    pub(super) early: u64,
    pub(super) early_left: u64,
    /// Handshakes that came to nothing.
    pub(super) left: u64,
    /// Connections that ended without either side having ended them.
    pub(super) lost: u64,
    /// Clients that were to show first that they receive at their address.
    pub(super) retries: u64,
    /// Connections that were refused: for want of room, for their peer's share, and those that were no connection.
    pub(super) refused: u64,
    pub(super) peer_refused: u64,
    pub(super) unacceptable: u64,
    /// Handshakes that took too long, and connections on which nothing was asked.
    pub(super) handshake_timeouts: u64,
    pub(super) idle_timeouts: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Datagrams that were of no connection, or could not leave.
    pub(super) unclaimed: u64,
    pub(super) unsent: u64,
    pub(super) requests: u64,
    /// Of those, which their clients gave up.
    pub(super) given_up: u64,
    /// Requests that did not become whole in time.
    pub(super) request_timeouts: u64,
    faults: Faults,
}

#[derive(Clone, Debug)]
struct Faults([u64; Fault::ALL.len()]);

impl Default for Faults {
    fn default() -> Faults {
        Faults([0; _])
    }
}

/// Their names, in the order of [`Fault::ALL`].
const FAULTS: [&str; Fault::ALL.len()] = [
    "http3_fault_frame_unexpected",
    "http3_fault_frame_of_http2",
    "http3_fault_frame_length",
    "http3_fault_frame_truncated",
    "http3_fault_settings_missing",
    "http3_fault_settings",
    "http3_fault_identifier",
    "http3_fault_stream_kind",
    "http3_fault_critical_stream",
    "http3_fault_compression",
    "http3_fault_section_too_long",
    "http3_fault_encoder_stream",
    "http3_fault_decoder_stream",
    "http3_fault_malformed",
    "http3_fault_content_length",
    "http3_fault_incomplete",
    "http3_fault_waste_flood",
    "http3_fault_priority_flood",
];

impl Counters {
    /// A connection or a request came to an end by this.
    pub(super) fn count_fault(&mut self, fault: Fault) {
        self.faults.0[fault as usize] += 1;
    }

    /// Handshakes that go on.
    pub(super) fn under_way(&self) -> usize {
        let over = self.connections + self.left + self.unacceptable;
        self.handshakes.saturating_sub(over) as usize
    }

    /// All of them, by name.
    pub(super) fn list(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let own = [
            ("quic_handshakes", self.handshakes),
            ("quic_connections", self.connections),
            ("quic_early_accepted", self.early),
            ("quic_early_left", self.early_left),
            ("quic_handshakes_left", self.left),
            ("quic_connections_lost", self.lost),
            ("quic_retries", self.retries),
            ("quic_refused_full", self.refused),
            ("quic_refused_peer", self.peer_refused),
            ("quic_refused_unacceptable", self.unacceptable),
            ("quic_handshake_timeouts", self.handshake_timeouts),
            ("quic_idle_timeouts", self.idle_timeouts),
            ("quic_datagrams_received", self.received),
            ("quic_datagrams_sent", self.sent),
            ("quic_drop_unclaimed", self.unclaimed),
            ("quic_drop_unsent", self.unsent),
            ("http3_requests", self.requests),
            ("http3_requests_given_up", self.given_up),
            ("http3_request_timeouts", self.request_timeouts),
        ];
        own.into_iter().chain(FAULTS.into_iter().zip(self.faults.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_name() {
        for (name, fault) in FAULTS.iter().zip(Fault::ALL) {
            assert_eq!(name.strip_prefix("http3_fault_"), Some(fault.reason()));
        }
    }
}
