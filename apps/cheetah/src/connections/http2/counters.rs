//! Streams and faults of HTTP/2, by name.

use exos_http2::Fault;

/// How often what has happened.
#[derive(Clone, Debug)]
pub(in crate::connections) struct Counters {
    /// Connections that came to speak it.
    pub(super) connections: u64,
    /// Requests.
    pub(super) streams: u64,
    /// Of those, which their clients gave up.
    pub(super) resets: u64,
    /// Requests that were refused because their peer had as many waiting as it may.
    pub(super) peer_refusals: u64,
    /// Requests that were ended because their bodies had used up a connection's window, and nobody took anything of them.
    pub(super) stalled_bodies: u64,
    faults: [u64; Fault::ALL.len()],
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            connections: 0,
            streams: 0,
            resets: 0,
            peer_refusals: 0,
            stalled_bodies: 0,
            faults: [0; _],
        }
    }
}

/// Their names, in the order of [`Fault::ALL`].
const FAULTS: [&str; Fault::ALL.len()] = [
    "http2_fault_preface",
    "http2_fault_frame_length",
    "http2_fault_stream_number",
    "http2_fault_idle_stream",
    "http2_fault_closed_stream",
    "http2_fault_headers_order",
    "http2_fault_padding",
    "http2_fault_settings",
    "http2_fault_settings_window",
    "http2_fault_window_zero",
    "http2_fault_window_overflow",
    "http2_fault_beyond_window",
    "http2_fault_compression",
    "http2_fault_push",
    "http2_fault_malformed",
    "http2_fault_content_length",
    "http2_fault_self_dependency",
    "http2_fault_too_many_streams",
    "http2_fault_header_block_too_long",
    "http2_fault_header_bomb",
    "http2_fault_continuation_flood",
    "http2_fault_reset_flood",
    "http2_fault_settings_flood",
    "http2_fault_ping_flood",
    "http2_fault_empty_flood",
    "http2_fault_priority_flood",
    "http2_fault_window_flood",
    "http2_fault_fault_flood",
];

impl Counters {
    /// A connection or a stream came to an end by this.
    pub(super) fn count_fault(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    /// All of them, by name.
    pub(in crate::connections) fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let own = [
            ("http2_connections", self.connections),
            ("http2_streams", self.streams),
            ("http2_streams_given_up", self.resets),
            ("http2_peer_refusals", self.peer_refusals),
            ("http2_stalled_bodies", self.stalled_bodies),
        ];
        own.into_iter().chain(FAULTS.into_iter().zip(self.faults))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_name() {
        for (name, fault) in FAULTS.iter().zip(Fault::ALL) {
            assert_eq!(name.strip_prefix("http2_fault_"), Some(fault.reason()));
        }
    }
}
