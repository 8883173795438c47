//! Every limit and timing of the protocols, each with its reason.

use crate::time::Duration;

/// Initial retransmission timeout (RFC 6298 §2.1).
pub const RTO_INITIAL: Duration = Duration::from_secs(1);

/// The timeout that data begins with when the SYN was lost, and so nothing measured (RFC 6298 §5.7).
pub const RTO_HANDSHAKE_LOST: Duration = Duration::from_secs(3);

/// The least that is added to the smoothed round trip for the retransmission timeout. RFC 6298 §2.4 asks
/// for a timeout of at least 1 s; the field (Linux, the BSDs) uses 200 ms on top of the round trip, which
/// stays above the delayed acknowledgements that it is meant not to mistake for a loss.
pub const RTO_VARIATION_MIN: Duration = Duration::from_millis(200);

/// Greatest retransmission timeout, backed off (RFC 6298 §2.5 asks for at least 60 s).
pub const RTO_MAX: Duration = Duration::from_secs(60);

/// Retransmissions of data before giving up. With the backoff above this is over 5 minutes at the
/// least, where RFC 1122 §4.2.3.5 asks for at least 100 s (R2).
pub const DATA_RETRIES_MAX: u8 = 12;

/// Retransmissions of our SYN: 1 + 2 + ... + 64 s, RFC 1122 §4.2.3.5 asks for at least 3 minutes
/// of an active open; with the 60 s cap this is 3 minutes and 3 s.
pub const SYN_RETRIES_MAX: u8 = 7;

/// Retransmissions of a SYN-ACK: a minute of half-open connection is what a listener affords.
pub const SYN_ACK_RETRIES_MAX: u8 = 5;

/// SYN-ACKs sent again a second because a timer ran out, for the whole stack. Each goes to an address that nobody
/// has proven: beyond one SYN-ACK for one SYN, strangers can have us send this many, some 75 kB a second. A
/// server that loses one SYN-ACK in a hundred repeats as many at 100,000 new connections a second; a peer whose
/// repetition is withheld asks again itself, by its SYN.
pub const SYN_ACKS_AGAIN_PER_SECOND: u32 = 1000;

/// Initial congestion window (RFC 6928).
pub const INITIAL_WINDOW_SEGMENTS: u32 = 10;

/// The initial window in bytes that does not grow with longer segments (RFC 6928 §2).
pub const INITIAL_WINDOW_BYTES_LEAST: u32 = 14_600;

/// Round trips that a round must have measured before HyStart++ judges by them (RFC 9406 §4.3).
pub const HYSTART_SAMPLES: u8 = 8;

/// HyStart++ (RFC 9406 §4.3): a round is noticeably slower than the last when it takes longer by an
/// eighth of that, but at least 4 ms and at most 16 ms.
pub const HYSTART_RTT_DIVISOR: u32 = 8;
/// The least difference, in microseconds.
pub const HYSTART_RTT_MIN_US: u32 = 4_000;
/// The greatest difference, in microseconds.
pub const HYSTART_RTT_MAX_US: u32 = 16_000;

/// Conservative slow start grows by a quarter of slow start's growth (RFC 9406 §4.3).
pub const CSS_GROWTH_DIVISOR: u32 = 4;

/// Rounds of conservative slow start before congestion avoidance (RFC 9406 §4.3).
pub const CSS_ROUNDS: u8 = 5;

/// An acknowledgement is delayed by at most this (RFC 9293 §3.8.6.3 allows 500 ms). 40 ms is
/// Linux's least, and below everybody's least retransmission timeout.
pub const ACK_DELAY: Duration = Duration::from_millis(40);

/// Full-sized segments after which an acknowledgement is sent at once (RFC 9293 §3.8.6.3).
pub const ACK_EVERY_SEGMENTS: u8 = 2;

/// The most that one acknowledgement acknowledges of what came in one turn (RFC 5681 §4.2 warns of stretch
/// acknowledgements): a sender that counts at most so much per acknowledgement (RFC 3465 §2.2) would
/// grow no faster for a turn of 64 jumbo frames. As much as Linux's GRO joins.
pub const ACK_STRETCH_BYTES_MAX: u32 = 1 << 16;

