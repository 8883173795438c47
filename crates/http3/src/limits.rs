//! Limits, with their reasons.

/// The longest encoded field section: each byte of it can come to one byte and three fifths (RFC 7541, Appendix B: the shortest
/// code has five bits). Beyond it the request is given up unread.
pub const SECTION_LEN_MAX: usize = 2 * exos_http2::limits::FIELDS_LEN_MAX;

/// The longest frame on a control stream whose content is looked at: settings of some dozens, or a priority. A longer one of a known
/// type ends the connection.
pub const CONTROL_FRAME_LEN_MAX: usize = 1024;

/// Heads of requests that are kept decoded: those of as many documents, where clients ask for them alike. Half a megabyte at most
/// for each loop.
pub const HEADS_MAX: usize = 64;
const _: () = assert!(HEADS_MAX.is_power_of_two());
/// The longest field section whose head is kept: browsers' have some hundreds of bytes, and those with long cookies are one client's alone.
pub const SECTION_KEPT_LEN_MAX: usize = 512;
/// The size of its fields at most (RFC 9204 §3.2.1): a byte of the section may name some dozens of the fixed table.
pub const HEAD_KEPT_LEN_MAX: usize = 3 * SECTION_KEPT_LEN_MAX;

/// Bytes that may come on QPACK's streams and on frames that mean nothing, in all, before the connection ends: they bring
/// nothing, and a client that greases (RFC 9114 §7.2.8) sends some dozens.
pub const WASTE_LEN_MAX: u64 = 64 * 1024;

/// Changes of priorities on one connection: a browser sends one or two for each of its requests, of which a connection has fewer than a
/// million.
pub const PRIORITIES_MAX: u32 = 1 << 20;
