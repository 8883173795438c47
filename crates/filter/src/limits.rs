//! Every bound of this crate, with its reason.

/// Conjunctions of one filter, also between the steps of computing one.
///
/// `port 80` needs 6, ten hosts in both directions 40; comparing filters is quadratic in this number and the
/// program linear, so it stays well below what the kernel takes.
pub const CONJUNCTIONS_MAX: usize = 512;

/// Literals of one conjunction. An IPv6 connection has 12; the complement of a host list some hundred.
pub const LITERALS_MAX: usize = 256;

/// Where the last byte of a test may lie from its base: frames, jumbo frames included, are shorter, and the sum with
/// [`TRANSPORT_OFFSET_MAX`] stays inside the 64 KiB that the verifier allows for packet offsets.
pub const OFFSET_MAX: usize = 16 * 1024;

/// IPv6 extension headers that are walked; the same number as `exos_wire`'s, so that both read a packet alike.
pub const EXTENSION_HEADERS_MAX: usize = exos_wire::limits::EXTENSION_HEADERS_MAX;

/// The furthest that a transport header can begin: Ethernet with a tag, IPv6, and extension headers of the longest
/// length that their 8-bit length field in words of 8 bytes allows.
pub const TRANSPORT_OFFSET_MAX: usize = 14 + 4 + 40 + EXTENSION_HEADERS_MAX * 256 * 8;

/// Bytes of one filter text: a policy file's line, not a book.
pub const TEXT_MAX: usize = 4096;

/// Pairs of alternatives that are looked at while one text is parsed (long ones count for several): a tenth of a second.
/// A hundred hosts in both directions take three millions; a daemon that serves others parses what strangers write.
pub const PARSE_PAIRS_MAX: usize = 8_000_000;

/// How deep parentheses and negations may nest: bounds the parser's recursion.
pub const NESTING_MAX: usize = 64;

/// Steps of one comparison of filters before it gives up and answers on the safe side: some tens of milliseconds.
pub const SEARCH_STEPS_MAX: usize = 100_000;

/// Instructions of one program: jumps are 16 bits, signed. The kernel takes a million, but that counts the
/// verifier's steps, which must stay below it too.
pub const INSNS_MAX: usize = 32_000;

/// How long a slot stays closed for connections behind one that is the server's, if it does not say that it has it. Longer than
/// connections may begin in the kernel without word of the server.
pub const CLOSED_MS: i32 = 4000;

/// When a connection in the kernel that did not end is forgotten.
pub const FORGOTTEN_MS: i32 = 60_000;

/// Connections that processors may be handing up, or answering, at once.
pub const AT_ONCE: i32 = 128;

const _: () = assert!(TRANSPORT_OFFSET_MAX + OFFSET_MAX <= 0xffff);