/// Duplicate acknowledgements that are taken as a loss (RFC 5681 §3.2).
pub const DUPLICATE_ACKS: u8 = 3;

/// Ranges remembered of what a peer has acknowledged selectively: a window of 6 MiB with 3 % loss has some
/// 130. More would let a peer have us cut our records of large segments into single bytes; 8 KiB here.
pub const SACKED_RANGES_MAX: usize = 1024;

/// This many bytes in flight have one record at least before blocks that end within records are taken only as far
/// as they cover whole ones: records then cost at most an eighth of what is in flight, whatever a peer reports
/// (CVE-2019-11478 is about that), and no honest peer's segments are shorter on the whole.
pub const SACKED_PIECE_BYTES: u32 = 256;

/// The scoreboard's queue of what was sent again may have this many entries beyond two a record, before those that
/// say nothing any more are sorted out: what is sorted then is paid for by what was entered since, also when
/// few records are left.
pub const SENT_AGAIN_SLACK: usize = 16;

/// RACK's window for reordering in quarters of the least round trip, beyond the first; the smoothed round
/// trip bounds it too (RFC 8985 §6.2).
pub const RACK_STEPS_MAX: u8 = 63;

/// Recoveries without a retransmission in vain, until RACK is as quick again as in the beginning
/// (RFC 8985 §6.2, step 4).
pub const RACK_PERSISTS: u8 = 16;

/// A tail loss probe waits this much longer than two round trips: timers and sleeping processors are no
/// better (Linux: two ticks of its clock, RFC 8985 §7.2 leaves it to us).
pub const TAIL_PROBE_SLACK: Duration = Duration::from_millis(2);

/// Paths with a shorter round trip are not paced: their acknowledgements come as often as a timer could
/// go off, and keep the pace themselves.
pub const PACING_RTT_MIN: Duration = Duration::from_millis(1);

/// Paths with a longer round trip are paced as if it were this. No path is that long (a geostationary
/// satellite's takes 600 ms); a smoothed round trip of a minute comes of acknowledgements that were lost
/// again and again, and pacing by it would hold back even what the retransmission timer asks for.
pub const PACING_RTT_MAX: Duration = Duration::from_secs(1);

/// What leaves at once after a rest is an initial window, or so much of the rate: some ten times what waking up
/// takes.
pub const PACING_REST_MIN: Duration = Duration::from_micros(500);

/// With data in flight pacing catches up with this much lateness of its timer in any case: most of a slice that a
/// scheduler gives to another process. Paths of no more than this keep their pace by acknowledgements.
pub const PACING_LATE_MIN: Duration = Duration::from_millis(2);

/// On longer ones it catches up with a part of the round trip: half a window leaves at once at worst, where a sender
/// without pacing sends all that late acknowledgements allow.
pub const PACING_LATE_RTT_DIVISOR: u32 = 4;

/// On long paths with no more than this, a few slices of a scheduler's time.
pub const PACING_LATE_MAX: Duration = Duration::from_millis(10);

/// A super-packet holds at most this fraction of a second's data at the pacing rate: a millisecond's, as
/// in Linux.
pub const PACING_SUPER_PACKET_PER_SECOND: u64 = 1024;

/// Time to live, or hop limit, unless the program says otherwise (RFC 1700's and Linux's default).
pub const HOP_LIMIT: u8 = 64;

/// TIME-WAIT lasts this long: two maximum segment lifetimes of 30 s, as Linux has it. RFC 9293's
/// MSL of 2 minutes predates timestamps, which tell old segments of a reused port pair apart.
pub const TIME_WAIT: Duration = Duration::from_secs(60);

/// Connections in TIME-WAIT at once, a power of two; the oldest goes first. At 64 bytes an entry this is 16 MiB,
/// and 4,096 closes a second by our side keep theirs for the whole time. Where clients use their ports again
/// earlier, up to a quarter of the places may be of those that have come back.
pub const TIME_WAIT_ENTRIES_MAX: usize = 256 * 1024;

