//! Who may see the status pages: the host itself, and whom the operator names.

use std::net::IpAddr;
use std::str::FromStr;

/// The first bits of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    ip: IpAddr,
    len: u8,
}

impl Prefix {
    /// True when the address begins with these bits.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.ip, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let differ = a.to_bits() ^ b.to_bits();
                differ.checked_shr(32 - u32::from(self.len)).unwrap_or(0) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let differ = a.to_bits() ^ b.to_bits();
                differ.checked_shr(128 - u32::from(self.len)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Prefix {
    type Err = String;

    /// `192.0.2.0/24`, `2001:db8::/32`, or an address alone.
    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write for example 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7";
        let (ip, len) = match text.split_once('/') {
            Some((ip, len)) => (ip, Some(len)),
            None => (text, None),
        };
        let ip: IpAddr = ip
            .parse()
            .map_err(|_| format!("{ip:?} is no address; {help}"))?;
        let most: u8 = if ip.is_ipv4() { 32 } else { 128 };
        let len = len.map_or(Some(most), |len| len.parse().ok());
        let len = len.filter(|len| *len <= most);
        let len = len.ok_or(format!(
            "the prefix length of {text:?} is not from 0 to {most}; {help}"
        ))?;
        Ok(Self { ip, len })
    }
}

/// Who may see the pages: loopback, and these.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    own: Vec<IpAddr>,
    prefixes: Vec<Prefix>,
}

impl Allowed {
    /// The host's own addresses, and whom the operator names.
    pub fn new(own: Vec<IpAddr>, prefixes: Vec<Prefix>) -> Self {
        Self { own, prefixes }
    }

    /// True when the address may.
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.is_loopback()
            || self.own.contains(&ip)
            || self.prefixes.iter().any(|prefix| prefix.contains(ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect(text)
    }

    #[test]
    fn prefixes_contain_what_begins_like_them() {
        for (text, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.7/24", "192.0.2.1", "192.0.1.255"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("10.128.0.0/9", "10.255.0.1", "10.127.255.255"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::"),
            ("fd00::1", "fd00::1", "fd00::2"),
            ("0.0.0.0/0", "255.1.2.3", "::ffff:1.2.3.4"),
            ("::/0", "2001:db8::", "1.2.3.4"),
        ] {
            let prefix = prefix(text);
            assert!(prefix.contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(
                !prefix.contains(outside.parse().unwrap()),
                "{text} {outside}"
            );
        }
    }

    #[test]
    fn what_is_no_prefix_is_refused_with_an_example() {
        for text in [
            "",
            "/8",
            "a.b",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/-1",
            "10.0.0.0/",
            "10.0.0.0/8/8",
        ] {
            let error = text.parse::<Prefix>().expect_err(text);
            assert!(error.contains("192.0.2.0/24"), "{error}");
        }
    }

    #[test]
    fn loopback_and_the_own_addresses_are_always_allowed() {
        let own: IpAddr = "192.0.2.7".parse().unwrap();
        let allowed = Allowed::new(vec![own], vec![prefix("10.0.0.0/8")]);
        for (ip, may) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("192.0.2.7", true),
            ("10.1.2.3", true),
            ("192.0.2.8", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(allowed.contains(ip.parse().unwrap()), may, "{ip}");
        }
    }
}
