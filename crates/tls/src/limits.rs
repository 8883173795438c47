//! The limits of TLS sessions, each with its reason.

use std::time::Duration;

/// The longest plaintext of a record (RFC 8446 §5.1).
pub const PLAIN_LEN_MAX: usize = 1 << 14;

/// What encryption may add to it in TLS 1.3 (RFC 8446 §5.2), and in TLS 1.2 (RFC 5246 §6.2.3).
pub const EXPANSION_MAX: usize = 256;
pub(crate) const EXPANSION_12_MAX: usize = 2048;

/// Bytes of a record's header.
pub const HEADER_LEN: usize = 5;

/// The longest record, with its header: what carries a session has to give as much in one piece.
pub const RECORD_LEN_MAX: usize = HEADER_LEN + PLAIN_LEN_MAX + EXPANSION_12_MAX;

/// What a session may have decrypted and nobody has consumed, before it takes no more: four of the longest records.
pub const UNREAD_LEN: usize = 4 * PLAIN_LEN_MAX;

/// Bytes that one message of a handshake may take before it is whole: rustls takes messages of 64 KiB at most, and an eighth of that
/// is for headers and tags of records, which may be as short as 512 bytes (RFC 6066 §4). A record comes on top.
pub const FRAGMENTS_LEN_MAX: usize = 72 * 1024;

/// The longest message behind a handshake: a ticket has some hundred bytes, or some thousand with a chain of certificates in it.
pub const MESSAGE_LEN_MAX: usize = PLAIN_LEN_MAX;

/// Records under one key of AES-GCM: fewer than 2^24.5 may be encrypted (RFC 8446 §5.5, RFC 9325 §4.4). TLS 1.3 changes the key then,
/// TLS 1.2 cannot and ends the session. With ChaCha20-Poly1305 no session comes to an end by it.
pub const RECORDS_MAX: u64 = 1 << 24;

/// Records that bring nothing in a row: empty ones, warnings, changes of keys. rustls' bound for changes of keys, too.
pub const USELESS_RECORDS_MAX: u8 = 32;

/// The longest key of RSA that a server signs with, in bits: a signature takes 2 ms, of a core that serves others meanwhile, and grows with the
/// third power. An authority's may be longer.
pub const RSA_BITS_MAX: u64 = 4096;

/// The least exponent of such a key (NIST SP 800-56B §6.2): some that verify have taken forged signatures with lesser ones.
pub const RSA_EXPONENT_MIN: u64 = 65537;

/// The longest file of certificates or of a key: some hundred certificates.
pub const PEM_LEN_MAX: u64 = 1 << 20;

/// The longest file of revocation lists: a large authority's has some hundred thousand entries of 40 bytes.
pub const LISTS_LEN_MAX: u64 = 16 << 20;

/// Tickets of a server that a client keeps: a load resumes on as many connections at once, and each takes a kilobyte.
pub const TICKETS_MAX: usize = 16 * 1024;

/// Early data that a server takes of one connection: a record of it, as OpenSSL's servers do. A request without a body fits, whatever its
/// fields are.
pub const EARLY_DATA_LEN_MAX: u32 = PLAIN_LEN_MAX as u32;

/// Tickets that a server keeps: those of the last 65,536 handshakes, for each gives two.
pub const KEPT_TICKETS_MAX: usize = 1 << 17;

/// Bytes of memory that they take: of the usual 200 for a session there is room for all of them, where each has the longest of names for half.
pub const KEPT_TICKETS_LEN_MAX: usize = 64 << 20;

/// What a ticket takes beside its session, in a table of which up to half is empty: its name there and in the order (32 + 2 × 32), where and
/// since when the session is (2 × 32), and what the allocator adds.
pub(crate) const TICKET_COST: usize = 32 + 64 + 64 + 16;

/// Parts of the table of tickets that are locked by themselves: several times the cores that a server has.
pub(crate) const TICKET_SHARDS: usize = 64;

/// How long a ticket that a server keeps is good: what rustls tells clients of such.
pub const KEPT_TICKETS_FOR: Duration = Duration::from_secs(24 * 3600);

/// How long before a certificate's end it is warned of: two weeks, of which those who renew them by programs need none.
pub const EXPIRY_WARNING_SECS: i64 = 14 * 24 * 3600;

/// How long a certificate for trying is valid: a year, for it is made again with each start, and clients refuse what is valid for much longer.
pub const SELF_SIGNED_FOR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Since when it is: a day, by which clocks of clients may be late.
pub const SELF_SIGNED_SINCE: Duration = Duration::from_secs(24 * 3600);

/// Plaintext that is copied at once: less than what has the C library take another way, for which it needs some kilobytes.
pub(crate) const COPY_LEN: usize = 2048;

/// Sessions of which secrets of a key log are kept: some 100 MB. A busy server's log of a day has more; a capture has fewer.
pub const KEY_LOG_SESSIONS_MAX: usize = 1 << 18;

/// The longest name of a host (RFC 1035 §2.3.4).
pub(crate) const SERVER_NAME_LEN_MAX: usize = 255;

/// The longest name of a certificate's owner as text: it stands in header fields and in lines of a log. Real ones have some hundred.
pub const NAME_LEN_MAX: usize = 1024;