/// A stack is silent about segments of a connection that was taken out of it for this long, and again after
/// each that still comes: twice the time that a segment may live (as [`TIME_WAIT`]), in which anyone who
/// steers packets has found the new stack.
pub const HANDED_OVER_HOLD: Duration = Duration::from_secs(60);

/// Flows that are so remembered: at some 100 bytes each 6 MiB, and a thousand hand-overs a second.
pub const HANDED_OVER_ENTRIES_MAX: usize = 64 * 1024;

/// Retransmissions of the same data after which the next hop is verified: R1, at least 3 (RFC 1122
/// §4.2.3.5).
pub const PATH_DOUBT_RETRIES: u8 = 3;

/// Silence before keepalive asks, where the program names no other: RFC 1122 §4.2.3.6 (MUST-28) says no less
/// than two hours.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(7200);

/// Between two questions: Linux's `tcp_keepalive_intvl`.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(75);

/// Questions without an answer before giving up: Linux's `tcp_keepalive_probes`. A lost one or two must
/// not end a connection (RFC 1122 §4.2.3.6).
pub const KEEPALIVE_COUNT: u8 = 9;

/// FIN-WAIT-2 of a program that throws away what comes ends after this, as Linux's `tcp_fin_timeout`; data do
/// not prolong it.
pub const FIN_WAIT_2: Duration = Duration::from_secs(60);

/// FIN-WAIT-2 of a program that still reads ends after so long without new data: a peer at the end of
/// its backing off ([`RTO_MAX`]) is heard even if two repetitions in a row are lost. (Linux waits for
/// ever.)
pub const FIN_WAIT_2_READING: Duration = RTO_MAX.saturating_mul(3);

/// Receive buffer of a connection in bytes, unless the program sets another: enough for 1 Gbit/s
/// at 2 ms, or 100 Mbit/s at 20 ms.
pub const RECEIVE_BUFFER_BYTES: u32 = 256 * 1024;

/// The most that a receive buffer grows to, unless the program sets another: Linux's `tcp_rmem`, 6 MiB,
/// enough for 480 Mbit/s at 100 ms or 5 Gbit/s at 10 ms.
pub const RECEIVE_BUFFER_BYTES_MAX: u32 = 6 << 20;

/// Segments by which a receive buffer is wider than twice what is taken in a round trip: the initial
/// window and some, so that small amounts have room to grow.
pub const RECEIVE_RESERVE_SEGMENTS: u32 = 16;

/// Full segments that are acknowledged each at once when data begins to come, or comes after a rest: as many
/// as in Linux, a slow start's first four round trips with an acknowledgement for a pair.
pub const QUICK_ACKS: u8 = 16;

/// The widest window that can be told (RFC 7323 §2.3).
pub const WINDOW_BYTES_MAX: u32 = 1 << 30;

/// Bytes queued on one connection and not acknowledged: sequence numbers are ordered only within
/// 2 GiB (RFC 9293 §3.4). The bytes are the program's own, so memory is not the reason.
pub const SEND_QUEUE_BYTES_MAX: usize = 1 << 30;

/// Out-of-order data is kept in blocks of this many bytes of the sequence space: a segment of one byte
/// costs at most one. Small, for that reason; but each costs a pointer and a turn of a loop.
pub const OUT_OF_ORDER_BLOCK_BYTES: usize = 2048;

/// Ranges of out-of-order data of one connection. Adjoining ones are merged, so this many holes must
/// be open at once before anything is refused: with every second segment of 1,448 bytes lost, that is
/// a window of 11 MiB. Each costs 8 bytes, or 16 where the list has just grown.
pub const OUT_OF_ORDER_RANGES_MAX: usize = 4096;

/// Ranges of out-of-order data that are remembered in the order in which they grew, for the peer to
/// be told: half the frames of a batch of 64 may begin one each, the others being lost.
pub const SACK_RANGES_REMEMBERED: usize = 32;

