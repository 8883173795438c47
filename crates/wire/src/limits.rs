//! Every bound that this crate puts on packets, with its reason.

/// IPv6 extension headers that are walked before the upper-layer protocol is given up on.
///
/// RFC 8200 §4.1 names seven in its recommended order; the two kinds of destination options count
/// separately there, so that every packet that follows the recommendation is understood. The bound
/// keeps a packet made of thousands of empty headers from costing thousands of steps.
pub const EXTENSION_HEADERS_MAX: usize = 8;

/// Prefixes kept of one router advertisement; further ones are left out.
///
/// Routers advertise one or two (a global and a unique local one). Four keeps the message a plain
/// value of about a hundred bytes.
pub const RA_PREFIXES_MAX: usize = 4;

/// Bytes of TCP options in one segment: data offset of at most 15 words (RFC 9293 §3.1), less the
/// 20 bytes of the fixed header.
pub const TCP_OPTIONS_LEN_MAX: usize = 15 * 4 - 20;

/// Blocks in one SACK option: (40 - 2) / 8 (RFC 2018 §3). Beside timestamps only three fit.
pub const SACK_BLOCKS_MAX: usize = 4;

/// Bytes of a TCP Fast Open cookie (RFC 7413 §2: 4 to 16).
pub const FAST_OPEN_COOKIE_LEN_MAX: usize = 16;

/// The largest window shift (RFC 7323 §2.3): a larger one is read as this.
pub const WINDOW_SHIFT_MAX: u8 = 14;

/// Host bits of a prefix whose addresses are counted: of a larger one, which is IPv6's, the first 2^32. So sums over many
/// prefixes, times the ports of each address, stay within 64 bits.
pub const PREFIX_BITS_COUNTED_MAX: u32 = 32;

/// Bytes of a TLS record's fragment: 2^14, and what encryption may add (RFC 5246 §6.2.3: 2048; RFC 8446 §5.2: 256).
pub const TLS_FRAGMENT_LEN_MAX: usize = (1 << 14) + 2048;

/// Bytes of a QUIC connection ID (RFC 9000 §17.2).
pub const QUIC_CONNECTION_ID_LEN_MAX: usize = 20;
