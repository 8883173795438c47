//! Protocol numbers of the IPv4 protocol field and the IPv6 next header field.
//!
//! Source: the registry "Assigned Internet Protocol Numbers". Only those that some code of ours
//! tells apart are named.

/// IPv6 hop-by-hop options (RFC 8200 §4.3).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP for IPv4 (RFC 792).
pub const ICMP: u8 = 1;
/// A packet of IPv4 (RFC 2003).
pub const IPV4_IN_IP: u8 = 4;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// A packet of IPv6 (RFC 2473).
pub const IPV6_IN_IP: u8 = 41;
/// IPv6 routing header (RFC 8200 §4.4).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200 §4.5).
pub const FRAGMENT: u8 = 44;
/// Encapsulating security payload (RFC 4303): what follows is not readable.
pub const ESP: u8 = 50;
/// Authentication header (RFC 4302).
pub const AUTHENTICATION: u8 = 51;
/// ICMP for IPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// Nothing follows (RFC 8200 §4.7).
pub const NO_NEXT_HEADER: u8 = 59;
/// IPv6 destination options (RFC 8200 §4.6).
pub const DESTINATION_OPTIONS: u8 = 60;