/// Segments that came again and wait to be reported (RFC 2883), those apart that follow one another.
pub const SACK_REPEATS_REMEMBERED: usize = 4;

/// Segments smaller than this carry no SACK blocks, which would leave little of them; an
/// acknowledgement without data carries them instead. Four times the longest SACK option, 36 bytes.
pub const SACK_ON_DATA_MSS_MIN: u16 = 144;

/// The smallest buffer for received bytes: a short request, or what has come of one so far.
pub const RECEIVE_BUFFER_BYTES_MIN: usize = 256;

/// Free buffers that a stack keeps for received bytes: what 64 connections need that each get a batch
/// of 44 segments (64 KiB) in one turn.
pub const RECEIVE_POOL_BYTES_MAX: usize = 4 << 20;

/// Bytes that the receive queues of one stack hold at most, unless configured otherwise: 40 windows
/// of the greatest size, filled; 4,000 connections whose programs leave 128 KiB unread; or a
/// million with half a request each. An eighth of the 4 GiB that a small server has today, and less
/// than Linux takes of them (`net.ipv4.tcp_mem`).
pub const TCP_MEMORY_BYTES_MAX: usize = 512 << 20;

/// While memory is pressed hard, windows are of this many segments: enough for a sender to go on
/// by three duplicate acknowledgements when one is lost.
pub const WINDOW_UNDER_PRESSURE_SEGMENTS: u32 = 4;

/// With all memory used, a connection whose program has this much unread takes no more; one whose
/// program reads goes on with what a segment brings.
pub const UNREAD_UNDER_PRESSURE_BYTES: usize = 2048;

/// Half-open connections of one listener, unless it sets another. A control block in SYN-RECEIVED
/// costs under 1 KiB: 4 MiB for the whole backlog.
pub const BACKLOG: usize = 4096;

/// A half-open connection does not make room for another before its peer has had this long to
/// answer: a round trip of some thousand kilometres. With a backlog of 4,096 a listener thus takes
/// 200,000 SYNs a second, answered or not.
pub const HALF_OPEN_GRACE: Duration = Duration::from_millis(20);

/// A SYN cookie is good in the epoch that it was made in and in the next: for one to two minutes, in
/// which a client whose acknowledgement was lost has sent its data some five times.
pub const SYN_COOKIE_EPOCH: Duration = Duration::from_secs(64);

/// SYN cookies a second, for the whole stack. Making one takes under a microsecond, but sending it takes the kernel
/// some 2.5 on a link that copies: a quarter of a core's time in all, which leaves the rest to those who are
/// connected. Of a flood of three times as many every third SYN is answered, an honest one as likely as any
/// other; of the five that a client sends in its first seven seconds one gets through nine times in ten.
pub const SYN_COOKIES_PER_SECOND: u32 = 100_000;

/// Of these at once: a millisecond's flood at a veth's full rate, below [`REPLIES_MAX`].
pub const SYN_COOKIES_BURST: u32 = 1024;

/// How far the sequence numbers of a connection begin beyond those of one in TIME-WAIT whose place
/// it takes, where the clock has not come so far: a window without scaling, as in Linux.
pub const ISS_BEYOND: u32 = 65_537;

/// Local ports of connections that are opened, unless configured otherwise, as Linux has them by default (RFC 6056 §3.2 asks
/// for a wide range).
pub const LOCAL_PORTS: std::ops::Range<u16> = 32_768..61_000;

/// Pairs of address and port that are tried for a connection before those are looked at that have become free: where
/// nine of ten are free, one of these is.
pub const PORT_PROBES: u64 = 16;

/// Pairs that are remembered to have become free: 2 MiB, and only where most are taken.
pub const PORT_NOTES_MAX: usize = 65_536;

/// Connections of one stack, unless configured otherwise.
pub const CONNECTIONS_MAX: usize = 1 << 20;

/// The maximum segment size to assume when the peer's SYN names none (RFC 9293 §3.7.1), IPv4.
pub const MSS_DEFAULT_V4: u16 = 536;

