//! The language in which people write filters: tcpdump's, its everyday part.
//!
//! ```text
//! expression = term { ("and" | "&&" | "or" | "||") term }          one precedence, from the left, as in tcpdump
//! term       = ("not" | "!") term | "(" expression ")" | primitive
//! primitive  = protocol | [protocol] [direction] [kind] value | value | special | comparison
//! protocol   = ether ip ip6 arp rarp tcp udp sctp icmp icmp6 igmp esp
//! direction  = src | dst | src or dst | src and dst
//! kind       = host net port portrange proto
//! value      = IPv4 or IPv6 address, or prefix | MAC address | number | port name | 5000-6000 | "(" values ")"
//! special    = vlan [id] | less n | greater n | [ether | ip | ip6] multicast | [ether] broadcast | all | none
//! comparison = base "[" offset [":" width] "]" ["&" mask] relation number ["-" number]
//! base       = ether ip ip6 arp tcp udp sctp icmp icmp6 type protocol network transport
//! relation   = "=" "==" "!=" "<" "<=" ">" ">="
//! ```
//!
//! A value alone repeats the qualifiers before it: `port 80 or 443`, `tcp dst port (80 or 443)`. An empty text is
//! everything.
//!
//! Where this differs from tcpdump 4.99 on purpose:
//! - One VLAN tag is skipped; `vlan` does not shift what follows it.
//! - IPv6 extension headers are walked (tcpdump looks behind at most one fragment header for protocols, and at none
//!   for ports).
//! - An IP header with a wrong version or length, or one that the packet does not wholly have, has no protocol.
//! - `not` of a test of bytes that are not there is true (tcpdump rejects such packets as a whole).
//! - `host` covers IPv4, IPv6 and ARP, not RARP. Names of hosts are looked up where the program says how.
//! - `tcp[…]` and the like match IPv6 as well.

mod comparison;
mod cursor;
mod display;
mod error;
mod names;
mod parser;
mod primitive;
mod text;
mod value;

use crate::filter::{Filter, TooLarge};
use exos_wire::Prefix;
use std::net::IpAddr;

pub use error::ParseError;
pub use parser::Hosts;

impl Filter {
    /// What `src host` and this address are.
    pub(crate) fn from_host(source: IpAddr) -> Result<Self, TooLarge> {
        let network = primitive::network(None, primitive::Direction::Src, Prefix::host(source));
        network.expect("every address is a host's")
    }

    /// Read a filter. The error points at the place and says what was expected.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parser::parse(text, None)
    }

    /// Reads a filter in which hosts may be named, as in `host www.example`: such a host is all of its addresses, as `hosts` tells
    /// them, which the protocol beside it can have.
    pub fn parse_with_hosts(text: &str, hosts: &Hosts<'_>) -> Result<Self, ParseError> {
        parser::parse(text, Some(hosts))
    }
}

impl std::str::FromStr for Filter {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}
