//! A picture of a connection, with what Linux tells in `tcp_info`.

use exos_wire::SeqNumber;

use crate::tcp::connection::Connection;
use crate::tcp::values::state::State;
use crate::time::{Duration, Instant};

impl Connection {
    /// A picture of the connection for programs and people.
    pub fn info(&self) -> Info {
        let stands = self.state.is_synchronized();
        let since_syn = |at: SeqNumber, syn: SeqNumber| match stands {
            true => at.0.wrapping_sub(syn.0).wrapping_sub(1),
            false => 0,
        };
        let (agreed, queue) = (self.sender.agreed(), self.sender.queue());
        let rate = self.sender.rounds().rate();
        Info {
            state: self.state,
            mss: self.sender.mss(),
            rtt: self.sender.rtt().smoothed(),
            rtt_variation: self.sender.rtt().variation(),
            rtt_least: self.sender.rtt().least(),
            retransmission_timeout: self.sender.rtt().timeout(),
            congestion_window: self.sender.congestion_window(),
            slow_start_threshold: self.sender.congestion().get().threshold(),
            send_window: self.sender.window().bytes(),
            receive_window: self.receiver.window_left(),
            in_flight: self.sender.queue().flight(),
            unacknowledged: self.sender.queue().bytes().len(),
            unread: self.receiver.readable().len(),
            skipping: self.skipping(),
            out_of_order: self.receiver.queue().beyond_gaps().0,
            out_of_order_ranges: self.receiver.queue().beyond_gaps().1,
            receive_buffer: self.receiver.window().buffer(),
            receive_space: self.receiver.space(),
            receive_rtt: self.receiver.rtt(),
            out_of_order_segments: self.receiver.out_of_order(),
            last_data_received: self.receiver.received_at(),
            in_recovery: self.sender.losses().is_repairing(),
            congestion: self.sender.congestion().get().name(),
            pacing_rate: self.sender.pacer().rate(),
            delivery_rate: rate.bytes_per_second,
            delivery_rate_app_limited: rate.app_limited,
            reordering_seen: self.sender.losses().reordering_seen(),
            user_timeout: self.user_timeout(),
            soft_error: self.soft_error(),
            mss_full: self.sender.full_mss(),
            receive_mss: self.receiver.rcv_mss(),
            retransmits: self.sender.rtt().retries(),
            retransmitted: self.sender.retransmitted(),
            backoff: self.sender.rtt().backoffs(),
            timestamps: agreed.timestamps,
            sack: agreed.sack,
            ecn: agreed.ecn,
            window_scales: agreed
                .scaling
                .then_some((self.sender.window().scale(), self.receiver.window().scale())),
            sacked: self.sender.losses().board().sacked_bytes(),
            lost: self.sender.losses().board().lost_bytes(),
            unsent: self.unsent(),
            last_sent: self.sender.last_sent(),
            last_heard: self.liveness.heard_at(),
            bytes_acked: since_syn(queue.una(), queue.iss()),
            bytes_received: since_syn(self.receiver.rcv_nxt(), self.receiver.irs()),
        }
    }
}

/// A connection's state at one moment. Windows and amounts are bytes.
#[derive(Clone, Debug)]
pub struct Info {
    /// The state.
    pub state: State,
    /// Largest payload of a segment that we send.
    pub mss: u16,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Its variation.
    pub rtt_variation: Duration,
    /// The least round trip measured.
    pub rtt_least: Option<Duration>,
    /// The retransmission timeout.
    pub retransmission_timeout: Duration,
    /// Congestion window.
    pub congestion_window: u32,
    /// Slow-start threshold, `u32::MAX` before the first loss.
    pub slow_start_threshold: u32,
    /// The peer's window.
    pub send_window: u32,
    /// Our window as the peer knows it.
    pub receive_window: u32,
    /// Sent, not acknowledged.
    pub in_flight: u32,
    /// Queued or sent, not acknowledged.
    pub unacknowledged: usize,
    /// Received, not taken by the program.
    pub unread: usize,
    /// Still to come, and skipped by the program.
    pub skipping: u32,
    /// Received beyond gaps.
    pub out_of_order: usize,
    /// In this many ranges.
    pub out_of_order_ranges: usize,
    /// Bytes that may be received and not taken now; it may have grown.
    pub receive_buffer: u32,
    /// The most bytes that the program took in one round trip, zero until it was worth noting (Linux's
    /// `tcpi_rcv_space`).
    pub receive_space: u32,
    /// The round trip as seen by the receiving side (`tcpi_rcv_rtt`).
    pub receive_rtt: Option<Duration>,
    /// Segments that came beyond a gap (`tcpi_rcv_ooopack`).
    pub out_of_order_segments: u32,
    /// When data came last, or the connection began (`tcpi_last_data_recv`).
    pub last_data_received: Instant,
    /// A loss is being repaired.
    pub in_recovery: bool,
    /// The name of the congestion control.
    pub congestion: &'static str,
    /// Bytes a second at which data leaves, zero where it is not paced.
    pub pacing_rate: u64,
    /// The last delivery rate measured, bytes a second, zero before the first and after a rest.
    pub delivery_rate: u64,
    /// The program had too little to send then.
    pub delivery_rate_app_limited: bool,
    /// The path was seen to reorder.
    pub reordering_seen: bool,
    /// Data may stay unacknowledged for so long; `None` where the number of retransmissions bounds it.
    pub user_timeout: Option<Duration>,
    /// What ICMP last said of something in flight, if the peer has not been heard since.
    pub soft_error: Option<crate::icmp::Reason>,
    /// What `mss` would be on a path that carries all that the handshake allows.
    pub mss_full: u16,
    /// The peer's full-sized segments, as far as seen.
    pub receive_mss: u16,
    /// Timeouts in a row for what is waited for.
    pub retransmits: u8,
    /// Segments that were sent again since the connection began, SYNs too (Linux's `tcpi_total_retrans`); at most 65,535.
    pub retransmitted: u16,
    /// How often the retransmission timeout is doubled.
    pub backoff: u8,
    /// Timestamps were agreed on (RFC 7323).
    pub timestamps: bool,
    /// Selective acknowledgements were agreed on (RFC 2018).
    pub sack: bool,
    /// Explicit congestion notification was agreed on (RFC 3168).
    pub ecn: bool,
    /// The shifts of the peer's windows and of ours, where both sides scale (RFC 7323).
    pub window_scales: Option<(u8, u8)>,
    /// Selectively acknowledged.
    pub sacked: u32,
    /// Believed lost and not sent again.
    pub lost: u32,
    /// Queued and never sent.
    pub unsent: usize,
    /// When something with a sequence number was sent last.
    pub last_sent: Instant,
    /// When the peer was heard last.
    pub last_heard: Instant,
    /// Acknowledged by the peer since the SYN, modulo 2^32; its FIN and ours count as bytes.
    pub bytes_acked: u32,
    /// Received in order since the SYN, modulo 2^32.
    pub bytes_received: u32,
}