/// The maximum segment size to assume when the peer's SYN names none, IPv6: 1280 - 40 - 20.
pub const MSS_DEFAULT_V6: u16 = 1220;

/// A smaller MSS than this is not believed: it would make us send mostly headers. Linux's
/// `tcp_min_snd_mss` is 48 for the same reason.
pub const MSS_MIN: u16 = 48;

/// Shorter segments leave one by one, also where the link cuts up longer ones: with so many in 64 KiB the kernel would be at
/// it while nobody else's packets leave, and gates refuse them (`exos_filter::gate::limits::SEGMENT_SIZE_MIN`).
pub const CUT_MSS_MIN: u16 = 256;

/// No router's word makes IPv4 segments smaller than this: a path MTU of 552, below which Linux does
/// not go either (`net.ipv4.route.min_pmtu`); such words are easily forged (RFC 5927 §7).
pub const MSS_PATH_MIN_V4: u16 = 512;

/// Timeouts of full segments in a row after which a black hole is suspected: one more than an ordinary
/// loss of a retransmission takes, and as Linux's `tcp_retries1` says.
pub const BLACK_HOLE_RETRIES: u8 = 3;

/// This many more before IPv4 segments become as short as [`MSS_PATH_MIN_V4`]: few paths are so narrow.
pub const BLACK_HOLE_RETRIES_MORE: u8 = 2;

/// What is sent into a suspected black hole first, IPv4: Linux's `tcp_base_mss`. IPv6 paths carry
/// [`MSS_DEFAULT_V6`].
pub const BLACK_HOLE_MSS_V4: u16 = 1024;

/// A reported path MTU is believed for this long, then larger segments are tried (RFC 1191 §6.3, RFC 8201
/// §4).
pub const PATH_MTU_LIFETIME: Duration = Duration::from_secs(600);

/// Between two probes for a larger path MTU, the latter after a failure: a search of some six costs half a
/// minute and as many losses.
pub const PATH_MTU_PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// A search for the path MTU is content when it is this close: 2 % of a full segment.
pub const PATH_MTU_PRECISION: u16 = 32;

/// Byte slices that one packet may be gathered from: a head of two or three pieces, and a body's
/// end with the next response's head and body behind it.
pub const GATHER_MAX: usize = 8;

/// Longest Ethernet + IP + TCP header we write: 18 with a VLAN tag, 40 IPv6, 60 TCP; rounded up.
pub const HEAD_BYTES: usize = 128;

/// Segments in a row that one connection may send before others get their turn. One full
/// kernel batch of an AF_XDP transmit queue on veth (32) is shared by at least two.
pub const SEGMENTS_PER_TURN: usize = 16;

/// Stateless answers (resets, acknowledgements of a peer's last FIN) waiting to leave: one for each
/// frame that a program may take in before it sends, with room to spare.
pub const REPLIES_MAX: usize = 4096;

/// Bytes that may be on their way from a stack to itself, with [`LOOPBACK_FRAME_OVERHEAD`] for each frame: the widest window of
/// one connection (6 MiB), and some.
pub const LOOPBACK_BYTES_MAX: usize = 8 << 20;

/// What such a frame costs beside its bytes.
pub const LOOPBACK_FRAME_OVERHEAD: usize = 64;

/// Buffers of such frames that are kept for the next: two bursts of a connection.
pub const LOOPBACK_FRAMES_KEPT: usize = 2 * SEGMENTS_PER_TURN;

/// Datagrams that a link is given as one frame at most: kernels refuse more (`UDP_MAX_SEGMENTS`, linux/udp.h: 64, and 128 since Linux 6.8).
pub const DATAGRAMS_WHOLE_MAX: usize = 64;

/// Small complete frames (ARP, NDP, ICMP, UDP) waiting to leave. Those that a neighbour's answer has released come on top of
/// these, and are bounded where they waited ([`NEIGHBOR_BYTES_MAX`]).
pub const CONTROL_FRAMES_MAX: usize = 256;

/// Challenge acknowledgements of one connection in each [`CHALLENGE_PERIOD`]: RFC 5961 §7's example.
pub const CHALLENGES_PER_PERIOD: u8 = 10;

