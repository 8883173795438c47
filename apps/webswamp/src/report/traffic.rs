//! What went over the link, as its own counters and the stack's tell it: of the whole load, its warm-up and its end included.
//!
//! Packets are frames with their Ethernet headers, all of them: those that find a neighbour's address too, and those that
//! belong to no request. They are what the interface's own counters count. What the kernel or the device cuts for us counts
//! as what it is cut into.

use schemars::JsonSchema;
use serde::Serialize;

use super::results::Results;

/// Counts of the link, and of TCP's segments on it, of the whole load: its probe, its warm-up and its end included. Packets
/// are frames, bytes those of frames with their Ethernet headers; what the kernel cuts for us counts as what it is cut into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Traffic {
    /// Packets that left.
    pub packets_sent: u64,
    /// Bytes of them.
    pub bytes_sent: u64,
    /// Packets that came, and that we had room for.
    pub packets_received: u64,
    /// Bytes of them.
    pub bytes_received: u64,
    /// Packets that came and were lost before us: our ring was full, or the kernel had no memory of ours to put them in.
    pub packets_dropped: u64,
    /// Packets that the link had no room for.
    pub packets_refused: u64,
    /// TCP segments sent, those sent again among them.
    pub segments_sent: u64,
    /// Those sent again.
    pub segments_sent_again: u64,
    /// TCP segments received.
    pub segments_received: u64,
    /// Those whose data had come before: the server sent it again, or the wire brought it twice.
    pub segments_received_twice: u64,
    /// Those that came before others that were sent before them.
    pub segments_out_of_order: u64,
}

impl Traffic {
    /// Of a load; `None` where nobody counted, over the kernel's sockets.
    pub fn of(results: &Results) -> Option<Self> {
        // On the kernel's sockets nothing is seen of the link.
        let mut names = results.counters.keys();
        if !names.any(|name| name.starts_with("link_")) {
            return None;
        }
        let sum = |names: &[&str]| names.iter().map(|name| results.counter(name)).sum();
        Some(Self {
            packets_sent: sum(&["link_tx_frames", "link_tx_super_packet_segments"]),
            bytes_sent: sum(&["link_tx_bytes", "link_tx_super_packet_segment_bytes"]),
            packets_received: sum(&["link_rx_frames"]),
            bytes_received: sum(&["link_rx_bytes"]),
            packets_dropped: sum(&["link_kernel_rx_dropped", "link_kernel_rx_ring_full"]),
            packets_refused: sum(&[
                "link_tx_no_room",
                "link_tx_super_packet_no_room",
                "link_tx_super_packet_refused",
            ]),
            segments_sent: sum(&["tcp_segments_sent"]),
            segments_sent_again: sum(&["tcp_segments_retransmitted"]),
            segments_received: sum(&["tcp_segments_received"]),
            segments_received_twice: sum(&["tcp_duplicate_data"]),
            segments_out_of_order: sum(&["tcp_out_of_order"]),
        })
    }

    /// All of it, as people call it.
    pub fn rows(&self) -> [(&'static str, u64); 11] {
        [
            ("packets sent", self.packets_sent),
            ("bytes sent", self.bytes_sent),
            ("packets received", self.packets_received),
            ("bytes received", self.bytes_received),
            (
                "packets lost before us, our ring being full",
                self.packets_dropped,
            ),
            (
                "packets for which the link had no room",
                self.packets_refused,
            ),
            ("TCP segments sent", self.segments_sent),
            ("of these, sent again", self.segments_sent_again),
            ("TCP segments received", self.segments_received),
            (
                "of these, with data that had come before",
                self.segments_received_twice,
            ),
            (
                "of these, before others that were sent earlier",
                self.segments_out_of_order,
            ),
        ]
    }

    /// Two lines.
    pub fn text(&self) -> String {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        format!(
            "on the link: {} packets ({:.2} MB) sent, {} ({:.2} MB) received, {} lost before us, {} refused\n\
             segments: {} of {} sent again; {} of {} came twice, {} out of order\n",
            self.packets_sent,
            megabytes(self.bytes_sent),
            self.packets_received,
            megabytes(self.bytes_received),
            self.packets_dropped,
            self.packets_refused,
            self.segments_sent_again,
            self.segments_sent,
            self.segments_received_twice,
            self.segments_received,
            self.segments_out_of_order,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;

    /// Each number comes from counters of its own: with powers of two as counts, none can hide behind another.
    #[test]
    fn what_is_counted_where() {
        let mut it = results(1e9, 500);
        let names = [
            "link_tx_frames",
            "link_tx_super_packet_segments",
            "link_tx_bytes",
            "link_tx_super_packet_segment_bytes",
            "link_rx_frames",
            "link_rx_bytes",
            "link_kernel_rx_dropped",
            "link_kernel_rx_ring_full",
            "link_tx_no_room",
            "link_tx_super_packet_no_room",
            "link_tx_super_packet_refused",
            "tcp_segments_sent",
            "tcp_segments_retransmitted",
            "tcp_segments_received",
            "tcp_duplicate_data",
            "tcp_out_of_order",
        ];
        for (n, name) in names.into_iter().enumerate() {
            it.counters.insert(name.to_owned(), 1 << n);
        }
        let traffic = Traffic::of(&it).unwrap();
        let counts: Vec<u64> = traffic.rows().iter().map(|(_, count)| *count).collect();
        let bits = |from: u32, until: u32| (from..until).map(|n| 1u64 << n).sum::<u64>();
        let wanted = [(0, 2), (4, 5), (2, 4), (5, 6), (6, 8), (8, 11)].map(|(a, b)| bits(a, b));
        let [sent, received, sent_bytes, received_bytes, dropped, refused] = wanted;
        assert_eq!(
            counts[..6],
            [sent, sent_bytes, received, received_bytes, dropped, refused]
        );
        assert_eq!(counts[6..], [1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15]);
        assert!(traffic.text().contains("4096 of 2048 sent again"));
        let value: serde_json::Value = serde_json::from_str(&it.json()).unwrap();
        assert_eq!(
            (&value["link"]["packets_sent"], &value["retransmissions"]),
            (&3.into(), &4096.into())
        );
        it.counters.clear();
        let value: serde_json::Value = serde_json::from_str(&it.json()).unwrap();
        assert!(
            Traffic::of(&it).is_none()
                && value["link"].is_null()
                && value["retransmissions"].is_null()
        );
    }
}
