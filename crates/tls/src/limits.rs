//! The limits of TLS sessions, each with its reason.

/// The longest plaintext of a record (RFC 8446 §5.1).
pub const PLAIN_LEN_MAX: usize = 1 << 14;

/// What encryption may add to it in TLS 1.3 (RFC 8446 §5.2), and in TLS 1.2 (RFC 5246 §6.2.3).
pub const EXPANSION_MAX: usize = 256;
pub(crate) const EXPANSION_12_MAX: usize = 2048;

/// Bytes of a record's header.
pub const HEADER_LEN: usize = 5;

/// What a session may have decrypted and nobody has consumed, before it takes no more: four of the longest records.
pub const UNREAD_LEN: usize = 4 * PLAIN_LEN_MAX;

/// Bytes of a handshake's message that is not whole: 64 KiB, as much as rustls takes, and what its records have beside.
pub const HANDSHAKE_LEN_MAX: usize = 72 * 1024;

/// Bytes of a message that is not whole, behind the handshake: tickets are the longest.
pub const MESSAGE_LEN_MAX: usize = 64 * 1024;

/// Records after which a key is changed in TLS 1.3: of AES-GCM fewer than 2^24.5 may be encrypted (RFC 8446 §5.5).
pub const RECORDS_MAX: u64 = 1 << 24;

/// Records after which TLS 1.2, which cannot change its key, ends the connection (RFC 9325 §4.4).
pub const RECORDS_12_MAX: u64 = RECORDS_MAX;

/// Records that bring nothing in a row: empty ones, warnings, changes of keys. rustls' bound for changes of keys, too.
pub const USELESS_RECORDS_MAX: u8 = 32;

/// The longest file of certificates or of a key: some hundred certificates.
pub const PEM_LEN_MAX: u64 = 1 << 20;

/// Tickets of a server that a client keeps: a load resumes on as many connections at once, and each takes a kilobyte.
pub const TICKETS_MAX: usize = 16 * 1024;

/// How long before a certificate's end it is warned of: two weeks, of which those who renew them by programs need none.
pub const EXPIRY_WARNING_SECS: i64 = 14 * 24 * 3600;