/// See [`CHALLENGES_PER_PERIOD`].
pub const CHALLENGE_PERIOD: Duration = Duration::from_secs(5);

/// Challenge acknowledgements a second, for the whole stack (RFC 5961 §7).
pub const CHALLENGES_PER_SECOND: u32 = 1000;

/// Resets a second to segments that belong to no connection (bounded so that a flood of strays
/// is not answered one for one).
pub const RESETS_PER_SECOND: u32 = 10_000;

/// A timestamp older than this says nothing about a segment's age (RFC 7323 §5.5: 24 days).
pub const PAWS_IDLE: Duration = Duration::from_secs(24 * 24 * 3600);

/// Ticks by which a timestamp may be older than the last one in order, and the segment is taken all the same: where
/// frames overtake each other by a tick of the peer's clock, what stood before a hole comes behind its repair. As in
/// Linux (`TCP_PAWS_WINDOW`); a number comes round only after thousands of ticks.
pub const PAWS_TICKS_BEHIND: i32 = 1;

// ---- Neighbours (RFC 4861 §10, RFC 1122 §2.3.2) ----

/// Neighbours of one link that are remembered: a /22 full of hosts, more than one link's switch
/// keeps busy. One that is not used stays until another needs its place (RFC 4861 §7.3.3 has no timer for it): a
/// connection that has rested for hours finds its way without asking, and the first packet verifies it. Memory: 1024 × about
/// 100 B, and the frames that wait.
pub const NEIGHBORS_MAX: usize = 1024;

/// Bytes of frames kept for one unresolved neighbour, with [`NEIGHBOR_FRAME_OVERHEAD`] for each: Linux's `unres_qlen_bytes`. All
/// that a forwarder's clients send at once goes by one neighbour, a server or a router, and a SYN that is lost costs a second.
pub const NEIGHBOR_BYTES_MAX: usize = 208 << 10;

/// Bytes of frames kept for all unresolved neighbours of a link: ten that have all they may. More are kept only as far as
/// [`NEIGHBOR_FRAMES_MIN`] goes.
pub const NEIGHBORS_BYTES_MAX: usize = 2 << 20;

/// Frames kept for an unresolved neighbour in any case. RFC 1122 §2.3.2.2 asks for at least the latest one;
/// four hold a SYN, or the first burst of an answer, of a few connections.
pub const NEIGHBOR_FRAMES_MIN: usize = 4;

/// What a waiting frame costs besides its bytes.
pub const NEIGHBOR_FRAME_OVERHEAD: usize = 64;

/// Solicitations before a neighbour counts as absent: MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT.
pub const SOLICITS_MAX: u8 = 3;

/// Between two solicitations: RETRANS_TIMER, and RFC 1122 §2.3.2.1's one per second.
pub const SOLICIT_INTERVAL: Duration = Duration::from_secs(1);

/// A neighbour heard of is believed reachable: REACHABLE_TIME.
pub const REACHABLE_TIME: Duration = Duration::from_secs(30);

/// The upper layer's time to confirm a stale neighbour in use: DELAY_FIRST_PROBE_TIME.
pub const DELAY_FIRST_PROBE: Duration = Duration::from_secs(5);

/// An absent neighbour is not asked for again: as long as asking for it took.
pub const FAILED_HOLD: Duration = Duration::from_secs(3);

// ---- Routes ----

/// Own addresses of one link. A server has a handful; a load generator takes a few hundred.
pub const ADDRESSES_MAX: usize = 1024;

/// Whole prefixes of ours on one link, looked through one by one.
pub const POOLS_MAX: usize = 16;

/// Addresses of a pool on the link that are announced one by one when the stack is made, as single addresses are: half of
/// [`CONTROL_FRAMES_MAX`].
pub const POOL_ANNOUNCED_MAX: u64 = 128;

/// Gateway routes of one link, looked through one by one.
pub const ROUTES_MAX: usize = 64;

