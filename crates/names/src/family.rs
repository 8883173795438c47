//! The families of addresses.

use std::fmt;
use std::net::IpAddr;

/// IPv4 or IPv6: records of type A or AAAA.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub enum Family {
    /// AAAA.
    Ipv6,
    /// A.
    Ipv4,
}

impl Family {
    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }
}

/// `IPv4`, `IPv6`.
impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

/// The families that a lookup asks for.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Families {
    /// Both, side by side.
    #[default]
    Both,
    /// IPv4 only.
    Ipv4,
    /// IPv6 only.
    Ipv6,
}

impl Families {
    pub(crate) fn list(self) -> impl Iterator<Item = Family> {
        let both = [Family::Ipv6, Family::Ipv4].into_iter();
        both.filter(move |family| match self {
            Self::Both => true,
            Self::Ipv4 => *family == Family::Ipv4,
            Self::Ipv6 => *family == Family::Ipv6,
        })
    }
}

/// Of these addresses, those of one family.
pub(crate) fn of_family(addresses: &[IpAddr], family: Family) -> Vec<IpAddr> {
    let wanted = |address: &&IpAddr| Family::of(**address) == family;
    addresses.iter().filter(wanted).copied().collect()
}
