//! What the gate counts, for each slot.
//!
//! The `counters` map has one value for each slot and CPU: an array of u64 in the order of [`Counter::ALL`]. What
//! belongs to no program (packets passed to the host, malformed ones) is counted at slot 0.

/// One count of a slot. Packets, unless the name says bytes; a super-packet counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Counter {
    /// Given to the slot.
    RxPackets,
    /// Their bytes, Ethernet header included.
    RxBytes,
    /// Dropped: beyond the slot's share of what arrives, while the link had nothing to spare.
    RxOverShare,
    /// Dropped: a fragment that came while a quarter of the slot's ring was full.
    RxEarlyDropFragment,
    /// Dropped: an acknowledgement without data that came while half of it was.
    RxEarlyDropAck,
    /// Dropped: a SYN that came while three quarters of it were.
    RxEarlyDropSyn,
    /// Dropped: the slot has no interface, or nobody is bound to the queue.
    NoRing,
    /// Dropped: came in on a queue that belongs to another slot than the packet.
    WrongQueue,
    /// Sent and found in order, wherever to.
    TxPackets,
    /// Their bytes, Ethernet header included.
    TxBytes,
    /// Of [`Self::TxPackets`], those for another slot of this machine.
    TxToSlot,
    /// Of [`Self::TxPackets`], those for the host.
    TxToHost,
    /// Refused: source MAC address is not the slot's.
    TxBadMac,
    /// Refused: neither IPv4 nor IPv6, or with a VLAN tag. ARP is here: it is the daemon's.
    TxBadEthertype,
    /// Refused: neighbour and router discovery, redirects, group membership, all of them the daemon's or the host's.
    TxNdp,
    /// Refused: IP header with a wrong version or length, with options or a routing header, or too many extensions; a
    /// super-packet that asks for tiny segments.
    TxBadHeader,
    /// Refused: source address, protocol and port are not granted to the slot.
    TxBadSource,
    /// Refused: the kernel was asked to write a checksum somewhere else than into the transport header's field.
    TxBadChecksum,
    /// Refused: a first fragment without its whole transport header, or a later one of a packet that is not the
    /// slot's (RFC 1858).
    TxFragment,
    /// Dropped: beyond the slot's share of sending, while the link had nothing to spare.
    TxOverShare,
    /// Left to the host's stack. Slot 0.
    PassToHost,
    /// For an address that is ours alone and nobody's grant: given to the daemon. Slot 0.
    StrayToDaemon,
    /// Headers that contradict themselves; left to the host's stack. Slot 0.
    Malformed,
}

impl Counter {
    /// How many there are.
    pub const COUNT: usize = 23;

    /// All of them, with the names that they are shown under.
    pub const ALL: [(Self, &'static str); Self::COUNT] = [
        (Self::RxPackets, "rx_packets"),
        (Self::RxBytes, "rx_bytes"),
        (Self::RxOverShare, "rx_over_share"),
        (Self::RxEarlyDropFragment, "rx_early_drop_fragment"),
        (Self::RxEarlyDropAck, "rx_early_drop_ack"),
        (Self::RxEarlyDropSyn, "rx_early_drop_syn"),
        (Self::NoRing, "no_ring"),
        (Self::WrongQueue, "wrong_queue"),
        (Self::TxPackets, "tx_packets"),
        (Self::TxBytes, "tx_bytes"),
        (Self::TxToSlot, "tx_to_slot"),
        (Self::TxToHost, "tx_to_host"),
        (Self::TxBadMac, "tx_bad_mac"),
        (Self::TxBadEthertype, "tx_bad_ethertype"),
        (Self::TxNdp, "tx_ndp"),
        (Self::TxBadHeader, "tx_bad_header"),
        (Self::TxBadSource, "tx_bad_source"),
        (Self::TxBadChecksum, "tx_bad_checksum"),
        (Self::TxFragment, "tx_fragment"),
        (Self::TxOverShare, "tx_over_share"),
        (Self::PassToHost, "pass_to_host"),
        (Self::StrayToDaemon, "stray_to_daemon"),
        (Self::Malformed, "malformed"),
    ];

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
