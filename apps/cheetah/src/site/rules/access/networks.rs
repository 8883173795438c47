//! Allow and deny by the client's network: of a list of rules the first that matches decides, as in nginx. A client that none is about
//! may.

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

/// One rule of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    allows: bool,
    /// `None` is about everybody.
    network: Option<Prefix>,
}

impl NetworkRule {
    /// Reads `allow 192.0.2.0/24`, `deny 2001:db8::/32` or `deny all`.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn parse(text: &str) -> Result<NetworkRule, String> {
        let fail = || format!("{text:?} is no rule; write \"allow 192.0.2.0/24\" or \"deny all\"");
        let (verb, whom) = text.trim().split_once(' ').ok_or_else(fail)?;
        let allows = match verb {
            "allow" => true,
            "deny" => false,
            _ => return Err(fail()),
        };
        let network = match whom.trim() {
            "all" => None,
            network => Some(parse_network(network)?),
        };
        Ok(NetworkRule { allows, network })
    }

    fn is_about(&self, ip: IpAddr) -> bool {
        self.network.is_none_or(|network| network.contains(ip))
    }
}

/// Whether a list of rules lets a client pass.
pub fn allows(rules: &[NetworkRule], ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let first = rules.iter().find(|rule| rule.is_about(ip));
    first.is_none_or(|rule| rule.allows)
}

/// Whether it lets everybody pass.
pub fn allows_all(rules: &[NetworkRule]) -> bool {
    rules.iter().all(|rule| rule.allows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_network_is_refused_with_an_example() {
        assert_eq!(
            parse_network("192.0.2.7"),
            Ok("192.0.2.7/32".parse().unwrap())
        );
        assert_eq!(parse_network("fd00::/8"), Ok("fd00::/8".parse().unwrap()));
        for text in ["", "/8", "a.b", "10.0.0.0/33", "10.0.0.0/"] {
            let error = parse_network(text).expect_err(text);
            assert!(error.contains("192.0.2.0/24"), "{error}");
        }
    }

    fn rules(texts: &[&str]) -> Vec<NetworkRule> {
        let rule = |text: &&str| NetworkRule::parse(text).expect("a rule");
        texts.iter().map(rule).collect()
    }

    #[test]
    fn the_first_that_matches_decides() {
        let office = rules(&[
            "deny 192.0.2.9",
            "allow 192.0.2.0/24",
            "allow 2001:db8::/32",
            "deny all",
        ]);
        let open = rules(&["deny 10.0.0.0/8"]);
        for (ip, in_office, in_open) in [
            ("192.0.2.9", false, true),
            ("192.0.2.8", true, true),
            ("::ffff:192.0.2.8", true, true),
            ("2001:db8::1", true, true),
            ("2001:db9::1", false, true),
            ("10.1.1.1", false, false),
            ("::ffff:10.1.1.1", false, false),
        ] {
            let ip = ip.parse().expect("an address");
            assert_eq!(
                (allows(&office, ip), allows(&open, ip)),
                (in_office, in_open),
                "{ip}"
            );
        }
        assert!(allows(&[], "10.0.0.1".parse().expect("an address")));
    }

    #[test]
    fn rules_are_rules() {
        for bad in [
            "",
            "allow",
            "all",
            "permit all",
            "deny 10.0.0.0/33",
            "deny example.org",
        ] {
            assert!(NetworkRule::parse(bad).is_err(), "{bad:?}");
        }
    }
}
