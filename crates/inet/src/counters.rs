//! Counters of one stack: what was received, what was sent, and a name for every drop.
//!
//! Plain numbers that only grow. `list` gives them with their names, in the order of declaration;
//! the names are part of the statistics' documented schema.

/// Declares a struct of counters and its list, so that a counter cannot be forgotten in one of them.
#[macro_export]
macro_rules! counters {
    ($(#[$of:meta])* pub struct Counters; $( $(#[$doc:meta])* $name:ident, )*) => {
        $(#[$of])*
        #[derive(Clone, Debug, Default, Eq, PartialEq)]
        pub struct Counters { $( $(#[$doc])* pub $name: u64, )* }

        impl Counters {
            /// Every counter with its name.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![ $( (stringify!($name), self.$name), )* ]
            }
        }
    };
}

counters! {
    /// The counters of a stack.
    pub struct Counters;
    /// Frames given to the stack.
    frames_received,
    /// Frames taken from the stack.
    frames_sent,
    /// Packets that went to an address of ours, and came back: received, and not sent.
    packets_looped,
    /// Drop: a packet to an address of ours, while too much was on its way to us.
    drop_loopback_full,
    /// Drop: not a whole Ethernet header.
    drop_ethernet_malformed,
    /// Drop: a unicast address that is not ours.
    drop_ethernet_other_host,
    /// Drop: neither ARP nor IPv4 nor IPv6.
    drop_ethernet_unknown_type,
    /// Drop: a frame of a VLAN; ours is the network without a number.
    drop_ethernet_vlan,
    /// Drop: ARP that is neither a request nor a reply.
    drop_arp_ignored,
    /// Drop: ARP that does not parse.
    drop_arp_malformed,
    /// Drop: an IPv4 header that does not parse.
    drop_ipv4_malformed,
    /// Drop: the IPv4 header's checksum is wrong.
    drop_ipv4_checksum,
    /// Drop: an IPv6 header or extension header that does not parse.
    drop_ipv6_malformed,
    /// Drop: an IPv6 extension header or option that asks to be discarded.
    drop_ipv6_option,
    /// Drop: a source address that nobody can have (broadcast, multicast, unspecified, loopback, our own).
    drop_ip_source,
    /// Drop: an address that is not ours.
    drop_ip_other_host,
    /// Drop: a protocol that nobody here speaks.
    drop_ip_protocol,
    /// Drop: a packet to send for which there is no route.
    drop_ip_no_route,
    /// Fragments received.
    fragments_received,
    /// Datagrams put together from fragments.
    fragments_reassembled,
    /// Drop: a fragment that was refused, or whose datagram was given up.
    drop_fragment,
    /// Drop: ICMP of a kind that is not acted upon, or about nothing of ours.
    drop_icmp_ignored,
    /// Drop: ICMP that does not parse, or whose checksum is wrong.
    drop_icmp_malformed,
    /// Echo requests answered.
    icmp_echo_answered,
    /// ICMP errors received for something of ours.
    icmp_errors_received,
    /// ICMP errors sent.
    icmp_errors_sent,
    /// Drop: an ICMP error or echo reply over the rate limit.
    drop_icmp_rate_limited,
    /// Drop: a UDP datagram that does not parse.
    drop_udp_malformed,
    /// Drop: a UDP datagram whose checksum is wrong.
    drop_udp_checksum,
    /// Drop: a UDP datagram to a port that nobody has.
    drop_udp_no_socket,
    /// Drop: a UDP datagram to a socket whose queue is full.
    drop_udp_queue_full,
    /// UDP datagrams delivered.
    udp_received,
    /// Messages that a handler of the program's answered.
    handler_answered,
    /// Messages that it dealt with without an answer.
    handler_done,
    /// Messages that it gave up, which are the program's.
    handler_gave_up,
    /// Drop: a packet to send whose neighbour does not answer, or waits behind too many others.
    drop_neighbor_unresolved,
    /// Drop: a control frame to send (ARP, NDP, ICMP, UDP) behind too many others.
    drop_control_queue_full,
    /// TCP segments received, whatever becomes of them.
    tcp_segments_received,
    /// TCP segments sent.
    tcp_segments_sent,
    /// TCP segments sent again.
    tcp_segments_retransmitted,
    /// Drop: a TCP segment in a frame to a group.
    drop_tcp_group,
    /// Drop: a TCP segment that does not parse.
    drop_tcp_malformed,
    /// Drop: a TCP segment whose checksum is wrong.
    drop_tcp_checksum,
    /// Drop: a TCP segment for which there is no connection (a reset answers it).
    drop_tcp_no_connection,
    /// Half-open connections given up early, because the listener's backlog was full.
    tcp_half_open_replaced,
    /// Drop: a SYN while the listener's backlog is full: with cookies over their rate, without them
    /// of younger ones than may be given up.
    drop_tcp_backlog_full,
    /// SYN-ACKs that were not sent again although their timer ran out: over the rate.
    drop_tcp_syn_ack_rate_limited,
    /// SYNs answered with a cookie, because the listener's backlog was full.
    tcp_syn_cookies_sent,
    /// Connections made from a cookie that came back.
    tcp_syn_cookies_accepted,
    /// Connections that a program in the kernel had begun and gave up to the stack.
    tcp_taken_on,
    /// Drop: an acknowledgement without a good cookie, to a listener that has handed out some lately.
    drop_tcp_cookie,
    /// Drop: a segment of a flow that is another listener's share.
    drop_tcp_other_share,
    /// Drop: a segment of a connection that was handed over to another stack.
    drop_tcp_handed_over,
    /// Drop: a SYN with a FIN to a listener.
    drop_tcp_syn_fin,
    /// Drop: a SYN while the stack holds as many connections as it may.
    drop_tcp_connections_full,
    /// Drop: a segment outside of the receive window.
    drop_tcp_out_of_window,
    /// Drop: a timestamp from the past (PAWS), or none where one was agreed on.
    drop_tcp_timestamp,
    /// Drop: an acknowledgement of what was never sent, or long ago.
    drop_tcp_bad_ack,
    /// Drop: a reset inside the window but not at its edge (a challenge answers it).
    drop_tcp_reset_challenged,
    /// Drop: a SYN within a connection (a challenge answers it).
    drop_tcp_syn_challenged,
    /// Drop: a segment without ACK where one must be.
    drop_tcp_no_ack,
    /// Drop: out-of-order data beyond what is kept.
    drop_tcp_out_of_order_full,
    /// Drop: data that did not advance, or that nobody read, while the stack's memory was used up.
    drop_tcp_memory,
    /// Drop: a SYN while the stack's memory was used up.
    drop_tcp_memory_syn,
    /// Drop: data after the program had given the connection up.
    drop_tcp_after_close,
    /// Drop: an answer (reset, challenge) over the rate limit.
    drop_tcp_answer_rate_limited,
    /// Drop: an answer behind too many others.
    drop_tcp_answer_queue_full,
    /// Out-of-order segments kept.
    tcp_out_of_order,
    /// Segments whose data had been received before.
    tcp_duplicate_data,
    /// Data segments that came marked "congestion experienced" (ECN, RFC 3168).
    tcp_congestion_marks,
    /// Windows reduced because the peer told of a mark (ECE).
    tcp_congestion_heeded,
    /// Segments of which a part had been received before, for the peer to be told (D-SACK, RFC 2883).
    tcp_dsacks_sent,
    /// Times that half of the memory for received data was used: windows went back to their first size.
    tcp_memory_moderate,
    /// Times that three quarters of it were used: windows went down to a few segments.
    tcp_memory_high,
    /// Times that all of it was used: no new connections, only data that programs wait for.
    tcp_memory_full,
    /// Connections that gave up out-of-order data for want of memory.
    tcp_out_of_order_pruned,
    /// Bytes of out-of-order data given up for want of memory.
    tcp_out_of_order_pruned_bytes,
    /// Connections opened by peers and established.
    tcp_accepted,
    /// Connections opened by us and established.
    tcp_connected,
    /// Connections ended in order.
    tcp_closed,
    /// Connections ended by the peer's reset.
    tcp_reset_received,
    /// Connections ended by our reset.
    tcp_aborted,
    /// Connections given up after too many retransmissions.
    tcp_timed_out,
    /// Resets sent.
    tcp_resets_sent,
    /// Challenge acknowledgements sent (RFC 5961).
    tcp_challenges_sent,
    /// Retransmission timers that ran out.
    tcp_timeouts,
    /// Repairs of losses begun by what acknowledgements told.
    tcp_fast_retransmits,
    /// Of these, repairs that came to an end.
    tcp_recoveries,
    /// Repairs taken back, because nothing had been lost (RFC 4015).
    tcp_recoveries_undone,
    /// Bytes believed lost.
    tcp_bytes_lost,
    /// Tail loss probes sent (RFC 8985 §7).
    tcp_tail_probes,
    /// Segments that the peer says it received twice (RFC 2883).
    tcp_duplicates_reported,
    /// Peers that took selective acknowledgements back (RFC 2018 §8).
    tcp_sacks_reneged,
    /// Zero-window probes sent.
    tcp_window_probes,
    /// Connections whose segments became shorter because full ones were never answered.
    tcp_black_holes,
    /// Keepalive probes sent.
    tcp_keepalives_sent,
    /// Entries of TIME-WAIT reused by a new SYN of the same peer and port (RFC 6191).
    tcp_time_wait_reused,
    /// Connections of ours whose four-tuple their peer has opened again, as a cookie proved.
    tcp_connections_replaced,
    /// Entries of TIME-WAIT that made room for younger ones.
    tcp_time_wait_evicted,
}
