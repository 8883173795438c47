//! Who may see the status pages: the host itself, and whom the operator names.

use std::net::IpAddr;

use exos::wire::Prefix;

/// Reads `192.0.2.0/24`, `2001:db8::/32`, or an address alone.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse_network(text: &str) -> Result<Prefix, String> {
    let network = Prefix::parse_or_host(text);
    network.map_err(|error| format!("{text:?} is neither an address nor a network: {error}"))
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
    fn what_is_no_network_is_refused_with_an_example() {
        assert_eq!(parse_network("192.0.2.7"), Ok(prefix("192.0.2.7/32")));
        assert_eq!(parse_network("fd00::/8"), Ok(prefix("fd00::/8")));
        for text in ["", "/8", "a.b", "10.0.0.0/33", "10.0.0.0/"] {
            let error = parse_network(text).expect_err(text);
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
