//! Every bound of this crate, with its reason.

/// IPv6 extension headers that are shown of one packet. Twice what [`exos_wire`] walks over, because
/// looking at what a stack refuses is what a dump is for; a bound all the same, because a packet of
/// 64 KiB can hold 8,000 of them, and a line is to be read.
pub const EXTENSION_HEADERS_MAX: usize = 16;

/// Packets inside packets (tunnels, and what ICMP errors quote) that are shown. Honest ones have two:
/// an error about a packet in a tunnel.
pub const NESTED_MAX: u8 = 4;

/// TCP connections whose first sequence numbers are remembered: some 5 MB.
pub const CONVERSATIONS_MAX: usize = 1 << 16;

/// Questions and answers that are shown of one DNS message. Real ones have some ten; the length
/// fields would allow 65,535 in a message whose records point at each other.
pub const DNS_RECORDS_MAX: usize = 64;

/// Bytes of a DNS name as shown, before escaping: four times what RFC 1035 §2.3.4 allows, so that a
/// name that is too long is seen to be.
pub const DNS_NAME_MAX: usize = 1020;

/// Bytes of the reason that a reset gives; as tcpdump.
pub const RESET_REASON_SHOWN: usize = 30;

/// Bytes captured of one packet: tcpdump's largest snap length, more than any packet has.
pub const CAPTURED_BYTES_MAX: usize = 256 * 1024;

/// Bytes of one block of a pcapng file, read in one go: what the draft (section 3.1) advises readers to
/// take at least. A larger one is damage.
pub const BLOCK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Interfaces of one section of a pcapng file: some 100 bytes of memory each.
pub const FILE_INTERFACES_MAX: usize = 4096;

/// Bytes taken of a packet unless asked for fewer; more than any packet has.
pub const SNAPLEN_MAX: u32 = CAPTURED_BYTES_MAX as u32;

/// Packets taken before the output is handed on and signals are looked at.
pub const BATCH: usize = 256;

/// Bytes of a hello of TLS that comes in several segments: as much as servers take.
pub const HELLO_LEN_MAX: usize = 1 << 16;

/// Records of such a hello. One of [`HELLO_LEN_MAX`] has four; some clients cut theirs in more, to be told from others.
pub const HELLO_RECORDS_MAX: usize = 64;

/// Such hellos that are put together at once: each takes milliseconds. Some 40 MB at most, of those whose ends never come: a message and what
/// is behind a gap, each doubled as it grows, and a record.
pub const HELLOS_MAX: usize = 1 << 7;

/// Connections of TLS, and of QUIC, of which both sides are followed to be decrypted.
pub const DECRYPTED_CONNECTIONS_MAX: usize = 1 << 14;

/// Memory of all of them, with what waits for what comes before it, or for its key; beyond, those are forgotten that were not spoken of for
/// longest. A connection of HTTP/3 in use has a few kilobytes: thousands of them are followed.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// Memory of those that were spoken of since they were looked through last; as much have those of before.
pub const YOUNG_HELD_MAX: usize = 28 << 20;

/// Memory of those that were silent for longer, if all of them have no more: they are kept with those of before. Both generations and these
/// are [`HELD_BYTES_MAX`].
pub const SILENT_HELD_MAX: usize = HELD_BYTES_MAX - 2 * YOUNG_HELD_MAX;

/// Memory of one of them; beyond, it alone is given up. Both directions of TCP with all that they may have are less.
pub const CONNECTION_HELD_MAX: usize = HELD_BYTES_MAX / 8;

/// More than a connection keeps that gets on: it is given up first when there is no room.
pub const MUCH_BYTES: usize = 32 * 1024;

/// Bytes of one side, in QUIC of one of its levels, that wait for a key. A program logs a key before it sends what that encrypts; the key of
/// what its peer sends it may log later, a client that of the server's first records. Four of the longest records.
pub const WAITING_BYTES_MAX: usize = 4 * (5 + (1 << 14) + 2048);

/// What a packet of QUIC that waits counts beside its bytes: its place in a list that is half empty, its identifiers, and what the allocator
/// takes.
pub const WAITING_COST: usize = 512;

/// Bytes of one header block of HTTP/2, and of the table of its compression: what browsers allow servers.
pub const HEADER_BLOCK_LEN_MAX: usize = 1 << 16;
/// See [`HEADER_BLOCK_LEN_MAX`].
pub const HEADER_TABLE_LEN_MAX: usize = 1 << 16;

/// Bytes that are shown of a field of HTTP/2, and of all fields of a head: a byte may stand for a field as long as the table.
pub const FIELD_SHOWN: usize = 1024;
/// See [`FIELD_SHOWN`].
pub const FIELDS_SHOWN: usize = 16 * 1024;

/// Bytes that are told of one segment: beyond, it is only said that there is more.
pub const TOLD_BYTES_MAX: usize = 256 * 1024;

/// Bytes behind gaps, before these count as packets that are missing: a window of a fast connection.
pub const AHEAD_BYTES_MAX: usize = 1 << 20;

/// That, of one side's handshake messages in QUIC at a level: twice the certificates of servers that have many.
pub const CRYPTO_AHEAD_MAX: usize = 32 * 1024;

/// What a piece behind a gap counts beside its bytes: its share of a tree, of which one alone has a node of 400 bytes, and what the allocator
/// takes. It is doubled like its bytes.
pub const AHEAD_PIECE_COST: usize = 256;

/// Names of a connection of QUIC that are known at once: its first two, and those of either side, of which the other allows some eight.
pub const QUIC_NAMES_MAX: usize = 24;

/// More of them, which stood in Initial packets alone, which anybody can write: the client's, the server's, that of a Retry packet, and once
/// more where a version is negotiated. Others come with keys.
pub const QUIC_INITIAL_NAMES_MAX: usize = 6;

/// Streams of HTTP/3 that are followed of one side; servers allow some hundred requests at once.
pub const FOLLOWED_STREAMS_MAX: usize = 256;

/// Memory of what stands behind gaps in them; beyond, the earliest requests are given up.
pub const STREAMS_HELD_MAX: usize = 3 << 20;

/// Packets of QUIC that are shown of one datagram: a kernel or a device cuts one into 128 at most (UDP_MAX_SEGMENTS of Linux), of which each
/// may have some of a handshake.
pub const QUIC_PACKETS_MAX: usize = 2 * 128;

/// Packets of a datagram that keys do not open, before what is behind them is passed over: each is tried at several lengths, and others can
/// forge hundreds in one datagram.
pub const QUIC_FAILED_MAX: usize = 4;

/// Pairs of ends of which it is kept what has passed between them on UDP, to say once of each why packets are not decrypted: as many as there
/// are connections. Some 2 MB.
pub const QUIC_PATHS_MAX: usize = DECRYPTED_CONNECTIONS_MAX;

/// Memory of 0-RTT packets that come before the packet with which their connection begins: a first window, some ten of 1,200 bytes, of 15
/// clients at once.
pub const QUIC_EARLY_HELD_MAX: usize = 256 * 1024;

/// Ranges that are shown of an acknowledgement. A wire that loses much has some ten; a datagram has room for thousands.
pub const ACK_RANGES_SHOWN: u64 = 32;
