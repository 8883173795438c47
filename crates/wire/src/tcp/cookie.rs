//! SYN cookies (RFC 4987 §3.6) as they lie in a SYN-ACK, and what anyone who sends them has to know.
//!
//! ```text
//!  31      27 26    24 23                              0
//!  | epoch    | MSS    | keyed hash                    |   the initial sequence number
//!
//!  31                           6    5      4   3       0
//!  | clock of timestamps        | ECN | SACK | scale    |   the timestamp, where the SYN had one
//! ```

/// The MSS that a cookie can say, rising; the next lower one is taken. The least is what is believed
/// at all; then the defaults of both families; tunnels; IPv6 over PPPoE; IPv6 and IPv4 over Ethernet;
/// jumbo frames.
pub const MSS_TABLE: [u16; 8] = [48, 536, 1220, 1380, 1420, 1440, 1460, 8940];

/// Without timestamps, the index of SYNs that offer selective acknowledgements, just this window scale, and this MSS at least, which is
/// taken: Windows's. Others without timestamps have an index below it.
pub const SCALED: usize = 7;
/// See above.
pub const SCALED_BY: u8 = 8;
/// See above.
pub const SCALED_MSS: u16 = 1440;

/// Where the epoch begins in the sequence number.
pub const EPOCH_SHIFT: u32 = 27;
/// Where the MSS's index begins.
pub const MSS_SHIFT: u32 = 24;
/// The hash.
pub const HASH_MASK: u32 = (1 << MSS_SHIFT) - 1;

/// Bits of a timestamp that hold options.
pub const TIMESTAMP_BITS: u32 = 0x3f;
/// Those of the window scale.
pub const SCALE_BITS: u32 = 0x0f;
/// The SYN offered none.
pub const NO_SCALE: u32 = 0x0f;
/// The SYN permitted selective acknowledgements.
pub const SACK_BIT: u32 = 0x10;
/// The SYN offered explicit congestion notification.
pub const ECN_BIT: u32 = 0x20;

/// What SYN-ACKs with cookies are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The port that is listened on.
    pub port: u16,
    /// The key of both hashes, SipHash-1-3.
    pub key: [u64; 2],
    /// Salt of the hash in a cookie, over the four-tuple and what is kept.
    pub cookie_salt: u32,
    /// Salt of the hash whose upper half timestamps begin at.
    pub sequence_salt: u32,
    /// How long an epoch is, in microseconds of the monotonic clock.
    pub epoch_us: u32,
    /// Over IPv4.
    pub v4: SynAck,
    /// Over IPv6.
    pub v6: SynAck,
}

/// What is said to all who open a connection over one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynAck {
    /// The MSS to announce.
    pub mss: u16,
    /// The window, not scaled.
    pub window: u16,
    /// Its scale, told to who offers one together with timestamps, or as Windows does ([`SCALED`]).
    pub scale: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Type of service.
    pub class: u8,
}
