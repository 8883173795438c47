//! Who may see the status pages: the host itself, and whom the operator names.

use std::net::IpAddr;

use exos::wire::Prefix;

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
