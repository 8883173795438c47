//! Prefixes: an address and how many of its leading bits count (RFC 4632 §3.1, RFC 4291 §2.3).
//!
//! The bits behind them are kept, because a prefix is also how an interface's own address is written, with the network that
//! it is in.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::limits::PREFIX_BITS_COUNTED_MAX;

/// An address with the number of its bits that name the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The address, the bits behind the prefix included.
    pub addr: IpAddr,
    /// Leading bits that count: 0 to 32 or 0 to 128.
    pub len: u8,
}

impl Prefix {
    /// Every IPv4 address.
    pub const ALL_V4: Self = Self {
        addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        len: 0,
    };

    /// Every IPv6 address.
    pub const ALL_V6: Self = Self {
        addr: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        len: 0,
    };

    /// The prefix.
    ///
    /// # Errors
    ///
    /// `len` is greater than the number of bits of the address.
    pub fn new(addr: IpAddr, len: u8) -> Result<Self, PrefixLengthError> {
        if len > width(addr) {
            return Err(PrefixLengthError { addr, len });
        }
        Ok(Self { addr, len })
    }

    /// One address alone.
    #[must_use]
    pub const fn host(addr: IpAddr) -> Self {
        let len = width(addr);
        Self { addr, len }
    }

    /// Reads `192.0.2.0/24`, `2001:db8::/32`, or an address alone.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse_or_host(text: &str) -> Result<Self, PrefixParseError> {
        match text.parse() {
            Ok(addr) => Ok(Self::host(addr)),
            Err(_) => text.parse(),
        }
    }

    /// True for the addresses of this network.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        common_bits(self.addr, ip).is_some_and(|bits| bits >= u32::from(self.len))
    }

    /// True when an address is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.len <= other.len {
            self.contains(other.addr)
        } else {
            other.contains(self.addr)
        }
    }

    /// The network's first address.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        self.with_host_bits(false)
    }

    /// The network's last address.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        self.with_host_bits(true)
    }

    fn with_host_bits(&self, set: bool) -> IpAddr {
        let all = u128::MAX.checked_shr(128 - u32::from(self.host_bits()));
        let all = all.unwrap_or(0);
        let bits = |bits: u128| if set { bits | all } else { bits & !all };
        match self.addr {
            IpAddr::V4(addr) => Ipv4Addr::from_bits(bits(addr.to_bits().into()) as u32).into(),
            IpAddr::V6(addr) => Ipv6Addr::from_bits(bits(addr.to_bits())).into(),
        }
    }

    fn host_bits(&self) -> u8 {
        width(self.addr) - self.len
    }

    /// The directed broadcast address (RFC 922 §7). A /31 (RFC 3021) and a /32 have none, nor has IPv6.
    #[must_use]
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.last() {
            IpAddr::V4(last) if self.len < 31 => Some(last),
            _ => None,
        }
    }

    /// How many addresses it has; of more than [`PREFIX_BITS_COUNTED_MAX`] bits as many as of these.
    #[must_use]
    pub fn addresses(&self) -> u64 {
        1 << u32::from(self.host_bits()).min(PREFIX_BITS_COUNTED_MAX)
    }

    /// These addresses, from the first on.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        let prefix = *self;
        (0..prefix.addresses()).map(move |n| prefix.nth(n))
    }

    /// The address of this number, counted from the first.
    #[must_use]
    pub fn nth(&self, n: u64) -> IpAddr {
        match self.first() {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + n as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + u128::from(n)).into(),
        }
    }

    /// The number of an address; `None` where it is none of [`Self::addresses`].
    #[must_use]
    pub fn number(&self, ip: IpAddr) -> Option<u64> {
        let n = match (self.first(), ip) {
            (IpAddr::V4(first), IpAddr::V4(ip)) => {
                ip.to_bits().checked_sub(first.to_bits()).map(u128::from)
            }
            (IpAddr::V6(first), IpAddr::V6(ip)) => ip.to_bits().checked_sub(first.to_bits()),
            _ => None,
        };
        let n = u64::try_from(n?).ok()?;
        (n < self.addresses()).then_some(n)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// The bits of an address of this family.
const fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// Leading bits in which two addresses of one family agree.
#[must_use]
pub fn common_bits(a: IpAddr, b: IpAddr) -> Option<u32> {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        _ => None,
    }
}

/// A prefix length of more bits than the address has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixLengthError {
    /// The address given.
    pub addr: IpAddr,
    /// The length given.
    pub len: u8,
}

impl fmt::Display for PrefixLengthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (addr, len, bits) = (self.addr, self.len, width(self.addr));
        write!(f, "{addr}/{len}: an address of this family has {bits} bits")
    }
}

impl std::error::Error for PrefixLengthError {}

/// Why a text is no prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixParseError {
    /// There is no `/`.
    NoLength,
    /// What stands before it is no address.
    Address,
    /// The length is no number up to the address's bits, which are these.
    Length(u8),
}

impl fmt::Display for PrefixParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLength => f.write_str("it has no prefix length")?,
            Self::Address => f.write_str("it does not begin with an address")?,
            Self::Length(most) => write!(f, "its prefix length is not from 0 to {most}")?,
        }
        f.write_str("; write for example 192.0.2.0/24 or 2001:db8::/32")
    }
}

impl std::error::Error for PrefixParseError {}

impl FromStr for Prefix {
    type Err = PrefixParseError;

    /// Reads an address, a slash and a decimal number.
    fn from_str(text: &str) -> Result<Self, PrefixParseError> {
        let (addr, len) = text.split_once('/').ok_or(PrefixParseError::NoLength)?;
        let addr: IpAddr = addr.parse().map_err(|_| PrefixParseError::Address)?;
        // `parse` alone would take "+8".
        let number = len.parse().ok().filter(|_| !len.starts_with('+'));
        let prefix = number.and_then(|len| Self::new(addr, len).ok());
        prefix.ok_or(PrefixParseError::Length(width(addr)))
    }
}
