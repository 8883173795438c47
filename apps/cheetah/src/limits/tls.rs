//! Sessions of TLS and their certificates.

use std::time::Duration;

/// Plaintext that is encrypted at once: two of the longest records, so that what leaves is few buffers, and what was given
/// together leaves together.
pub const SEALED_LEN: usize = 32 * 1024;

/// Records that wait on a connection to be sent: with more, nothing is encrypted; documents stay slices until then. A super-packet is as
/// long, and what is encrypted long before it leaves has gone from the caches: with twice as much of both, 1 MB on 64 connections took a
/// tenth more.
pub const SEALED_AHEAD_LEN: usize = 64 * 1024;

/// Records on a connection that its client has not taken, as far as is known: with more, nothing is encrypted. Congestion control and a
/// client's window may let more go, of documents that is nothing but references; records are memory. 2 MiB are 160 Mbit/s over 100 ms,
/// and half of what Linux lets a socket's send buffer grow to (`net.ipv4.tcp_wmem`).
pub const SEALED_UNDER_WAY_LEN: usize = 2 * 1024 * 1024;

/// Handshakes that are gone on with in a turn: each takes some 100 us beside its signature, and others wait meanwhile.
pub const HANDSHAKES_AT_ONCE: usize = 4;

/// Signing in a turn, in signatures with ECDSA P-256 of some 15 us each: 0.6 ms. The signature that goes beyond it is made, and is the
/// last of its turn.
pub const SIGNING_WEIGHT_AT_ONCE: u32 = 40;

/// What a signature takes, by one with ECDSA P-256, that is with P-384, P-521 or ML-DSA: 5, 11 and up to 9 times, by medians. With any of these
/// as many signatures are made in a turn as handshakes go on.
pub const WEIGHT_OF_OTHERS: u32 = 12;

/// What one with RSA of 2048 bits takes, some 230 us, by one with ECDSA P-256; of longer keys it grows with the third power of their length.
pub const WEIGHT_RSA_2048: u32 = 16;

/// How long a client may take to come to a session of TLS, from its connection's beginning: some round trips and as many losses. Until
/// then it has cost memory, and asked for nothing.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The longest hello of a client, in bytes: as long as BoringSSL takes, where usual ones have less than two thousand.
pub const HELLO_LEN_MAX: usize = 16 * 1024;

/// What the heads of its records may have beside it, in bytes: of some two hundred.
pub const HELLO_HEADS_LEN_MAX: usize = 1024;

/// How often it is looked whether certificates and keys have changed.
pub const CERTIFICATES_TIME: Duration = Duration::from_secs(10);

/// How often it is told that a certificate is about to end: every day.
pub const CERTIFICATES_TELL_TIME: Duration = Duration::from_secs(24 * 3600);

/// How many days browsers may be told to remember that a site is for HTTPS alone: ten years.
pub const HSTS_DAYS_MAX: i64 = 3650;