// ---- Reassembly (RFC 791, RFC 8200 §4.5) ----

/// Largest reassembled payload: what the 16-bit length of IPv6 counts, and of IPv4 less a header.
pub const DATAGRAM_MAX: usize = 65_535;

/// Datagrams in reassembly at one time.
pub const REASSEMBLY_DATAGRAMS_MAX: usize = 64;

/// Of these from one source, so that one peer cannot push out all others' with ease.
pub const REASSEMBLY_PER_SOURCE_MAX: usize = 16;

/// Pieces of one datagram: 65,535 bytes through the smallest MTU that IPv4 hosts use, 576
/// (119 pieces of 552 bytes), and some.
pub const REASSEMBLY_PIECES_MAX: usize = 128;

/// All bytes waiting for reassembly, with [`REASSEMBLY_PIECE_OVERHEAD`] for each piece: sixteen of
/// the largest datagrams.
pub const REASSEMBLY_BYTES_MAX: usize = 16 * DATAGRAM_MAX;

/// What a piece costs besides its bytes: its allocation and its place in the list.
pub const REASSEMBLY_PIECE_OVERHEAD: usize = 64;

/// IPv4 pieces wait for their fellows: Linux's 30 s, where RFC 1122 §3.3.2 says 60 to 120 s; a
/// 16-bit identification comes round sooner than that at today's rates (RFC 4963).
pub const REASSEMBLY_TIME_V4: Duration = Duration::from_secs(30);

/// IPv6 pieces: RFC 8200 §4.5.
pub const REASSEMBLY_TIME_V6: Duration = Duration::from_secs(60);

// ---- ICMP ----

/// Largest IPv4 error, its IP header included (RFC 1812 §4.3.2.3).
pub const ICMPV4_ERROR_MAX: usize = 576;

/// Largest IPv6 error, its IP header included: the minimum MTU (RFC 4443 §2.4(c)).
pub const ICMPV6_ERROR_MAX: usize = 1280;

/// Errors sent per second in the long run (RFC 4443 §2.4(f)): Linux's 1000 for the whole host.
pub const ICMP_ERRORS_PER_SECOND: u32 = 1000;

/// Errors sent in one burst: Linux's 50.
pub const ICMP_ERRORS_BURST: u32 = 50;

// ---- UDP ----

/// Bytes of a message that a handler is given, and of its reply: what an Ethernet frame has room for behind UDP's and IPv4's headers.
pub const HANDLED_BYTES_MAX: usize = 1500 - 20 - 8;

/// Bytes of a connection that are not acknowledged, beyond which its messages go to the program instead of a handler: a peer that asks
/// and does not read shall not fill memory.
pub const HANDLED_REPLY_BYTES_MAX: usize = 256 << 10;

/// Bytes waiting in one socket, payload and [`UDP_DATAGRAM_OVERHEAD`]: Linux's default of 208 KiB.
pub const UDP_QUEUE_BYTES_MAX: usize = 212_992;

/// What a waiting datagram costs besides its bytes.
pub const UDP_DATAGRAM_OVERHEAD: usize = 96;

/// Bound sockets of one stack.
pub const UDP_SOCKETS_MAX: usize = 4096;

/// First port given to a socket that asks for none (RFC 6335 §6, the dynamic ports).
pub const EPHEMERAL_FIRST: u16 = 49_152;

/// Hosts whose link addresses are remembered outside of connections. A server's clients of one moment, and more
/// than the routers of any link; a miss costs a look at routes and neighbours.
pub const PATHS_KEPT: usize = 64;

/// Memory (send queues, scoreboards) of ended connections kept for those that come next: as many as end
/// within one turn of a busy program's loop. About 700 bytes each.
pub const RECYCLED_KEPT: usize = 64;

/// Places in a connection's queues of what is in flight while its peer's window is closed: for a probe, and the segment or
/// two that a slow reader makes room for.
pub const SLIM_PLACES: usize = 2;

/// Places in the queues of such memory: one that had to grow further goes back to the allocator.
pub const RECYCLED_PLACES_MAX: usize = 32;
