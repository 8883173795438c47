//! What the gate counts, for each slot.
//!
//! The `counters` map has one value for each slot and CPU: an array of u64 in the order of [`Counter::ALL`]. What
//! belongs to no program (packets passed to the host, malformed ones) is counted at slot 0.

use crate::counters::counters;

counters! {
    /// One count of a slot. Packets, unless the name says bytes; a super-packet counts as one.
    Counter(u8), usize;
    /// Given to the slot.
    RxPackets: "rx_packets",
    /// Their bytes, Ethernet header included.
    RxBytes: "rx_bytes",
    /// Dropped: beyond the slot's share of what arrives, while the link had nothing to spare.
    RxOverShare: "rx_over_share",
    /// Dropped: a fragment that came while a quarter of the slot's ring was full.
    RxEarlyDropFragment: "rx_early_drop_fragment",
    /// Dropped: an acknowledgement without data that came while half of it was.
    RxEarlyDropAck: "rx_early_drop_ack",
    /// Dropped: a SYN that came while three quarters of it were.
    RxEarlyDropSyn: "rx_early_drop_syn",
    /// Dropped: the slot has no interface, or nobody is bound to the queue.
    NoRing: "no_ring",
    /// Dropped: came in on a queue that belongs to another slot than the packet.
    WrongQueue: "wrong_queue",
    /// Sent and found in order, wherever to.
    TxPackets: "tx_packets",
    /// Their bytes, Ethernet header included.
    TxBytes: "tx_bytes",
    /// Of [`Self::TxPackets`], those for another slot of this machine.
    TxToSlot: "tx_to_slot",
    /// Of [`Self::TxPackets`], those for the host.
    TxToHost: "tx_to_host",
    /// Of [`Self::TxPackets`], those of a batch that the interface which they were to leave by did not take: it had no room. What
    /// is sent by the ring and lost there is the interface's to count.
    TxLost: "tx_lost",
    /// Refused: source MAC address is not the slot's.
    TxBadMac: "tx_bad_mac",
    /// Refused: neither IPv4 nor IPv6, or with a VLAN tag. ARP is here: it is the daemon's.
    TxBadEthertype: "tx_bad_ethertype",
    /// Refused: neighbour and router discovery, redirects, group membership, all of them the daemon's or the host's.
    TxNdp: "tx_ndp",
    /// Refused: IP header with a wrong version or length, with options or a routing header, or too many extensions; a
    /// super-packet that asks for tiny segments.
    TxBadHeader: "tx_bad_header",
    /// Refused: source address, protocol and port are not granted to the slot.
    TxBadSource: "tx_bad_source",
    /// Refused: the kernel was asked to write a checksum somewhere else than into the transport header's field.
    TxBadChecksum: "tx_bad_checksum",
    /// Refused: a first fragment without its whole transport header, or a later one of a packet that is not the
    /// slot's (RFC 1858).
    TxFragment: "tx_fragment",
    /// Dropped: beyond the slot's share of sending, while the link had nothing to spare.
    TxOverShare: "tx_over_share",
    /// Of [`Self::RxPackets`], messages that the slot's handler answered; its replies are in [`Self::TxPackets`], or
    /// [`Self::TxOverShare`].
    HandlerAnswered: "handler_answered",
    /// Of [`Self::RxPackets`], messages that the handler dealt with without an answer.
    HandlerDone: "handler_done",
    /// Messages that the handler gave up: they went to the slot's program.
    HandlerGaveUp: "handler_gave_up",
    /// Messages that went to the slot's program without the handler: it had used up its steps, or the slot its share of
    /// sending.
    HandlerSkipped: "handler_skipped",
    /// Dropped: segments for a handler of TCP that had used up its steps.
    HandlerDropped: "handler_dropped",
    /// Left to the host's stack. Slot 0.
    PassToHost: "pass_to_host",
    /// For an address that is ours alone and nobody's grant: given to the daemon. Slot 0.
    StrayToDaemon: "stray_to_daemon",
    /// Headers that contradict themselves; left to the host's stack. Slot 0.
    Malformed: "malformed",
}

impl Counter {
    /// The name that it is shown under.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The counter with this number.
    pub const fn from_index(index: usize) -> Option<Self> {
        if index < Self::COUNT {
            Some(Self::ALL[index].0)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_and_names_differ() {
        for (index, (counter, name)) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, index);
            assert_eq!(counter.name(), name);
            assert_eq!(Counter::from_index(index), Some(counter));
            let same = Counter::ALL.iter().filter(|(_, other)| *other == name);
            assert_eq!(same.count(), 1, "{name}");
        }
        assert_eq!(Counter::from_index(Counter::COUNT), None);
    }
}
